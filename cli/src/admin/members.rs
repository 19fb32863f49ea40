//! Who belongs to a group, and what each member tells about itself. Some do not tell: they are silent, or of
//! a kind that does not know the question.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rocketmq_consumer_core::ids::{ClientId, ConsumerGroup, MessageQueue, PeerAddr};
use rocketmq_consumer_core::wire::code::ResponseCode;
use rocketmq_consumer_core::wire::request::operator::RunningInfoRequest;
use rocketmq_consumer_core::wire::request::running_info::ConsumerRunningInfo;
use rocketmq_consumer_core::wire::request::stats::{ConnectionsRequest, ConsumerConnections};

use super::fan_out::fan_out;
use crate::cluster::{Cluster, is_refused_with};
use crate::exit::Failure;

/// A broker waits 10 s for a member before it says that it is silent.
const TIMEOUT: Duration = Duration::from_secs(12);

/// The members one broker knows, or nothing when none is connected there.
///
/// # Errors
/// The broker does not answer, or refuses.
pub(crate) async fn connections(
    cluster: &Cluster,
    addr: &PeerAddr,
    group: &ConsumerGroup,
) -> Result<Option<ConsumerConnections>, Failure> {
    let request = ConnectionsRequest { group: group.clone() };
    match cluster.ask(addr, &request).await {
        Ok(members) => Ok(Some(members)),
        Err(error) if is_refused_with(&error, ResponseCode::CONSUMER_NOT_ONLINE) => Ok(None),
        Err(error) => Err(cluster.failure_of::<ConnectionsRequest>(addr, &error).await),
    }
}

/// What each member tells, or why it does not, through the brokers it is connected to.
pub(crate) async fn running_infos(
    cluster: &Cluster,
    group: &ConsumerGroup,
    members: &BTreeMap<PeerAddr, ConsumerConnections>,
) -> BTreeMap<ClientId, Result<ConsumerRunningInfo, String>> {
    let answers = fan_out(reachable(members), |(member, addr)| {
        let (cluster, group) = (cluster.clone(), group.clone());
        async move {
            let request = RunningInfoRequest {
                group,
                client_id: member.clone(),
                jstack: false,
            };
            let info = match cluster.ask_within(TIMEOUT, &addr, &request).await {
                Ok(info) => info
                    .read()
                    .map_err(|error| format!("its answer makes no sense: {error}")),
                Err(error) => {
                    let failure = cluster.failure_of::<RunningInfoRequest>(&addr, &error).await;
                    Err(failure.message.unwrap_or_default())
                }
            };
            (member, info)
        }
    })
    .await;
    answers.into_iter().collect()
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
pub(crate) fn owned(info: &ConsumerRunningInfo) -> BTreeSet<MessageQueue> {
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
