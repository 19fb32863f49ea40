//! When the share is computed again, and from which answers.
//!
//! One round at a time: every broker that speaks for a topic of the group is asked once for the
//! members, answers of an earlier round are nobody's. What comes in between makes the next round
//! come soon.
//!
//! Notifications are debounced. When the last one changed nothing, the next is taken at the earliest
//! a second later: brokers announce the same change once each, and a link that flaps makes them
//! announce for ever.
//= rocketmq: RebalanceService.run type=differs
//  reason: reacts to a change within the debounce instead of within a second.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use crate::consumer::cx::{Cx, GroupTimer, TimerKey};
use crate::ids::{BrokerName, ClientId, GroupKey, Topic};
use crate::time::Instant;

/// At most one round a second for notifications that change nothing.
const USELESS_NOTIFICATION_GAP: Duration = Duration::from_secs(1);

/// Why a round is wanted, the most urgent reason first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Why {
    /// We learned something ourselves: a route, an acknowledged heartbeat.
    Learned,
    /// A broker said that the members have changed.
    Notified,
    /// The last round was not complete.
    Retry,
}

#[derive(Clone, Debug)]
pub(crate) struct Rebalance {
    group: GroupKey,
    round: u64,
    /// Brokers whose answer is awaited, and the topics they speak for.
    awaited: BTreeMap<BrokerName, Vec<Topic>>,
    again: Option<Why>,
    complete: bool,
    notified_at: Option<Instant>,
    last_notification_useless: bool,
    members: Vec<ClientId>,
}

impl Rebalance {
    pub(crate) const fn new(group: GroupKey) -> Self {
        Self {
            group,
            round: 0,
            awaited: BTreeMap::new(),
            again: None,
            complete: true,
            notified_at: None,
            last_notification_useless: false,
            members: Vec::new(),
        }
    }

    /// A round is wanted; it comes as soon as the rules allow.
    pub(crate) fn wanted(&mut self, cx: &mut Cx<'_>, why: Why, debounce: Duration) {
        if !self.awaited.is_empty() {
            self.again = Some(self.again.map_or(why, |earlier| earlier.min(why)));
            return;
        }
        let at = match why {
            Why::Notified => {
                let earliest = match self.notified_at {
                    Some(last) if self.last_notification_useless => last + USELESS_NOTIFICATION_GAP,
                    Some(_) | None => cx.now,
                };
                earliest.max(cx.now + debounce)
            }
            Why::Learned => cx.now,
            Why::Retry => cx.now + Duration::from_secs(1),
        };
        if why == Why::Notified && cx.timers.deadline(self.timer()).is_none_or(|armed| at < armed) {
            self.notified_at = Some(at);
        }
        cx.timers.set_no_later(self.timer(), at);
    }

    /// A round begins: these brokers are asked. Returns its number.
    pub(crate) fn begin(&mut self, asked: BTreeMap<BrokerName, Vec<Topic>>) -> u64 {
        self.round += 1;
        self.awaited = asked;
        self.complete = true;
        self.again = None;
        self.last_notification_useless = true;
        self.round
    }

    /// Whether a round is running.
    pub(crate) fn is_running(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// Takes the answer of a broker: the topics it decides; `None` when nobody waits for it.
    pub(crate) fn answered(&mut self, round: u64, broker: &BrokerName) -> Option<Vec<Topic>> {
        if round != self.round {
            return None;
        }
        self.awaited.remove(broker)
    }

    pub(crate) const fn incomplete(&mut self) {
        self.complete = false;
    }

    pub(crate) const fn changed_something(&mut self) {
        self.last_notification_useless = false;
    }

    pub(crate) fn learn_members(&mut self, members: &[ClientId]) {
        self.members = members.to_vec();
    }

    pub(crate) fn members(&self) -> &[ClientId] {
        &self.members
    }

    /// After each answer: when the round is over, the next one is armed.
    pub(crate) fn settle(&mut self, cx: &mut Cx<'_>, debounce: Duration, interval: Duration) {
        if self.is_running() {
            return;
        }
        match self.again.take() {
            Some(why) => self.wanted(cx, why, debounce),
            None if !self.complete => self.wanted(cx, Why::Retry, debounce),
            None => {}
        }
        cx.timers.set_no_later(self.timer(), cx.now + interval);
    }

    pub(crate) fn stop(&mut self, cx: &mut Cx<'_>) {
        self.round += 1;
        self.awaited.clear();
        self.again = None;
        cx.timers.cancel(self.timer());
    }

    const fn timer(&self) -> TimerKey {
        TimerKey::Group(self.group, GroupTimer::Rebalance)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::consumer::bench::Bench;

    const GROUP: GroupKey = GroupKey {
        slot: 0,
        generation: 1,
    };
    const DEBOUNCE: Duration = Duration::from_millis(50);
    const INTERVAL: Duration = Duration::from_secs(20);
    const TIMER: TimerKey = TimerKey::Group(GROUP, GroupTimer::Rebalance);

    fn asked(brokers: &[&str]) -> BTreeMap<BrokerName, Vec<Topic>> {
        brokers
            .iter()
            .map(|name| ((*name).into(), vec![Topic::from("T")]))
            .collect()
    }

    /// A round of one broker that is over at once.
    fn round(rebalance: &mut Rebalance, bench: &mut Bench, at: u64, changed: bool) {
        bench.at(at).timers.cancel(TIMER);
        let number = rebalance.begin(asked(&["a"]));
        assert!(rebalance.answered(number, &"a".into()).is_some());
        if changed {
            rebalance.changed_something();
        }
        rebalance.settle(&mut bench.at(at), DEBOUNCE, INTERVAL);
    }

    #[test]
    fn each_reason_has_its_pace() {
        for (why, at) in [(Why::Notified, 1_050), (Why::Learned, 1_000), (Why::Retry, 2_000)] {
            let mut rebalance = Rebalance::new(GROUP);
            let mut bench = Bench::new();
            rebalance.wanted(&mut bench.at(1_000), why, DEBOUNCE);
            assert_eq!(bench.armed(TIMER), Some(at), "{why:?}");
            rebalance.wanted(&mut bench.at(1_020), why, DEBOUNCE);
            assert_eq!(
                bench.armed(TIMER),
                Some(at),
                "{why:?}: the second puts nothing off"
            );
            rebalance.wanted(&mut bench.at(1_030), Why::Learned, DEBOUNCE);
            assert_eq!(bench.armed(TIMER), Some(at.min(1_030)), "{why:?}");
        }
    }

    #[test]
    fn notifications_that_change_nothing_cost_one_round_a_second() {
        for (changed, next) in [(true, 170), (false, 1_050)] {
            let mut rebalance = Rebalance::new(GROUP);
            let mut bench = Bench::new();
            rebalance.wanted(&mut bench.at(0), Why::Notified, DEBOUNCE);
            round(&mut rebalance, &mut bench, 50, changed);
            assert_eq!(bench.armed(TIMER), Some(20_050), "the safety net");
            for at in [120, 160, 400] {
                rebalance.wanted(&mut bench.at(at), Why::Notified, DEBOUNCE);
            }
            assert_eq!(bench.armed(TIMER), Some(next), "something changed: {changed}");
        }
    }

    #[test]
    fn a_flapping_link_gets_no_more_than_a_round_a_second() {
        let mut rebalance = Rebalance::new(GROUP);
        let mut bench = Bench::new();
        let mut rounds = 0;
        for at in (0..10_000).step_by(10) {
            if bench.armed(TIMER).is_some_and(|armed| armed <= at) {
                round(&mut rebalance, &mut bench, at, false);
                rounds += 1;
            }
            rebalance.wanted(&mut bench.at(at), Why::Notified, DEBOUNCE);
        }
        assert_eq!(rounds, 10);
    }

    #[test]
    fn a_round_is_over_when_everybody_has_answered() {
        let mut rebalance = Rebalance::new(GROUP);
        let mut bench = Bench::new();
        let number = rebalance.begin(asked(&["a", "b"]));
        assert_eq!(rebalance.answered(number, &"c".into()), None, "nobody asked c");
        assert_eq!(rebalance.answered(number, &"a".into()), Some(vec!["T".into()]));
        assert_eq!(rebalance.answered(number, &"a".into()), None, "once");
        rebalance.settle(&mut bench.at(0), DEBOUNCE, INTERVAL);
        assert_eq!((rebalance.is_running(), bench.armed(TIMER)), (true, None));
        assert!(rebalance.answered(number, &"b".into()).is_some());
        rebalance.settle(&mut bench.at(5), DEBOUNCE, INTERVAL);
        assert_eq!(
            (rebalance.is_running(), bench.armed(TIMER)),
            (false, Some(20_005))
        );
    }

    #[test]
    fn an_incomplete_round_is_repeated_after_a_second() {
        let mut rebalance = Rebalance::new(GROUP);
        let mut bench = Bench::new();
        let number = rebalance.begin(asked(&["a"]));
        rebalance.answered(number, &"a".into());
        rebalance.incomplete();
        rebalance.settle(&mut bench.at(0), DEBOUNCE, INTERVAL);
        assert_eq!(bench.armed(TIMER), Some(1_000));
        round(&mut rebalance, &mut bench, 1_000, false);
        assert_eq!(bench.armed(TIMER), Some(21_000), "a complete one is not");
    }

    #[test]
    fn answers_of_an_earlier_round_are_nobodys() {
        let mut rebalance = Rebalance::new(GROUP);
        let mut bench = Bench::new();
        let old = rebalance.begin(asked(&["a"]));
        let new = rebalance.begin(asked(&["a"]));
        assert_eq!(rebalance.answered(old, &"a".into()), None);
        rebalance.stop(&mut bench.at(0));
        assert_eq!(
            (rebalance.answered(new, &"a".into()), bench.armed(TIMER)),
            (None, None)
        );
    }

    #[test]
    fn what_comes_during_a_round_is_not_lost_and_the_most_urgent_reason_counts() {
        for (reasons, at) in [
            (&[Why::Notified][..], 1_000),
            (&[Why::Retry], 1_100),
            (&[Why::Learned, Why::Notified], 100),
            (&[Why::Retry, Why::Learned], 100),
        ] {
            let mut rebalance = Rebalance::new(GROUP);
            let mut bench = Bench::new();
            rebalance.wanted(&mut bench.at(0), Why::Notified, Duration::ZERO);
            bench.at(0).timers.cancel(TIMER);
            let number = rebalance.begin(asked(&["a"]));
            for why in reasons {
                rebalance.wanted(&mut bench.at(50), *why, DEBOUNCE);
            }
            assert_eq!(bench.armed(TIMER), None, "one round at a time");
            rebalance.answered(number, &"a".into());
            rebalance.settle(&mut bench.at(100), DEBOUNCE, INTERVAL);
            assert_eq!(bench.armed(TIMER), Some(at), "{reasons:?}");
        }
    }
}
