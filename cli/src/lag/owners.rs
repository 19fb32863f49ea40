//! Whose queues are whose, by what the members say. The queues of those that do not tell stay without an owner.

use std::collections::BTreeMap;

use rocketmq_consumer_core::ids::{ConsumerGroup, PeerAddr};
use rocketmq_consumer_core::wire::request::stats::ConsumerConnections;

use super::row::Row;
use crate::admin::{owned, running_infos};
use crate::cluster::Cluster;

/// Writes into each row whose it is.
pub(crate) async fn fill_in(
    cluster: &Cluster,
    group: &ConsumerGroup,
    members: &BTreeMap<PeerAddr, ConsumerConnections>,
    rows: &mut [Row],
) {
    for (member, info) in running_infos(cluster, group, members).await {
        let Ok(info) = info else { continue };
        let queues = owned(&info);
        for row in rows.iter_mut().filter(|row| queues.contains(&row.queue)) {
            row.owners.insert(member.clone());
        }
    }
}
