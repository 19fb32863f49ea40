//! How the topics of a group are getting on: rates and durations of the last minute, failures of the last hour.
//!
//! Counted once for a pull and once for a report of a run, never for a message alone. The past is cut into slices;
//! a slice that is old enough is counted over, so nothing here grows and no timer is needed.
//= rocketmq: ConsumerStatsManager type=differs
//  reason: sampled when something happens instead of by timers; a handler's time includes its wait for a lane.

use alloc::collections::BTreeMap;
use core::time::Duration;

use crate::ids::Topic;
use crate::time::Instant;
use crate::wire::request::running_info::TopicStatus;

/// How often something happened, and how long it took in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    count: u64,
    micros: u64,
}

/// Sums over the last `SLICES` stretches of `SECS` seconds, the one that has begun among them.
#[derive(Clone, Debug)]
struct Rolling<const SLICES: usize, const SECS: u64> {
    slices: [Sum; SLICES],
    /// The newest slice, counted from the origin of time.
    newest: u64,
}

impl<const SLICES: usize, const SECS: u64> Default for Rolling<SLICES, SECS> {
    fn default() -> Self {
        Self {
            slices: [Sum::default(); SLICES],
            newest: 0,
        }
    }
}

impl<const SLICES: usize, const SECS: u64> Rolling<SLICES, SECS> {
    const fn slice(now: Instant) -> u64 {
        now.as_micros() / (SECS * 1_000_000)
    }

    /// Of what time [`Self::sum`] tells, when everything began at `start`; one second at least.
    fn covers(start: Instant, now: Instant) -> Duration {
        let oldest = Self::slice(now).saturating_sub(SLICES as u64 - 1);
        let begins = Instant::from_micros(oldest * SECS * 1_000_000).max(start);
        now.saturating_since(begins).max(Duration::from_secs(1))
    }

    fn add(&mut self, now: Instant, count: u64, micros: u64) {
        let slice = Self::slice(now);
        let gone = slice.saturating_sub(self.newest).min(SLICES as u64);
        for old in 0..gone {
            self.slices[Self::place(slice - old)] = Sum::default();
        }
        self.newest = self.newest.max(slice);
        let sum = &mut self.slices[Self::place(self.newest)];
        sum.count = sum.count.saturating_add(count);
        sum.micros = sum.micros.saturating_add(micros);
    }

    fn sum(&self, now: Instant) -> Sum {
        let slice = Self::slice(now);
        let oldest = slice.saturating_sub(SLICES as u64 - 1);
        let mut sum = Sum::default();
        for slice in oldest..=self.newest {
            let Sum { count, micros } = self.slices[Self::place(slice)];
            sum.count = sum.count.saturating_add(count);
            sum.micros = sum.micros.saturating_add(micros);
        }
        sum
    }

    const fn place(slice: u64) -> usize {
        (slice % SLICES as u64) as usize
    }
}

type Minute = Rolling<6, 10>;
type Hour = Rolling<12, 300>;

/// One topic.
#[derive(Clone, Debug, Default)]
struct Tempo {
    pulls: Minute,
    fetched: Minute,
    done: Minute,
    failed: Minute,
    failed_in_hour: Hour,
}

impl Tempo {
    fn status(&self, start: Instant, now: Instant) -> TopicStatus {
        let covers = Minute::covers(start, now);
        let (pulls, done, failed) = (self.pulls.sum(now), self.done.sum(now), self.failed.sum(now));
        let handled = Sum {
            count: done.count.saturating_add(failed.count),
            micros: done.micros.saturating_add(failed.micros),
        };
        TopicStatus {
            failed_messages: i64::try_from(self.failed_in_hour.sum(now).count).unwrap_or(i64::MAX),
            failed_tps: rate(failed.count, covers),
            ok_tps: rate(done.count, covers),
            consume_millis: mean_millis(handled),
            pull_millis: mean_millis(pulls),
            pull_tps: rate(self.fetched.sum(now).count, covers),
        }
    }
}

/// A second, in thousandths, so that arithmetic stays one of integers.
fn rate(count: u64, over: Duration) -> f64 {
    let micros = u64::try_from(over.as_micros()).unwrap_or(u64::MAX).max(1);
    let thousandths = u128::from(count) * 1_000_000_000 / u128::from(micros);
    thousandths_of(thousandths)
}

fn mean_millis(sum: Sum) -> f64 {
    // Microseconds are thousandths of milliseconds.
    thousandths_of(u128::from(sum.micros / sum.count.max(1)))
}

fn thousandths_of(number: u128) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX)) / 1000.0
}

/// All topics of a group.
#[derive(Clone, Debug)]
pub(in crate::consumer::group) struct Tempos {
    start: Instant,
    topics: BTreeMap<Topic, Tempo>,
}

impl Tempos {
    pub(in crate::consumer::group) const fn new(start: Instant) -> Self {
        Self {
            start,
            topics: BTreeMap::new(),
        }
    }

    /// A pull has brought messages.
    pub(in crate::consumer::group) fn pulled(
        &mut self,
        now: Instant,
        topic: &Topic,
        took: Duration,
        messages: usize,
    ) {
        let tempo = self.of(topic);
        tempo.pulls.add(now, 1, micros(took));
        tempo.fetched.add(now, messages as u64, 0);
    }

    /// Handlers have ended that began `took` ago, or began to wait for a lane.
    pub(in crate::consumer::group) fn handled(
        &mut self,
        now: Instant,
        topic: &Topic,
        took: Duration,
        (done, failed): (u64, u64),
    ) {
        let took = micros(took);
        let tempo = self.of(topic);
        tempo.done.add(now, done, took.saturating_mul(done));
        if failed > 0 {
            tempo.failed.add(now, failed, took.saturating_mul(failed));
            tempo.failed_in_hour.add(now, failed, 0);
        }
    }

    /// How a topic is getting on; all zero when nothing has happened yet.
    pub(super) fn status(&self, now: Instant, topic: &Topic) -> TopicStatus {
        let tempo = self.topics.get(topic);
        tempo.map_or_else(TopicStatus::default, |tempo| tempo.status(self.start, now))
    }

    /// A topic that is no longer subscribed to.
    pub(in crate::consumer::group) fn retain(&mut self, is_ours: impl Fn(&Topic) -> bool) {
        self.topics.retain(|topic, _| is_ours(topic));
    }

    fn of(&mut self, topic: &Topic) -> &mut Tempo {
        if !self.topics.contains_key(topic) {
            self.topics.insert(topic.clone(), Tempo::default());
        }
        self.topics.get_mut(topic).expect("it was put there")
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn at(secs: u64) -> Instant {
        Instant::from_millis(secs * 1000)
    }

    #[test]
    fn a_minute_later_it_is_forgotten_and_an_hour_later_failures_are() {
        let mut tempos = Tempos::new(at(0));
        let topic = Topic::from("T");
        tempos.pulled(at(5), &topic, Duration::from_millis(40), 32);
        tempos.pulled(at(6), &topic, Duration::from_millis(20), 28);
        tempos.handled(at(8), &topic, Duration::from_millis(3), (50, 0));
        tempos.handled(at(9), &topic, Duration::from_millis(9), (0, 10));
        let status = TopicStatus {
            failed_messages: 10,
            failed_tps: 1.0,
            ok_tps: 5.0,
            consume_millis: 4.0,
            pull_millis: 30.0,
            pull_tps: 6.0,
        };
        assert_eq!(tempos.status(at(10), &topic), status);
        assert_eq!(tempos.status(at(10), &"U".into()), TopicStatus::default());
        // The slice from 0 to 10 s is still among the six at 59 s, and not any more at 60 s.
        assert!(tempos.status(at(59), &topic).ok_tps > 0.8);
        let later = TopicStatus {
            failed_messages: 10,
            ..TopicStatus::default()
        };
        assert_eq!(tempos.status(at(60), &topic), later);
        assert_eq!(tempos.status(at(3600), &topic), TopicStatus::default());
    }

    #[test]
    fn what_has_only_begun_is_not_divided_by_a_minute() {
        let mut tempos = Tempos::new(at(100));
        tempos.handled(at(102), &"T".into(), Duration::ZERO, (20, 0));
        let rate = tempos.status(at(102), &"T".into()).ok_tps;
        assert!((rate - 10.0).abs() < 0.001, "{rate}");
    }

    #[test]
    fn topics_that_are_left_are_forgotten() {
        let mut tempos = Tempos::new(at(0));
        for topic in ["T", "U"] {
            tempos.pulled(at(1), &topic.into(), Duration::ZERO, 1);
        }
        tempos.retain(|topic| topic.as_str() == "U");
        assert_eq!(tempos.topics.len(), 1);
    }

    proptest! {
        #[test]
        fn slices_are_what_a_list_of_everything_would_be(
            steps in prop::collection::vec((0..40_000_u64, 0..5_u64, 0..9_u64), 1..60),
        ) {
            let (mut rolling, mut list, mut now) = (Minute::default(), alloc::vec::Vec::new(), 0);
            for (pause, count, micros) in steps {
                now += pause;
                let moment = Instant::from_millis(now);
                rolling.add(moment, count, micros);
                list.push((now, count, micros));
                for later in [0, 9_999, 35_000, 70_000] {
                    let oldest = ((now + later) / 10_000).saturating_sub(5) * 10_000;
                    let kept = || list.iter().filter(|(at, ..)| *at >= oldest);
                    let want = Sum { count: kept().map(|(_, count, _)| count).sum(), micros: kept().map(|(.., micros)| micros).sum() };
                    prop_assert_eq!(rolling.sum(Instant::from_millis(now + later)), want);
                }
            }
        }
    }
}
