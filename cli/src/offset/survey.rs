//! Where the queues of a topic begin and end, where a group is in them, and where it is to continue.

use rocketmq_consumer_core::ids::{ConsumerGroup, MessageQueue, PeerAddr, QueueId, QueueOffset, Topic};
use rocketmq_consumer_core::wire::request::groups::GroupListRequest;
use rocketmq_consumer_core::wire::request::heartbeat::MessageModel;
use rocketmq_consumer_core::wire::request::offsets::{
    MaxOffsetRequest, MinOffsetRequest, QueryOffsetRequest, QueueRef, SearchOffsetRequest,
};
use rocketmq_consumer_core::wire::request::route::TopicRoute;

use super::row::Row;
use super::target::Place;
use crate::admin::{Master, QueueArg, connections, fan_out, masters, masters_of, route_or_fail};
use crate::cluster::Cluster;
use crate::exit::Failure;
use crate::talk::Talk;

/// A look at a group in a topic.
pub(crate) struct Survey<'a> {
    cluster: &'a Cluster,
    group: &'a ConsumerGroup,
    topic: &'a Topic,
    talk: Talk,
}

/// How a group stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Whether some broker knows a member.
    pub(crate) is_online: bool,
    /// Whether the members share the work, if there are any.
    pub(crate) model: Option<MessageModel>,
}

impl<'a> Survey<'a> {
    /// A look at this group in this topic.
    pub(crate) const fn new(
        cluster: &'a Cluster,
        group: &'a ConsumerGroup,
        topic: &'a Topic,
        talk: Talk,
    ) -> Self {
        Self {
            cluster,
            group,
            topic,
            talk,
        }
    }

    /// A row for each queue, or for those that are named.
    ///
    /// # Errors
    /// Somebody does not answer, a queue does not exist, or the place lies outside of one.
    pub(crate) async fn rows(&self, place: Place, only: &[QueueArg]) -> Result<Vec<Row>, Failure> {
        let route = route_or_fail(self.cluster, self.topic).await?;
        let queues = chosen(queues(self.topic, &route), only)?;
        let answers = fan_out(queues, |(queue, master)| {
            let (cluster, group) = (self.cluster.clone(), self.group.clone());
            async move { row(&cluster, &group, queue, master.addr, place).await }
        })
        .await;
        let rows = answers.into_iter().collect::<Result<Vec<_>, _>>()?;
        if rows.is_empty() {
            return Err(Failure::failed(format_args!(
                "topic {} has no queue that is read",
                self.topic
            )));
        }
        check_range(&rows)?;
        Ok(rows)
    }

    /// How the group stands. One that nobody knows is most likely a typing error.
    ///
    /// # Errors
    /// Somebody does not answer, or nobody knows the group.
    pub(crate) async fn standing(&self, rows: &[Row]) -> Result<Standing, Failure> {
        let mut standing = Standing {
            is_online: false,
            model: None,
        };
        let mut is_known = rows.iter().any(|row| row.from.is_some());
        for master in masters(self.cluster, self.talk).await? {
            if let Some(members) = connections(self.cluster, &master.addr, self.group).await? {
                standing.is_online |= !members.connections.is_empty();
                standing.model = standing.model.or(members.message_model);
            }
            if !is_known && !standing.is_online {
                let table = self
                    .cluster
                    .demand(&master.addr, &GroupListRequest::default())
                    .await?;
                is_known = table.groups.contains_key(self.group);
            }
        }
        if is_known || standing.is_online {
            return Ok(standing);
        }
        Err(Failure::failed(format_args!(
            "group {} is unknown; `rocketcat groups` lists those there are",
            self.group
        )))
    }
}

/// The queues consumers read, each with its master.
fn queues(topic: &Topic, route: &TopicRoute) -> Vec<(MessageQueue, Master)> {
    let masters = masters_of(route);
    let queues = masters.iter().flat_map(|master| {
        let data = route.queues.iter().find(|data| data.broker == master.name);
        let count = data.map_or(0, |data| data.read_queues);
        let ids = (0..count).filter_map(|id| i32::try_from(id).ok());
        ids.map(move |id| {
            let queue = MessageQueue {
                topic: topic.clone(),
                broker: master.name.clone(),
                id: QueueId(id),
            };
            (queue, master.clone())
        })
    });
    queues.collect()
}

fn chosen(
    queues: Vec<(MessageQueue, Master)>,
    only: &[QueueArg],
) -> Result<Vec<(MessageQueue, Master)>, Failure> {
    for named in only {
        if !queues.iter().any(|(queue, _)| named.is(queue)) {
            return Err(Failure::usage(format_args!(
                "--queue {named}: the topic has no such queue; `rocketcat topics` shows those it has"
            )));
        }
    }
    let is_chosen = |queue: &MessageQueue| only.is_empty() || only.iter().any(|named| named.is(queue));
    Ok(queues.into_iter().filter(|(queue, _)| is_chosen(queue)).collect())
}

async fn row(
    cluster: &Cluster,
    group: &ConsumerGroup,
    queue: MessageQueue,
    addr: PeerAddr,
    place: Place,
) -> Result<Row, Failure> {
    let min = cluster
        .demand(
            &addr,
            &MinOffsetRequest {
                queue: queue_ref(&queue),
            },
        )
        .await?;
    let max = MaxOffsetRequest {
        queue: queue_ref(&queue),
        committed: None,
    };
    let max = cluster.demand(&addr, &max).await?;
    let from = stored(cluster, group, &queue, &addr).await?;
    let to = match place {
        Place::Earliest => min.offset,
        Place::Latest => max.offset,
        Place::Offset(offset) => offset,
        Place::Time(timestamp) => {
            let request = SearchOffsetRequest {
                queue: queue_ref(&queue),
                timestamp,
                boundary: None,
            };
            cluster.demand(&addr, &request).await?.offset
        }
    };
    Ok(Row {
        queue,
        addr,
        min: min.offset,
        max: max.offset,
        from,
        to,
        result: None,
    })
}

/// What is stored for a group, if anything.
///
/// # Errors
/// The broker does not answer, or refuses.
pub(crate) async fn stored(
    cluster: &Cluster,
    group: &ConsumerGroup,
    queue: &MessageQueue,
    addr: &PeerAddr,
) -> Result<Option<QueueOffset>, Failure> {
    let request = QueryOffsetRequest {
        group: group.clone(),
        queue: queue_ref(queue),
        set_zero_if_not_found: Some(false),
    };
    Ok(cluster.demand(addr, &request).await?.0)
}

/// A queue as requests name it.
pub(crate) fn queue_ref(queue: &MessageQueue) -> QueueRef {
    QueueRef {
        topic: queue.topic.clone(),
        queue: queue.id,
        broker: Some(queue.broker.clone()),
    }
}

/// An offset that was typed may lie outside of a queue, where nothing could continue.
fn check_range(rows: &[Row]) -> Result<(), Failure> {
    let outside = rows.iter().find(|row| row.to < row.min || row.to > row.max);
    match outside {
        None => Ok(()),
        Some(row) => Err(Failure::failed(format_args!(
            "offset {} lies outside of {}:{}, which has {} to {}; nothing is changed, choose queues with --queue",
            row.to, row.queue.broker, row.queue.id, row.min, row.max
        ))),
    }
}

#[cfg(test)]
mod tests {
    use rocketmq_consumer_core::wire::request::route::{BrokerData, QueueData};

    use super::super::row::tests::row;
    use super::*;

    fn shown(only: &[&str]) -> Result<Vec<String>, Failure> {
        let data = |name: &str, read_queues| QueueData {
            broker: name.into(),
            perm: 2,
            read_queues,
            write_queues: 8,
            topic_sys_flag: 0,
        };
        let broker = |name: &str, id: i64| BrokerData {
            cluster: "C".into(),
            name: name.into(),
            addresses: [(id, "h:1".to_owned())].into(),
            zone_name: None,
            enable_acting_master: false,
        };
        let route = TopicRoute {
            queues: vec![data("b", 1), data("a", 2), data("gone", 4)],
            brokers: vec![broker("b", 0), broker("a", 0), broker("gone", 1)],
            ..TopicRoute::default()
        };
        let only: Vec<QueueArg> = only.iter().map(|text| text.parse().unwrap()).collect();
        let queues = chosen(queues(&"T".into(), &route), &only)?;
        Ok(queues
            .into_iter()
            .map(|(queue, _)| format!("{}:{}", queue.broker, queue.id))
            .collect())
    }

    #[test]
    fn every_queue_that_is_read_has_a_row_unless_some_are_named() {
        assert_eq!(shown(&[]), Ok(["a:0", "a:1", "b:0"].map(str::to_owned).into()));
        assert_eq!(
            shown(&["b:0", "a:1"]),
            Ok(["a:1", "b:0"].map(str::to_owned).into())
        );
        let refused = shown(&["a:0", "a:2"]).unwrap_err().message.unwrap();
        assert!(
            refused.starts_with("--queue a:2: the topic has no such queue"),
            "{refused}"
        );
    }

    #[test]
    fn an_offset_outside_of_a_queue_is_refused_by_its_bounds() {
        assert_eq!(check_range(&[row(0, None, 2), row(1, None, 10)]), Ok(()));
        for to in [1, 11] {
            let refused = check_range(&[row(0, None, 5), row(1, None, to)]).unwrap_err();
            let want = format!("offset {to} lies outside of broker-a:1, which has 2 to 10");
            let words = refused.message.unwrap();
            assert!(words.starts_with(&want), "{words}");
        }
    }
}
