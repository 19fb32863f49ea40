//! Several groups on one client over TCP: one connection to each broker, one heartbeat for all, and none of them
//! disturbs another.

mod crowd;

use std::time::Duration;

use bytes::Bytes;
use crowd::Crowd;
use rocketmq_consumer_core::ids::{MessageQueue, PeerAddr, QueueId};
use rocketmq_consumer_tokio::broker::{ClusterConfig, Control, EmbeddedBroker, NewMessage};
use rocketmq_consumer_tokio::{Consumer, ConsumerBuilder, Message, StartError};

const QUEUES: i32 = 4;

async fn cluster() -> (EmbeddedBroker, Vec<PeerAddr>) {
    let broker = EmbeddedBroker::start(ClusterConfig::with_brokers(2).topic("orders", QUEUES.unsigned_abs()));
    let broker = broker.await.expect("free ports");
    let masters = broker.config().brokers.iter().map(|of| of.replicas[&0].clone());
    let masters = masters.collect();
    (broker, masters)
}

/// Stores so many messages more, numbered from `from` on.
async fn produce(broker: &EmbeddedBroker, from: usize, count: usize) {
    let brokers = &broker.config().brokers;
    for number in from..from + count {
        let queue = MessageQueue {
            topic: "orders".into(),
            broker: brokers[number % brokers.len()].name.clone(),
            id: QueueId(i32::try_from(number).expect("few") % QUEUES),
        };
        let message = NewMessage::new(Bytes::from(number.to_string()));
        let stored = broker.control(Control::Append { queue, message }).await;
        stored.expect("the broker runs");
    }
}

#[tokio::test]
async fn they_share_connections_and_heartbeats_and_miss_nothing() {
    let (broker, masters) = cluster().await;
    produce(&broker, 0, 40).await;
    let crowd = Crowd::new(&broker.name_server(), "orders").await;
    let one = crowd.start("one").await;
    let two = crowd.start("two").await;
    let note = crowd.note("three");
    let three = crowd
        .builder("three")
        .batch_size(8)
        .start_batch(move |all: Vec<Message>| {
            all.iter().for_each(&note);
            async {}
        });
    let _three: Consumer = three.await.expect("good settings");
    crowd.all_see(&["one", "two", "three"], 40).await;
    assert_eq!(
        crowd.wire().dials,
        1 + masters.len(),
        "a name server and the brokers, once each"
    );
    for master in &masters {
        let mut ways = Vec::new();
        for group in ["one", "two", "three"] {
            let connections = crowd.connections(master, group).await;
            assert_eq!(connections.len(), 1, "{connections:?}");
            assert_eq!(&connections[0].client_id, crowd.client.client_id());
            ways.push(connections[0].client_addr.clone());
        }
        ways.dedup();
        assert_eq!(ways.len(), 1, "all members are one connection: {ways:?}");
    }

    two.shutdown(Duration::from_secs(5)).await;
    for master in &masters {
        assert!(crowd.connections(master, "two").await.is_empty());
        assert_eq!(crowd.connections(master, "one").await.len(), 1);
    }
    produce(&broker, 40, 20).await;
    crowd.all_see(&["one", "three"], 60).await;
    assert_eq!(crowd.seen("two"), 40);
    let two = crowd.start("two").await;
    crowd.all_see(&["two"], 60).await;
    let wire = crowd.wire();
    assert_eq!(wire.dials, 1 + masters.len());
    assert_eq!(
        wire.beats.last().expect("some").len(),
        3,
        "one heartbeat names all"
    );
    drop((one, two));
    crowd.client.shutdown(Duration::ZERO).await;
    broker.shutdown().await;
}

#[tokio::test]
async fn what_goes_wrong_in_one_stays_there() {
    let (broker, masters) = cluster().await;
    produce(&broker, 0, 40).await;
    let crowd = Crowd::new(&broker.name_server(), "orders").await;
    let good = crowd.start("good").await;
    let panics = crowd.builder("panics").start(|_: Message| async {
        if true {
            panic!("a handler of the application");
        }
    });
    let _panics = panics.await.expect("good settings");
    let hangs = crowd
        .builder("hangs")
        .start(|_: Message| std::future::pending::<()>());
    let hangs = hangs.await.expect("good settings");
    let full = crowd.builder("full").buffer_bytes_max(1).stream().await;
    let full = full.expect("good settings");
    let nowhere: ConsumerBuilder = Consumer::builder("nowhere").client(&crowd.client);
    let nowhere = nowhere
        .subscribe("nowhere", "*")
        .start(|_: Message| async {})
        .await;
    let _nowhere = nowhere.expect("a topic that nobody knows is waited for");
    for refused in ["", "no good name", "good"] {
        let builder = Consumer::builder(refused)
            .client(&crowd.client)
            .subscribe("orders", "*");
        let error = builder.start(|_: Message| async {}).await.expect_err(refused);
        let is_right = match error {
            StartError::Config(error) => refused != "good" && error.key == "group",
            StartError::AlreadyRegistered { .. } => refused == "good",
            StartError::ConnectTimeout { .. } | StartError::Refused(_) | StartError::Closed | _ => false,
        };
        assert!(is_right, "{refused:?}");
    }
    crowd.all_see(&["good"], 40).await;

    // One that leaves slowly, one that is dropped, and one that stays.
    let slow = tokio::spawn(async move { hangs.shutdown(Duration::from_secs(2)).await });
    drop(full);
    produce(&broker, 40, 20).await;
    crowd.all_see(&["good"], 60).await;
    for master in &masters {
        crowd.gone(master, "full").await;
        assert_eq!(crowd.connections(master, "good").await.len(), 1);
    }
    let report = slow.await.expect("it ends");
    assert!(report.timed_out && report.abandoned > 0, "{report:?}");
    let good = good.shutdown(Duration::from_secs(5)).await;
    assert!(good.finished >= 60 && !good.timed_out, "{good:?}");
    crowd.client.shutdown(Duration::from_millis(200)).await;
    broker.shutdown().await;
}
