//! What the tests of the consumer's parts stand on: a context, and words for what a part wished.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::iter;

use crate::action::{Action, AppAction};
use crate::consumer::cx::{Cx, TimerKey, Wish};
use crate::notice::Notice;
use crate::status::Counters;
use crate::step::{Outbox, Rng, Seed, Timers};
use crate::time::{Instant, WallTime};

pub(crate) struct Bench {
    pub(crate) now: Instant,
    pub(crate) timers: Timers<TimerKey>,
    pub(crate) counters: Counters,
    out: Outbox<Action>,
    rng: Rng,
    wishes: VecDeque<Wish>,
}

impl Bench {
    pub(crate) const fn new() -> Self {
        Self {
            now: Instant::ZERO,
            timers: Timers::new(),
            counters: Counters {
                stale_net_events: 0,
                late_answers: 0,
                stale_answers: 0,
                late_reports: 0,
                clock_went_back: 0,
                unsettled_events: 0,
                refused_requests: 0,
            },
            out: Outbox::new(),
            rng: Rng::new(Seed(7)),
            wishes: VecDeque::new(),
        }
    }

    /// A context at that many milliseconds.
    pub(crate) const fn at(&mut self, ms: u64) -> Cx<'_> {
        self.now = Instant::from_millis(ms);
        Cx {
            now: self.now,
            wall: WallTime::from_unix_millis(1_700_000_000_000),
            timers: &mut self.timers,
            out: &mut self.out,
            rng: &mut self.rng,
            wishes: &mut self.wishes,
            counters: &mut self.counters,
        }
    }

    /// When a timer fires, in milliseconds.
    pub(crate) fn armed(&self, key: impl Into<TimerKey>) -> Option<u64> {
        self.timers.deadline(key).map(Instant::as_millis)
    }

    /// Takes the wishes, in words.
    pub(crate) fn wishes(&mut self) -> Vec<String> {
        self.wishes
            .drain(..)
            .map(|wish| match wish {
                Wish::Ask(question) => format!("ask {:?} for {:?}", question.to, question.purpose),
                Wish::Beat { addr, revision } => format!("beat {addr} with {revision}"),
                Wish::BrokerReady { broker, ready } => {
                    format!("{broker} ready{}", if ready.is_new() { ", new" } else { "" })
                }
                Wish::OtherReader(broker) => format!("another reader of {broker}"),
                Wish::TellAgain(broker) => format!("tell {broker} again"),
                Wish::RouteSuspect(topic) => format!("suspect {topic}"),
                Wish::Withdraw(_, queue) => format!("withdraw {queue:?}"),
                Wish::BackToMaster(broker) => format!("back to the master of {broker}"),
                Wish::Subscriptions(_) => String::from("subscriptions"),
                Wish::Changes(_) => String::from("changes"),
                Wish::Unwatch => String::from("unwatch"),
                Wish::Route(topic) => format!("route {topic}"),
                Wish::Locks(_) => String::from("locks"),
                Wish::Room(_) => String::from("room"),
                Wish::Keep(_, queue, offset) => format!("keep {offset} of {queue:?}"),
                Wish::Save(_) => String::from("save"),
                Wish::Leave(_) => String::from("leave"),
                Wish::Stopped(_) => String::from("stopped"),
                Wish::Reply(asker, reply) => format!("reply {reply:?} to {}", asker.opaque),
                Wish::Notice(_, kind) => format!("notice {kind:?}"),
            })
            .collect()
    }

    /// Takes the notices that went out.
    pub(crate) fn notices(&mut self) -> Vec<Notice> {
        iter::from_fn(|| self.out.pop())
            .map(|action| match action {
                Action::App(AppAction::Notice(notice)) => *notice,
                Action::App(_) | Action::Net(_) | Action::Store(_) => panic!("{action:?} is no notice"),
            })
            .collect()
    }
}
