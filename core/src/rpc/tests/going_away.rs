//! A peer that answers 1500: what becomes of its link, of what was asked, and of what is under way.

use super::*;
use crate::rpc::going_away::KEPT_BYTES_MAX;
use crate::status::LinkState;

/// A link to `A` that has stood for a minute.
fn old_link() -> Bench {
    let mut t = Bench::new().up();
    t.at(60_000);
    t
}

impl Bench {
    /// The peer of a connection goes away instead of answering.
    fn go_away(&mut self, conn: ConnId, purpose: u32) {
        let opaque = self.opaque_of(purpose);
        self.step(|rpc, cx| rpc.go_away(cx, conn, opaque));
    }

    /// Asks for something that belongs to its connection.
    fn ask_here(&mut self, purpose: u32, deadline_ms: u64) {
        let to = addr(A);
        let out = Outgoing {
            to: &to,
            deadline: Instant::from_millis(deadline_ms),
            patience: Patience::UntilDeadline,
            elsewhere: false,
            purpose,
        };
        let frame = |opaque: i32| Ok(Bytes::from(opaque.to_be_bytes().to_vec()));
        self.step(|rpc, cx| rpc.request(cx, out, frame));
    }
}

#[test]
fn the_request_is_sent_once_more_on_a_new_link_and_what_is_under_way_may_be_answered() {
    let mut t = old_link();
    let old = t.conn(A);
    t.ask_here(1, 83_000);
    t.request(A, 2, 63_000);
    let (under_way, moved) = (t.opaque_of(1), t.opaque_of(2));
    t.words();
    t.go_away(old, 2);
    assert_eq!(
        t.words(),
        ["connect 10.0.0.1:9876 as 2", "down: GoneAway, 0 in a row"]
    );
    assert!(!t.rpc.is_current(old));
    t.connect(A);
    assert_eq!(t.words(), [format!("send {moved} on 2"), "up again".to_owned()]);
    assert_eq!(t.answer(A, moved), Some(2));
    assert!(t.rpc.is_current(t.conn(A)));
    // A pull that is held there is answered there; then nothing is left to wait for.
    assert_eq!(t.step(|rpc, cx| rpc.complete(cx, old, under_way)), Some(1));
    assert_eq!(t.words(), ["close 1"]);
    let end = t.timers.next().cloned();
    assert_eq!((t.rpc.pending.is_empty(), end), (true, None));
}

#[test]
fn what_belongs_to_its_connection_fails_and_is_asked_again_by_who_asked() {
    let mut t = old_link();
    let old = t.conn(A);
    t.ask_here(1, 83_000);
    t.words();
    t.go_away(old, 1);
    let words = t.words();
    assert_eq!(words[..2], ["close 1", "down: GoneAway, 0 in a row"]);
    assert!(words[2].starts_with("1 failed"), "{words:?}");
    assert_eq!(t.timers.next(), None);
}

#[test]
fn what_the_peer_cuts_off_fails_and_so_does_what_it_never_answers() {
    for cut in [true, false] {
        let mut t = old_link();
        let old = t.conn(A);
        t.ask_here(1, 83_000);
        t.request(A, 2, 63_000);
        let moved = t.opaque_of(2);
        t.go_away(old, 2);
        t.connect(A);
        assert_eq!(t.answer(A, moved), Some(2));
        t.words();
        if cut {
            let cause = NetCause::EndOfStream;
            t.net(NetEvent::Closed { conn: old, cause });
            assert_eq!(t.words(), ["1 failed: the connection was lost"]);
        } else {
            t.wake(83_000);
            let words = t.words();
            assert_eq!(words[0], "close 1", "{words:?}");
        }
        assert!(t.rpc.is_current(t.conn(A)), "the new link is not concerned");
        assert_eq!(t.status(A).state, LinkState::Up);
    }
}

#[test]
fn a_second_1500_ends_the_request_and_the_link_pauses() {
    let mut t = old_link();
    let old = t.conn(A);
    t.request(A, 1, 63_000);
    t.go_away(old, 1);
    t.connect(A);
    t.words();
    let new = t.conn(A);
    t.go_away(new, 1);
    let words = t.words();
    assert_eq!(words[..2], ["close 2", "down: GoneAway, 1 in a row"]);
    assert!(words[2].starts_with("1 failed"), "{words:?}");
    t.request(A, 2, 63_000);
    assert_eq!(t.words(), NOTHING, "no connect before the pause is over");
    t.wake(61_200);
    assert_eq!(t.words(), ["connect 10.0.0.1:9876 as 3"]);
}

/// A peer that answers heartbeats well and nothing else.
#[test]
fn a_peer_that_sends_us_away_again_and_again_is_followed_once_a_second() {
    let mut t = old_link();
    let mut connects = 0;
    for ms in (60_000..70_000).step_by(10) {
        t.wake(ms);
        connects += t
            .words()
            .iter()
            .filter(|word| word.starts_with("connect"))
            .count();
        let state = t.status(A).state;
        match state {
            LinkState::Connecting => t.connect(A),
            LinkState::Up => {
                t.receive(A, GOOD);
                t.ask_here(7, ms + 3_000);
                let conn = t.conn(A);
                t.go_away(conn, 7);
            }
            LinkState::Idle => t.request(A, 8, ms + 1),
            LinkState::BackingOff => {}
        }
    }
    assert!((5..=14).contains(&connects), "{connects}");
}

#[test]
fn forgetting_an_address_closes_what_has_retired_from_it() {
    let mut t = old_link();
    let old = t.conn(A);
    t.ask_here(1, 83_000);
    t.request(A, 2, 63_000);
    t.go_away(old, 2);
    t.connect(A);
    t.words();
    t.step(|rpc, cx| rpc.forget(cx, &addr(A)));
    let mut words = t.words();
    words.sort();
    assert_eq!(
        words,
        [
            "1 failed: the connection was lost",
            "2 failed: the connection was lost",
            "close 1",
            "close 2"
        ]
    );
    assert_eq!(t.timers.next(), None);
}

#[test]
fn a_large_frame_is_not_kept_to_be_sent_again() {
    let mut t = old_link();
    let to = addr(A);
    for (len, again) in [(KEPT_BYTES_MAX, 1), (KEPT_BYTES_MAX + 1, 0)] {
        let out = Outgoing {
            to: &to,
            deadline: Instant::from_millis(63_000),
            patience: Patience::UntilDeadline,
            elsewhere: true,
            purpose: 5,
        };
        t.step(|rpc, cx| rpc.request(cx, out, |_| Ok(Bytes::from(vec![0; len]))));
        let opaque = t.opaque_of(5);
        let kept = t.rpc.pending.take(opaque).unwrap().kept;
        assert_eq!(kept.iter().count(), again);
    }
}
