//! Filters that only a broker understands: one of the topic's brokers is asked before such a filter is used.
//!
//! ```text
//!              route known             approved
//!  Waiting ──────────────────► Asked ───────────► in force, see [`changing`](super::changing)
//!     ▲                          │ refused
//!     │ no answer: another one   ├── of the start, or in its place ──► Refused ─ after 30 s ─► Waiting
//!     └── after a second ────────┴── of a group that has joined ──► forgotten; the former one stays
//! ```
//!
//! A broker that hears of a bad filter in a heartbeat says nothing, drops the good one of the other members and has
//! no messages for anybody. So nothing of a group is told to brokers before the filters that it began with are
//! approved of: it is no member, and the others share all queues.
//= rocketmq: MQClientInstance.checkClientInBroker type=differs
//  reason: told by a notice and asked again, instead of a start that fails; also for filters changed at run time.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use crate::action::CallError;
use crate::config::FilterExpression;
use crate::consumer::cx::{Cx, Destination, GroupTimer, Purpose, QuestionBody, Replica, Wish};
use crate::consumer::peers::Peers;
use crate::ids::{BrokerName, Topic};
use crate::notice::NoticeKind;
use crate::status::{GroupPhase, SubscriptionState, SubscriptionStatus};
use crate::time::Instant;
use crate::wire::code::ResponseCode;
use crate::wire::request::check::CheckSubscriptionRequest;
use crate::wire::subscription::Subscription;

use super::Group;
use super::subscriptions::{Change, Subscribed};

/// Pause before another broker is asked when one has not answered.
const UNANSWERED: Duration = Duration::from_secs(1);

/// Pause before a broker is asked again that has refused: somebody has to change its configuration first.
const REFUSED: Duration = Duration::from_secs(30);

/// By topic; at most one for each.
#[derive(Clone, Debug, Default)]
pub(super) struct Filters {
    pending: BTreeMap<Topic, Pending>,
    serials: u64,
}

#[derive(Clone, Debug)]
struct Pending {
    subscription: Subscription,
    /// Whether the group does not join without it.
    is_first: bool,
    /// Whether it was wished for after the start: whoever did is told when it is in force.
    is_wish: bool,
    state: State,
    /// Which of the topic's brokers is asked next.
    turn: usize,
    /// Whether its refusal has been told.
    told: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// Nobody could be asked yet.
    Waiting,
    Asked {
        serial: u64,
        broker: BrokerName,
    },
    /// Asked again then.
    Resting(Instant),
    Refused(Instant),
}

/// What a broker's answer means.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Judgement<'a> {
    Approved,
    Refused {
        code: i32,
        remark: &'a str,
    },
    /// Another broker may know.
    Unknown,
}

fn judge(answer: &Result<(), CallError>) -> Judgement<'_> {
    let Err(error) = answer else {
        return Judgement::Approved;
    };
    match error {
        CallError::Broker { code, remark } => match ResponseCode(*code) {
            // A broker from before this question was: its pulls will tell.
            ResponseCode::REQUEST_CODE_NOT_SUPPORTED => Judgement::Approved,
            ResponseCode::SUBSCRIPTION_PARSE_FAILED | ResponseCode::SYSTEM_ERROR => {
                Judgement::Refused { code: *code, remark }
            }
            _ => Judgement::Unknown,
        },
        CallError::NoRoute
        | CallError::Connect(_)
        | CallError::Timeout
        | CallError::Closed
        | CallError::Overloaded
        | CallError::Malformed(_) => Judgement::Unknown,
    }
}

impl Filters {
    /// A filter is to be looked into; it takes the place of another one for its topic.
    pub(super) fn look_into(&mut self, subscription: Subscription, is_first: bool, is_wish: bool) {
        let topic = subscription.topic.clone();
        let pending = Pending {
            subscription,
            is_first,
            is_wish,
            state: State::Waiting,
            turn: 0,
            told: false,
        };
        self.pending.insert(topic, pending);
    }

    /// Nobody wants it any more.
    pub(super) fn forget(&mut self, topic: &Topic) -> Option<Subscription> {
        Some(self.pending.remove(topic)?.subscription)
    }

    pub(super) fn topics(&self) -> impl Iterator<Item = &Topic> {
        self.pending.keys()
    }

    pub(super) fn of(&self, topic: &Topic) -> Option<&Subscription> {
        Some(&self.pending.get(topic)?.subscription)
    }

    /// Whether the group does not join without the filter of this topic.
    pub(super) fn is_first(&self, topic: &Topic) -> bool {
        self.pending.get(topic).is_some_and(|pending| pending.is_first)
    }

    fn has_first(&self) -> bool {
        self.pending.values().any(|pending| pending.is_first)
    }

    /// Takes the question that is answered, unless nobody waits for that.
    fn answered(&mut self, topic: &Topic, serial: u64) -> Option<(&mut Pending, BrokerName)> {
        let pending = self.pending.get_mut(topic)?;
        match &pending.state {
            State::Asked {
                serial: asked,
                broker,
            } if *asked == serial => {
                let broker = broker.clone();
                Some((pending, broker))
            }
            State::Asked { .. } | State::Waiting | State::Resting(_) | State::Refused(_) => None,
        }
    }

    /// Notes that the next of these brokers is asked. Without one it waits for the route.
    fn ask(&mut self, topic: &Topic, brokers: &[BrokerName]) -> Option<(u64, BrokerName)> {
        let pending = self.pending.get_mut(topic)?;
        pending.state = State::Waiting;
        let broker = brokers.get(pending.turn % brokers.len().max(1))?.clone();
        self.serials += 1;
        let serial = self.serials;
        pending.state = State::Asked {
            serial,
            broker: broker.clone(),
        };
        Some((serial, broker))
    }

    fn due(&self, now: Instant) -> Vec<Topic> {
        let due = |(_, pending): &(&Topic, &Pending)| match pending.state {
            State::Waiting => true,
            State::Resting(until) | State::Refused(until) => until <= now,
            State::Asked { .. } => false,
        };
        self.pending
            .iter()
            .filter(due)
            .map(|(topic, _)| topic.clone())
            .collect()
    }

    /// When the next of those that rest is asked about again.
    fn next(&self) -> Option<Instant> {
        let resting = self.pending.values().filter_map(|pending| match pending.state {
            State::Resting(until) | State::Refused(until) => Some(until),
            State::Waiting | State::Asked { .. } => None,
        });
        resting.min()
    }

    pub(super) fn status(&self) -> impl Iterator<Item = SubscriptionStatus> {
        self.pending.iter().map(|(topic, pending)| SubscriptionStatus {
            topic: topic.clone(),
            filter: FilterExpression::of(&pending.subscription),
            state: match pending.state {
                State::Refused(_) => SubscriptionState::Refused,
                // Asked again, it is still what it was.
                State::Asked { .. } | State::Resting(_) | State::Waiting if pending.told => {
                    SubscriptionState::Refused
                }
                State::Asked { .. } | State::Resting(_) | State::Waiting => SubscriptionState::Checking,
            },
        })
    }
}

impl Group {
    /// The group runs: brokers hear of it as soon as its filters have been looked at.
    pub(crate) fn begin(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>) {
        self.ask_about_filters(cx, peers);
        self.begin_if_approved(cx);
    }

    pub(super) fn begin_if_approved(&mut self, cx: &mut Cx<'_>) {
        if !self.begun && self.phase == GroupPhase::Running && !self.filters.has_first() {
            self.begun = true;
            cx.wishes.push_back(Wish::Subscriptions(self.key));
        }
    }

    /// Asks about every filter whose time it is and whose topic has a broker.
    pub(super) fn ask_about_filters(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>) {
        for topic in self.filters.due(cx.now) {
            let brokers: Vec<BrokerName> = peers.routes.brokers_of(&topic).cloned().collect();
            if let Some((serial, broker)) = self.filters.ask(&topic, &brokers) {
                self.ask_about_filter(cx, peers, topic, serial, broker);
            }
        }
        self.arm_filters_timer(cx);
    }

    fn ask_about_filter(
        &self,
        cx: &mut Cx<'_>,
        peers: Peers<'_>,
        topic: Topic,
        serial: u64,
        broker: BrokerName,
    ) {
        let Some(subscription) = self.filters.of(&topic).cloned() else {
            return;
        };
        let asked = Subscribed::new(subscription, cx.wall, Change::None);
        let body = QuestionBody::CheckFilter(Box::new(CheckSubscriptionRequest {
            client_id: self.client_id.clone(),
            group: self.name.clone(),
            namespace: None,
            subscription: asked.data(),
        }));
        // Any replica can read an expression.
        let replicas = peers.routes.replicas(&broker);
        let replica = replicas.and_then(|ids| ids.keys().next().copied());
        let to = Destination::Broker(broker, replica.map_or(Replica::Master, Replica::Exactly));
        let group = self.key;
        let purpose = Purpose::Filter { group, topic, serial };
        cx.ask(to, body, self.request_timeout, purpose);
    }

    /// A broker has said what it thinks of a filter, or nothing.
    pub(crate) fn on_filter_checked(
        &mut self,
        cx: &mut Cx<'_>,
        peers: Peers<'_>,
        topic: &Topic,
        serial: u64,
        answer: Result<(), CallError>,
    ) {
        let Some((pending, broker)) = self.filters.answered(topic, serial) else {
            cx.counters.stale_answers += 1;
            return;
        };
        match judge(&answer) {
            Judgement::Approved => {
                let is_wish = pending.is_wish;
                if let Some(subscription) = self.filters.forget(topic) {
                    self.approved(cx, peers, subscription, is_wish);
                }
            }
            Judgement::Refused { code, remark } => self.filter_refused(cx, topic, broker, code, remark),
            Judgement::Unknown => {
                pending.turn = pending.turn.wrapping_add(1);
                pending.state = State::Resting(cx.now + UNANSWERED);
                if let Err(CallError::Broker { code, remark }) = &answer {
                    self.refused(cx, &broker, "check filter", *code, remark);
                }
            }
        }
        self.arm_filters_timer(cx);
    }

    fn approved(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>, subscription: Subscription, is_wish: bool) {
        if is_wish {
            self.put_in_force(cx, peers, subscription);
        } else {
            let begun_with = Subscribed::new(subscription, cx.wall, Change::None);
            let topic = begun_with.subscription.topic.clone();
            self.subscriptions.insert(topic, begun_with);
        }
        self.begin_if_approved(cx);
    }

    fn filter_refused(&mut self, cx: &mut Cx<'_>, topic: &Topic, by: BrokerName, code: i32, remark: &str) {
        let Some(pending) = self.filters.pending.get_mut(topic) else {
            return;
        };
        let filter = FilterExpression::of(&pending.subscription);
        pending.state = State::Refused(cx.now + REFUSED);
        let is_known = core::mem::replace(&mut pending.told, true);
        if !pending.is_first {
            self.filters.forget(topic);
            cx.wishes.push_back(Wish::Unwatch);
        }
        if !is_known {
            let kind = NoticeKind::FilterRefused {
                topic: topic.clone(),
                filter,
                by,
                code,
                remark: remark.into(),
            };
            cx.notice(&self.name, kind);
        }
    }

    /// The group leaves: nobody waits for an answer any more.
    pub(super) fn forget_filters(&mut self, cx: &mut Cx<'_>) {
        self.filters.pending.clear();
        cx.timers.cancel(self.timer(GroupTimer::Filters));
    }

    fn arm_filters_timer(&self, cx: &mut Cx<'_>) {
        cx.timers
            .arm(self.timer(GroupTimer::Filters), self.filters.next());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_that_does_not_know_the_question_has_no_objection() {
        let refused = |code: i32| {
            Err(CallError::Broker {
                code,
                remark: "words".into(),
            })
        };
        for (answer, judgement) in [
            (Ok(()), Judgement::Approved),
            (refused(3), Judgement::Approved),
            (
                refused(23),
                Judgement::Refused {
                    code: 23,
                    remark: "words",
                },
            ),
            (
                refused(1),
                Judgement::Refused {
                    code: 1,
                    remark: "words",
                },
            ),
            (refused(2), Judgement::Unknown),
            (refused(14), Judgement::Unknown),
            (Err(CallError::Timeout), Judgement::Unknown),
            (Err(CallError::NoRoute), Judgement::Unknown),
        ] {
            assert_eq!(judge(&answer), judgement, "{answer:?}");
        }
    }

    #[test]
    fn only_the_answer_to_the_last_question_counts_and_brokers_take_turns() {
        let topic = Topic::from("T");
        let sql = |text: &str| Subscription::sql92("T".into(), text).expect("a condition");
        let brokers = ["a".into(), "b".into()];
        let mut filters = Filters::default();
        filters.look_into(sql("a > 1"), false, true);
        assert_eq!(filters.ask(&topic, &[]), None, "nobody is there");
        assert_eq!(filters.due(Instant::ZERO), ["T".into()]);
        assert_eq!(filters.ask(&topic, &brokers), Some((1, "a".into())));
        assert!(filters.due(Instant::ZERO).is_empty());
        filters.look_into(sql("a > 2"), false, true);
        assert!(
            filters.answered(&topic, 1).is_none(),
            "it was about another filter"
        );
        assert_eq!(filters.ask(&topic, &brokers), Some((2, "a".into())));
        assert!(filters.answered(&topic, 1).is_none(), "so it still was");
        let (pending, _) = filters.answered(&topic, 2).expect("that is awaited");
        pending.turn += 1;
        let later = Instant::from_millis(1_000);
        pending.state = State::Resting(later);
        assert_eq!(
            (filters.next(), filters.due(Instant::ZERO)),
            (Some(later), Vec::new())
        );
        assert_eq!(filters.due(later), ["T".into()]);
        assert_eq!(
            (filters.ask(&topic, &[]), filters.next()),
            (None, None),
            "no timer without a broker"
        );
        assert!(filters.answered(&topic, 2).is_none(), "twice");
        assert_eq!(filters.ask(&topic, &brokers), Some((3, "b".into())));
    }
}
