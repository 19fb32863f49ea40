use std::time::Duration;

use rocketmq_consumer_core::action::RefusalReason;
use rocketmq_consumer_core::config::ConfigError;
use rocketmq_consumer_core::ids::{ClientId, ConsumerGroup, PeerAddr};
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
