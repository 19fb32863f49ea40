use std::mem;

use futures_channel::oneshot;
use rocketmq_consumer_core::action::RefusalReason;
use rocketmq_consumer_core::config::FilterExpression;
use rocketmq_consumer_core::ids::Topic;

use crate::error::{FilterRefusal, SubscribeError};

/// A wish about one topic of a group, and who waits for its answer.
pub(crate) struct SubscriptionChange {
    pub(crate) topic: Topic,
    /// Which of its messages, as notices name it; `None` for none of them.
    pub(crate) filter: Option<FilterExpression>,
    pub(crate) reply: oneshot::Sender<Result<(), SubscribeError>>,
}

impl SubscriptionChange {
    fn is(&self, topic: &Topic, filter: Option<&FilterExpression>) -> bool {
        &self.topic == topic && self.filter.as_ref() == filter
    }

    fn end(self, result: Result<(), SubscribeError>) {
        // Whoever does not wait any more does not want to know.
        let _gone = self.reply.send(result);
    }
}

/// What was wished of the subscriptions of one group and is not answered yet.
///
/// A refusal names no topic. It comes within the same call of the machine, so it is about the wish that is being
/// put to it.
#[derive(Default)]
pub(crate) struct SubscriptionChanges {
    asking: Option<SubscriptionChange>,
    waiting: Vec<SubscriptionChange>,
}

impl SubscriptionChanges {
    /// This one is put to the machine now.
    pub(crate) fn ask(&mut self, change: SubscriptionChange) {
        self.waiting.retain(|waiting| !waiting.reply.is_canceled());
        self.asking = Some(change);
    }

    /// The machine has refused it.
    pub(crate) fn refused(&mut self, why: RefusalReason) {
        if let Some(asking) = self.asking.take() {
            asking.end(Err(SubscribeError::Refused(why)));
        }
    }

    /// The machine has taken it, if it has not refused it: earlier wishes about the topic will not be answered.
    pub(crate) fn taken(&mut self) {
        let Some(newest) = self.asking.take() else { return };
        for earlier in self.take(|waiting| waiting.topic == newest.topic && waiting.filter != newest.filter) {
            earlier.end(Err(SubscribeError::Superseded));
        }
        self.waiting.push(newest);
    }

    /// A change is in force.
    pub(crate) fn in_force(&mut self, topic: &Topic, filter: Option<&FilterExpression>) {
        for change in self.take(|change| change.is(topic, filter)) {
            change.end(Ok(()));
        }
    }

    /// A broker does not take a filter; true when somebody waited for that.
    pub(crate) fn filter_refused(&mut self, refusal: &FilterRefusal) -> bool {
        let refused = self.take(|change| change.is(&refusal.topic, Some(&refusal.filter)));
        let is_awaited = !refused.is_empty();
        for change in refused {
            change.end(Err(SubscribeError::FilterRefused(refusal.clone())));
        }
        is_awaited
    }

    fn take(&mut self, is_meant: impl Fn(&SubscriptionChange) -> bool) -> Vec<SubscriptionChange> {
        let all = mem::take(&mut self.waiting);
        let (mut taken, left): (Vec<_>, Vec<_>) = all.into_iter().partition(&is_meant);
        self.waiting = left;
        taken.extend(self.asking.take_if(|asking| is_meant(asking)));
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Answer = oneshot::Receiver<Result<(), SubscribeError>>;

    fn ask(changes: &mut SubscriptionChanges, topic: &str, tags: Option<&str>) -> Answer {
        let (reply, answer) = oneshot::channel();
        changes.ask(SubscriptionChange {
            topic: topic.into(),
            filter: tags.map(Into::into),
            reply,
        });
        answer
    }

    fn told(answer: &mut Answer) -> Option<Result<(), SubscribeError>> {
        answer.try_recv().expect("nobody drops an answer")
    }

    #[test]
    fn a_refusal_is_about_the_wish_that_is_being_put() {
        let mut changes = SubscriptionChanges::default();
        let mut first = ask(&mut changes, "T", Some("a"));
        changes.taken();
        let mut second = ask(&mut changes, "T", Some("b"));
        changes.refused(RefusalReason::LastTopic);
        changes.taken();
        let refused = SubscribeError::Refused(RefusalReason::LastTopic);
        assert_eq!((told(&mut first), told(&mut second)), (None, Some(Err(refused))));
        changes.in_force(&"T".into(), Some(&"a".into()));
        assert_eq!(told(&mut first), Some(Ok(())));
    }

    #[test]
    fn a_later_wish_about_the_topic_takes_the_place_of_an_earlier_one() {
        let mut changes = SubscriptionChanges::default();
        let mut answers = [
            ("T", Some("a")),
            ("U", Some("a")),
            ("T", Some("b")),
            ("T", Some("b")),
        ]
        .map(|(topic, tags)| {
            let answer = ask(&mut changes, topic, tags);
            changes.taken();
            answer
        });
        let superseded = Some(Err(SubscribeError::Superseded));
        assert_eq!(answers.each_mut().map(told), [superseded, None, None, None]);
        changes.in_force(&"T".into(), Some(&"b".into()));
        let [_, other, one, again] = answers.each_mut();
        assert_eq!(
            (told(one), told(again), told(other)),
            (Some(Ok(())), Some(Ok(())), None)
        );
    }

    #[test]
    fn what_is_in_force_already_is_answered_within_the_call() {
        let mut changes = SubscriptionChanges::default();
        let mut answer = ask(&mut changes, "T", None);
        changes.in_force(&"T".into(), None);
        changes.taken();
        assert_eq!(told(&mut answer), Some(Ok(())));
    }

    #[test]
    fn a_refused_filter_ends_the_wish_for_it_and_no_other() {
        let mut changes = SubscriptionChanges::default();
        let mut answer = ask(&mut changes, "T", Some("a"));
        changes.taken();
        let refusal = |tags: &str| FilterRefusal {
            topic: "T".into(),
            filter: tags.into(),
            by: "broker-a".into(),
            code: 23,
            remark: "no".into(),
        };
        assert!(!changes.filter_refused(&refusal("b")));
        assert!(changes.filter_refused(&refusal("a")));
        assert_eq!(
            told(&mut answer),
            Some(Err(SubscribeError::FilterRefused(refusal("a"))))
        );
    }
}
