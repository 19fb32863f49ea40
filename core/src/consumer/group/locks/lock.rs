//! The broker's lock on one queue, as this member knows it.
//!
//! ```text
//!            granted         left out of an answer, or not renewed for 30 s
//!  Wanted ─────────────► Held ────────────────────────────────────────────► Wanted
//!     │ given up           │ given up
//!     └──► being given back ◄┘ ──acknowledged, or the broker must have forgotten──► gone
//!                    └── wanted again: asked for once it is free
//! ```
//!
//! Time is counted from when a request was *sent*: the broker counts from later, so this member lets go first.

use core::time::Duration;

use crate::status::LockStatus;
use crate::time::Instant;

/// How long a lock may be used after the request that was granted last. Brokers keep it twice as long.
pub(in crate::consumer::group) const LEASE: Duration = Duration::from_secs(30);

/// When it is asked for again after it was granted.
const RENEWAL: Duration = Duration::from_secs(20);

/// When a broker has forgotten a lock that nobody renews.
const EXPIRY: Duration = Duration::from_secs(60);

/// First pause after a refusal or a failure; doubles up to [`RETRY_MAX`].
const RETRY: Duration = Duration::from_millis(100);

/// Longest pause. A queue that another member gives back is ours within this time.
const RETRY_MAX: Duration = Duration::from_secs(1);

/// What is wanted of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aim {
    Have,
    GiveBack { wanted_again: bool },
}

/// A request that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Errand {
    Lock,
    Unlock,
}

/// What an answer has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Nothing,
    /// It was ours, and is another member's.
    Lost,
    /// It is another member's still.
    Refused {
        since: Instant,
    },
    /// There is nothing left to do about it.
    Gone,
}

#[derive(Clone, Debug)]
pub(super) struct Lock {
    aim: Aim,
    under_way: Option<Errand>,
    /// When the request was sent that was granted last, while it is ours.
    granted: Option<Instant>,
    /// Whether the connection on which that was is gone: a broker that was restarted has given it to whoever asked.
    is_doubted: bool,
    ask_at: Instant,
    /// Refusals or failures in a row.
    tries: u32,
    /// Until when the broker may keep it in our name.
    kept_until: Option<Instant>,
    refused_since: Option<Instant>,
}

impl Lock {
    pub(super) const fn wanted(now: Instant) -> Self {
        Self {
            aim: Aim::Have,
            under_way: None,
            granted: None,
            is_doubted: false,
            ask_at: now,
            tries: 0,
            kept_until: None,
            refused_since: None,
        }
    }

    /// It is wanted, whatever was wanted before. One that has not been unlocked yet is simply kept.
    pub(super) const fn want(&mut self) {
        match (self.aim, self.under_way) {
            (Aim::GiveBack { .. }, Some(Errand::Unlock)) => self.aim = Aim::GiveBack { wanted_again: true },
            (Aim::GiveBack { .. } | Aim::Have, _) => self.aim = Aim::Have,
        }
    }

    /// It is not wanted any more. False when there is nothing to unlock.
    pub(super) fn give_back(&mut self, now: Instant) -> bool {
        if self.aim == Aim::Have {
            self.ask_at = now;
            self.tries = 0;
        }
        self.aim = Aim::GiveBack { wanted_again: false };
        self.is_kept(now)
    }

    /// Whether it is on its way back, for good.
    pub(super) const fn is_given_back(&self) -> bool {
        matches!(self.aim, Aim::GiveBack { wanted_again: false })
    }

    /// Whether the broker may keep it in our name.
    fn is_kept(&self, now: Instant) -> bool {
        self.under_way.is_some() || self.kept_until.is_some_and(|until| now < until)
    }

    /// Until when it is ours.
    pub(super) fn lease(&self) -> Option<Instant> {
        self.granted
            .filter(|_| self.aim == Aim::Have)
            .map(|at| at + LEASE)
    }

    /// Until when it may be used.
    pub(super) fn usable(&self) -> Option<Instant> {
        self.lease().filter(|_| !self.is_doubted)
    }

    /// The connection to its broker is gone: it is not used before it is granted on another one.
    pub(super) fn doubt(&mut self, now: Instant) {
        if self.granted.is_some() {
            self.is_doubted = true;
            self.hasten(now);
        }
    }

    /// Whether it is renewed together with the other locks of its broker.
    pub(super) fn is_renewable(&self) -> bool {
        self.lease().is_some() && self.under_way.is_none()
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.under_way.is_none() && self.ask_at <= now
    }

    /// When something is to be done about it, if no answer comes.
    pub(super) fn next_at(&self) -> Option<Instant> {
        let asks = self.under_way.is_none().then_some(self.ask_at);
        [asks, self.lease()].into_iter().flatten().min()
    }

    /// It is asked for, or unlocked, now.
    pub(super) fn ask(&mut self, now: Instant) -> Errand {
        let errand = self.errand();
        self.under_way = Some(errand);
        match errand {
            Errand::Lock => self.kept_until = Some(now + EXPIRY),
            // Whatever becomes of the request, the broker may have obeyed.
            Errand::Unlock => self.granted = None,
        }
        errand
    }

    pub(super) const fn errand(&self) -> Errand {
        match self.aim {
            Aim::Have => Errand::Lock,
            Aim::GiveBack { .. } => Errand::Unlock,
        }
    }

    /// The request that was sent `at` was answered.
    pub(super) fn answered(&mut self, now: Instant, at: Instant, ours: bool) -> Change {
        self.under_way = None;
        if ours {
            self.granted = Some(at);
            self.is_doubted = false;
            self.tries = 0;
            self.refused_since = None;
            self.ask_at = if self.aim == Aim::Have { at + RENEWAL } else { now };
            return Change::Nothing;
        }
        self.kept_until = None;
        let was_ours = self.granted.take().is_some();
        self.ask_later(now);
        match self.aim {
            Aim::GiveBack { wanted_again: false } => Change::Gone,
            Aim::GiveBack { wanted_again: true } => {
                self.aim = Aim::Have;
                Change::Nothing
            }
            Aim::Have => {
                let since = *self.refused_since.get_or_insert(now);
                if was_ours {
                    Change::Lost
                } else {
                    Change::Refused { since }
                }
            }
        }
    }

    /// The broker has unlocked it.
    pub(super) const fn unlocked(&mut self, now: Instant) -> Change {
        self.under_way = None;
        self.granted = None;
        self.kept_until = None;
        self.tries = 0;
        self.ask_at = now;
        match self.aim {
            Aim::GiveBack { wanted_again: false } => Change::Gone,
            Aim::GiveBack { wanted_again: true } | Aim::Have => {
                self.aim = Aim::Have;
                Change::Nothing
            }
        }
    }

    /// The request failed: nothing is known that was not known before.
    pub(super) fn failed(&mut self, now: Instant) -> Change {
        let was = self.under_way.take();
        self.ask_later(now);
        match (self.aim, was) {
            (Aim::GiveBack { wanted_again: true }, _) => {
                // It may be unlocked or not; locking it says so.
                self.granted = None;
                self.aim = Aim::Have;
                Change::Nothing
            }
            (Aim::GiveBack { wanted_again: false }, _) if !self.is_kept(now) => Change::Gone,
            (Aim::GiveBack { .. } | Aim::Have, _) => Change::Nothing,
        }
    }

    /// Whether its lease has ended without an answer; then it is ours no more.
    pub(super) fn expire(&mut self, now: Instant) -> bool {
        let is_over = self.lease().is_some_and(|until| until <= now);
        if is_over {
            self.granted = None;
        }
        is_over
    }

    /// The broker may have forgotten it: it is asked for as soon as may be.
    pub(super) fn hasten(&mut self, now: Instant) {
        self.ask_at = self.ask_at.min(now);
    }

    pub(super) fn status(&self, now: Instant) -> LockStatus {
        LockStatus {
            held: self.usable().is_some_and(|until| now < until),
            expires: self.granted.map(|at| at + LEASE),
            refused_since: self.refused_since,
        }
    }

    fn ask_later(&mut self, now: Instant) {
        let pause = RETRY.saturating_mul(1 << self.tries.min(10)).min(RETRY_MAX);
        self.tries = self.tries.saturating_add(1);
        self.ask_at = now + pause;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    fn held(at: u64) -> Lock {
        let mut lock = Lock::wanted(ms(at));
        assert_eq!(lock.ask(ms(at)), Errand::Lock);
        assert_eq!(lock.answered(ms(at + 500), ms(at), true), Change::Nothing);
        lock
    }

    #[test]
    fn the_lease_begins_with_the_request_and_is_renewed_ten_seconds_before_its_end() {
        let mut lock = held(1_000);
        assert_eq!(
            (lock.lease(), lock.next_at()),
            (Some(ms(31_000)), Some(ms(21_000)))
        );
        assert!(!lock.is_due(ms(20_999)) && lock.is_due(ms(21_000)));
        assert!(!lock.expire(ms(30_999)));
        assert!(lock.expire(ms(31_000)), "over at its end");
        assert_eq!(
            (lock.lease(), lock.expire(ms(31_001))),
            (None, false),
            "told once"
        );
    }

    #[test]
    fn a_failed_renewal_changes_nothing_and_is_repeated_until_the_lease_ends() {
        let mut lock = held(0);
        let mut now = 20_000;
        let mut asked = alloc::vec::Vec::new();
        while now < 24_000 {
            assert_eq!(lock.ask(ms(now)), Errand::Lock);
            assert_eq!(lock.failed(ms(now)), Change::Nothing);
            assert_eq!(lock.lease(), Some(ms(30_000)));
            asked.push(now);
            now = lock.next_at().expect("it is ours").as_millis();
        }
        assert_eq!(asked, [20_000, 20_100, 20_300, 20_700, 21_500, 22_500, 23_500]);
    }

    #[test]
    fn a_refusal_is_asked_again_within_a_second_and_knows_its_beginning() {
        let mut lock = Lock::wanted(ms(0));
        let mut now = 0;
        for pause in [100, 200, 400, 800, 1_000, 1_000] {
            lock.ask(ms(now));
            assert_eq!(
                lock.answered(ms(now), ms(now), false),
                Change::Refused { since: ms(0) }
            );
            now += pause;
            assert_eq!(lock.next_at(), Some(ms(now)));
        }
        lock.ask(ms(now));
        lock.answered(ms(now), ms(now), true);
        assert_eq!(lock.status(ms(now)).refused_since, None);
    }

    #[test]
    fn without_its_connection_it_is_ours_and_not_used_until_it_is_granted_again() {
        let mut lock = held(0);
        lock.doubt(ms(7_000));
        assert_eq!((lock.usable(), lock.lease()), (None, Some(ms(30_000))));
        assert!(lock.is_due(ms(7_000)), "it is asked for at once");
        lock.ask(ms(7_000));
        lock.failed(ms(8_000));
        assert_eq!((lock.usable(), lock.next_at()), (None, Some(ms(8_100))));
        lock.ask(ms(8_100));
        lock.answered(ms(8_101), ms(8_100), true);
        assert_eq!(lock.usable(), Some(ms(38_100)));
    }

    #[test]
    fn left_out_of_an_answer_is_lost() {
        let mut lock = held(0);
        lock.ask(ms(20_000));
        assert_eq!(lock.answered(ms(20_001), ms(20_000), false), Change::Lost);
        assert_eq!(lock.lease(), None);
        assert!(!lock.give_back(ms(20_002)), "there is nothing to unlock");
    }

    #[test]
    fn what_the_broker_may_keep_is_unlocked_until_that_is_acknowledged_or_forgotten() {
        let never_asked = Lock::wanted(ms(0)).give_back(ms(5));
        assert!(!never_asked);
        let mut lock = held(0);
        assert!(lock.give_back(ms(5)) && lock.is_due(ms(5)));
        assert_eq!(lock.lease(), None, "it is not used any more");
        assert_eq!(lock.ask(ms(5)), Errand::Unlock);
        assert_eq!(lock.failed(ms(1_005)), Change::Nothing);
        assert_eq!(lock.ask(ms(1_105)), Errand::Unlock);
        let mut other = lock.clone();
        assert_eq!(lock.unlocked(ms(1_106)), Change::Gone);
        assert_eq!(
            other.failed(ms(60_000)),
            Change::Gone,
            "the broker has forgotten it"
        );
    }

    #[test]
    fn a_lock_that_is_asked_for_may_be_granted_after_it_was_given_up() {
        let mut lock = Lock::wanted(ms(0));
        lock.ask(ms(0));
        assert!(lock.give_back(ms(1)) && !lock.is_due(ms(1)), "after the answer");
        assert_eq!(lock.answered(ms(2), ms(0), true), Change::Nothing);
        assert!(lock.is_due(ms(2)));
        assert_eq!(lock.ask(ms(2)), Errand::Unlock);
    }

    #[test]
    fn wanted_again_it_is_kept_or_locked_anew() {
        let mut kept = held(0);
        kept.give_back(ms(5));
        kept.want();
        assert_eq!(kept.lease(), Some(ms(30_000)), "nothing was unlocked");

        let mut unanswered = held(0);
        unanswered.give_back(ms(5));
        unanswered.ask(ms(5));
        unanswered.failed(ms(1_005));
        unanswered.want();
        assert_eq!(
            (unanswered.errand(), unanswered.lease()),
            (Errand::Lock, None),
            "it may be unlocked"
        );

        let mut anew = held(0);
        anew.give_back(ms(5));
        anew.ask(ms(5));
        anew.want();
        assert_eq!(anew.lease(), None);
        let mut failed = anew.clone();
        assert_eq!(anew.unlocked(ms(6)), Change::Nothing);
        assert_eq!((anew.ask(ms(6)), anew.lease()), (Errand::Lock, None));
        assert_eq!(failed.failed(ms(1_005)), Change::Nothing);
        assert_eq!((failed.errand(), failed.lease()), (Errand::Lock, None));
    }
}
