//! What is consumed in order is neither pulled nor handed out nor committed without a lock that lasts.
//!
//! Source: P44 and "What must stay identical", 4; design "Living beside Java members", 4. A broker gives a lock to
//! somebody else when it was not renewed for more than 60 s; a member stops using it after 30. It counts from when
//! the request was written whose answer grants it: the broker cannot have heard it earlier. An answer that lacks the
//! queue ends it, and so does giving it back.
//!
//! Legal all the same: a handler that goes on while the lock ends; a pull that waited for its link; answers that come
//! so late that nobody waits for them may be taken or not.

use std::collections::BTreeMap;

use rocketmq_consumer_core::time::Instant;

use super::leases::{LASTS, PROMPT};
use super::orderly::Orderly;
use crate::sim::invariant::{Broken, Invariant, View};
use crate::sim::seen::{Ask, Deed, Life, QueueNo, Seen, Sight, Sights, What};

/// What a member can know of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lock {
    /// Granted; since when at the latest the broker keeps it.
    Held(Instant),
    /// Given back, at which moment: what was asked earlier grants nothing.
    GivenBack(Instant),
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct NoDeliveryWithoutLock {
    orderly: Orderly,
    locks: BTreeMap<(Life, QueueNo), Lock>,
}

impl NoDeliveryWithoutLock {
    fn told(&mut self, at: Instant, key: (Life, QueueNo), granted: bool, asked_at: Instant) {
        let lock = self.locks.get(&key).copied();
        let is_older = match lock {
            Some(Lock::Held(since) | Lock::GivenBack(since)) => asked_at < since,
            None => false,
        };
        if is_older {
            return;
        }
        if granted {
            self.locks.insert(key, Lock::Held(asked_at));
        } else if at < asked_at + PROMPT && matches!(lock, Some(Lock::Held(_))) {
            self.locks.remove(&key);
        }
    }

    fn check(&self, at: Instant, key: (Life, QueueNo), what: &str, view: &dyn View) -> Result<(), Broken> {
        let (life, queue) = key;
        let lock = self.locks.get(&key);
        if matches!(lock, Some(Lock::Held(since)) if at <= *since + LASTS) {
            return Ok(());
        }
        let queue = view.queue(queue);
        Err(Broken(format!(
            "{life:?} {what} {queue}, of its lock it knows {lock:?}"
        )))
    }
}

impl Invariant for NoDeliveryWithoutLock {
    fn name(&self) -> &'static str {
        "no_delivery_without_lock"
    }

    fn looks_at(&self) -> Sights {
        Orderly::LIVES.and(Sights::of(&[
            Sight::AskedPull,
            Sight::AskedCommit,
            Sight::Locked,
            Sight::Unlocking,
            Sight::Delivered,
        ]))
    }

    fn see(&mut self, seen: &Seen<'_>, view: &dyn View) -> Result<(), Broken> {
        let What::Member { life, deed } = seen.what else {
            return Ok(());
        };
        if !self.orderly.see(life, &deed, view) {
            return Ok(());
        }
        match deed {
            Deed::Locked {
                queue,
                granted,
                asked_at,
                ..
            } => self.told(seen.at, (life, queue), granted, asked_at),
            Deed::Unlocking { queue, .. } => {
                self.locks.insert((life, queue), Lock::GivenBack(seen.at));
            }
            Deed::Asked { conn, ask, .. } if !view.tenures().may_have_waited(life, conn) => match ask {
                Ask::Pull { queue, .. } => return self.check(seen.at, (life, queue), "pulls", view),
                Ask::Commit { queue, .. } => return self.check(seen.at, (life, queue), "commits", view),
                _ => {}
            },
            Deed::Delivered { queue, .. } => {
                return self.check(seen.at, (life, queue), "delivers from", view);
            }
            Deed::Killed | Deed::Closed => self.locks.retain(|(of, _), _| *of != life),
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rocketmq_consumer_core::config::ConsumeMode;

    use super::super::bench::Bench;
    use super::*;

    fn bench() -> Bench<NoDeliveryWithoutLock> {
        let mut bench = Bench::new(NoDeliveryWithoutLock::default());
        bench.world.config.set_mode(ConsumeMode::Orderly);
        bench.ours();
        bench
    }

    fn locked() -> Bench<NoDeliveryWithoutLock> {
        let mut bench = bench();
        bench.at(1_000).locking().at(1_500).locked(true, 1_000).legal();
        bench
    }

    #[test]
    fn without_a_lock_nothing_is_pulled_or_handed_out() {
        bench().pull(100, None).breaks("pulls");
        bench().commit(100).breaks("commits");
        bench().deliver(1, 100..101).breaks("delivers from");
        locked().pull(100, None).deliver(1, 100..101).commit(101).legal();
    }

    #[test]
    fn a_lock_lasts_30_seconds_from_its_request() {
        locked().at(31_000).pull(100, None).deliver(1, 100..101).legal();
        locked().at(31_001).pull(100, None).breaks("pulls");
        locked().at(31_001).deliver(1, 100..101).breaks("delivers from");
        locked()
            .at(21_000)
            .locking()
            .locked(true, 21_000)
            .at(51_000)
            .deliver(1, 100..101)
            .legal();
    }

    #[test]
    fn what_an_answer_lacks_is_not_locked() {
        let mut lost = locked();
        lost.at(21_000).locking().locked(false, 21_000);
        lost.deliver(1, 100..101).breaks("None");
        let mut late = locked();
        late.at(21_000).locking().at(22_000).locked(false, 21_000);
        late.deliver(1, 100..101).legal();
        let mut older = locked();
        older.locked(false, 900).deliver(1, 100..101).legal();
    }

    #[test]
    fn what_was_given_back_must_be_asked_for_again() {
        locked()
            .at(2_000)
            .unlocking()
            .deliver(1, 100..101)
            .breaks("GivenBack");
        let mut crossed = locked();
        crossed.at(2_000).locking().at(2_001).unlocking().at(2_002);
        crossed.locked(true, 2_000).pull(100, None).breaks("GivenBack");
        let mut again = locked();
        again.at(2_000).unlocking().locking().at(2_002);
        again.locked(true, 2_000).pull(100, None).legal();
    }

    #[test]
    fn a_pull_may_have_waited_for_its_link() {
        locked().at(40_000).connected().pull(100, None).legal();
        let mut next = locked();
        next.at(40_000)
            .connected()
            .step_end(None)
            .pull(100, None)
            .breaks("pulls");
    }

    #[test]
    fn members_that_do_not_consume_in_order_need_none() {
        let mut bench = Bench::new(NoDeliveryWithoutLock::default());
        bench.ours().pull(100, None).deliver(1, 100..101).legal();
        let mut java = Bench::new(NoDeliveryWithoutLock::default());
        java.world.config.set_mode(ConsumeMode::Orderly);
        java.java().pull(100, None).legal();
    }
}
