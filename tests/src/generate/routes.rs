//! Where a topic lives, as a name server says it.

use std::collections::BTreeMap;

use arbitrary::{Result, Unstructured};
use rocketmq_consumer_core::ids::BrokerName;
use rocketmq_consumer_core::wire::request::route::{
    BrokerData, MASTER_ID, QueueData, StaticQueues, TopicRoute,
};

use super::dice::{maybe, pick, rarely, several};
use super::names::{broker_name, text, topic, word};

/// A route: up to five brokers with 0 to 64 queues and any permission, masters and slaves, some
/// without a master, some without an address, some named twice, and queues of brokers nobody knows.
pub fn topic_route(u: &mut Unstructured<'_>) -> Result<TopicRoute> {
    let mut route = TopicRoute::default();
    for _ in 0..u.int_in_range(1..=5_u8)? {
        let name = broker_name(u)?;
        if !rarely(u, 10)? {
            route.queues.push(queue_data(u, name.clone())?);
        }
        if !rarely(u, 10)? {
            route.brokers.push(broker_data(u, name.clone())?);
        }
        if rarely(u, 12)? {
            let queues = static_queues(u, name.clone())?;
            route.static_queues.insert(name, queues);
        }
    }
    if rarely(u, 8)? {
        route.order_conf = Some(text(u)?);
    }
    Ok(route)
}

fn queue_data(u: &mut Unstructured<'_>, broker: BrokerName) -> Result<QueueData> {
    let read_queues = if u.arbitrary()? {
        u.int_in_range(0..=64)?
    } else {
        pick(u, &[4, 8, 1, 0, 64])?
    };
    Ok(QueueData {
        broker,
        read_queues,
        write_queues: if rarely(u, 4)? {
            u.int_in_range(0..=64)?
        } else {
            read_queues
        },
        perm: pick(u, &[6, 6, 6, 7, 4, 2, 0, 14, -1])?,
        topic_sys_flag: if rarely(u, 8)? { u.arbitrary()? } else { 0 },
    })
}

pub(super) fn broker_data(u: &mut Unstructured<'_>, name: BrokerName) -> Result<BrokerData> {
    let mut addresses = BTreeMap::new();
    if !rarely(u, 5)? {
        addresses.insert(MASTER_ID, address(u)?);
    }
    for slave in 1..=u.int_in_range(0..=2_i64)? {
        addresses.insert(slave, address(u)?);
    }
    if rarely(u, 10)? {
        addresses.insert(u.arbitrary()?, address(u)?);
    }
    Ok(BrokerData {
        cluster: if rarely(u, 6)? {
            text(u)?
        } else {
            "DefaultCluster".into()
        },
        name,
        addresses,
        zone_name: if rarely(u, 6)? { Some(word(u)?) } else { None },
        enable_acting_master: rarely(u, 6)?,
    })
}

/// `host:port`, now and then what is none.
fn address(u: &mut Unstructured<'_>) -> Result<String> {
    if rarely(u, 10)? {
        return Ok(pick(
            u,
            &[
                "",
                "nowhere",
                "[::1]:10911",
                "10.0.0.1:0",
                "a:1,b:2",
                "10.0.0.1:99999",
            ],
        )?
        .into());
    }
    Ok(format!("10.0.0.{}:10911", u.int_in_range(1..=9_u8)?))
}

fn static_queues(u: &mut Unstructured<'_>, broker: BrokerName) -> Result<StaticQueues> {
    let pairs: Vec<(i32, i32)> = several(u, 4, Unstructured::arbitrary)?;
    Ok(StaticQueues {
        topic: topic(u)?,
        scope: maybe(u, text)?,
        total_queues: u.arbitrary()?,
        broker,
        epoch: u.arbitrary()?,
        ids: pairs.into_iter().collect(),
    })
}
