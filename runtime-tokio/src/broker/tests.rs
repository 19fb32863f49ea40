use std::time::Duration;

use rocketmq_consumer_core::ids::{MessageQueue, QueueId, QueueOffset};
use rocketmq_consumer_core::wire::code::RequestCode;
use rocketmq_consumer_core::wire::frame::HeaderForm;
use rocketmq_consumer_core::wire::request::encode_request;
use rocketmq_consumer_core::wire::request::route::RouteRequest;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::*;

const SOON: Duration = Duration::from_secs(5);

/// A request that any node answers somehow.
fn request(opaque: i32) -> Vec<u8> {
    let request = RouteRequest {
        topic: "T".into(),
        standard_json: true,
    };
    encode_request(HeaderForm::Json, opaque, false, &request)
        .expect("a small request")
        .into()
}

async fn connect(broker: &EmbeddedBroker) -> TcpStream {
    TcpStream::connect(broker.name_server())
        .await
        .expect("it listens")
}

/// Reads a frame; nothing at the end of the stream.
async fn frame(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut size = [0; 4];
    timeout(SOON, stream.read_exact(&mut size))
        .await
        .expect("soon")
        .ok()?;
    let mut frame = vec![0; u32::from_be_bytes(size) as usize];
    timeout(SOON, stream.read_exact(&mut frame))
        .await
        .expect("soon")
        .ok()?;
    Some(frame)
}

async fn is_refused(addr: &str) -> bool {
    TcpStream::connect(addr)
        .await
        .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

fn name_server(broker: &EmbeddedBroker) -> PeerAddr {
    broker
        .config()
        .name_servers
        .first()
        .expect("there is one")
        .clone()
}

#[tokio::test]
async fn every_node_listens_at_a_port_of_its_own_and_answers() {
    let broker = EmbeddedBroker::start(ClusterConfig::with_brokers(2))
        .await
        .unwrap();
    let mut addrs: Vec<_> = nodes_mut(&mut broker.config().clone())
        .map(|addr| addr.to_string())
        .collect();
    assert_eq!(addrs[0], broker.name_server());
    for addr in &addrs {
        let mut stream = TcpStream::connect(addr).await.expect("it listens");
        stream.write_all(&request(7)).await.unwrap();
        let answer = frame(&mut stream).await.expect("an answer");
        assert!(String::from_utf8_lossy(&answer).contains("\"opaque\":7"));
    }
    addrs.sort();
    addrs.dedup();
    assert_eq!(addrs.len(), 3);
}

#[tokio::test]
async fn requests_are_answered_in_order_however_they_are_cut() {
    let broker = EmbeddedBroker::start(ClusterConfig::with_brokers(1))
        .await
        .unwrap();
    let mut stream = connect(&broker).await;
    let all: Vec<u8> = (0..50).flat_map(request).collect();
    for piece in all.chunks(97) {
        stream.write_all(piece).await.unwrap();
    }
    for opaque in 0..50 {
        let answer = frame(&mut stream).await.expect("an answer");
        let opaque = format!("\"opaque\":{opaque},");
        assert!(String::from_utf8_lossy(&answer).contains(&opaque), "{opaque}");
    }
}

#[tokio::test]
async fn a_node_that_was_stopped_refuses_until_it_is_started() {
    let broker = EmbeddedBroker::start(ClusterConfig::with_brokers(1))
        .await
        .unwrap();
    let addr = name_server(&broker);
    let mut stream = connect(&broker).await;
    stream.write_all(&request(1)).await.unwrap();
    frame(&mut stream).await.expect("an answer");

    broker.control(Control::Stop(addr.clone())).await.unwrap();
    assert_eq!(frame(&mut stream).await, None, "the connection has ended");
    assert!(is_refused(&addr.to_string()).await);
    // Somebody else takes the port.
    let other = TcpListener::bind(addr.to_string()).await.unwrap();
    let error = broker.control(Control::Start(addr.clone())).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    drop(other);
    broker.control(Control::Start(addr.clone())).await.unwrap();
    let mut stream = connect(&broker).await;
    stream.write_all(&request(2)).await.unwrap();
    frame(&mut stream).await.expect("an answer");
}

#[tokio::test]
async fn a_node_that_was_moved_listens_at_its_new_address() {
    let broker = EmbeddedBroker::start(ClusterConfig::with_brokers(1))
        .await
        .unwrap();
    let from = name_server(&broker);
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = PeerAddr::new("127.0.0.1", free.local_addr().unwrap().port());
    drop(free);
    broker.control(Control::Stop(from.clone())).await.unwrap();
    let nowhere = Control::Move {
        from: from.clone(),
        to: PeerAddr::new("127.0.0.1", 0),
    };
    let error = broker.control(nowhere).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    let there = Control::Move {
        from: from.clone(),
        to: to.clone(),
    };
    broker.control(there).await.unwrap();
    broker.control(Control::Start(to.clone())).await.unwrap();
    let mut stream = TcpStream::connect(to.to_string()).await.expect("it listens");
    stream.write_all(&request(1)).await.unwrap();
    frame(&mut stream).await.expect("an answer");
    assert!(is_refused(&from.to_string()).await);
}

#[tokio::test]
async fn who_talks_nonsense_is_hung_up_on() {
    let broker = EmbeddedBroker::start(ClusterConfig::with_brokers(1))
        .await
        .unwrap();
    let mut stream = connect(&broker).await;
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    assert_eq!(frame(&mut stream).await, None);
    let mut stream = connect(&broker).await;
    stream.write_all(&request(1)).await.unwrap();
    frame(&mut stream).await.expect("others are still served");
}

#[tokio::test]
async fn a_client_that_reads_nothing_cannot_go_on_asking() {
    let broker = EmbeddedBroker::start(ClusterConfig::with_brokers(1))
        .await
        .unwrap();
    answer_with_a_mebibyte(&broker).await;
    let mut greedy = connect(&broker).await;
    let requests: Vec<u8> = (0..40).flat_map(request).collect();
    greedy.write_all(&requests).await.unwrap();
    frame(&mut greedy).await.expect("an answer");
    // All the others wait for it to read on, and what it sends waits in its own kernel.
    let long_frame: u32 = 16_000_000;
    let more = [&long_frame.to_be_bytes()[..], &vec![0; 15 << 20]].concat();
    let stuck = timeout(Duration::from_millis(500), greedy.write_all(&more)).await;
    assert!(stuck.is_err(), "the driver must not read on");
    let mut other = connect(&broker).await;
    other.write_all(&request(1)).await.unwrap();
    frame(&mut other).await.expect("others are served meanwhile");
    for _ in 1..40 {
        assert!(frame(&mut greedy).await.expect("an answer").len() > 1 << 20);
    }
}

/// Answers a request for a route, of a hundred bytes, with a mebibyte.
async fn answer_with_a_mebibyte(broker: &EmbeddedBroker) {
    let effect = Effect::Reply {
        code: rocketmq_consumer_core::wire::code::ResponseCode::SUCCESS,
        body: vec![b'x'; 1 << 20].into(),
    };
    let rule = Rule::on(RequestCode::GET_ROUTEINFO_BY_TOPIC, effect);
    broker.control(Control::AddRule(rule)).await.unwrap();
}

#[tokio::test]
async fn who_is_hung_up_on_gets_what_was_answered_before() {
    let broker = EmbeddedBroker::start(ClusterConfig::with_brokers(1))
        .await
        .unwrap();
    answer_with_a_mebibyte(&broker).await;
    let mut stream = connect(&broker).await;
    let requests: Vec<u8> = (0..3).flat_map(request).collect();
    stream.write_all(&requests).await.unwrap();
    stream.write_all(&vec![0; 1 << 20]).await.unwrap();
    for _ in 0..3 {
        assert!(frame(&mut stream).await.expect("an answer").len() > 1 << 20);
    }
    assert_eq!(frame(&mut stream).await, None);
}

/// A consumer of this crate, a message without a producer, and what is left of both.
#[tokio::test]
async fn a_consumer_consumes_and_commits() {
    let config = ClusterConfig::with_brokers(2).topic("orders", 2);
    let broker = EmbeddedBroker::start(config).await.unwrap();
    let queues: Vec<_> = ["broker-a", "broker-b"]
        .into_iter()
        .flat_map(|broker| (0..2).map(move |id| (broker, id)))
        .map(|(broker, id)| MessageQueue {
            topic: "orders".into(),
            broker: broker.into(),
            id: QueueId(id),
        })
        .collect();
    for number in 0..100 {
        let queue = queues[number % queues.len()].clone();
        let message = NewMessage::new(number.to_string());
        broker.control(Control::Append { queue, message }).await.unwrap();
    }
    let mut observations = broker.observe(1_000).await.unwrap();
    let (seen, mut bodies) = mpsc::channel(100);
    let consumer = crate::Consumer::builder("billing")
        .name_server(broker.name_server())
        .subscribe("orders", "*")
        .start_at(crate::StartAt::Earliest)
        .start(move |message: crate::Message| {
            let seen = seen.clone();
            async move {
                let body = message.body().expect("it is not packed").to_vec();
                seen.send(String::from_utf8(body).expect("a number")).await
            }
        })
        .await
        .unwrap();
    let mut all = std::collections::BTreeSet::new();
    while all.len() < 100 {
        let body = timeout(SOON, bodies.recv())
            .await
            .expect("soon")
            .expect("it runs");
        all.insert(body.parse::<u32>().expect("a number"));
    }
    assert!(all.into_iter().eq(0..100));
    consumer.shutdown(SOON).await;
    let committed = broker.look(move |state| {
        let group = "billing".into();
        queues
            .iter()
            .map(|queue| state.committed(&group, queue))
            .collect::<Vec<_>>()
    });
    assert_eq!(committed.await.unwrap(), [Some(QueueOffset(25)); 4]);
    let joined = async {
        loop {
            let observation = observations.next().await.expect("the cluster runs");
            if matches!(&observation, Observation::MemberJoined { group, .. } if group.as_str() == "billing")
            {
                break;
            }
        }
    };
    timeout(SOON, joined).await.expect("it has joined");
}

#[tokio::test]
async fn nothing_listens_after_the_end() {
    let broker = EmbeddedBroker::start(ClusterConfig::with_brokers(1))
        .await
        .unwrap();
    let addr = broker.name_server();
    let mut stream = connect(&broker).await;
    broker.shutdown().await;
    assert_eq!(frame(&mut stream).await, None);
    assert!(is_refused(&addr).await);

    let broker = EmbeddedBroker::start(ClusterConfig::with_brokers(1))
        .await
        .unwrap();
    let addr = broker.name_server();
    drop(broker);
    let gone = async {
        while !is_refused(&addr).await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(SOON, gone).await.expect("a dropped cluster ends soon");
}

#[tokio::test]
async fn addresses_can_be_chosen_and_must_be_addresses() {
    let free = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    let mut config = ClusterConfig::with_brokers(0);
    config.name_servers = vec![PeerAddr::new("127.0.0.1", free.port())];
    let broker = EmbeddedBroker::start_at(config.clone()).await.unwrap();
    assert_eq!(broker.name_server(), free.to_string());
    let error = EmbeddedBroker::start_at(config.clone()).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    assert!(error.to_string().starts_with(&free.to_string()), "{error}");
    config.name_servers = vec![PeerAddr::new("localhost", 1)];
    let error = EmbeddedBroker::start_at(config.clone()).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    config.name_servers = vec![PeerAddr::new("0.0.0.0", 0)];
    let everywhere = EmbeddedBroker::start_at(config).await.unwrap();
    assert!(everywhere.name_server().starts_with("127.0.0.1:"));
}
