//! Sends copies of dead letters, each at most once.

use std::collections::BTreeMap;

use rocketmq_consumer_core::ids::{BrokerName, PeerAddr, QueueId, QueueOffset, Topic};
use rocketmq_consumer_core::wire::request::route::TopicRoute;
use rocketmq_consumer_core::wire::request::send::{SendAnswer, SendRequest};
use rocketmq_consumer_tokio::CallError;

use super::copy::Copy;
use crate::admin::route_or_fail;
use crate::clock::Clock;
use crate::cluster::{Cluster, master};
use crate::exit::Failure;
use crate::produce::request;

/// How often the group may try the message again before it is dead once more.
const RECONSUME_MAX: i32 = 16;

/// Sends copies.
pub(crate) struct Sender<'a> {
    cluster: &'a Cluster,
    clock: Clock,
    routes: BTreeMap<Topic, TopicRoute>,
}

/// Where a copy is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    /// The broker.
    pub(crate) broker: BrokerName,
    /// Where it listens.
    pub(crate) addr: PeerAddr,
    /// The queue.
    pub(crate) queue: QueueId,
    /// Its offset there.
    pub(crate) offset: Option<QueueOffset>,
    /// The id of that place.
    pub(crate) message_id: String,
}

/// Why a copy is not known to be stored.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotSent {
    /// It is not stored.
    No(Failure),
    /// Nobody can tell.
    Unknown(Failure),
}

impl<'a> Sender<'a> {
    /// Knows no topic yet.
    pub(crate) const fn new(cluster: &'a Cluster, clock: Clock) -> Self {
        Self {
            cluster,
            clock,
            routes: BTreeMap::new(),
        }
    }

    /// Sends a copy to a broker that has its topic: to the one it comes from, if that is one of them.
    ///
    /// # Errors
    /// It is not stored, or nobody can tell.
    pub(crate) async fn send(&mut self, copy: &Copy, from: &BrokerName) -> Result<Stored, NotSent> {
        let route = self.route(&copy.topic).await.map_err(NotSent::No)?;
        let (broker, addr) = choose(route, from).ok_or_else(|| {
            NotSent::No(Failure::failed(format_args!(
                "topic {} has no broker that can be written to now",
                copy.topic
            )))
        })?;
        let request = self.request(copy, &broker);
        match self.cluster.ask(&addr, &request).await {
            Ok(answer) => Ok(Stored::of(broker, addr, answer)),
            Err(error) => {
                let failure = self.cluster.failure_of::<SendRequest>(&addr, &error).await;
                Err(if was_written(&error) {
                    NotSent::Unknown(failure)
                } else {
                    NotSent::No(failure)
                })
            }
        }
    }

    async fn route(&mut self, topic: &Topic) -> Result<&TopicRoute, Failure> {
        if !self.routes.contains_key(topic) {
            let route = route_or_fail(self.cluster, topic).await?;
            self.routes.insert(topic.clone(), route);
        }
        Ok(self.routes.get(topic).expect("it was put there if it was not"))
    }

    fn request(&self, copy: &Copy, broker: &BrokerName) -> SendRequest {
        SendRequest {
            sys_flag: copy.sys_flag.0,
            flag: copy.flag,
            properties: Some(copy.properties.clone()),
            max_reconsume_times: Some(RECONSUME_MAX),
            body: copy.body.clone(),
            ..request(&copy.topic, broker, self.clock)
        }
    }
}

impl Stored {
    fn of(broker: BrokerName, addr: PeerAddr, answer: SendAnswer) -> Self {
        Self {
            broker,
            addr,
            queue: answer.queue,
            offset: answer.offset,
            message_id: answer.message_id,
        }
    }
}

/// A broker that can be written to; `first` if it is one.
fn choose(route: &TopicRoute, first: &BrokerName) -> Option<(BrokerName, PeerAddr)> {
    let writable = |name: &BrokerName| {
        let mut data = route.queues.iter().filter(|data| data.broker == *name);
        data.any(|data| data.is_writable() && data.write_queues > 0)
    };
    let mut brokers: Vec<_> = route
        .brokers
        .iter()
        .filter(|broker| writable(&broker.name))
        .filter_map(|broker| Some((broker.name.clone(), master(broker)?)))
        .collect();
    brokers.sort();
    let place = brokers.iter().position(|(name, _)| name == first).unwrap_or(0);
    brokers.into_iter().nth(place)
}

/// Whether a request without an answer may have been obeyed.
const fn was_written(error: &CallError) -> bool {
    match error {
        CallError::Timeout | CallError::Closed | CallError::Malformed(_) => true,
        CallError::NoRoute | CallError::Connect(_) | CallError::Broker { .. } | CallError::Overloaded => {
            false
        }
        // An error of a later version: who does not know must not send again.
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use rocketmq_consumer_core::wire::request::route::{BrokerData, QueueData};

    use super::*;

    #[test]
    fn the_broker_it_comes_from_is_the_first_choice() {
        let data = |name: &str, perm: i32| QueueData {
            broker: name.into(),
            perm,
            read_queues: 4,
            write_queues: 4,
            topic_sys_flag: 0,
        };
        let broker = |name: &str, id: i64| BrokerData {
            cluster: "C".into(),
            name: name.into(),
            addresses: [(id, format!("{name}:1"))].into(),
            zone_name: None,
            enable_acting_master: false,
        };
        let route = TopicRoute {
            queues: vec![data("c", 6), data("b", 6), data("readonly", 4), data("gone", 6)],
            brokers: vec![
                broker("c", 0),
                broker("b", 0),
                broker("readonly", 0),
                broker("gone", 1),
            ],
            ..TopicRoute::default()
        };
        let chosen = |first: &str| choose(&route, &first.into()).map(|(name, _)| name.to_string());
        assert_eq!(chosen("c"), Some("c".into()));
        for first in ["readonly", "gone", "elsewhere"] {
            assert_eq!(chosen(first), Some("b".into()), "{first}");
        }
        assert_eq!(choose(&TopicRoute::default(), &"c".into()), None);
    }

    #[test]
    fn only_what_was_surely_not_stored_may_be_sent_again() {
        let refused = CallError::Broker {
            code: 1,
            remark: String::new(),
        };
        for error in [
            refused,
            CallError::NoRoute,
            CallError::Connect(PeerAddr::new("a", 1)),
        ] {
            assert!(!was_written(&error), "{error}");
        }
        for error in [
            CallError::Timeout,
            CallError::Closed,
            CallError::Malformed(String::new()),
        ] {
            assert!(was_written(&error), "{error}");
        }
    }
}
