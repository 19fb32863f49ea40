//! What the broker knows of a queue's progress, and when it must be told again.
//!
//! Brokers overwrite offsets blindly, forget the last seconds when they crash, and another member's
//! stale commit may come late. So an offset is not only committed when it has changed.
//!
//! Our own late commits are those that pulls carry: a broker has other threads for pulls than for
//! commits, so what a pull carries may be stored after a commit that was sent later and is already
//! acknowledged. As long as that can be, an acknowledgement proves nothing: the offset is committed
//! once more when the pull is answered, or when the broker has had time enough to begin holding it.
//= rocketmq: RemoteBrokerOffsetStore.persistAll type=differs
//  reason: commits are acknowledged and sent when changed, plus a few repeats, instead of one-way and
//  every 5 s for every queue.

use core::time::Duration;

use crate::ids::QueueOffset;
use crate::time::Instant;

/// Repeats of an unchanged offset after the queue was acquired: they win over a late commit of the
/// member that held it before.
const AFTER_ACQUIRE: [Duration; 3] = [
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(30),
];

/// An unchanged offset is repeated this long after the last acknowledgement.
const UNCHANGED: Duration = Duration::from_secs(60);

/// How long a broker may take to store what a pull carries. It does so before it holds the pull; on a
/// busy one 50 ms were seen. Short enough for a last commit before another member asks (500 ms).
const CARRIED: Duration = Duration::from_millis(200);

/// An offset on its way with a pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Carried {
    offset: QueueOffset,
    serial: u64,
    stored_by: Instant,
}

/// What is known of the offset that the master has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Floor {
    /// It is no matter: the start was the master's own word.
    None,
    /// The start was the word of a slave, which may be behind its master: nothing is committed before the master
    /// has said what it has.
    Unknown,
    /// It has this; a lower offset would take back what was finished.
    At(QueueOffset),
}

#[derive(Clone, Debug)]
pub(crate) struct Progress {
    acknowledged: Option<QueueOffset>,
    /// Commits on their way: one, or two when a queue is given back meanwhile. Only the last answer ends that.
    in_flight: u8,
    /// What the pull that is out carries.
    carried: Option<Carried>,
    /// The same of the ownership before, which was moved elsewhere.
    inherited: Option<Carried>,
    /// The commit in flight, or else the last one, may be overtaken by what is carried.
    unsure: bool,
    acquired_at: Instant,
    repeats: usize,
    last_acknowledged_at: Instant,
    /// The broker may have forgotten: the start position is not stored, or its link broke.
    must_tell: bool,
    floor: Floor,
    /// Whether it is kept by the group, which forgets nothing and tells no broker.
    kept_here: bool,
}

impl Progress {
    /// `stored` is what the broker has, if it has something.
    pub(crate) const fn new(stored: Option<QueueOffset>, now: Instant) -> Self {
        Self {
            acknowledged: stored,
            in_flight: 0,
            carried: None,
            inherited: None,
            unsure: false,
            acquired_at: now,
            repeats: 0,
            last_acknowledged_at: now,
            must_tell: stored.is_none(),
            floor: Floor::None,
            kept_here: false,
        }
    }

    /// The group keeps it; `stored` is what it has, if it has something.
    pub(crate) const fn kept_here(stored: Option<QueueOffset>, now: Instant) -> Self {
        Self {
            kept_here: true,
            ..Self::new(stored, now)
        }
    }

    /// The start was the word of a slave.
    pub(crate) const fn doubt(&mut self) {
        self.floor = Floor::Unknown;
    }

    pub(crate) fn is_in_doubt(&self) -> bool {
        self.floor == Floor::Unknown
    }

    /// The master has told what it has.
    pub(crate) fn verified(&mut self, stored: Option<QueueOffset>) {
        if self.is_in_doubt() {
            self.floor = stored.map_or(Floor::None, Floor::At);
            self.acknowledged = stored;
            self.must_tell |= stored.is_none();
        }
    }

    /// Whether `value` would take back what the master has.
    pub(crate) fn is_below_floor(&self, value: QueueOffset) -> bool {
        matches!(self.floor, Floor::At(floor) if value < floor)
    }

    /// Whether `value` may be stored without asking first.
    pub(crate) fn may_store(&self, value: QueueOffset) -> bool {
        !self.kept_here && !self.is_in_doubt() && !self.is_below_floor(value)
    }

    /// Whether `value` is to be committed now.
    pub(crate) fn is_due(&self, value: QueueOffset, now: Instant) -> bool {
        if self.is_in_flight() || self.is_below_floor(value) {
            return false;
        }
        let repeat_at = AFTER_ACQUIRE
            .get(self.repeats)
            .map_or(self.last_acknowledged_at + UNCHANGED, |after| {
                self.acquired_at + *after
            });
        let is_overtaken = self.unsure && self.carried_until(value, now).is_none();
        let is_repeated = !self.kept_here && now >= repeat_at;
        is_overtaken || self.must_tell || self.acknowledged != Some(value) || is_repeated
    }

    pub(crate) fn sent(&mut self, value: QueueOffset, now: Instant) {
        self.in_flight = self.in_flight.saturating_add(1);
        self.unsure = self.carried_until(value, now).is_some();
    }

    /// A pull goes out that carries an offset.
    pub(crate) fn carry(&mut self, offset: QueueOffset, serial: u64, now: Instant) {
        self.carried = Some(Carried {
            offset,
            serial,
            stored_by: now + CARRIED,
        });
    }

    /// What the pull of an earlier ownership carries that was moved elsewhere: its answer is nobody's any more.
    pub(crate) const fn inherit(&mut self, carried: Option<Carried>) {
        self.inherited = carried;
    }

    /// What the ownership that follows this one inherits: a pull carries it, and it may not be stored yet.
    pub(crate) fn legacy(&self, now: Instant) -> Option<Carried> {
        let all = [self.carried, self.inherited].into_iter().flatten();
        all.filter(|carried| now < carried.stored_by)
            .max_by_key(|carried| carried.stored_by)
    }

    /// A pull was answered, so what it carried is stored.
    pub(crate) fn carried_stored(&mut self, serial: u64) {
        self.carried.take_if(|carried| carried.serial == serial);
    }

    /// Until when another offset than `value` may still be stored that a pull carries.
    pub(crate) fn carried_until(&self, value: QueueOffset, now: Instant) -> Option<Instant> {
        self.late(value, now).map(|carried| carried.stored_by).max()
    }

    /// What a pull carries, if that may still overtake `value`.
    pub(crate) fn overtaking(&self, value: QueueOffset, now: Instant) -> Option<QueueOffset> {
        self.late(value, now).map(|carried| carried.offset).next()
    }

    /// What may be stored after `value`: lower offsets of this ownership, and any that the one before had come to.
    fn late(&self, value: QueueOffset, now: Instant) -> impl Iterator<Item = Carried> {
        let lower = self.carried.filter(|carried| carried.offset < value);
        let other = self.inherited.filter(|carried| carried.offset != value);
        let all = [lower, other].into_iter().flatten();
        all.filter(move |carried| now < carried.stored_by)
    }

    /// Whether the broker has acknowledged `value`, and nothing of ours may change that.
    pub(crate) fn is_safe(&self, value: QueueOffset) -> bool {
        let is_stored = self.acknowledged == Some(value) && !self.unsure;
        !self.is_in_flight() && (is_stored || self.is_below_floor(value))
    }

    pub(crate) fn acknowledged_at(&mut self, value: QueueOffset, now: Instant) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.acknowledged = Some(value);
        self.must_tell = false;
        self.last_acknowledged_at = now;
        while AFTER_ACQUIRE
            .get(self.repeats)
            .is_some_and(|after| now >= self.acquired_at + *after)
        {
            self.repeats += 1;
        }
    }

    pub(crate) const fn failed(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// The broker's link is new: it may be another life of that broker.
    pub(crate) const fn broker_came_back(&mut self) {
        self.must_tell |= !self.kept_here;
    }

    pub(crate) const fn acknowledged(&self) -> Option<QueueOffset> {
        self.acknowledged
    }

    pub(crate) const fn is_in_flight(&self) -> bool {
        self.in_flight > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(secs: u64) -> Instant {
        Instant::from_millis(secs * 1000)
    }

    #[test]
    fn a_changed_offset_is_due_and_an_unchanged_one_is_repeated_at_5_10_30_and_every_60_seconds() {
        let mut progress = Progress::new(Some(QueueOffset(7)), at(0));
        let mut told = alloc::vec::Vec::new();
        for second in 1..=160 {
            if progress.is_due(QueueOffset(7), at(second)) {
                progress.sent(QueueOffset(7), at(second));
                assert!(
                    !progress.is_due(QueueOffset(8), at(second)),
                    "one commit at a time"
                );
                progress.acknowledged_at(QueueOffset(7), at(second));
                told.push(second);
            }
        }
        assert_eq!(told, [5, 10, 30, 90, 150]);
        assert!(progress.is_due(QueueOffset(8), at(160)));
    }

    #[test]
    fn a_start_position_nobody_stored_and_a_reconnected_broker_are_told_at_once() {
        let mut progress = Progress::new(None, at(0));
        assert!(progress.is_due(QueueOffset(0), at(0)));
        progress.sent(QueueOffset(0), at(0));
        progress.acknowledged_at(QueueOffset(0), at(0));
        assert!(!progress.is_due(QueueOffset(0), at(1)));
        progress.broker_came_back();
        assert!(progress.is_due(QueueOffset(0), at(1)));
    }

    #[test]
    fn what_the_group_keeps_is_told_when_it_changes_and_never_to_a_broker() {
        let mut progress = Progress::kept_here(Some(QueueOffset(7)), at(0));
        progress.broker_came_back();
        let told = (1..=160).any(|second| progress.is_due(QueueOffset(7), at(second)));
        assert!(!told && !progress.may_store(QueueOffset(8)));
        assert!(progress.is_due(QueueOffset(8), at(1)));
        let chosen = Progress::kept_here(None, at(0));
        assert!(chosen.is_due(QueueOffset(0), at(0)), "a start that was chosen");
    }

    #[test]
    fn a_failed_commit_stays_due() {
        let mut progress = Progress::new(Some(QueueOffset(1)), at(0));
        progress.sent(QueueOffset(2), at(0));
        progress.failed();
        assert!(progress.is_due(QueueOffset(2), at(1)));
        assert_eq!(progress.acknowledged(), Some(QueueOffset(1)));
    }

    #[test]
    fn a_last_commit_is_awaited_though_an_earlier_one_is_answered_meanwhile() {
        let answers: [fn(&mut Progress); 2] = [
            |progress| progress.acknowledged_at(QueueOffset(2), at(1)),
            |progress| progress.failed(),
        ];
        for answer in answers {
            let mut progress = Progress::new(Some(QueueOffset(1)), at(0));
            progress.sent(QueueOffset(2), at(0));
            progress.sent(QueueOffset(3), at(1));
            answer(&mut progress);
            assert!(progress.is_in_flight());
            progress.acknowledged_at(QueueOffset(3), at(2));
            assert!(progress.is_safe(QueueOffset(3)));
        }
    }

    #[test]
    fn a_commit_that_a_pull_may_overtake_is_sent_once_more() {
        let ms = Instant::from_millis;
        // What is carried, when the commit of 7 goes out, whether the pull is answered before 50 ms
        // have passed, and whether and when the commit is repeated.
        let table = [
            (6, 1, false, Some(200)),
            (6, 1, true, Some(50)),
            (7, 1, false, None),
            (6, 200, false, None),
        ];
        for (carried, sent_at, answered, again) in table {
            let mut progress = Progress::new(Some(QueueOffset(5)), ms(0));
            progress.carry(QueueOffset(carried), 3, ms(0));
            progress.carried_stored(2);
            progress.sent(QueueOffset(7), ms(sent_at));
            progress.acknowledged_at(QueueOffset(7), ms(sent_at));
            assert_eq!(progress.is_safe(QueueOffset(7)), again.is_none(), "{carried}");
            if answered {
                progress.carried_stored(3);
            }
            let due = (50..400).find(|now| progress.is_due(QueueOffset(7), ms(*now)));
            assert_eq!(due, again, "{carried} carried, committed at {sent_at}");
            if let Some(due) = due {
                progress.sent(QueueOffset(7), ms(due));
                progress.acknowledged_at(QueueOffset(7), ms(due));
                assert!(progress.is_safe(QueueOffset(7)));
            }
        }
    }

    #[test]
    fn what_an_earlier_ownership_sent_is_looked_out_for_in_both_directions() {
        let ms = Instant::from_millis;
        for (carried, again) in [(900, Some(200)), (100, Some(200)), (300, None)] {
            let mut before = Progress::new(Some(QueueOffset(5)), ms(0));
            before.carry(QueueOffset(carried), 3, ms(0));
            assert_eq!(before.legacy(ms(200)), None, "stored by then");
            let mut progress = Progress::new(None, ms(1));
            progress.inherit(before.legacy(ms(1)));
            progress.sent(QueueOffset(300), ms(1));
            progress.carry(QueueOffset(300), 1, ms(1));
            progress.acknowledged_at(QueueOffset(300), ms(2));
            assert_eq!(progress.is_safe(QueueOffset(300)), again.is_none(), "{carried}");
            let due = (3..400).find(|now| progress.is_due(QueueOffset(300), ms(*now)));
            assert_eq!(due, again, "{carried}");
        }
    }

    #[test]
    fn a_start_that_a_slave_told_takes_nothing_back_from_the_master() {
        // What the slave said, what the master has, and of which values each may be stored.
        for (master, may) in [
            (Some(100), [(90, false), (99, false), (100, true), (101, true)]),
            (Some(90), [(90, true), (99, true), (100, true), (101, true)]),
            (Some(5), [(90, true), (99, true), (100, true), (101, true)]),
            (None, [(90, true), (99, true), (100, true), (101, true)]),
        ] {
            let mut progress = Progress::new(Some(QueueOffset(90)), at(0));
            progress.doubt();
            assert!(
                progress.is_due(QueueOffset(91), at(1)),
                "it is asked when something is to be told"
            );
            for (value, may) in may {
                assert!(!progress.may_store(QueueOffset(value)), "{master:?} {value}");
                let mut progress = progress.clone();
                progress.verified(master.map(QueueOffset));
                let value = QueueOffset(value);
                assert_eq!(progress.may_store(value), may, "{master:?} {value}");
                assert_eq!(progress.is_due(value, at(40)), may, "{master:?} {value}");
                assert!(may || progress.is_safe(value), "nothing is left to tell");
                assert_eq!(progress.acknowledged(), master.map(QueueOffset));
            }
        }
    }

    #[test]
    fn the_word_of_a_master_needs_no_second_one() {
        let mut progress = Progress::new(Some(QueueOffset(90)), at(0));
        progress.verified(Some(QueueOffset(100)));
        assert!(progress.may_store(QueueOffset(90)) && !progress.is_in_doubt());
        assert_eq!(progress.acknowledged(), Some(QueueOffset(90)));
    }
}
