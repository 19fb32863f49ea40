//! Lanes by their steps, and against a naive model that looks through everything.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::ids::{PhysicalOffset, QueueId, QueueOffset};
use crate::time::WallTime;
use crate::wire::properties::PropertiesWriter;
use crate::wire::stored::{RecordParts, Scanned, Scanner, SysFlag};

const fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// Lanes with a message of each of these keys; `!` cannot be read.
fn lanes(keys: &str) -> Lanes {
    let mut lanes = Lanes::default();
    for key in keys.chars() {
        lanes.put((key != '!').then(|| Lane::of_key(&String::from(key))));
    }
    lanes
}

/// Takes whatever may go.
fn take_all(lanes: &mut Lanes) -> Vec<u64> {
    let mut taken = vec![];
    while let Some(seq) = lanes.next() {
        lanes.busy(seq);
        taken.push(seq);
    }
    taken
}

#[test]
fn the_first_of_each_key_may_go_and_its_successor_when_it_is_settled() {
    let mut lanes = lanes("abacb");
    assert_eq!(take_all(&mut lanes), [0, 1, 3]);
    for (finished, next) in [(3, vec![]), (0, vec![2]), (1, vec![4]), (4, vec![]), (2, vec![])] {
        lanes.finish(finished);
        assert_eq!(take_all(&mut lanes), next, "after {finished}");
    }
    lanes.put(Some(Lane::of_key("a")));
    assert_eq!(take_all(&mut lanes), [5], "nothing is left of those before");
}

#[test]
fn a_key_that_rests_stops_no_other_and_is_told_until_when() {
    let mut lanes = lanes("aabb");
    assert_eq!(take_all(&mut lanes), [0, 2]);
    for (seq, until) in [(0, at(50)), (2, at(30))] {
        lanes.ready(seq);
        lanes.rest(seq, until);
    }
    lanes.put(Some(Lane::of_key("c")));
    assert_eq!(take_all(&mut lanes), [4]);
    assert_eq!(
        (lanes.next_wake(), lanes.rests_until(0)),
        (Some(at(30)), Some(at(50)))
    );
    for (now, woken, next) in [
        (29, vec![], Some(at(30))),
        (30, vec![2], Some(at(50))),
        (60, vec![0], None),
    ] {
        lanes.wake(at(now));
        assert_eq!(
            (take_all(&mut lanes), lanes.next_wake()),
            (woken, next),
            "at {now}"
        );
    }
}

#[test]
fn a_message_that_is_ready_again_comes_before_its_successor() {
    let mut lanes = lanes("aa");
    assert_eq!(take_all(&mut lanes), [0]);
    lanes.ready(0);
    assert_eq!(take_all(&mut lanes), [0]);
    lanes.finish(0);
    assert_eq!(take_all(&mut lanes), [1]);
}

#[test]
fn nothing_passes_a_record_that_cannot_be_read() {
    let mut lanes = lanes("ab!cd!e");
    assert_eq!(take_all(&mut lanes), [0, 1]);
    lanes.finish(0);
    assert!(take_all(&mut lanes).is_empty());
    lanes.finish(2);
    assert_eq!(take_all(&mut lanes), [3, 4]);
    lanes.finish(5);
    assert_eq!(take_all(&mut lanes), [6]);
}

#[test]
fn nothing_is_kept_of_what_is_settled() {
    let mut lanes = lanes("ab!a");
    lanes.busy(1);
    lanes.ready(1);
    lanes.rest(1, at(9));
    lanes.wake_all();
    for seq in 0..4 {
        lanes.finish(seq);
        lanes.drop_below(seq + 1);
    }
    let left = lanes.of.len() + lanes.unfinished.len() + lanes.free.len() + lanes.resting.len();
    assert_eq!((left, lanes.barriers.len(), lanes.first_seq), (0, 0, 4));
}

#[test]
fn the_key_is_the_sharding_key_or_the_first_business_key() {
    let of = |properties: &[(&str, &str)]| {
        let mut writer = PropertiesWriter::new();
        for (name, value) in properties {
            writer.push(name, value).expect("legal");
        }
        let host = "10.0.0.1:1".parse().expect("an address");
        let parts = RecordParts {
            topic: "T",
            queue_id: QueueId(0),
            flag: 0,
            queue_offset: QueueOffset(0),
            physical_offset: PhysicalOffset(0),
            sys_flag: SysFlag(0),
            born_at: WallTime::default(),
            born_host: host,
            store_at: WallTime::default(),
            store_host: host,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body: b"",
            properties: &writer.finish(),
        };
        let mut out = Vec::new();
        parts.encode(&mut out).expect("small");
        let bytes = Bytes::from(out);
        let Some(Scanned::Message(entry)) = Scanner::new(&bytes).next() else {
            panic!("it can be read");
        };
        Lane::of(&Record::new(&bytes, entry))
    };
    let (shard, keys) = (name::SHARDING_KEY, name::KEYS);
    for (properties, key) in [
        (&[(shard, "s 1"), (keys, "k1 k2")][..], "s 1"),
        (&[(keys, "k1 k2"), (shard, "s")], "s"),
        (&[(keys, "k1 k2")], "k1"),
        (&[(keys, "k1")], "k1"),
        (&[(keys, "  k2 k1")], "k2"),
        (&[(keys, " ")], ""),
        (&[(name::TAGS, "t")], ""),
        (&[], ""),
    ] {
        assert_eq!(of(properties), Lane::of_key(key), "{properties:?}");
    }
}

#[test]
fn the_hash_is_the_same_everywhere() {
    for (key, hash) in [
        ("", 0xcbf2_9ce4_8422_2325),
        ("a", 0xaf63_dc4c_8601_ec8c),
        ("foobar", 0x8594_4171_f739_67e8),
    ] {
        assert_eq!(Lane::of_key(key), Lane(hash), "{key}");
    }
}

// ---- against a model ------------------------------------------------------------------------------

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ready,
    Out,
    Resting(u64),
    Failing,
    Done,
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Put(Option<u8>),
    Take,
    /// Of the messages that are out, the nth is settled, ready again, rests or fails.
    Finish(usize),
    Again(usize),
    Rest(usize, u64),
    Fail(usize),
    /// The nth of those that fail is settled, or to be delivered again.
    Bury(usize),
    Retry(usize),
    /// The first record that cannot be read is settled.
    Pass,
    Wait(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..4_u8).prop_map(|key| Op::Put(Some(key))),
        1 => Just(Op::Put(None)),
        6 => Just(Op::Take),
        5 => (0..9_usize).prop_map(Op::Finish),
        1 => (0..9_usize).prop_map(Op::Again),
        2 => (0..9_usize, 1..50_u64).prop_map(|(nth, pause)| Op::Rest(nth, pause)),
        1 => (0..9_usize).prop_map(Op::Fail),
        1 => (0..9_usize).prop_map(Op::Bury),
        1 => (0..9_usize).prop_map(Op::Retry),
        1 => Just(Op::Pass),
        2 => (1..40_u64).prop_map(Op::Wait),
    ]
}

#[derive(Default)]
struct Model {
    messages: Vec<(Option<u8>, State)>,
    now: u64,
}

impl Model {
    /// The first message that is ready, of whose key nothing below is unfinished, and that passes nothing unreadable.
    fn next(&self) -> Option<u64> {
        let seen = |at: usize| self.messages[..at].iter();
        let may_go = |at: usize, key: Option<u8>| {
            let mut below = seen(at).filter(|(_, state)| *state != State::Done);
            key.is_some() && below.all(|(other, _)| other.is_some() && *other != key)
        };
        let found = self
            .messages
            .iter()
            .enumerate()
            .find(|(at, (key, state))| *state == State::Ready && may_go(*at, *key));
        found.map(|(at, _)| at as u64)
    }

    fn nth(&self, nth: usize, wanted: State) -> Option<u64> {
        let known = self.messages.iter().enumerate();
        let of_state: Vec<usize> = known
            .filter(|(_, (_, state))| *state == wanted)
            .map(|(at, _)| at)
            .collect();
        let len = of_state.len().max(1);
        of_state.get(nth % len).map(|at| *at as u64)
    }

    fn set(&mut self, seq: u64, state: State) {
        self.messages[usize::try_from(seq).expect("small")].1 = state;
    }

    fn first_unreadable(&self) -> Option<u64> {
        let unreadable = |(key, state): &(Option<u8>, State)| key.is_none() && *state != State::Done;
        self.messages.iter().position(unreadable).map(|at| at as u64)
    }

    fn step(&mut self, lanes: &mut Lanes, op: Op) -> Result<(), TestCaseError> {
        match op {
            Op::Put(key) => {
                self.messages.push((key, State::Ready));
                lanes.put(key.map(|key| Lane::of_key(&String::from(char::from(b'a' + key)))));
            }
            Op::Take => {
                prop_assert_eq!(lanes.next(), self.next());
                if let Some(seq) = lanes.next() {
                    lanes.busy(seq);
                    self.set(seq, State::Out);
                }
            }
            Op::Finish(nth) => self.end(lanes, self.nth(nth, State::Out)),
            Op::Bury(nth) => self.end(lanes, self.nth(nth, State::Failing)),
            Op::Pass => self.end(lanes, self.first_unreadable()),
            Op::Again(nth) => self.again(lanes, self.nth(nth, State::Out)),
            Op::Retry(nth) => self.again(lanes, self.nth(nth, State::Failing)),
            Op::Rest(nth, pause) => {
                let seq = self.nth(nth, State::Out);
                self.again(lanes, seq);
                if let Some(seq) = seq {
                    lanes.rest(seq, at(self.now + pause));
                    self.set(seq, State::Resting(self.now + pause));
                }
            }
            Op::Fail(nth) => {
                if let Some(seq) = self.nth(nth, State::Out) {
                    lanes.busy(seq);
                    self.set(seq, State::Failing);
                }
            }
            Op::Wait(pause) => self.wait(lanes, pause),
        }
        prop_assert_eq!(lanes.next(), self.next(), "after {:?}", op);
        Ok(())
    }

    fn end(&mut self, lanes: &mut Lanes, seq: Option<u64>) {
        let Some(seq) = seq else { return };
        lanes.finish(seq);
        self.set(seq, State::Done);
        let lowest = self.messages.iter().position(|(_, state)| *state != State::Done);
        lanes.drop_below(lowest.unwrap_or(self.messages.len()) as u64);
    }

    fn again(&mut self, lanes: &mut Lanes, seq: Option<u64>) {
        let Some(seq) = seq else { return };
        lanes.ready(seq);
        self.set(seq, State::Ready);
    }

    fn wait(&mut self, lanes: &mut Lanes, pause: u64) {
        self.now += pause;
        lanes.wake(at(self.now));
        for (_, state) in &mut self.messages {
            if let State::Resting(until) = *state
                && until <= self.now
            {
                *state = State::Ready;
            }
        }
    }
}

proptest! {
    #[test]
    fn what_may_go_is_what_looking_through_everything_finds(ops in prop::collection::vec(op(), 1..200)) {
        let (mut lanes, mut model) = (Lanes::default(), Model::default());
        for op in ops {
            model.step(&mut lanes, op)?;
        }
        let rest = model.messages.len() as u64;
        for seq in 0..rest {
            model.end(&mut lanes, Some(seq));
        }
        lanes.wake_all();
        let left = lanes.of.len() + lanes.unfinished.len() + lanes.free.len() + lanes.resting.len();
        prop_assert_eq!(left + lanes.barriers.len(), 0);
    }
}
