//! How often the whole consumer asks the allocator on the way of a message: sockets, driver, lanes and
//! all. The peer runs on threads of its own, which do not count.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use rocketmq_consumer_core::ids::{ClientId, QueueOffset};
use rocketmq_consumer_core::wire::code::{RequestCode, ResponseCode};
use rocketmq_consumer_core::wire::command::Header;
use rocketmq_consumer_core::wire::frame::{FRAME_LEN_MAX, Frame, HeaderForm};
use rocketmq_consumer_core::wire::request::heartbeat::HeartbeatAnswer;
use rocketmq_consumer_core::wire::request::members::MemberList;
use rocketmq_consumer_core::wire::request::offsets::StoredOffset;
use rocketmq_consumer_core::wire::request::pull::{PullRequest, PullStatus};
use rocketmq_consumer_core::wire::request::route::{BrokerData, QueueData, TopicRoute};
use rocketmq_consumer_core::wire::request::{Done, Request as _, encode_answer, encode_refusal};
use rocketmq_consumer_testing::world::{StoredMessage, pull_answer, queue, records};
use rocketmq_consumer_tokio::{Consumer, Message, Outcome};
use tokio::sync::Notify;

const QUEUES: u32 = 8;
const BATCH: i64 = 32;
const WARM_UP: u64 = 20_000;
const COUNTED: u64 = 100_000;
const TOPIC: &str = "T";
const CLIENT: &str = "one@test";

/// A name server and broker in one that never runs out of messages.
fn endless_peer() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    let own = address.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let own = own.clone();
            std::thread::spawn(move || serve(stream, &own));
        }
    });
    address
}

fn serve(mut stream: TcpStream, own: &str) {
    let mut word = [0; 4];
    while stream.read_exact(&mut word).is_ok() {
        let mut whole = word.to_vec();
        whole.resize(4 + u32::from_be_bytes(word) as usize, 0);
        stream.read_exact(&mut whole[4..]).expect("a whole frame");
        let frame = Frame::parse(Bytes::from(whole), FRAME_LEN_MAX).expect("a good frame");
        if stream.write_all(&answer(&frame, own)).is_err() {
            return;
        }
    }
}

fn answer(frame: &Frame, own: &str) -> Bytes {
    let header = Header::of(frame).expect("a good header");
    let opaque = header.opaque;
    let form = HeaderForm::Json;
    let bytes = match RequestCode(header.code) {
        RequestCode::GET_ROUTEINFO_BY_TOPIC if header.ext.get("topic") == Some(TOPIC) => {
            encode_answer(form, opaque, &route(own))
        }
        RequestCode::GET_ROUTEINFO_BY_TOPIC => {
            encode_refusal(form, opaque, ResponseCode::TOPIC_NOT_EXIST, "no")
        }
        RequestCode::HEART_BEAT => encode_answer(form, opaque, &HeartbeatAnswer::default()),
        RequestCode::GET_CONSUMER_LIST_BY_GROUP => {
            let client_ids = vec![ClientId::from(CLIENT)];
            encode_answer(form, opaque, &MemberList { client_ids })
        }
        RequestCode::QUERY_CONSUMER_OFFSET => {
            encode_answer(form, opaque, &StoredOffset(Some(QueueOffset(0))))
        }
        RequestCode::PULL_MESSAGE => {
            let request = PullRequest::decode(&header.ext, &frame.body).expect("a good request");
            let from = request.offset.0;
            let queue = queue(TOPIC, "b", request.queue.0);
            let messages: Vec<_> = (from..from + BATCH)
                .map(|offset| StoredMessage::new(queue.clone(), offset, vec![b'x'; 128], "A"))
                .collect();
            let answer = pull_answer(PullStatus::Found, from + BATCH, records(&messages));
            encode_answer(form, opaque, &answer)
        }
        _ => encode_answer(form, opaque, &Done),
    };
    bytes.expect("answers are small")
}

fn route(own: &str) -> TopicRoute {
    TopicRoute {
        queues: vec![QueueData {
            broker: "b".into(),
            read_queues: QUEUES,
            write_queues: QUEUES,
            perm: 6,
            topic_sys_flag: 0,
        }],
        brokers: vec![BrokerData {
            cluster: "c".into(),
            name: "b".into(),
            addresses: BTreeMap::from([(0, own.into())]),
            zone_name: None,
            enable_acting_master: false,
        }],
        ..TopicRoute::default()
    }
}

#[test]
fn a_message_costs_less_than_a_fifth_of_an_allocation_with_tokio() {
    let address = endless_peer();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let handled = Arc::new(AtomicU64::new(0));
    let reached = Arc::new(Notify::new());
    let consumer = runtime.block_on(async {
        let (handled, reached) = (Arc::clone(&handled), Arc::clone(&reached));
        Consumer::builder("allocations")
            .name_server(&address)
            .client_id(CLIENT)
            .subscribe(TOPIC, "*")
            .start(move |_: Message| {
                let now = handled.fetch_add(1, Relaxed) + 1;
                if now == WARM_UP || now == WARM_UP + COUNTED {
                    reached.notify_one();
                }
                std::future::ready(Outcome::Done)
            })
            .await
            .expect("it starts")
    });
    runtime.block_on(reached.notified());
    let before = handled.load(Relaxed);
    let info = allocation_counter::measure(|| runtime.block_on(reached.notified()));
    let messages = handled.load(Relaxed) - before;
    let each = info.count_total as f64 / messages as f64;
    println!("{each:.3} allocations per message over {messages} messages");
    assert!(messages >= COUNTED / 2, "{messages}");
    assert!(each <= 0.2, "{each}");
    runtime.block_on(consumer.shutdown(Duration::ZERO));
}
