//! Three groups on one client against the real broker: one is stopped and starts again, and nothing is lost.

mod crowd;

use std::time::Duration;

use crowd::Crowd;
use rocketmq_consumer_core::ids::PeerAddr;
use rocketmq_consumer_testing::rocketmq::{Cluster, LaunchError, Producer};

const GROUPS: [&str; 3] = ["crowd-one", "crowd-two", "crowd-three"];

#[test]
fn three_groups_on_one_client_of_the_real_broker() -> Result<(), LaunchError> {
    let cluster = Cluster::builder().start()?;
    cluster.create_topic("orders", &[(0, 4)])?;
    let mut producer = Producer::new(cluster.name_server(), "orders").expect("the topic has a route");
    let mut produce = |count| producer.send_many(count).expect("messages are stored");
    let broker: PeerAddr = cluster.broker(0).address().parse().expect("an address");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("threads can be had");
    runtime.block_on(async {
        let crowd = Crowd::new(cluster.name_server(), "orders").await;
        let one = crowd.start(GROUPS[0]).await;
        let two = crowd.start(GROUPS[1]).await;
        let _three = crowd.start(GROUPS[2]).await;
        produce(200);
        crowd.all_see(&GROUPS, 200).await;
        let mut ways = Vec::new();
        for group in GROUPS {
            let connections = crowd.connections(&broker, group).await;
            assert_eq!(connections.len(), 1, "{connections:?}");
            assert_eq!(&connections[0].client_id, crowd.client.client_id());
            ways.push(connections[0].client_addr.clone());
        }
        ways.dedup();
        assert_eq!(ways.len(), 1, "one connection for all: {ways:?}");

        two.shutdown(Duration::from_secs(10)).await;
        assert!(crowd.connections(&broker, GROUPS[1]).await.is_empty());
        produce(100);
        crowd.all_see(&[GROUPS[0], GROUPS[2]], 300).await;
        // A heartbeat after the farewell does not make it a member again.
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(crowd.connections(&broker, GROUPS[1]).await.is_empty());
        assert_eq!(crowd.seen(GROUPS[1]), 200);

        let two = crowd.start(GROUPS[1]).await;
        crowd.all_see(&[GROUPS[1]], 300).await;
        assert_eq!(crowd.connections(&broker, GROUPS[1]).await.len(), 1);
        assert_eq!(crowd.wire().dials, 2, "a name server and a broker");
        for consumer in [&one, &two] {
            let report = consumer.shutdown(Duration::from_secs(10)).await;
            assert!(!report.timed_out, "{report:?}");
        }
        crowd.gone(&broker, GROUPS[0]).await;
        assert_eq!(crowd.connections(&broker, GROUPS[2]).await.len(), 1);
        crowd.client.shutdown(Duration::from_secs(10)).await;
    });
    Ok(())
}
