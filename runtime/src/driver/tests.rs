use std::net::Ipv4Addr;
use std::sync::Mutex;

use bytes::Bytes;
use rocketmq_consumer_core::action::{Action, AppAction, NetAction, Refusal};
use rocketmq_consumer_core::config::{ClientConfig, GroupConfig};
use rocketmq_consumer_core::event::{Call, NetCause, NetEvent, Report, RunRange, Target, Verdict};
use rocketmq_consumer_core::ids::{ConsumeId, ConsumerGroup, GroupKey, PeerAddr};
use rocketmq_consumer_core::message::Outcome;
use rocketmq_consumer_core::step::Seed;
use rocketmq_consumer_core::time::WallTime;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::desk::Desk;
use crate::error::StartError;
use crate::registry::{Registration, Ticket};
use crate::runs::Run;
use crate::sync::lock;
use crate::testing::{Script, TestRuntime, batch, eventually, frame};

const CONN: ConnId = ConnId {
    slot: 4,
    generation: 2,
};

/// A driver with a scripted machine; dropping the bench does not end it, its runtime does.
struct Bench {
    script: Script,
    inbox: Arc<Inbox>,
    tickets: Mutex<BTreeMap<String, Ticket>>,
}

impl Bench {
    fn new() -> Self {
        Self::with_recorder(None)
    }

    fn with_recorder(recorder: Option<Box<dyn Recorder>>) -> Self {
        let (script, inbox) = (Script::default(), Arc::<Inbox>::default());
        let parts = Parts {
            runtime: TestRuntime::default(),
            machine: script.clone(),
            inbox: Arc::clone(&inbox),
            notices: Arc::default(),
            recorder,
            frame_len_max: 16_777_212,
        };
        tokio::spawn(Driver::new(parts).run());
        Self {
            script,
            inbox,
            tickets: Mutex::default(),
        }
    }

    /// Gives the machine actions and wakes the driver with an event that means nothing.
    async fn act(&self, action: impl Into<Action>) {
        self.script.act([action.into()]);
        self.inbox
            .push(Command::App(AppEvent::Clock(WallTime::default())));
        let nudge = self.script.event().await;
        assert!(matches!(nudge, Event::App(AppEvent::Clock(_))), "{nudge:?}");
    }

    async fn net_event(&self) -> NetEvent {
        match self.script.event().await {
            Event::Net(event) => event,
            other => panic!("{other:?}"),
        }
    }

    /// A connection to a listener of the test.
    async fn connected(&self) -> TcpStream {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let addr = PeerAddr::new("127.0.0.1", listener.local_addr().unwrap().port());
        self.act(NetAction::Connect {
            conn: CONN,
            addr,
            tls: None,
        })
        .await;
        let (peer, _) = listener.accept().await.unwrap();
        assert_eq!(self.net_event().await, NetEvent::Connected { conn: CONN });
        peer
    }
}

#[tokio::test]
async fn frames_arrive_whole_and_exact_whatever_the_pieces() {
    let bench = Bench::new();
    let mut peer = bench.connected().await;
    let frames = [frame(10, 1), frame(0, 2), frame(300_000, 3), frame(9_000, 4)];
    let stream = frames.concat();
    let pieces: [usize; 5] = [3, 20, 9, 150_000, stream.len()];
    let mut sent = 0;
    for end in pieces {
        let end = end.max(sent).min(stream.len());
        peer.write_all(&stream[sent..end]).await.unwrap();
        peer.flush().await.unwrap();
        tokio::task::yield_now().await;
        sent = end;
    }
    for want in frames {
        assert_eq!(
            bench.net_event().await,
            NetEvent::Received {
                conn: CONN,
                bytes: want
            }
        );
    }
}

#[tokio::test]
async fn what_is_no_frame_reaches_the_machine_and_its_close_reaches_the_peer() {
    let bench = Bench::new();
    let mut peer = bench.connected().await;
    peer.write_all(b"HTTP/1.1 400").await.unwrap();
    let garbage = NetEvent::Received {
        conn: CONN,
        bytes: Bytes::from_static(b"HTTP/1.1 400"),
    };
    assert_eq!(bench.net_event().await, garbage);
    bench.act(NetAction::Close { conn: CONN }).await;
    assert_eq!(peer.read(&mut [0; 8]).await.unwrap(), 0, "the socket was closed");
    // Nothing is heard of a connection that the machine has closed.
    bench
        .act(NetAction::Send {
            conn: CONN,
            frame: frame(1, 1),
        })
        .await;
    assert_eq!(bench.script.try_event(), None);
}

#[tokio::test]
async fn half_a_frame_and_the_end_is_an_end_and_a_reset_is_a_reset() {
    let bench = Bench::new();
    let mut peer = bench.connected().await;
    peer.write_all(&frame(100, 1)[..50]).await.unwrap();
    drop(peer);
    assert_eq!(
        bench.net_event().await,
        NetEvent::Closed {
            conn: CONN,
            cause: NetCause::EndOfStream
        }
    );

    let mut peer = bench.connected().await;
    bench
        .act(NetAction::Send {
            conn: CONN,
            frame: frame(1, 1),
        })
        .await;
    assert_eq!(bench.net_event().await, NetEvent::Sent { conn: CONN, bytes: 9 });
    assert_eq!(peer.peek(&mut [0; 1]).await.unwrap(), 1);
    // Closing with unread bytes makes the system answer with a reset.
    peer.shutdown().await.unwrap_or_default();
    drop(peer);
    let closed = bench.net_event().await;
    assert!(matches!(
        closed,
        NetEvent::Closed {
            conn: CONN,
            cause: NetCause::Reset | NetCause::EndOfStream
        }
    ));
}

#[tokio::test]
async fn a_peer_that_stops_reading_is_not_waited_for() {
    let bench = Bench::new();
    let mut peer = bench.connected().await;
    let big = frame(8 << 20, 7);
    bench
        .act(NetAction::Send {
            conn: CONN,
            frame: big.clone(),
        })
        .await;
    let mut sent = 0;
    let mut count = |event| match event {
        NetEvent::Sent { conn: CONN, bytes } => sent += bytes as usize,
        other => panic!("{other:?}"),
    };
    // The system's buffers fill up; the driver still listens to everything else.
    count(bench.net_event().await);
    peer.write_all(&frame(3, 3)).await.unwrap();
    loop {
        match bench.net_event().await {
            NetEvent::Received { bytes, .. } => break assert_eq!(bytes, frame(3, 3)),
            event => count(event),
        }
    }
    let mut read = vec![0; big.len()];
    let reader = tokio::spawn(async move {
        peer.read_exact(&mut read).await.unwrap();
        (peer, read)
    });
    let (_peer, read) = reader.await.unwrap();
    assert!(read == big);
    while let Some(Event::Net(event)) = bench.script.try_event() {
        count(event);
    }
    assert_eq!(sent, big.len(), "every byte was accounted for");
}

#[tokio::test]
async fn attempts_that_fail_say_why() {
    let bench = Bench::new();
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let name = || PeerAddr::new("localhost", free);
    for (addr, tls, cause) in [
        (PeerAddr::new("127.0.0.1", free), None, NetCause::Refused),
        (
            PeerAddr::new("127.0.0.1", free),
            Some("broker".into()),
            NetCause::Tls,
        ),
        (name(), None, NetCause::NameUnknown),
    ] {
        bench
            .act(NetAction::Connect {
                conn: CONN,
                addr,
                tls,
            })
            .await;
        assert_eq!(
            bench.net_event().await,
            NetEvent::ConnectFailed { conn: CONN, cause }
        );
    }
    for (name, want) in [
        ("two", &["127.0.0.1".into(), "127.0.0.2".into()][..]),
        ("nobody", &[]),
    ] {
        bench
            .act(NetAction::Lookup {
                conn: CONN,
                name: name.into(),
            })
            .await;
        assert_eq!(
            bench.net_event().await,
            NetEvent::Resolved {
                conn: CONN,
                addresses: want.into()
            }
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_machine_is_woken_at_its_time_and_told_the_clock_every_hour() {
    let bench = Bench::new();
    bench.script.wake_at(Some(Instant::from_millis(10_000)));
    bench.act(NetAction::Close { conn: CONN }).await;
    // The wake-up moves away and comes back while the old timer still runs.
    bench.script.wake_at(Some(Instant::from_millis(50_000)));
    bench.act(NetAction::Close { conn: CONN }).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(bench.script.try_event(), None, "not yet");
    bench.script.wake_at(Some(Instant::from_millis(40_000)));
    bench.act(NetAction::Close { conn: CONN }).await;
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(bench.script.try_event(), Some(Event::Wakeup));
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!(
        bench.script.try_event(),
        Some(AppEvent::Clock(WallTime::from_unix_millis(1_700_000_000_000)).into())
    );
}

/// Takes runs and sends them back with a mark of its own.
struct Echo {
    inbox: Arc<Inbox>,
    delay: u64,
}

impl Desk for Echo {
    fn consume(&mut self, run: Run) {
        let outcome = Outcome::RetryAfter(Duration::from_secs(self.delay));
        self.inbox
            .report([Settled::all(run.id, run.range, Verdict::Handled(outcome))]);
    }

    fn withdraw(&mut self, id: ConsumeId) {
        self.inbox.report([Settled::all(
            id,
            RunRange {
                start: 0,
                end: u32::try_from(self.delay).unwrap(),
            },
            Verdict::NotStarted,
        )]);
    }

    fn cancel(&mut self, _id: ConsumeId, _position: u32) {}
    fn abandon(&mut self, _id: ConsumeId, _position: u32) {}
    fn resize(&mut self, permits: u32) {
        let range = RunRange {
            start: 0,
            end: permits,
        };
        self.inbox
            .report([Settled::all(RESIZED, range, Verdict::NotStarted)]);
    }
}

/// What [`Echo`] reports when it is resized.
const RESIZED: ConsumeId = ConsumeId {
    group: GroupKey {
        slot: 0,
        generation: 0,
    },
    run: 0,
};

impl Bench {
    async fn start(&self, group: &str, topic: &str, delay: u64) -> oneshot::Receiver<Result<(), StartError>> {
        let mut config = GroupConfig::new(group.into());
        config.subscribe(topic.into(), "*");
        let (reply, started) = oneshot::channel();
        let registration = Registration::new("driver@tests".into(), group.into()).unwrap();
        self.tickets
            .lock()
            .unwrap()
            .insert(group.into(), registration.ticket());
        let start = StartGroup {
            config: Arc::new(config),
            allocate: None,
            store: None,
            desk: Box::new(Echo {
                inbox: Arc::clone(&self.inbox),
                delay,
            }),
            notices: Arc::default(),
            registration,
            reply,
        };
        self.inbox.push(Command::Start(Box::new(start)));
        assert!(matches!(
            self.script.event().await,
            Event::App(AppEvent::StartGroup(_))
        ));
        started
    }

    async fn run(&self, slot: u32) -> Event {
        let id = ConsumeId {
            group: GroupKey { slot, generation: 1 },
            run: 1,
        };
        let range = RunRange { start: 0, end: 2 };
        self.act(AppAction::Consume {
            id,
            batch: batch(),
            range,
            attempt: 0,
        })
        .await;
        self.script.event().await
    }
}

fn started_as(group: &str, slot: u32) -> AppAction {
    let key = GroupKey { slot, generation: 1 };
    AppAction::GroupStarted {
        group: group.into(),
        key,
    }
}

fn marked(event: &Event) -> u64 {
    match event {
        Event::App(AppEvent::Consumed {
            report: rocketmq_consumer_core::event::Report::All(Verdict::Handled(Outcome::RetryAfter(delay))),
            ..
        }) => delay.as_secs(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn runs_find_the_group_they_belong_to() {
    let bench = Bench::new();
    for (group, slot, mark) in [("find-first", 0, 1), ("find-second", 1, 2), ("find-third", 7, 3)] {
        let _started = bench.start(group, "orders", mark).await;
        bench.act(started_as(group, slot)).await;
    }
    for (slot, mark) in [(1, 2), (0, 1), (7, 3), (1, 2)] {
        assert_eq!(marked(&bench.run(slot).await), mark);
    }
    bench
        .act(AppAction::Withdraw {
            id: ConsumeId {
                group: GroupKey {
                    slot: 7,
                    generation: 1,
                },
                run: 1,
            },
        })
        .await;
    let Event::App(AppEvent::Consumed { range, .. }) = bench.script.event().await else {
        panic!("no report")
    };
    assert_eq!(range.end, 3);
    // Nobody's run is lost: it is to come again.
    let Event::App(AppEvent::Consumed { report, range, .. }) = bench.run(9).await else {
        panic!("no report")
    };
    assert_eq!(
        (report, range.len()),
        (Report::All(Verdict::Handled(Outcome::Retry)), 2)
    );
}

#[tokio::test]
async fn a_desk_hears_only_of_a_concurrency_that_the_machine_takes() {
    let bench = Bench::new();
    let _started = bench.start("resized", "T", 0).await;
    for permits in [0, 1_001, u32::MAX, 5] {
        let group = ConsumerGroup::from("resized");
        let who = bench.tickets.lock().unwrap()["resized"];
        bench.inbox.push(Command::Concurrency { who, permits });
        let told = AppEvent::Concurrency { group, permits };
        assert_eq!(bench.script.event().await, told.into());
    }
    let Event::App(AppEvent::Consumed { id, range, .. }) = bench.script.event().await else {
        panic!("a report of the desk");
    };
    assert_eq!((id, range), (RESIZED, RunRange { start: 0, end: 5 }));
}

#[tokio::test]
async fn a_group_that_is_refused_gives_its_name_free_and_says_why() {
    let bench = Bench::new();
    let started = bench.start("refused", "orders", 1).await;
    let why = rocketmq_consumer_core::action::RefusalReason::ShuttingDown;
    let refusal = Refusal {
        group: Some("refused".into()),
        wish: "start",
        why: why.clone(),
    };
    bench.act(AppAction::Refused(Box::new(refusal))).await;
    assert_eq!(started.await.unwrap(), Err(StartError::Refused(why)));
    let started = bench.start("refused", "orders", 1).await;
    bench.act(started_as("refused", 0)).await;
    assert_eq!(started.await.unwrap(), Ok(()));
}

#[tokio::test]
async fn answers_find_their_callers_and_the_end_answers_everybody_else() {
    let bench = Bench::new();
    let call = |timeout| Call {
        id: CallId(0),
        to: Target::NameServer,
        code: 105,
        fields: Box::default(),
        body: Bytes::new(),
        timeout,
    };
    let mut answers = Vec::new();
    let mut ids = Vec::new();
    for _ in 0..2 {
        let (reply, answer) = oneshot::channel();
        bench.inbox.push(Command::Call {
            call: Box::new(call(Duration::from_secs(1))),
            reply,
        });
        let Event::App(AppEvent::Call(call)) = bench.script.event().await else {
            panic!("no call")
        };
        ids.push(call.id);
        answers.push(answer);
    }
    bench
        .act(AppAction::Answer {
            id: ids[1],
            result: Box::new(Err(CallError::Timeout)),
        })
        .await;
    assert_eq!(answers.pop().unwrap().await.unwrap(), Err(CallError::Timeout));
    let (reply, closed) = oneshot::channel();
    bench.inbox.push(Command::Shutdown {
        drain: Duration::ZERO,
        reply: Some(reply),
    });
    bench.script.event().await;
    bench
        .inbox
        .push(Command::App(AppEvent::Clock(WallTime::default())));
    bench.script.act([AppAction::Closed.into()]);
    bench
        .inbox
        .push(Command::App(AppEvent::Clock(WallTime::default())));
    assert_eq!(closed.await, Ok(()));
    assert_eq!(answers.pop().unwrap().await.unwrap(), Err(CallError::Closed));
}

/// Ends a recording, which takes its time.
struct SlowToEnd(Arc<Mutex<bool>>);

impl Recorder for SlowToEnd {
    fn start(&mut self, _: &ClientConfig, _: Seed, _: Instant, _: WallTime) {}

    fn event(&mut self, _: Instant, _: &Event) {}

    fn action(&mut self, _: &Action) {}
}

impl Drop for SlowToEnd {
    fn drop(&mut self) {
        std::thread::sleep(Duration::from_millis(50));
        *lock(&self.0) = true;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_is_whole_when_the_client_has_ended() {
    let whole = Arc::<Mutex<bool>>::default();
    let bench = Bench::with_recorder(Some(Box::new(SlowToEnd(Arc::clone(&whole)))));
    let (reply, closed) = oneshot::channel();
    bench.script.act([AppAction::Closed.into()]);
    bench.inbox.push(Command::Shutdown {
        drain: Duration::ZERO,
        reply: Some(reply),
    });
    assert_eq!(closed.await, Ok(()));
    assert!(*lock(&whole));
}

#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Recorder for Notes {
    fn start(&mut self, _: &ClientConfig, _: Seed, _: Instant, _: WallTime) {}

    fn event(&mut self, _now: Instant, event: &Event) {
        lock(&self.0).push(format!("{event:?}"));
    }

    fn action(&mut self, action: &Action) {
        lock(&self.0).push(format!("{action:?}"));
    }
}

#[tokio::test]
async fn a_recorder_sees_events_and_actions_in_their_order() {
    let notes = Notes::default();
    let bench = Bench::with_recorder(Some(Box::new(notes.clone())));
    bench
        .act(NetAction::Lookup {
            conn: CONN,
            name: "two".into(),
        })
        .await;
    bench.net_event().await;
    let seen = eventually(|| Some(lock(&notes.0).clone()).filter(|seen| seen.len() == 3)).await;
    for (line, want) in seen.iter().zip(["App(Clock", "Net(Lookup", "Net(Resolved"]) {
        assert!(line.starts_with(want), "{line}");
    }
}

/// What one group may have before another one's turn comes, counted in events and not in time: a budget of
/// commands and a budget for each connection.
#[tokio::test]
async fn a_connection_without_end_leaves_commands_their_turn() {
    let bench = Bench::new();
    let mut peer = bench.connected().await;
    let (frames, one) = (20 * BUDGET, frame(8, 1));
    let flood = one.repeat(frames);
    // The command comes from within the flood, so that nobody's pace but the driver's counts.
    let (inbox, mut received, mut before) = (Arc::clone(&bench.inbox), 0, Vec::new());
    let (told, answer) = std::sync::mpsc::channel();
    bench.script.on_event(move |event| {
        match event {
            Event::Net(NetEvent::Received { .. }) => received += 1,
            Event::App(_) => before.push(received),
            _ => {}
        }
        if received == 1 && before.is_empty() {
            inbox.push(Command::App(AppEvent::Clock(WallTime::default())));
        }
        if received == frames {
            let _again = told.send(before.clone());
        }
        Vec::new()
    });
    let writer = tokio::spawn(async move { peer.write_all(&flood).await.map(|()| peer) });
    let before = eventually(|| answer.try_recv().ok()).await;
    assert!(
        before.first().is_some_and(|before| *before <= 2 * BUDGET),
        "{before:?} of {frames} frames went before"
    );
    drop(writer.await.unwrap().unwrap());
}
