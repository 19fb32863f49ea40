//! Members of one group that subscribe to different things, found out and named.
//!
//! A broker knows one subscription for a whole group, the one it heard last, and all members share the queues of
//! every topic. Members that subscribe differently take the subscription from each other: queues are given to
//! members that do not read them, and messages are filtered away. No client can mend that; this one says so.
//!
//! ```text
//!  a pull is answered 24 or 25 ──again within a minute──► 203: who is in the group, what does the broker know?
//!     └► 307 to each other member: what do you subscribe to? ──► a notice for each that differs
//!           └ none tells: a notice with what the broker knows
//! ```
//!
//! Suspicion comes from refusals only: every pull waits until its broker has acknowledged our subscription, so a
//! refusal means that somebody else has replaced it since, or that the broker was started again, which happens
//! once. What the answer to a heartbeat says of changed subscriptions tells nothing: it is always true for
//! heartbeats of the first version.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::action::CallError;
use crate::consumer::cx::{Cx, Destination, Purpose, QuestionBody, Replica};
use crate::ids::{BrokerName, ClientId, QueueKey, Topic};
use crate::notice::NoticeKind;
use crate::time::Instant;
use crate::wire::request::heartbeat::SubscriptionData;
use crate::wire::request::operator::RunningInfoRequest;
use crate::wire::request::stats::{ConnectionsRequest, ConsumerConnections};

use super::Group;
use super::subscriptions::Subscribed;

/// Refusals that lie further apart have nothing to do with each other; and nobody is asked more often than this.
const MINUTE: Duration = Duration::from_secs(60);

/// Other members that are asked what they subscribe to.
const ASKED_MAX: usize = 8;

/// What is suspected, and what is being asked about it.
#[derive(Clone, Debug, Default)]
pub(super) struct Dissent {
    /// When a pull was refused last.
    refused: Option<Instant>,
    /// When a broker was asked last.
    asked: Option<Instant>,
    inquiry: Option<Inquiry>,
}

/// A broker has named the members; they are being asked.
#[derive(Clone, Debug)]
struct Inquiry {
    /// Who has not answered yet.
    awaited: BTreeSet<ClientId>,
    others: Vec<ClientId>,
    /// How what the broker knows differs from what we subscribe to.
    known: Difference,
    named: bool,
}

/// Topics with their expressions.
type Expressions = BTreeMap<Topic, String>;

/// What one has and the other has not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Difference {
    theirs: Vec<(Topic, String)>,
    ours: Vec<(Topic, String)>,
}

impl Difference {
    fn between(theirs: &Expressions, ours: &Expressions) -> Self {
        let but_not = |these: &Expressions, those: &Expressions| {
            let only = these
                .iter()
                .filter(|(topic, text)| those.get(*topic) != Some(text));
            only.map(|(topic, text)| (topic.clone(), text.clone())).collect()
        };
        Self {
            theirs: but_not(theirs, ours),
            ours: but_not(ours, theirs),
        }
    }

    const fn is_none(&self) -> bool {
        self.theirs.is_empty() && self.ours.is_empty()
    }
}

/// What matters of subscriptions. Retry topics belong to who has them.
fn expressions<'a>(data: impl IntoIterator<Item = &'a SubscriptionData>) -> Expressions {
    let wanted = data
        .into_iter()
        .filter(|data| !data.topic.as_str().starts_with("%RETRY%"));
    wanted.map(|data| (data.topic.clone(), canonical(data))).collect()
}

/// The same tags in another order are the same subscription.
fn canonical(data: &SubscriptionData) -> String {
    if data.tags.is_empty() {
        return data.expression.clone();
    }
    let tags: Vec<&str> = data.tags.iter().map(String::as_str).collect();
    tags.join(" || ")
}

impl Dissent {
    /// A pull was refused because the broker does not know our subscription; true when it is time to ask why.
    fn refused(&mut self, now: Instant) -> bool {
        let recent = |at: Option<Instant>| at.is_some_and(|at| now.saturating_since(at) < MINUTE);
        let is_second = recent(self.refused);
        self.refused = Some(now);
        let ask = is_second && !recent(self.asked);
        if ask {
            self.asked = Some(now);
            self.inquiry = None;
        }
        ask
    }
}

impl Group {
    /// The broker of a queue does not know our subscription, although it has acknowledged it.
    pub(super) fn suspect_dissent(&mut self, cx: &mut Cx<'_>, key: QueueKey) {
        let Some(queue) = self.queues.get(key) else { return };
        let broker = queue.name.broker.clone();
        let replica = queue.tenure().and_then(|tenure| tenure.pull.replica());
        if !self.dissent.refused(cx.now) {
            return;
        }
        let group = self.name.clone();
        let purpose = Purpose::Connections {
            group: self.key,
            broker: broker.clone(),
        };
        let to = Destination::Broker(broker, replica.map_or(Replica::Master, Replica::Exactly));
        let body = QuestionBody::Connections(ConnectionsRequest { group });
        cx.ask(to, body, self.request_timeout, purpose);
    }

    /// The broker has named the members and told what it knows of their subscriptions.
    pub(crate) fn on_connections(
        &mut self,
        cx: &mut Cx<'_>,
        broker: &BrokerName,
        answer: Result<ConsumerConnections, CallError>,
    ) {
        let Ok(answer) = answer else { return };
        let ids = answer
            .connections
            .into_iter()
            .map(|connection| connection.client_id);
        let others: BTreeSet<ClientId> = ids.filter(|id| id != &self.client_id).collect();
        if others.is_empty() {
            return;
        }
        let known = expressions(answer.subscriptions.values());
        let awaited: BTreeSet<ClientId> = others.iter().take(ASKED_MAX).cloned().collect();
        for member in &awaited {
            self.ask_member(cx, broker, member);
        }
        self.dissent.inquiry = Some(Inquiry {
            awaited,
            others: others.into_iter().collect(),
            known: Difference::between(&known, &self.expressions()),
            named: false,
        });
    }

    fn ask_member(&self, cx: &mut Cx<'_>, broker: &BrokerName, member: &ClientId) {
        let body = QuestionBody::RunningInfo(RunningInfoRequest {
            group: self.name.clone(),
            client_id: member.clone(),
            jstack: false,
        });
        let purpose = Purpose::Subscriptions {
            group: self.key,
            member: member.clone(),
        };
        let to = Destination::Broker(broker.clone(), Replica::Master);
        cx.ask(to, body, self.offset_timeout, purpose);
    }

    /// Another member has told what it subscribes to, or nothing.
    pub(crate) fn on_member_subscriptions(
        &mut self,
        cx: &mut Cx<'_>,
        member: ClientId,
        answer: Result<Vec<SubscriptionData>, CallError>,
    ) {
        let ours = self.expressions();
        let Some(inquiry) = &mut self.dissent.inquiry else {
            cx.counters.stale_answers += 1;
            return;
        };
        if !inquiry.awaited.remove(&member) {
            cx.counters.stale_answers += 1;
            return;
        }
        let is_last = inquiry.awaited.is_empty();
        if let Ok(theirs) = answer {
            let difference = Difference::between(&expressions(&theirs), &ours);
            if !difference.is_none() {
                inquiry.named = true;
                self.tell_dissent(cx, Some(member), difference);
            }
        }
        if is_last
            && let Some(inquiry) = self.dissent.inquiry.take()
            && !inquiry.named
        {
            let only = inquiry
                .others
                .first()
                .filter(|_| inquiry.others.len() == 1)
                .cloned();
            self.tell_dissent(cx, only, inquiry.known);
        }
    }

    fn tell_dissent(&self, cx: &mut Cx<'_>, member: Option<ClientId>, difference: Difference) {
        let Difference { theirs, ours } = difference;
        cx.notice(
            &self.name,
            NoticeKind::SubscriptionsDiffer { member, theirs, ours },
        );
    }

    fn expressions(&self) -> Expressions {
        let data: Vec<SubscriptionData> = self.subscriptions.values().map(Subscribed::data).collect();
        expressions(&data)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::wire::subscription::Subscription;

    const fn at(secs: u64) -> Instant {
        Instant::from_millis(secs * 1000)
    }

    #[test]
    fn the_second_refusal_within_a_minute_is_looked_into_once_a_minute() {
        let mut dissent = Dissent::default();
        let mut asked = Vec::new();
        for second in [0, 70, 100, 101, 102, 159, 160, 161, 400, 401] {
            if dissent.refused(at(second)) {
                asked.push(second);
            }
        }
        assert_eq!(asked, [100, 160, 401]);
    }

    fn subscribed(list: &[(&str, &str)]) -> Expressions {
        let data = list.iter().map(|(topic, text)| {
            let subscription = Subscription::tagged((*topic).into(), text).unwrap();
            SubscriptionData {
                topic: subscription.topic,
                expression: subscription.expression,
                expression_type: Some("TAG".into()),
                tags: subscription.tags,
                codes: subscription.codes,
                sub_version: crate::time::WallTime::from_unix_millis(1),
                class_filter_mode: false,
            }
        });
        let data: Vec<SubscriptionData> = data.collect();
        expressions(&data)
    }

    #[test]
    fn differences_are_topics_and_tags_but_not_their_order_nor_retry_topics() {
        let ours = subscribed(&[("T", "a || b"), ("%RETRY%G", "*")]);
        for (theirs, differs) in [
            (subscribed(&[("T", "b||a")]), Difference::default()),
            (
                subscribed(&[("T", "a")]),
                Difference {
                    theirs: vec![("T".into(), "a".into())],
                    ours: vec![("T".into(), "a || b".into())],
                },
            ),
            (
                subscribed(&[("T", "a || b"), ("U", "*")]),
                Difference {
                    theirs: vec![("U".into(), "*".into())],
                    ours: vec![],
                },
            ),
            (
                subscribed(&[]),
                Difference {
                    theirs: vec![],
                    ours: vec![("T".into(), "a || b".into())],
                },
            ),
        ] {
            assert_eq!(Difference::between(&theirs, &ours), differs);
        }
    }
}
