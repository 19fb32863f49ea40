//! Messages are handed out no faster than a group and its topics are allowed to.
//!
//! Source: issue "Modes", 4: over any time `t` at most `per_second · t + burst` messages are handed out, those that are
//! tried again among them.
//!
//! Legal all the same: a burst whenever a rate is set anew, and a microsecond more or less.

use std::collections::BTreeMap;

use rocketmq_consumer_core::event::AppEvent;
use rocketmq_consumer_core::ids::Topic;
use rocketmq_consumer_core::rate::Rate;
use rocketmq_consumer_core::time::Instant;

use crate::sim::invariant::{Broken, Invariant, View};
use crate::sim::seen::{Deed, Kind, Life, Seen, Sight, Sights, What};

const SECOND: u64 = 1_000_000;

/// What may be handed out, in millionths of a message.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    rate: Rate,
    left: u64,
    at: Instant,
}

impl Bucket {
    fn new(at: Instant, rate: Rate) -> Self {
        let left = Self::most(rate);
        Self { rate, left, at }
    }

    fn most(rate: Rate) -> u64 {
        u64::from(rate.burst()) * SECOND
    }

    /// Takes so many messages. Whether they were there, but for what a microsecond brings.
    fn take(&mut self, at: Instant, messages: u32) -> bool {
        let micros = u64::try_from(at.saturating_since(self.at).as_micros()).unwrap_or(u64::MAX);
        let per_second = u64::from(self.rate.messages_per_second());
        let filled = self.left.saturating_add(micros.saturating_mul(per_second));
        self.left = filled.min(Self::most(self.rate));
        self.at = at;
        let wanted = u64::from(messages) * SECOND;
        let is_there = self.left + per_second >= wanted;
        self.left = self.left.saturating_sub(wanted);
        is_there
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct RateIsKept {
    /// By life and topic; without a topic, of the whole group.
    buckets: BTreeMap<(Life, Option<Topic>), Bucket>,
}

impl RateIsKept {
    fn begin(&mut self, at: Instant, life: Life, view: &dyn View) {
        let config = view.config(life);
        let topics = config.topic_rate_limits().iter();
        let topics = topics.map(|(topic, rate)| (Some(topic.clone()), *rate));
        let group = config.rate_limit().map(|rate| (None, rate));
        for (topic, rate) in topics.chain(group) {
            self.buckets.insert((life, topic), Bucket::new(at, rate));
        }
    }

    fn change(&mut self, at: Instant, life: Life, topic: Option<&Topic>, rate: Option<Rate>) {
        let key = (life, topic.cloned());
        match rate {
            Some(rate) => _ = self.buckets.insert(key, Bucket::new(at, rate)),
            None => _ = self.buckets.remove(&key),
        }
    }
}

impl Invariant for RateIsKept {
    fn name(&self) -> &'static str {
        "rate_is_kept"
    }

    fn looks_at(&self) -> Sights {
        Sights::of(&[Sight::Begun, Sight::Wished, Sight::Delivered, Sight::Over])
    }

    fn see(&mut self, seen: &Seen<'_>, view: &dyn View) -> Result<(), Broken> {
        let What::Member { life, deed } = seen.what else {
            return Ok(());
        };
        match deed {
            Deed::Begun { kind: Kind::Ours, .. } => self.begin(seen.at, life, view),
            Deed::Wished(AppEvent::RateLimit { topic, rate, .. }) => {
                self.change(seen.at, life, topic.as_ref(), *rate);
            }
            _ if self.buckets.is_empty() => {}
            Deed::Killed | Deed::Closed => self.buckets.retain(|(of, _), _| *of != life),
            Deed::Delivered { batch, range, .. } => {
                for topic in [None, Some(batch.queue().topic.clone())] {
                    let Some(bucket) = self.buckets.get_mut(&(life, topic)) else {
                        continue;
                    };
                    if !bucket.take(seen.at, range.len()) {
                        let queue = batch.queue();
                        return Err(Broken(format!(
                            "{life:?} hands out {} of {queue} too soon for {bucket:?}",
                            range.len()
                        )));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::bench::Bench;
    use super::*;

    /// Ten messages a second, and three at once.
    fn bench(topic: Option<&str>) -> Bench<RateIsKept> {
        let rate = Rate::per_second(10).with_burst(3);
        let mut bench = Bench::new(RateIsKept::default());
        match topic {
            Some(topic) => bench
                .world
                .config
                .set_topic_rate_limits(vec![(topic.into(), rate)]),
            None => bench.world.config.set_rate_limit(Some(rate)),
        };
        bench.at(0).ours();
        bench
    }

    #[test]
    fn a_burst_and_then_one_by_one() {
        for topic in [None, Some("T")] {
            bench(topic).deliver(1, 0..4).breaks("too soon");
            let mut bench = bench(topic);
            bench
                .deliver(1, 0..3)
                .at(100)
                .deliver(2, 3..4)
                .at(200)
                .deliver(3, 4..5)
                .legal();
            bench.at(299).deliver(4, 5..6).breaks("too soon");
        }
        bench(Some("U")).deliver(1, 0..9).legal();
    }

    #[test]
    fn what_was_not_used_is_kept_up_to_a_burst() {
        let mut bench = bench(None);
        bench.deliver(1, 0..3).at(60_000).deliver(2, 3..6).legal();
        bench.deliver(3, 6..7).breaks("too soon");
    }

    #[test]
    fn a_rate_can_be_changed_and_taken_away() {
        let change = |bench: &mut Bench<RateIsKept>, rate: Option<Rate>| {
            let (group, topic) = ("G".into(), None);
            bench.deed(Deed::Wished(&AppEvent::RateLimit { group, topic, rate }));
        };
        let mut bench = bench(None);
        change(&mut bench, None);
        bench.deliver(1, 0..9).legal();
        change(&mut bench, Some(Rate::per_second(10).with_burst(1)));
        bench.deliver(2, 9..10).legal();
        bench.deliver(3, 10..11).breaks("too soon");
    }
}
