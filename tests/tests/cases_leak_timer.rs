//! Real bugs of other clients with leaks and clocks, one test each; `cases` tells their
//! stories.

use std::collections::BTreeMap;

use rocketmq_consumer_core::action::{Action, AppAction, CallError, NetAction};
use rocketmq_consumer_core::config::ClientConfig;
use rocketmq_consumer_core::consumer::ConsumerState;
use rocketmq_consumer_core::event::{AppEvent, Call, Event, NetCause, NetEvent, Target};
use rocketmq_consumer_core::ids::{CallId, PeerAddr};
use rocketmq_consumer_core::step::Seed;
use rocketmq_consumer_core::time::{Instant, WallTime};
use rocketmq_consumer_core::wire::code::RequestCode;
use rocketmq_consumer_core::wire::command::Header;
use rocketmq_consumer_core::wire::frame::{FRAME_LEN_MAX, Frame, HeaderForm};
use rocketmq_consumer_core::wire::request::heartbeat::HeartbeatRequest;
use rocketmq_consumer_core::wire::request::{Done, encode_answer};
use rocketmq_consumer_testing::world::{Bench, ORIGIN, address, ms, secs};

/// A machine with nothing but calls of the application on it.
struct Caller {
    state: ConsumerState,
    now: Instant,
    /// How each call ended.
    ends: BTreeMap<CallId, Result<(), CallError>>,
    sent: Vec<i32>,
    conn: Option<rocketmq_consumer_core::ids::ConnId>,
}

impl Caller {
    fn feed(&mut self, event: impl Into<Event>) {
        self.state.handle(self.now, event.into());
        while let Some(action) = self.state.poll_action() {
            match action {
                Action::Net(NetAction::Connect { conn, .. }) => {
                    self.conn = Some(conn);
                    self.state.handle(self.now, NetEvent::Connected { conn }.into());
                }
                Action::Net(NetAction::Send { conn, frame }) => {
                    let bytes = u32::try_from(frame.len()).expect("a small frame");
                    let frame = Frame::parse(frame, FRAME_LEN_MAX).expect("a frame");
                    self.sent.push(Header::of(&frame).expect("a header").opaque);
                    self.state.handle(self.now, NetEvent::Sent { conn, bytes }.into());
                }
                Action::App(AppAction::Answer { id, result }) => {
                    let again = self.ends.insert(id, result.map(|_| ()));
                    assert_eq!(again, None, "{id:?} ended twice");
                }
                Action::Net(_) | Action::App(_) | Action::Store(_) | _ => {}
            }
        }
    }
}

#[test]
fn lk_01_every_request_ends_once_and_leaves_nothing() {
    let config = ClientConfig::new("c1".into(), vec![PeerAddr::new("10.0.1.1", 9876)]);
    let state = ConsumerState::new(config, Seed(1), Instant::ZERO, ORIGIN).expect("defaults");
    let mut caller = Caller {
        state,
        now: Instant::ZERO,
        ends: BTreeMap::new(),
        sent: Vec::new(),
        conn: None,
    };
    let mut next = 0..100_800_u64;
    let call = |id| Call {
        id: CallId(id),
        to: Target::Address(address("a")),
        code: RequestCode::SEND_MESSAGE_V2.0,
        fields: Box::default(),
        body: bytes::Bytes::new(),
        timeout: secs(3),
    };
    // In each round a third is answered, a third is given up, and a third goes with its connection.
    while !next.is_empty() {
        for third in 0..3 {
            for id in next.by_ref().take(300) {
                caller.feed(AppEvent::Call(Box::new(call(id))));
            }
            // A link that had broken is dialled again.
            while caller.sent.is_empty() && !next.is_empty() {
                caller.now = caller.now + ms(100);
                caller.feed(Event::Wakeup);
            }
            let conn = caller.conn.expect("dialled by the first call");
            let sent = std::mem::take(&mut caller.sent);
            match third {
                0 => {
                    for opaque in sent {
                        let bytes = encode_answer(HeaderForm::Json, opaque, &Done).expect("small");
                        caller.feed(NetEvent::Received { conn, bytes });
                    }
                }
                1 => {
                    caller.now = caller.now + secs(3);
                    caller.feed(Event::Wakeup);
                }
                _ => {
                    let cause = NetCause::Reset;
                    caller.feed(NetEvent::Closed { conn, cause });
                }
            }
        }
    }
    caller.now = caller.now + secs(10);
    caller.feed(Event::Wakeup);
    assert_eq!(caller.ends.len(), 100_800);
    let ended = |wanted: &Result<(), CallError>| caller.ends.values().filter(|end| *end == wanted).count();
    let (answered, timed_out, closed) = (
        ended(&Ok(())),
        ended(&Err(CallError::Timeout)),
        ended(&Err(CallError::Closed)),
    );
    assert!(
        answered.min(timed_out).min(closed) >= 33_600,
        "{answered} {timed_out} {closed}"
    );
    assert!(caller.state.status().links.iter().all(|link| link.requests == 0));
}

#[test]
fn tm_01_versions_rise_whatever_the_wall_clock_does() {
    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), "*");
    });
    bench.set_queues("T", &[("a", 2)]);
    bench.settle();
    let hour = 3_600_000;
    let mut shares = [["c0", "c1"], ["c1", "c1"]].iter().cycle();
    for shift in [-hour, -hour, 0, -hour, hour, 0] {
        let wall = ORIGIN.as_unix_millis() + shift;
        bench.tell(AppEvent::Clock(WallTime::from_unix_millis(wall)));
        bench.set_members(shares.next().expect("a cycle"));
        bench.notify("a");
        bench.sleep(secs(1));
    }
    let versions: Vec<i64> = bench
        .sent(RequestCode::HEART_BEAT)
        .iter()
        .map(|beat| {
            let data: HeartbeatRequest = beat.request();
            let subscriptions = data.consumers.iter().flat_map(|group| &group.subscriptions);
            let of_t = subscriptions.filter(|subscription| subscription.topic.as_str() == "T");
            of_t.map(|s| s.sub_version.as_unix_millis())
                .max()
                .expect("it subscribes")
        })
        .collect();
    assert!(versions.len() >= 6, "{versions:?}");
    let latest = ORIGIN.as_unix_millis() + hour;
    assert!(
        versions.last().is_some_and(|version| *version >= latest),
        "it follows a clock that is set forward: {versions:?}"
    );
    assert!(versions.is_sorted(), "{versions:?}");
    let mut distinct = versions.clone();
    distinct.dedup();
    assert!(distinct.len() >= 6, "one for each change: {versions:?}");
}
