//! Links and requests by their behaviour: each event, and everything that comes out of it in order.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::iter;

use super::*;
use crate::ids::ClientId;
use crate::step::{Outbox, Rng, Seed, Timers};
use crate::wire::frame::FRAME_LEN_MAX;

const A: &str = "10.0.0.1:9876";
const B: &str = "10.0.0.2:9876";
const NAMED: &str = "ns.local:9876";
const NOTHING: [&str; 0] = [];

/// The frame of a header without anything.
const GOOD: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0];

fn addr(text: &str) -> PeerAddr {
    text.parse().unwrap()
}

struct Bench {
    rpc: Rpc<u32>,
    now: Instant,
    timers: Timers<RpcTimer>,
    out: Outbox<NetAction>,
    rng: Rng,
}

impl Bench {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut ClientConfig)) -> Self {
        let mut config = ClientConfig::new(ClientId::from("me"), vec![addr(A)]);
        change(&mut config);
        Self {
            rpc: Rpc::new(&config),
            now: Instant::ZERO,
            timers: Timers::new(),
            out: Outbox::new(),
            rng: Rng::new(Seed(1)),
        }
    }

    /// With a link to `A` that stands since 0 ms.
    fn up(mut self) -> Self {
        self.request(A, 0, 3_000);
        self.connect(A);
        let opaque = self.opaque_of(0);
        self.answer(A, opaque);
        self.words();
        self
    }

    fn step<R>(&mut self, step: impl FnOnce(&mut Rpc<u32>, &mut Cx<'_, RpcTimer, NetAction>) -> R) -> R {
        let mut cx = Cx {
            now: self.now,
            timers: &mut self.timers,
            out: &mut self.out,
            rng: &mut self.rng,
        };
        step(&mut self.rpc, &mut cx)
    }

    fn at(&mut self, ms: u64) {
        self.now = Instant::from_millis(ms);
    }

    /// Fires what is due.
    fn wake(&mut self, ms: u64) {
        self.at(ms);
        while let Some(timer) = self.timers.pop_due(self.now) {
            self.step(|rpc, cx| rpc.on_timer(cx, timer));
        }
    }

    fn request(&mut self, to: &str, purpose: u32, deadline_ms: u64) {
        self.ask(to, purpose, deadline_ms, Patience::UntilDeadline);
    }

    /// Asks with a frame that holds nothing but the number.
    fn ask(&mut self, to: &str, purpose: u32, deadline_ms: u64, patience: Patience) {
        let to = addr(to);
        let out = Outgoing {
            to: &to,
            deadline: Instant::from_millis(deadline_ms),
            patience,
            elsewhere: true,
            purpose,
        };
        let frame = |opaque: i32| Ok(Bytes::from(opaque.to_be_bytes().to_vec()));
        self.step(|rpc, cx| rpc.request(cx, out, frame));
    }

    fn net(&mut self, event: NetEvent) {
        self.step(|rpc, cx| rpc.on_net(cx, event));
    }

    fn connect(&mut self, to: &str) {
        let conn = self.conn(to);
        self.net(NetEvent::Connected { conn });
    }

    fn refuse(&mut self, to: &str) {
        let conn = self.conn(to);
        let cause = NetCause::Refused;
        self.net(NetEvent::ConnectFailed { conn, cause });
    }

    fn close(&mut self, to: &str) {
        let conn = self.conn(to);
        let cause = NetCause::Reset;
        self.net(NetEvent::Closed { conn, cause });
    }

    /// Bytes arrive; returns how many whole frames they made.
    fn receive(&mut self, from: &str, bytes: &'static [u8]) -> usize {
        let conn = self.conn(from);
        let bytes = Bytes::from_static(bytes);
        self.net(NetEvent::Received { conn, bytes });
        let frames = iter::from_fn(|| self.step(|rpc, cx| rpc.next_frame(cx, conn))).count();
        if frames > 0 {
            self.rpc.proved(conn);
        }
        frames
    }

    /// An answer arrives; returns the purpose of the request it ends.
    fn answer(&mut self, from: &str, opaque: i32) -> Option<u32> {
        let conn = self.conn(from);
        assert_eq!(self.receive(from, GOOD), 1);
        self.step(|rpc, cx| rpc.complete(cx, conn, opaque))
    }

    /// The connection that leads to an address now.
    fn conn(&self, to: &str) -> ConnId {
        let slot = self.rpc.by_addr[&addr(to)];
        self.rpc.links[slot as usize].as_ref().unwrap().conn
    }

    /// The number of a request that has not ended.
    fn opaque_of(&self, purpose: u32) -> i32 {
        let mut all = (0..4_096).chain([i32::MAX - 1, i32::MAX]);
        let is_it = |opaque: &i32| self.rpc.pending.purpose(*opaque) == Some(&purpose);
        all.find(is_it).expect("a request of that purpose is open")
    }

    fn status(&self, of: &str) -> LinkStatus {
        let all = self.rpc.status();
        all.into_iter().find(|link| link.addr == addr(of)).unwrap()
    }

    /// How long the link waits before it is dialled again.
    fn pause(&self) -> Option<u64> {
        let at = self.timers.deadline(RpcTimer::Redial(0))?;
        Some(u64::try_from(at.saturating_since(self.now).as_millis()).unwrap())
    }

    /// Takes everything that came out, actions first, in words.
    fn words(&mut self) -> Vec<String> {
        let mut words = Vec::new();
        while let Some(action) = self.out.pop() {
            words.push(match action {
                NetAction::Lookup { conn, name } => format!("lookup {name} for {}", conn.generation),
                NetAction::Connect { conn, addr, .. } => format!("connect {addr} as {}", conn.generation),
                NetAction::Send { conn, frame } => {
                    let opaque = i32::from_be_bytes(*frame.first_chunk().unwrap());
                    format!("send {opaque} on {}", conn.generation)
                }
                NetAction::Close { conn } => format!("close {}", conn.generation),
            });
        }
        while let Some(signal) = self.rpc.pop_signal() {
            words.push(match signal {
                RpcSignal::Failed { purpose, error } => format!("{purpose} failed: {error}"),
                RpcSignal::Up { again, .. } => if again { "up again" } else { "up" }.to_owned(),
                RpcSignal::Down {
                    trouble, failures, ..
                } => format!("down: {trouble:?}, {failures} in a row"),
                RpcSignal::Misbehaved { why, .. } => format!("misbehaved: {why}"),
            });
        }
        words
    }
}

mod going_away;

// ---- dialling -----------------------------------------------------------------------------------

#[test]
fn back_off_doubles_from_100_ms_to_1_s_and_after_five_minutes_to_10_s() {
    let mut t = Bench::new();
    t.request(A, 1, 3_600_000);
    let mut pauses = Vec::new();
    while t.now < Instant::from_millis(400_000) {
        t.refuse(A);
        let pause = t.pause().unwrap();
        pauses.push((t.now.as_millis(), pause));
        let before = t.words();
        assert_eq!(
            before.len(),
            1 + usize::from(before[0].starts_with("connect")),
            "{before:?}"
        );
        t.wake(t.now.as_millis() + pause + 1);
    }
    for (attempt, (at, pause)) in pauses.iter().enumerate() {
        let base = match (attempt, at) {
            (0..=3, _) => 100 << attempt,
            (_, ..300_000) => 1_000,
            (_, 300_000..) => 10_000,
        };
        assert!(
            (base * 8 / 10..=base * 12 / 10).contains(pause),
            "attempt {attempt} at {at} ms pauses {pause} ms"
        );
    }
    let short: Vec<u64> = pauses
        .iter()
        .map(|(_, pause)| *pause)
        .filter(|p| *p < 1_300)
        .collect();
    assert!(
        short.iter().any(|p| *p < 900) && short.iter().any(|p| *p > 1_100),
        "there is jitter"
    );
}

#[test]
fn only_a_good_frame_ends_an_outage() {
    for (frame, pause) in [(&b""[..], 200), (GOOD, 100)] {
        let mut t = Bench::new();
        t.request(A, 1, 60_000);
        t.refuse(A);
        t.wake(200);
        t.connect(A);
        t.receive(A, frame);
        t.close(A);
        let next = t.pause().unwrap();
        assert!(
            (pause * 8 / 10..=pause * 12 / 10).contains(&next),
            "{frame:?}: {next}"
        );
    }
}

#[test]
fn an_attempt_that_hangs_is_given_up_after_3_s() {
    let mut t = Bench::new();
    t.request(A, 1, 60_000);
    assert_eq!(t.words(), ["connect 10.0.0.1:9876 as 1"]);
    t.wake(2_999);
    assert_eq!(t.words(), NOTHING);
    t.wake(3_000);
    assert_eq!(t.words(), ["close 1", "down: Net(TimedOut), 1 in a row"]);
    t.connect(A);
    assert_eq!(
        (t.words(), t.rpc.counters().stale_net_events),
        (vec![], 1),
        "it came too late"
    );
    t.wake(3_120);
    assert_eq!(
        t.words(),
        ["connect 10.0.0.1:9876 as 2"],
        "the request still waits"
    );
    t.connect(A);
    assert_eq!(t.words(), ["send 0 on 2", "up again"]);
}

#[test]
fn a_link_nobody_waits_for_is_not_dialled_again() {
    let mut t = Bench::new().up();
    t.close(A);
    t.words();
    t.wake(1_000);
    assert_eq!(
        (t.words(), t.status(A).state),
        (vec![], crate::status::LinkState::Idle)
    );
    t.request(A, 1, 5_000);
    assert_eq!(t.words(), ["connect 10.0.0.1:9876 as 2"], "until somebody does");
}

#[test]
fn names_are_looked_up_for_every_attempt_and_their_addresses_take_turns() {
    let mut t = Bench::new();
    t.request(NAMED, 1, 60_000);
    for (attempt, addresses, words) in [
        (
            1,
            &["10.0.0.7", "10.0.0.8"][..],
            &["connect 10.0.0.7:9876 as 1"][..],
        ),
        (2, &["10.0.0.7", "10.0.0.8"], &["connect 10.0.0.8:9876 as 2"]),
        (3, &["::1"], &["connect [::1]:9876 as 3"]),
        (4, &[], &["down: Net(NameUnknown), 4 in a row"]),
    ] {
        assert_eq!(t.words(), [format!("lookup ns.local for {attempt}")]);
        let conn = t.conn(NAMED);
        let addresses = addresses.iter().map(|text| (*text).into()).collect();
        t.net(NetEvent::Resolved { conn, addresses });
        assert_eq!(t.words(), words);
        t.refuse(NAMED);
        t.words();
        t.wake(attempt * 2_000);
    }
    assert_eq!(
        t.rpc.counters().stale_net_events,
        1,
        "only the last refusal was about nothing"
    );
}

#[test]
fn a_lookup_that_hangs_is_an_attempt_that_hangs() {
    let mut t = Bench::new();
    t.request(NAMED, 1, 60_000);
    t.words();
    t.wake(3_000);
    assert_eq!(t.words(), ["close 1", "down: Net(TimedOut), 1 in a row"]);
}

#[test]
fn a_mapped_address_is_dialled_in_place_of_the_registered_one() {
    let mut t = Bench::with(|config| {
        config.set_address_map(vec![(addr(A), addr("127.0.0.1:1"))]);
    });
    t.request(A, 1, 3_000);
    assert_eq!(t.words(), ["connect 127.0.0.1:1 as 1"]);
    assert_eq!(t.status(A).addr, addr(A), "and known by the registered one");
}

// ---- requests -----------------------------------------------------------------------------------

#[test]
fn requests_wait_for_the_link_and_are_written_in_order() {
    let mut t = Bench::new();
    for purpose in [1, 2, 3] {
        t.request(A, purpose, 3_000);
    }
    t.connect(A);
    t.request(A, 4, 3_000);
    assert_eq!(
        t.words(),
        [
            "connect 10.0.0.1:9876 as 1",
            "send 0 on 1",
            "send 1 on 1",
            "send 2 on 1",
            "send 3 on 1",
            "up"
        ]
    );
    assert_eq!(
        (t.answer(A, 2), t.answer(A, 0)),
        (Some(3), Some(1)),
        "answers come in any order"
    );
    assert_eq!(t.status(A).requests, 2);
}

#[test]
fn a_deadline_tells_whether_the_request_was_ever_written() {
    for (written, words) in [
        (false, &["1 failed: cannot connect to 10.0.0.1:9876"]),
        (true, &["1 failed: no answer in time"]),
    ] {
        let mut t = Bench::new();
        t.request(A, 1, 2_000);
        if written {
            t.connect(A);
        }
        t.words();
        t.wake(1_999);
        assert_eq!(t.words(), NOTHING);
        t.wake(2_000);
        assert_eq!(t.words(), words);
        assert!(t.rpc.pending.is_empty(), "a request ends once");
        if !written {
            t.connect(A);
            assert_eq!(t.words(), ["up"], "what has failed is not written any more");
        }
    }
}

#[test]
fn a_closed_connection_fails_what_was_written_and_nothing_else() {
    let mut t = Bench::new().up();
    t.request(A, 1, 60_000);
    t.request(A, 2, 60_000);
    t.words();
    t.close(A);
    t.request(A, 3, 60_000);
    assert_eq!(
        t.words(),
        [
            "down: Net(Reset), 1 in a row",
            "1 failed: the connection was lost",
            "2 failed: the connection was lost"
        ]
    );
    t.wake(120);
    t.connect(A);
    assert_eq!(
        t.words(),
        ["connect 10.0.0.1:9876 as 2", "send 3 on 2", "up again"]
    );
}

#[test]
fn an_impatient_request_ends_with_the_first_failed_attempt() {
    let mut t = Bench::new();
    t.ask(A, 1, 60_000, Patience::FailFast);
    t.request(A, 2, 60_000);
    t.words();
    t.refuse(A);
    assert_eq!(
        t.words(),
        [
            "down: Net(Refused), 1 in a row",
            "1 failed: cannot connect to 10.0.0.1:9876"
        ]
    );
    t.wake(120);
    t.connect(A);
    assert_eq!(
        t.words(),
        ["connect 10.0.0.1:9876 as 2", "send 1 on 2", "up again"]
    );
}

#[test]
fn numbers_wrap_behind_the_largest_and_skip_those_in_use() {
    let mut t = Bench::new();
    t.request(A, 1, 60_000);
    t.rpc.pending.start_at(i32::MAX - 1);
    for purpose in [2, 3, 4] {
        t.request(A, purpose, 60_000);
    }
    t.connect(A);
    let sent: Vec<String> = t
        .words()
        .into_iter()
        .filter(|word| word.starts_with("send"))
        .collect();
    assert_eq!(
        sent,
        [
            "send 0 on 1",
            "send 2147483646 on 1",
            "send 2147483647 on 1",
            "send 1 on 1"
        ]
    );
    assert_eq!(t.answer(A, 0), Some(1), "0 still means the first");
}

#[test]
fn answers_nobody_waits_for_are_counted() {
    let mut t = Bench::new().up();
    t.request(A, 1, 3_000);
    t.request(B, 2, 3_000);
    let (to_a, to_b) = (t.opaque_of(1), t.opaque_of(2));
    for (what, opaque) in [
        ("a number never given", 99),
        ("a negative number", -1),
        ("a request that waits for another link", to_b),
    ] {
        assert_eq!(t.answer(A, opaque), None, "{what}");
    }
    t.connect(B);
    assert_eq!(t.answer(A, to_b), None, "a request written to another link");
    assert_eq!(t.answer(A, to_a), Some(1));
    assert_eq!(t.answer(A, to_a), None, "twice");
    t.words();
    t.wake(3_000);
    assert_eq!(t.answer(B, to_b), None, "late");
    assert_eq!(
        (t.words(), t.rpc.counters().late_answers),
        (vec!["2 failed: no answer in time".into()], 6)
    );
}

/// LP-09: the answer and the deadline in one batch, in both orders.
#[test]
fn answer_and_deadline_meet_and_one_of_them_counts() {
    for (answer_first, ended, failed) in [
        (true, Some(1), &[][..]),
        (false, None, &["1 failed: no answer in time"]),
    ] {
        let mut t = Bench::new().up();
        t.rpc.pending.start_at(42);
        t.request(A, 1, 3_000);
        t.words();
        let got;
        if answer_first {
            t.at(3_000);
            got = t.answer(A, 42);
            t.wake(3_000);
        } else {
            t.wake(3_000);
            got = t.answer(A, 42);
        }
        assert_eq!(
            (got, t.words()),
            (ended, failed.iter().map(|f| (*f).into()).collect())
        );
        // The same answer once more, while a newer request has come round to the number.
        t.rpc.pending.start_at(42);
        t.close(A);
        t.request(A, 2, 9_000);
        assert_eq!(t.rpc.pending.purpose(42), Some(&2));
        t.wake(3_200);
        let late = t.step(|rpc, cx| {
            rpc.complete(
                cx,
                ConnId {
                    slot: 0,
                    generation: 1,
                },
                42,
            )
        });
        assert_eq!(late, None, "it was not written yet, so this cannot be its answer");
    }
}

#[test]
fn one_way_frames_go_out_on_a_standing_link_only() {
    let mut t = Bench::new().up();
    let frame = || Bytes::from_static(&[0, 0, 0, 77]);
    let conn = t.conn(A);
    t.step(|rpc, cx| rpc.send(cx, conn, frame()));
    assert_eq!(t.words(), ["send 77 on 1"]);
    t.close(A);
    t.words();
    t.step(|rpc, cx| rpc.send(cx, conn, frame()));
    assert_eq!(t.words(), NOTHING);
    t.request(A, 1, 9_000);
    t.wake(200);
    t.connect(A);
    t.words();
    t.step(|rpc, cx| rpc.send(cx, conn, frame()));
    assert_eq!(t.words(), NOTHING, "an answer to a former life belongs to nobody");
}

// ---- limits -------------------------------------------------------------------------------------

#[test]
fn a_link_takes_only_so_many_requests() {
    let mut t = Bench::with(|config| {
        config.set_requests_per_link_max(2);
    });
    for purpose in [1, 2, 3] {
        t.request(A, purpose, 3_000);
    }
    t.request(B, 4, 3_000);
    assert_eq!(
        t.words(),
        [
            "connect 10.0.0.1:9876 as 1",
            "connect 10.0.0.2:9876 as 2",
            "3 failed: too much waits for this peer already"
        ]
    );
    t.connect(A);
    t.words();
    assert_eq!(t.answer(A, 0), Some(1));
    t.request(A, 5, 3_000);
    assert_eq!(t.words(), ["send 3 on 1"], "an answer makes room");
}

#[test]
fn a_slow_peer_is_owed_only_so_many_bytes() {
    let mut t = Bench::with(|config| {
        config.set_send_queue_bytes_max(65_536);
    })
    .up();
    let to = addr(A);
    let big = |t: &mut Bench, purpose| {
        let out = Outgoing {
            to: &to,
            deadline: Instant::from_millis(3_000),
            patience: Patience::UntilDeadline,
            elsewhere: true,
            purpose,
        };
        t.step(|rpc, cx| rpc.request(cx, out, |_| Ok(Bytes::from(vec![0; 40_000]))));
        t.words()
    };
    assert_eq!(big(&mut t, 1), ["send 0 on 1"]);
    assert_eq!(big(&mut t, 2), ["send 0 on 1"], "the limit was not passed yet");
    assert_eq!(big(&mut t, 3), ["3 failed: too much waits for this peer already"]);
    let conn = t.conn(A);
    t.step(|rpc, cx| rpc.send(cx, conn, Bytes::from_static(&[0; 4])));
    assert_eq!(t.words(), NOTHING, "what nobody waits for is dropped");
    // The four bytes of the request that made the link stand were never reported as written.
    t.net(NetEvent::Sent { conn, bytes: 40_004 });
    assert_eq!(big(&mut t, 4), ["send 0 on 1"]);
}

#[test]
fn a_request_that_is_too_large_fails_alone() {
    let mut t = Bench::new();
    let to = addr(A);
    let out = Outgoing {
        to: &to,
        deadline: Instant::from_millis(3_000),
        patience: Patience::UntilDeadline,
        elsewhere: true,
        purpose: 1,
    };
    let too_large = FrameError::NotWhole { given: 0 };
    t.step(|rpc, cx| rpc.request(cx, out, |_| Err(too_large)));
    assert_eq!(
        t.words(),
        ["1 failed: the answer is malformed: 0 bytes are not exactly one frame"]
    );
    assert_eq!((t.status(A).requests, t.timers.next()), (0, None));
}

// ---- peers that do wrong -------------------------------------------------------------------------

#[test]
fn a_peer_that_sends_no_frames_loses_its_link() {
    for (bytes, why) in [
        (
            &b"PRI * HTTP/2.0\r\n\r\n"[..],
            "frame length 1347569952 is not within 4 to 16777212 bytes; the peer speaks HTTP",
        ),
        (
            &[0, 0, 0, 2, 0, 0],
            "frame length 2 is not within 4 to 16777212 bytes",
        ),
        (&[0, 0, 0, 4, 9, 0, 0, 0], "unknown header form 9"),
    ] {
        let mut t = Bench::new().up();
        t.request(A, 1, 60_000);
        t.words();
        assert_eq!(t.receive(A, bytes), 0);
        assert_eq!(
            t.words(),
            [
                "close 1".to_owned(),
                format!("misbehaved: {why}"),
                "down: Misbehaved, 1 in a row".to_owned(),
                "1 failed: the connection was lost".to_owned()
            ]
        );
        assert!(t.pause().is_some());
        assert_eq!(
            (t.receive(A, GOOD), t.words()),
            (0, vec![]),
            "it is not listened to any more"
        );
    }
    assert_eq!(FRAME_LEN_MAX, 16_777_212);
}

#[test]
fn events_of_a_former_life_change_nothing() {
    let mut t = Bench::new().up();
    let old = t.conn(A);
    t.request(A, 1, 60_000);
    t.close(A);
    t.request(A, 2, 60_000);
    t.wake(200);
    t.connect(A);
    t.words();
    let cause = NetCause::Reset;
    let bytes = Bytes::from_static(GOOD);
    for event in [
        NetEvent::Connected { conn: old },
        NetEvent::ConnectFailed { conn: old, cause },
        NetEvent::Closed { conn: old, cause },
        NetEvent::Received { conn: old, bytes },
        NetEvent::Sent { conn: old, bytes: 4 },
        NetEvent::Resolved {
            conn: old,
            addresses: [].into(),
        },
        NetEvent::Connected {
            conn: ConnId {
                slot: 9,
                generation: 1,
            },
        },
    ] {
        t.net(event);
    }
    assert_eq!((t.words(), t.rpc.counters().stale_net_events), (vec![], 7));
    assert_eq!((t.rpc.addr(old), t.rpc.want(old)), (None, 0));
    assert_eq!(t.step(|rpc, cx| rpc.next_frame(cx, old)), None);
    assert_eq!(t.answer(A, t.opaque_of(2)), Some(2));
}

// ---- the way out --------------------------------------------------------------------------------

#[test]
fn a_forgotten_address_takes_its_requests_and_timers_along() {
    for up in [true, false] {
        let mut t = Bench::new();
        t.request(A, 1, 3_000);
        if up {
            t.connect(A);
        }
        t.words();
        t.step(|rpc, cx| rpc.forget(cx, &addr(A)));
        assert_eq!(t.words(), ["close 1", "1 failed: the connection was lost"]);
        assert_eq!((t.timers.next(), t.rpc.status().count()), (None, 0));
        t.request(B, 2, 3_000);
        assert_eq!(
            t.conn(B),
            ConnId {
                slot: 0,
                generation: 2
            },
            "its place is used again, its name never"
        );
    }
}

#[test]
fn who_leaves_dials_each_link_once_more_at_most() {
    let mut t = Bench::new();
    t.request(A, 1, 60_000);
    t.refuse(A);
    t.step(|rpc, _| rpc.leave());
    t.words();
    t.wake(120);
    assert_eq!(t.words(), ["connect 10.0.0.1:9876 as 2"]);
    t.refuse(A);
    t.words();
    t.wake(1_000);
    assert_eq!(t.words(), ["1 failed: cannot connect to 10.0.0.1:9876"]);
    t.request(A, 2, 60_000);
    assert_eq!(
        t.words(),
        ["2 failed: cannot connect to 10.0.0.1:9876"],
        "at once"
    );
    t.request(B, 3, 60_000);
    assert_eq!(
        t.words(),
        ["connect 10.0.0.2:9876 as 4"],
        "a new address has its one attempt too"
    );
}

#[test]
fn closing_everything_ends_every_request_and_timer() {
    let mut t = Bench::new().up();
    t.request(A, 1, 3_000);
    t.request(NAMED, 2, 3_000);
    t.words();
    t.step(|rpc, cx| rpc.close_all(cx));
    assert_eq!(
        t.words(),
        [
            "close 1",
            "close 2",
            "1 failed: the connection was lost",
            "2 failed: the connection was lost"
        ]
    );
    assert_eq!((t.timers.next(), t.rpc.pending.is_empty()), (None, true));
}

// ---- silence ------------------------------------------------------------------------------------

/// When the link is closed, if a request is sent at 1 s and frames of the peer, or their first bytes, come at these
/// times.
#[test]
fn a_link_is_closed_when_a_request_is_late_and_nothing_came_for_10_s() {
    const WHOLE: &[u8] = b"\0\0\0\x25\0\0\0\x21{\"code\":0,\"opaque\":9999,\"flag\":1}";
    const BEGUN: &[u8] = &[0];
    for (deadline, bytes, bytes_at, closed_at) in [
        (4_000, WHOLE, &[][..], Some(11_000)),
        (24_000, WHOLE, &[], Some(24_000)),
        (4_000, WHOLE, &[1_000], Some(11_000)),
        (4_000, WHOLE, &[2_000], None),
        (4_000, WHOLE, &[5_000], None),
        (24_000, WHOLE, &[23_000], None),
        // A frame that was begun and does not go on is silence too, from its last byte on.
        (4_000, BEGUN, &[2_000], Some(12_000)),
        (4_000, BEGUN, &[5_000], Some(15_000)),
        (4_000, BEGUN, &[2_000, 9_000], Some(19_000)),
        (24_000, BEGUN, &[12_000], Some(24_000)),
    ] {
        let mut t = Bench::new().up();
        t.at(1_000);
        t.request(A, 1, deadline);
        t.words();
        let mut closed = None;
        for ms in (1_000..=30_000).step_by(500) {
            t.wake(ms);
            if t.words().iter().any(|word| word == "down: Silent, 1 in a row") {
                closed.get_or_insert(ms);
            }
            if bytes_at.contains(&ms) {
                t.receive(A, bytes);
            }
        }
        assert_eq!(
            closed, closed_at,
            "deadline {deadline}, {bytes:?} at {bytes_at:?}"
        );
    }
}

/// A first request is late, then something comes, and before that suspicion is judged a second request is late to
/// which nothing comes.
#[test]
fn a_suspicion_that_was_refuted_does_not_hide_the_next_one() {
    const WHOLE: &[u8] = b"\0\0\0\x25\0\0\0\x21{\"code\":0,\"opaque\":9999,\"flag\":1}";
    let mut t = Bench::new().up();
    t.at(1_000);
    t.request(A, 1, 4_000);
    t.wake(4_000);
    t.at(5_000);
    t.receive(A, WHOLE);
    t.at(7_000);
    t.request(A, 2, 10_000);
    t.words();
    for (ms, closes) in [(10_000, false), (11_000, false), (16_999, false), (17_000, true)] {
        t.wake(ms);
        let is_closed = t.words().iter().any(|word| word == "down: Silent, 1 in a row");
        assert_eq!(is_closed, closes, "at {ms}");
    }
}

#[test]
fn a_request_written_as_the_link_came_up_can_find_it_silent() {
    let mut t = Bench::new();
    t.request(A, 1, 12_000);
    t.connect(A);
    t.request(A, 2, 60_000);
    t.words();
    t.wake(12_000);
    assert_eq!(
        t.words(),
        [
            "close 1",
            "1 failed: no answer in time",
            "down: Silent, 1 in a row",
            "2 failed: the connection was lost"
        ]
    );
}
