use std::collections::BTreeMap;

use rocketmq_consumer_core::ids::{BrokerName, ConsumerGroup, MessageQueue, PeerAddr, QueueOffset};
use rocketmq_consumer_core::time::WallTime;
use rocketmq_consumer_core::wire::request::stats::TopicStatsRequest;

use crate::admin::{QueueArg, dead_letters, masters_of};
use crate::cluster::Cluster;
use crate::exit::Failure;
use crate::offset::stored;

/// The group under whose name dead letters are read and the position of a requeue is kept: every broker has
/// it, and no member ever joins it.
pub(crate) const TOOLS_GROUP: &str = "TOOLS_CONSUMER";

/// A queue of dead letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeadQueue {
    /// The queue.
    pub(crate) queue: MessageQueue,
    /// The master of its broker.
    pub(crate) addr: PeerAddr,
    /// The offset of its oldest message.
    pub(crate) min: QueueOffset,
    /// The offset the next message will get.
    pub(crate) max: QueueOffset,
    /// When the last message was stored.
    pub(crate) last: Option<WallTime>,
    /// Whether its messages may be read.
    pub(crate) is_readable: bool,
}

impl DeadQueue {
    /// How many there are.
    pub(crate) fn messages(&self) -> u64 {
        u64::try_from(self.max.0.saturating_sub(self.min.0)).unwrap_or(0)
    }

    /// Where reading begins that wants to begin at `offset`: a queue that was made anew has none that high.
    pub(crate) fn within(&self, offset: QueueOffset) -> QueueOffset {
        if offset > self.max {
            self.min
        } else {
            offset.max(self.min)
        }
    }
}

/// The queues of a group's dead letters, or only the one that is named; none if there never was one.
///
/// # Errors
/// Somebody does not answer, or there is no such queue.
pub(crate) async fn dead_queues(
    cluster: &Cluster,
    group: &ConsumerGroup,
    only: Option<&QueueArg>,
) -> Result<Vec<DeadQueue>, Failure> {
    let topic = dead_letters(group);
    let Some(route) = cluster.route(&topic).await? else {
        return Ok(Vec::new());
    };
    let readable: BTreeMap<&BrokerName, bool> = route
        .queues
        .iter()
        .map(|data| (&data.broker, data.is_readable()))
        .collect();
    let mut queues = Vec::new();
    for master in masters_of(&route) {
        let request = TopicStatsRequest { topic: topic.clone() };
        let stats = cluster.demand(&master.addr, &request).await?;
        queues.extend(stats.queues.into_iter().map(|(queue, stats)| DeadQueue {
            queue,
            addr: master.addr.clone(),
            min: stats.min_offset,
            max: stats.max_offset,
            last: stats.last_update,
            is_readable: readable.get(&master.name).copied().unwrap_or(false),
        }));
    }
    if let Some(only) = only {
        queues.retain(|dead| only.is(&dead.queue));
        if queues.is_empty() {
            return Err(Failure::usage(format_args!(
                "--queue {only}: there is no such queue of dead letters; `rocketcat dlq ls -g {group}` shows them"
            )));
        }
    }
    Ok(queues)
}

/// Where the last requeue of a queue ended, if there was one.
///
/// # Errors
/// The broker does not answer, or refuses.
pub(crate) async fn requeued(cluster: &Cluster, dead: &DeadQueue) -> Result<Option<QueueOffset>, Failure> {
    stored(cluster, &TOOLS_GROUP.into(), &dead.queue, &dead.addr).await
}

#[cfg(test)]
pub(crate) mod tests {
    use rocketmq_consumer_core::ids::QueueId;

    use super::*;

    /// A queue with offsets `min` to `max`.
    pub(crate) fn dead(min: i64, max: i64) -> DeadQueue {
        DeadQueue {
            queue: MessageQueue {
                topic: "%DLQ%G".into(),
                broker: "broker-a".into(),
                id: QueueId(0),
            },
            addr: PeerAddr::new("h", 1),
            min: QueueOffset(min),
            max: QueueOffset(max),
            last: Some(WallTime::from_unix_millis(5)),
            is_readable: true,
        }
    }

    #[test]
    fn a_position_that_the_queue_does_not_have_begins_at_the_oldest() {
        let dead = dead(3, 10);
        let within = |offset| dead.within(QueueOffset(offset)).0;
        assert_eq!(
            (within(0), within(3), within(7), within(10), within(11)),
            (3, 3, 7, 10, 3)
        );
        assert_eq!(dead.messages(), 7);
    }
}
