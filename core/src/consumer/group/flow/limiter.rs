//! How fast a group hands out messages: over all, and for single topics.
//!
//! ```text
//!  the group has no token ──► nobody's turn: the round stays as it is ──┐
//!  a topic has none ──► the queue steps aside, the others go on ────────┴─ timer ──► deliver
//! ```
//!
//! It holds back deliveries and nothing else: what waits for a token counts as fetched, and no deadline runs.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::mem;

use crate::ids::{QueueKey, Topic};
use crate::rate::Rate;
use crate::time::Instant;

use super::bucket::Bucket;

/// What a queue of a topic may have now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Allowance {
    /// As much as there is: nothing is limited.
    All,
    /// So many messages, at least one.
    Messages(u32),
    /// Nothing; nor may any other queue.
    NobodyYet,
    /// Nothing; other topics may.
    NotThisTopic,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Limiter {
    group: Option<Bucket>,
    topics: BTreeMap<Topic, Bucket>,
    /// Queues that have stepped aside because their topic has no token.
    aside: Vec<QueueKey>,
    /// When the group has a token, if somebody waits for that.
    group_waits: Option<Instant>,
    /// When the first topic has one that somebody waits for.
    topic_waits: Option<Instant>,
}

impl Limiter {
    pub(super) fn is_idle(&self) -> bool {
        self.group.is_none() && self.topics.is_empty()
    }

    /// Limits the group, or one topic of it; or does not any more.
    pub(super) fn set(&mut self, topic: Option<&Topic>, rate: Option<Rate>, now: Instant) {
        match (topic, rate) {
            (None, None) => self.group = None,
            (None, Some(rate)) => match &mut self.group {
                Some(bucket) => bucket.change(rate, now),
                None => self.group = Some(Bucket::full(rate, now)),
            },
            (Some(topic), None) => {
                self.topics.remove(topic);
            }
            (Some(topic), Some(rate)) => {
                let bucket = self.topics.entry(topic.clone());
                bucket
                    .and_modify(|bucket| bucket.change(rate, now))
                    .or_insert_with(|| Bucket::full(rate, now));
            }
        }
    }

    pub(super) fn rate(&self) -> Option<Rate> {
        self.group.as_ref().map(Bucket::rate)
    }

    pub(super) fn topic_rates(&self) -> impl ExactSizeIterator<Item = (&Topic, Rate)> {
        self.topics.iter().map(|(topic, bucket)| (topic, bucket.rate()))
    }

    pub(super) fn limits_topic(&self, topic: &Topic) -> bool {
        self.topics.contains_key(topic)
    }

    /// Whether deliveries of this topic may have to wait.
    pub(super) fn limits(&self, topic: &Topic) -> bool {
        self.group.is_some() || self.limits_topic(topic)
    }

    /// Until when deliveries wait, if some do.
    pub(super) fn waits_until(&self) -> Option<Instant> {
        let waits = [self.group_waits, self.topic_waits];
        waits.into_iter().flatten().min()
    }

    /// Turns begin anew: whether somebody waits for the group's tokens will show.
    pub(super) const fn begin(&mut self) {
        self.group_waits = None;
    }

    /// What a queue may have whose turn it is, of `waiting` queues.
    pub(super) fn allowance(&mut self, now: Instant, topic: &Topic, waiting: usize) -> Allowance {
        if self.is_idle() {
            return Allowance::All;
        }
        let mut most = u32::MAX;
        if let Some(group) = &self.group {
            most = group.tokens(now);
            if most == 0 {
                self.group_waits = Some(group.ready_at(now));
                return Allowance::NobodyYet;
            }
            // One queue with much in it does not take what all of them wait for.
            most = most.div_ceil(u32::try_from(waiting).unwrap_or(u32::MAX).max(1));
        }
        if let Some(bucket) = self.topics.get(topic) {
            let tokens = bucket.tokens(now);
            if tokens == 0 {
                let at = bucket.ready_at(now);
                self.topic_waits = Some(self.topic_waits.map_or(at, |first| first.min(at)));
                return Allowance::NotThisTopic;
            }
            most = most.min(tokens);
        }
        Allowance::Messages(most)
    }

    /// So many messages were handed out.
    pub(super) fn spend(&mut self, now: Instant, topic: &Topic, messages: u32) {
        if let Some(group) = &mut self.group {
            group.take(messages, now);
        }
        if let Some(bucket) = self.topics.get_mut(topic) {
            bucket.take(messages, now);
        }
    }

    pub(super) fn step_aside(&mut self, queue: QueueKey) {
        self.aside.push(queue);
    }

    /// Everybody who stepped aside is back, in the order they went.
    pub(super) fn come_back(&mut self) -> Vec<QueueKey> {
        self.topic_waits = None;
        mem::take(&mut self.aside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    fn ask(limiter: &mut Limiter, millis: u64, topic: &str, waiting: usize) -> Allowance {
        limiter.allowance(at(millis), &topic.into(), waiting)
    }

    #[test]
    fn nothing_is_limited_unless_it_is_asked_for() {
        let mut limiter = Limiter::default();
        assert_eq!(ask(&mut limiter, 0, "T", 3), Allowance::All);
        limiter.spend(at(0), &"T".into(), 1_000);
        assert_eq!(
            (limiter.waits_until(), limiter.limits(&"T".into())),
            (None, false)
        );
        limiter.set(None, Some(Rate::per_second(10)), at(0));
        limiter.set(None, None, at(0));
        assert_eq!(ask(&mut limiter, 0, "T", 3), Allowance::All);
    }

    #[test]
    fn the_queues_that_wait_share_the_tokens_of_the_group() {
        let mut limiter = Limiter::default();
        limiter.set(None, Some(Rate::per_second(10).with_burst(10)), at(0));
        for (waiting, most) in [(0, 10), (1, 10), (3, 4), (10, 1), (50, 1)] {
            assert_eq!(
                ask(&mut limiter, 0, "T", waiting),
                Allowance::Messages(most),
                "{waiting}"
            );
        }
        limiter.spend(at(0), &"T".into(), 10);
        assert_eq!(limiter.waits_until(), None, "nobody has asked");
        assert_eq!(ask(&mut limiter, 0, "T", 1), Allowance::NobodyYet);
        assert_eq!(limiter.waits_until(), Some(at(100)));
        limiter.begin();
        assert_eq!(limiter.waits_until(), None);
        assert_eq!(ask(&mut limiter, 100, "T", 1), Allowance::Messages(1));
    }

    #[test]
    fn a_topic_without_tokens_holds_back_itself_only() {
        const QUEUE: QueueKey = QueueKey {
            slot: 0,
            generation: 1,
        };
        let mut limiter = Limiter::default();
        limiter.set(Some(&"slow".into()), Some(Rate::per_second(2)), at(0));
        limiter.set(Some(&"other".into()), Some(Rate::per_second(1)), at(0));
        assert_eq!(ask(&mut limiter, 0, "slow", 2), Allowance::Messages(1));
        limiter.spend(at(0), &"slow".into(), 1);
        limiter.spend(at(0), &"other".into(), 1);
        assert_eq!(ask(&mut limiter, 0, "other", 2), Allowance::NotThisTopic);
        assert_eq!(ask(&mut limiter, 0, "slow", 2), Allowance::NotThisTopic);
        limiter.step_aside(QUEUE);
        assert_eq!(ask(&mut limiter, 0, "fast", 2), Allowance::Messages(u32::MAX));
        assert_eq!(limiter.waits_until(), Some(at(500)), "the earlier of both");
        limiter.begin();
        assert_eq!(limiter.waits_until(), Some(at(500)), "the queue is aside still");
        assert_eq!(limiter.come_back(), [QUEUE]);
        assert_eq!((limiter.waits_until(), limiter.come_back().len()), (None, 0));
        assert_eq!(ask(&mut limiter, 500, "slow", 2), Allowance::Messages(1));
        assert_eq!(limiter.topic_rates().count(), 2);
    }
}
