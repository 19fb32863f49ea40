use std::time::Duration;

use rocketmq_consumer_core::action::RefusalReason;
use rocketmq_consumer_core::config::{ConfigError, FilterExpression};
use rocketmq_consumer_core::ids::{BrokerName, ClientId, ConsumerGroup, PeerAddr, Topic};
use rocketmq_consumer_core::status::LinkTrouble;

/// Any error of a handler.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a client or a consumer could not be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A setting cannot be used.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// A consumer of this group already lives in this process under the same client id. Brokers could
    /// not tell the two apart, and each would get half of the other's queues.
    #[error("a consumer of group {group} already runs in this process as {client_id}")]
    AlreadyRegistered {
        /// The id both would have.
        client_id: ClientId,
        /// The group both would join.
        group: ConsumerGroup,
    },
    /// Nobody answered within `connect_timeout`: no name server a question, no broker a heartbeat.
    #[error("no name server answered and no broker acknowledged a heartbeat within {after:?}{}", describe(.troubles))]
    ConnectTimeout {
        /// The time that was given.
        after: Duration,
        /// What went wrong with each peer that was tried.
        troubles: Vec<(PeerAddr, LinkTrouble)>,
    },
    /// The machine refused the group.
    #[error("{0}")]
    Refused(RefusalReason),
    /// The client was shut down before the group had started.
    #[error("the client is closed")]
    Closed,
}

/// Why a consumer that runs could not be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The machine refused, and nothing has changed.
    #[error("{0}")]
    Refused(RefusalReason),
    /// The consumer has ended.
    #[error("the consumer has ended")]
    Closed,
}

impl From<Closed> for ChangeError {
    fn from(Closed: Closed) -> Self {
        Self::Closed
    }
}

/// The client was shut down, so there is nobody to ask any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the client is closed")]
pub struct Closed;

impl From<Closed> for StartError {
    fn from(Closed: Closed) -> Self {
        Self::Closed
    }
}

/// A broker's word against a filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("broker {by} does not take the filter {filter:?} of topic {topic} (code {code}): {remark}", filter = .filter.text())]
pub struct FilterRefusal {
    /// The topic.
    pub topic: Topic,
    /// The filter.
    pub filter: FilterExpression,
    /// The broker.
    pub by: BrokerName,
    /// Its code: 23 when the expression means nothing, 1 when the broker does not look at properties
    /// (`enablePropertyFilter`).
    pub code: i32,
    /// Its words.
    pub remark: String,
}

/// Why a consumer does not become ready.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadyError {
    /// A broker does not take a filter that the group begins with, so the group does not join. It is asked again
    /// every 30 s; another filter can be given by [`Consumer::subscribe`](crate::Consumer::subscribe).
    #[error("{0}")]
    FilterRefused(FilterRefusal),
    /// The consumer has ended.
    #[error("the client is closed")]
    Closed,
}

impl From<Closed> for ReadyError {
    fn from(Closed: Closed) -> Self {
        Self::Closed
    }
}

/// Why a subscription was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubscribeError {
    /// The topic or the expression cannot be used, the group has too many topics or no other one, or it is leaving.
    #[error("{0}")]
    Refused(RefusalReason),
    /// A broker does not take the filter. The former one stays.
    #[error("{0}")]
    FilterRefused(FilterRefusal),
    /// A later wish about the same topic has taken the place of this one.
    #[error("a later wish about the same topic has taken the place of this one")]
    Superseded,
    /// The consumer has ended.
    #[error("the client is closed")]
    Closed,
}

impl From<Closed> for SubscribeError {
    fn from(Closed: Closed) -> Self {
        Self::Closed
    }
}

fn describe(troubles: &[(PeerAddr, LinkTrouble)]) -> String {
    troubles
        .iter()
        .map(|(addr, trouble)| format!("; {addr}: {trouble:?}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocketmq_consumer_core::event::NetCause;

    #[test]
    fn a_connect_timeout_names_every_peer_that_was_tried() {
        let error = StartError::ConnectTimeout {
            after: Duration::from_secs(3),
            troubles: vec![(
                PeerAddr::new("127.0.0.1", 9876),
                LinkTrouble::Net(NetCause::Refused),
            )],
        };
        let text = error.to_string();
        assert!(
            text.contains("within 3s") && text.ends_with("; 127.0.0.1:9876: Net(Refused)"),
            "{text}"
        );
    }
}
