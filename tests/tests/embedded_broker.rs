//! The embedded broker, the same cases on every runtime that carries it. Clients are plain blocking sockets: what they
//! see is what any client sees.
#![allow(clippy::unwrap_used, reason = "each case is a test, on every runtime")]

use std::collections::BTreeSet;
use std::future::Future;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use rocketmq_consumer::broker::{
    ClusterConfig, Control, Effect, EmbeddedBroker, Listening, NewMessage, Observation, Rule,
};
use rocketmq_consumer::{Consumer, Message, MessageQueue, Outcome, PeerAddr, QueueId, QueueOffset, StartAt};
use rocketmq_consumer_core::wire::code::{RequestCode, ResponseCode};
use rocketmq_consumer_core::wire::frame::HeaderForm;
use rocketmq_consumer_core::wire::request::encode_request;
use rocketmq_consumer_core::wire::request::route::RouteRequest;

const SOON: Duration = Duration::from_secs(10);

/// Where a case runs: a runtime, and a thread that waits for it.
trait Place {
    type Runtime: Listening + Default;

    fn wait_for<T>(future: impl Future<Output = T>) -> T;
}

struct Tokio;

impl Place for Tokio {
    type Runtime = rocketmq_consumer_tokio::TokioRuntime;

    fn wait_for<T>(future: impl Future<Output = T>) -> T {
        static RUNTIME: OnceLock<tokio::runtime::Runtime> = OnceLock::new();
        RUNTIME
            .get_or_init(|| tokio::runtime::Runtime::new().expect("a runtime"))
            .block_on(future)
    }
}

struct AsyncStd;

impl Place for AsyncStd {
    type Runtime = rocketmq_consumer_async_std::AsyncStdRuntime;

    fn wait_for<T>(future: impl Future<Output = T>) -> T {
        async_std::task::block_on(future)
    }
}

/// A test named `<case>::<place>` for each.
macro_rules! on_every_runtime {
    ($($case:ident)*) => {$(
        mod $case {
            #[test]
            fn tokio() {
                super::cases::$case::<super::Tokio>();
            }

            #[test]
            fn async_std() {
                super::cases::$case::<super::AsyncStd>();
            }
        }
    )*};
}

on_every_runtime! {
    every_node_listens_at_a_port_of_its_own_and_answers
    requests_are_answered_in_order_however_they_are_cut
    a_node_that_was_stopped_refuses_until_it_is_started
    a_node_that_was_moved_listens_at_its_new_address
    who_talks_nonsense_is_hung_up_on
    a_client_that_reads_nothing_cannot_go_on_asking
    who_is_hung_up_on_gets_what_was_answered_before
    who_has_no_more_to_ask_is_still_answered
    a_consumer_consumes_and_commits
    a_look_that_panics_is_the_end_of_whoever_looks
    an_observer_misses_what_it_has_no_room_for_and_is_replaced
    nothing_listens_after_the_end
    addresses_can_be_chosen_and_must_be_addresses
    many_that_only_listen_keep_nobody_from_being_served
}

/// A cluster and how to wait for it.
struct Cluster<P: Place>(EmbeddedBroker<P::Runtime>);

impl<P: Place> Cluster<P> {
    fn start(config: ClusterConfig) -> Self {
        Self(P::wait_for(EmbeddedBroker::start(config)).expect("free ports"))
    }

    fn of(brokers: usize) -> Self {
        Self::start(ClusterConfig::with_brokers(brokers))
    }

    fn control(&self, control: Control) -> io::Result<()> {
        P::wait_for(self.0.control(control))
    }

    fn connect(&self) -> TcpStream {
        connect(&self.0.name_server())
    }

    fn name_server(&self) -> PeerAddr {
        self.0
            .config()
            .name_servers
            .first()
            .expect("there is one")
            .clone()
    }

    /// Answers a request for a route, of a hundred bytes, with a mebibyte.
    fn answer_with_a_mebibyte(&self) {
        let effect = Effect::Reply {
            code: ResponseCode::SUCCESS,
            body: vec![b'x'; 1 << 20].into(),
        };
        let rule = Rule::on(RequestCode::GET_ROUTEINFO_BY_TOPIC, effect);
        self.control(Control::AddRule(rule)).expect("it runs");
    }
}

fn connect(addr: &str) -> TcpStream {
    let stream = TcpStream::connect(addr).expect("it listens");
    stream.set_read_timeout(Some(SOON)).expect("a time-out");
    stream
}

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

/// Reads a frame; nothing at the end of the stream.
fn frame(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut exactly = |len: usize| {
        let mut bytes = vec![0; len];
        match stream.read_exact(&mut bytes) {
            Ok(()) => Some(bytes),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => panic!("nothing came soon"),
            Err(_) => None,
        }
    };
    let size: [u8; 4] = exactly(4)?.try_into().expect("four bytes");
    exactly(u32::from_be_bytes(size) as usize)
}

fn is_refused(addr: &str) -> bool {
    TcpStream::connect(addr).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

fn free_addr() -> PeerAddr {
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    PeerAddr::new("127.0.0.1", free.local_addr().expect("it listens").port())
}

mod cases {
    use super::*;

    pub(super) fn every_node_listens_at_a_port_of_its_own_and_answers<P: Place>() {
        let cluster = Cluster::<P>::of(2);
        let config = cluster.0.config();
        let brokers = config.brokers.iter().flat_map(|broker| broker.replicas.values());
        let addrs: Vec<_> = config.name_servers.iter().chain(brokers).collect();
        assert_eq!(addrs[0].to_string(), cluster.0.name_server());
        for addr in &addrs {
            let mut stream = connect(&addr.to_string());
            stream.write_all(&request(7)).unwrap();
            let answer = frame(&mut stream).expect("an answer");
            assert!(String::from_utf8_lossy(&answer).contains("\"opaque\":7"));
        }
        assert_eq!(BTreeSet::from_iter(addrs).len(), 3);
    }

    pub(super) fn a_look_that_panics_is_the_end_of_whoever_looks<P: Place>() {
        let cluster = Cluster::<P>::of(1);
        let panics = || P::wait_for(cluster.0.look(|_| assert_eq!(1, 2, "an assertion that fails")));
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics));
        let text = *panic.unwrap_err().downcast::<String>().unwrap();
        assert!(text.contains("an assertion that fails"), "{text}");
        assert_eq!(P::wait_for(cluster.0.look(|_| 7)).unwrap(), 7);
    }

    pub(super) fn requests_are_answered_in_order_however_they_are_cut<P: Place>() {
        let cluster = Cluster::<P>::of(1);
        let mut stream = cluster.connect();
        let all: Vec<u8> = (0..50).flat_map(request).collect();
        for piece in all.chunks(97) {
            stream.write_all(piece).unwrap();
        }
        for opaque in 0..50 {
            let answer = frame(&mut stream).expect("an answer");
            let opaque = format!("\"opaque\":{opaque},");
            assert!(String::from_utf8_lossy(&answer).contains(&opaque), "{opaque}");
        }
    }

    pub(super) fn a_node_that_was_stopped_refuses_until_it_is_started<P: Place>() {
        let cluster = Cluster::<P>::of(1);
        let addr = cluster.name_server();
        let mut stream = cluster.connect();
        stream.write_all(&request(1)).unwrap();
        frame(&mut stream).expect("an answer");

        cluster.control(Control::Stop(addr.clone())).unwrap();
        assert!(is_refused(&addr.to_string()), "as soon as that returns");
        assert_eq!(frame(&mut stream), None, "the connection has ended");
        // Somebody else takes the port.
        let other = TcpListener::bind(addr.to_string()).unwrap();
        let error = cluster.control(Control::Start(addr.clone())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        drop(other);
        cluster.control(Control::Start(addr)).unwrap();
        let mut stream = cluster.connect();
        stream.write_all(&request(2)).unwrap();
        frame(&mut stream).expect("an answer");
    }

    pub(super) fn a_node_that_was_moved_listens_at_its_new_address<P: Place>() {
        let cluster = Cluster::<P>::of(1);
        let (from, to) = (cluster.name_server(), free_addr());
        cluster.control(Control::Stop(from.clone())).unwrap();
        let move_to = |to| Control::Move {
            from: from.clone(),
            to,
        };
        let error = cluster
            .control(move_to(PeerAddr::new("127.0.0.1", 0)))
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        cluster.control(move_to(to.clone())).unwrap();
        cluster.control(Control::Start(to.clone())).unwrap();
        let mut stream = connect(&to.to_string());
        stream.write_all(&request(1)).unwrap();
        frame(&mut stream).expect("an answer");
        assert!(is_refused(&from.to_string()));
    }

    pub(super) fn who_talks_nonsense_is_hung_up_on<P: Place>() {
        let cluster = Cluster::<P>::of(1);
        let mut stream = cluster.connect();
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        assert_eq!(frame(&mut stream), None);
        let mut stream = cluster.connect();
        stream.write_all(&request(1)).unwrap();
        frame(&mut stream).expect("others are still served");
    }

    pub(super) fn a_client_that_reads_nothing_cannot_go_on_asking<P: Place>() {
        let cluster = Cluster::<P>::of(1);
        cluster.answer_with_a_mebibyte();
        let mut greedy = cluster.connect();
        let requests: Vec<u8> = (0..40).flat_map(request).collect();
        greedy.write_all(&requests).unwrap();
        frame(&mut greedy).expect("an answer");
        // All the others wait for it to read on, and what it sends waits in its own kernel.
        let long_frame: u32 = 16_000_000;
        let more = [&long_frame.to_be_bytes()[..], &vec![0; 15 << 20]].concat();
        greedy
            .set_write_timeout(Some(Duration::from_millis(500)))
            .unwrap();
        assert!(greedy.write_all(&more).is_err(), "the driver must not read on");
        let mut other = cluster.connect();
        other.write_all(&request(1)).unwrap();
        frame(&mut other).expect("others are served meanwhile");
        for _ in 1..40 {
            assert!(frame(&mut greedy).expect("an answer").len() > 1 << 20);
        }
    }

    pub(super) fn who_is_hung_up_on_gets_what_was_answered_before<P: Place>() {
        let cluster = Cluster::<P>::of(1);
        cluster.answer_with_a_mebibyte();
        let mut stream = cluster.connect();
        let requests: Vec<u8> = (0..3).flat_map(request).collect();
        stream.write_all(&requests).unwrap();
        // It goes on talking. Where that is not read, the connection is reset, and what is in the kernels is lost.
        let mut more = stream.try_clone().unwrap();
        let talker = thread::spawn(move || {
            for _ in 0..100 {
                let _closed_by_now = more.write_all(&[0; 4_096]);
                thread::sleep(Duration::from_millis(3));
            }
        });
        for _ in 0..3 {
            thread::sleep(Duration::from_millis(20));
            assert!(frame(&mut stream).expect("an answer").len() > 1 << 20);
        }
        assert_eq!(frame(&mut stream), None);
        talker.join().unwrap();
    }

    pub(super) fn who_has_no_more_to_ask_is_still_answered<P: Place>() {
        let cluster = Cluster::<P>::of(1);
        cluster.answer_with_a_mebibyte();
        let mut stream = cluster.connect();
        let requests: Vec<u8> = (0..3).flat_map(request).collect();
        stream.write_all(&requests).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        for _ in 0..3 {
            assert!(frame(&mut stream).expect("an answer").len() > 1 << 20);
        }
        assert_eq!(frame(&mut stream), None);
    }

    /// A message without a producer, a consumer of the same runtime, and what is left of both.
    pub(super) fn a_consumer_consumes_and_commits<P: Place>() {
        let cluster = Cluster::<P>::start(ClusterConfig::with_brokers(2).topic("orders", 2));
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
            cluster.control(Control::Append { queue, message }).unwrap();
        }
        let mut observations = P::wait_for(cluster.0.observe(1_000)).unwrap();
        let (seen, bodies) = mpsc::channel();
        let consumer = Consumer::<P::Runtime>::builder("billing")
            .name_server(cluster.0.name_server())
            .subscribe("orders", "*")
            .start_at(StartAt::Earliest)
            .start(move |message: Message| {
                let seen = seen.clone();
                async move {
                    let body = message.body().expect("it is not packed").to_vec();
                    seen.send(String::from_utf8(body).expect("a number"))
                        .map(|()| Outcome::Done)
                }
            });
        let consumer = P::wait_for(consumer).unwrap();
        let mut all = BTreeSet::new();
        while all.len() < 100 {
            let body = bodies.recv_timeout(SOON).expect("soon");
            all.insert(body.parse::<u32>().expect("a number"));
        }
        assert!(all.into_iter().eq(0..100));
        P::wait_for(consumer.shutdown(SOON));
        let committed = cluster.0.look(move |state| {
            let group = "billing".into();
            queues
                .iter()
                .map(|queue| state.committed(&group, queue))
                .collect::<Vec<_>>()
        });
        assert_eq!(P::wait_for(committed).unwrap(), [Some(QueueOffset(25)); 4]);
        P::wait_for(async {
            loop {
                let observation = observations.next().await.expect("the cluster runs");
                if matches!(&observation, Observation::MemberJoined { group, .. } if group.as_str() == "billing")
                {
                    break;
                }
            }
        });
    }

    pub(super) fn an_observer_misses_what_it_has_no_room_for_and_is_replaced<P: Place>() {
        let cluster = Cluster::<P>::start(ClusterConfig::with_brokers(1).topic("orders", 1));
        let queue = MessageQueue {
            topic: "orders".into(),
            broker: "broker-a".into(),
            id: QueueId(0),
        };
        let append = |times| {
            for _ in 0..times {
                let (queue, message) = (queue.clone(), NewMessage::new("x"));
                cluster.control(Control::Append { queue, message }).unwrap();
            }
        };
        let missed = || P::wait_for(cluster.0.look(|state| state.observations_missed())).unwrap();
        let mut first = P::wait_for(cluster.0.observe(10)).unwrap();
        append(50);
        // Ten wait in the machine, and one is on the way if it was taken before there were eleven.
        assert!((39..=40).contains(&missed()), "{}", missed());
        for _ in 0..10 {
            assert!(P::wait_for(first.next()).is_some());
        }
        let before = missed();
        append(1);
        assert!(
            P::wait_for(first.next()).is_some(),
            "it hears of what comes later"
        );
        let mut second = P::wait_for(cluster.0.observe(10)).unwrap();
        while P::wait_for(first.next()).is_some() {}
        append(1);
        assert!(P::wait_for(second.next()).is_some(), "somebody else observes");
        assert_eq!(missed(), before);
        drop(second);
        // Nobody observes as soon as that is noticed, so nothing is missed. Should it not be, this never ends.
        loop {
            let before = missed();
            append(20);
            if missed() == before {
                break;
            }
        }
    }

    pub(super) fn nothing_listens_after_the_end<P: Place>() {
        let cluster = Cluster::<P>::of(1);
        let addr = cluster.0.name_server();
        let mut stream = cluster.connect();
        P::wait_for(cluster.0.shutdown());
        assert!(is_refused(&addr));
        assert_eq!(frame(&mut stream), None);

        let cluster = Cluster::<P>::of(1);
        let addr = cluster.0.name_server();
        drop(cluster);
        // A dropped cluster ends soon; should it not, this never does.
        while !is_refused(&addr) {
            thread::sleep(Duration::from_millis(5));
        }
    }

    pub(super) fn addresses_can_be_chosen_and_must_be_addresses<P: Place>() {
        let start_at = |addr: PeerAddr| {
            let mut config = ClusterConfig::with_brokers(0);
            config.name_servers = vec![addr];
            P::wait_for(EmbeddedBroker::<P::Runtime>::start_at(config))
        };
        let free = free_addr();
        let broker = start_at(free.clone()).unwrap();
        assert_eq!(broker.name_server(), free.to_string());
        let error = start_at(free.clone()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(error.to_string().starts_with(&free.to_string()), "{error}");
        let error = start_at(PeerAddr::new("localhost", 1)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        let everywhere = start_at(PeerAddr::new("0.0.0.0", 0)).unwrap();
        assert!(everywhere.name_server().starts_with("127.0.0.1:"));
    }

    pub(super) fn many_that_only_listen_keep_nobody_from_being_served<P: Place>() {
        let cluster = Cluster::<P>::of(1);
        let mut idle: Vec<_> = (0..300).map(|_| cluster.connect()).collect();
        for stream in idle.iter_mut().step_by(10) {
            stream.write_all(&request(1)).unwrap();
            frame(stream).expect("an answer");
        }
    }
}
