//! Asks the members which queues they have. Some do not tell: they are silent, or of a kind that does not
//! know the question. Their queues stay without an owner.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rocketmq_consumer_core::ids::{ClientId, ConsumerGroup, MessageQueue, PeerAddr};
use rocketmq_consumer_core::wire::request::operator::RunningInfoRequest;
use rocketmq_consumer_core::wire::request::running_info::ConsumerRunningInfo;
use rocketmq_consumer_core::wire::request::stats::ConsumerConnections;
use tokio::task::JoinSet;

use super::row::Row;
use crate::cluster::Cluster;

/// A broker waits 10 s for a member before it says that it is silent.
const TIMEOUT: Duration = Duration::from_secs(12);

/// Writes into each row whose it is.
pub(crate) async fn fill_in(
    cluster: &Cluster,
    group: &ConsumerGroup,
    members: &BTreeMap<PeerAddr, ConsumerConnections>,
    rows: &mut [Row],
) {
    let mut asking = JoinSet::new();
    for (member, addr) in reachable(members) {
        let (cluster, request) = (
            cluster.clone(),
            RunningInfoRequest {
                group: group.clone(),
                client_id: member.clone(),
                jstack: false,
            },
        );
        asking.spawn(async move {
            let info = cluster.ask_within(TIMEOUT, &addr, &request).await.ok()?;
            Some((member, owned(&info.read().ok()?)))
        });
    }
    while let Some(answer) = asking.join_next().await {
        let Ok(Some((member, queues))) = answer else {
            continue;
        };
        for row in rows.iter_mut().filter(|row| queues.contains(&row.queue)) {
            row.owners.insert(member.clone());
        }
    }
}

/// Every member once, with a broker that knows it.
fn reachable(members: &BTreeMap<PeerAddr, ConsumerConnections>) -> BTreeMap<ClientId, PeerAddr> {
    members
        .iter()
        .flat_map(|(addr, members)| {
            let ids = members
                .connections
                .iter()
                .map(|connection| connection.client_id.clone());
            ids.map(|id| (id, addr.clone()))
        })
        .collect()
}

/// The queues a member says it has. With POP, it may share them.
fn owned(info: &ConsumerRunningInfo) -> BTreeSet<MessageQueue> {
    let pulled = info.queues.iter().filter(|(_, queue)| !queue.dropped);
    let popped = info.pop_queues.iter().filter(|(_, queue)| !queue.dropped);
    pulled
        .map(|(queue, _)| queue)
        .chain(popped.map(|(queue, _)| queue))
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use rocketmq_consumer_core::wire::request::operator::RunningInfo;
    use rocketmq_consumer_core::wire::request::stats::Connection;

    use super::*;

    #[test]
    fn a_member_with_several_connections_is_asked_once() {
        let connection = |id: &str| Connection {
            client_addr: "10.0.0.1:5".into(),
            client_id: id.into(),
            language: "JAVA".into(),
            version: 513,
        };
        let here = |ids: &[&str]| ConsumerConnections {
            connections: ids.iter().map(|id| connection(id)).collect(),
            ..ConsumerConnections::default()
        };
        let (a, b) = (PeerAddr::new("a", 1), PeerAddr::new("b", 1));
        let members = [(a.clone(), here(&["x", "x", "y"])), (b.clone(), here(&["x"]))].into();
        let asked: Vec<_> = reachable(&members).into_iter().collect();
        assert_eq!(asked, [("x".into(), b), ("y".into(), a)]);
    }

    #[test]
    fn what_was_dropped_is_no_longer_owned() {
        let body = br#"{"mqPopTable":{},"mqTable":{{"brokerName":"b","queueId":1,"topic":"T"}:{"droped":false},{"brokerName":"b","queueId":2,"topic":"T"}:{"droped":true}}}"#;
        let info = RunningInfo {
            json: bytes::Bytes::from_static(body),
        };
        let owned = owned(&info.read().unwrap());
        let ids: Vec<_> = owned.into_iter().map(|queue| queue.id.0).collect();
        assert_eq!(ids, [1]);
    }
}
