use rocketmq_consumer_core::ids::{BrokerName, PeerAddr, QueueId};
use rocketmq_consumer_core::wire::request::route::{QueueData, TopicRoute};
use rocketmq_consumer_core::wire::subscription::java_hash;

use crate::cluster::master;

/// The queues of a topic that can be written to, in Java's order: by broker name, then number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ring {
    queues: Vec<WriteQueue>,
    turn: usize,
}

/// A queue of a master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WriteQueue {
    /// The broker.
    pub(crate) broker: BrokerName,
    /// Where its master listens.
    pub(crate) addr: PeerAddr,
    /// The queue there.
    pub(crate) id: QueueId,
}

impl Ring {
    /// The queues of a route whose brokers have a master. `most` limits them for each broker: a topic that
    /// a default topic stands in for will have no more.
    pub(crate) fn new(route: &TopicRoute, most: Option<u32>) -> Self {
        let mut data: Vec<&QueueData> = route.queues.iter().filter(|data| data.is_writable()).collect();
        data.sort_by(|a, b| a.broker.cmp(&b.broker));
        let queues = data.into_iter().flat_map(|data| {
            let addr = route
                .brokers
                .iter()
                .find(|broker| broker.name == data.broker)
                .and_then(master);
            let count = data.write_queues.min(most.unwrap_or(u32::MAX));
            addr.into_iter().flat_map(move |addr| {
                let ids = (0..count).filter_map(|id| i32::try_from(id).ok());
                ids.map(move |id| WriteQueue {
                    broker: data.broker.clone(),
                    addr: addr.clone(),
                    id: QueueId(id),
                })
            })
        });
        Self {
            queues: queues.collect(),
            turn: 0,
        }
    }

    /// Only the queues of this number.
    pub(crate) fn only(mut self, id: QueueId) -> Self {
        self.queues.retain(|queue| queue.id == id);
        self
    }

    /// Whether nothing can be written to.
    pub(crate) const fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// The next queue in turn; of another broker than `avoid`, if there is one.
    //= rocketmq: MQFaultStrategy.selectOneMessageQueue
    pub(crate) fn next(&mut self, avoid: Option<&BrokerName>) -> Option<&WriteQueue> {
        let count = self.queues.len();
        let first = self.turn.checked_rem(count)?;
        let place = (first..first + count)
            .map(|place| place % count)
            .find(|&place| self.queues.get(place).map(|queue| &queue.broker) != avoid)
            .unwrap_or(first);
        self.turn = place + 1;
        self.queues.get(place)
    }

    /// The queue that belongs to a key, as long as the route stays the same.
    //= rocketmq: SelectMessageQueueByHash.select
    pub(crate) fn of_key(&self, key: &str) -> Option<&WriteQueue> {
        let count = u32::try_from(self.queues.len()).ok()?;
        // The remainder in Java has the sign of the hash; then its amount is taken.
        let place = java_hash(key).unsigned_abs().checked_rem(count)?;
        self.queues.get(usize::try_from(place).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use rocketmq_consumer_core::wire::request::route::BrokerData;

    use super::*;

    fn route(brokers: &[(&str, u32, i32, &str)]) -> TopicRoute {
        TopicRoute {
            queues: brokers
                .iter()
                .map(|&(name, write_queues, perm, _)| QueueData {
                    broker: name.into(),
                    read_queues: 16,
                    write_queues,
                    perm,
                    topic_sys_flag: 0,
                })
                .collect(),
            brokers: brokers
                .iter()
                .map(|&(name, .., addr)| BrokerData {
                    cluster: String::new(),
                    name: name.into(),
                    addresses: [(i64::from(addr.is_empty()), addr.to_owned())].into(),
                    zone_name: None,
                    enable_acting_master: false,
                })
                .collect(),
            ..TopicRoute::default()
        }
    }

    fn name(queue: Option<&WriteQueue>) -> String {
        queue.map_or_else(String::new, |queue| format!("{}{}", queue.broker, queue.id))
    }

    #[test]
    fn queues_take_turns_and_a_broker_that_failed_is_passed_over() {
        let mut ring = Ring::new(&route(&[("b", 2, 6, "x:1"), ("a", 1, 2, "x:2")]), None);
        let round: Vec<_> = (0..4).map(|_| name(ring.next(None))).collect();
        assert_eq!(round, ["a0", "b0", "b1", "a0"]);
        assert_eq!(name(ring.next(Some(&"b".into()))), "a0");
        assert_eq!(name(ring.next(Some(&"a".into()))), "b0");
        let mut ring = ring.only(QueueId(1));
        assert_eq!(name(ring.next(Some(&"b".into()))), "b1", "there is no other");
        assert_eq!(name(ring.only(QueueId(9)).next(None)), "");
    }

    #[test]
    fn only_writable_queues_of_masters_count() {
        let lost = route(&[("a", 4, 4, "x:1"), ("b", 4, 6, ""), ("c", 4, 6, "nonsense")]);
        assert!(Ring::new(&lost, None).is_empty());
        let default = Ring::new(&route(&[("a", 8, 7, "x:1")]), Some(4));
        assert_eq!(default.queues.len(), 4);
    }

    #[test]
    fn a_key_always_has_the_same_queue_and_it_is_javas() {
        let ring = Ring::new(&route(&[("a", 3, 6, "x:1"), ("b", 2, 6, "x:2")]), None);
        // Java's hashes: 107, -1207111310, -1772111155, -2147483648 (its amount does not exist) and 0.
        let table = [
            ("k", "a2"),
            ("order-1", "a0"),
            ("customer-42", "a0"),
            ("polygenelubricants", "b0"),
            ("", "a0"),
        ];
        for (key, want) in table {
            assert_eq!(name(ring.of_key(key)), want, "{key}");
        }
        assert_eq!(Ring::default().of_key("k"), None);
    }
}
