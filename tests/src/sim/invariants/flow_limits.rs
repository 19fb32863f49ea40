//! No pull for a queue that is full, nor for one that holds something while the group's buffer is.
//!
//! Source: P4 and P5 with our figures: no pull *at* a limit of count or bytes (Java pulls at equality), none
//! *above* the limit of the span; case FC-05: every path to a pull passes the same gate, also a timer's. What a
//! queue holds can exceed a limit by the one answer that was under way when it was reached.
//!
//! Legal all the same: a pull of an empty queue while the group's buffer is full, or it could starve behind its
//! neighbours. What an observer cannot know (a send back whose acknowledgement came too late, records that
//! cannot be read) counts in the member's favour. Java-like members have Java's limits, see `java_timing`.

use std::cell::RefCell;
use std::rc::Rc;

use crate::sim::invariant::{Broken, Invariant, View};
use crate::sim::model::{Book, Held, RefConsumer};
use crate::sim::seen::{Ask, Deed, Life, QueueNo, Seen, Sight, Sights, What};

/// See the module. It reads what the reference model knows, which has to be shown everything before this rule.
#[derive(Debug)]
pub(super) struct FlowLimits {
    model: Rc<RefCell<RefConsumer>>,
}

impl FlowLimits {
    pub(super) const fn new(model: Rc<RefCell<RefConsumer>>) -> Self {
        Self { model }
    }

    fn check(&self, life: Life, queue: QueueNo, view: &dyn View) -> Result<(), Broken> {
        let config = view.config(life);
        let model = self.model.borrow();
        let Some(book) = model.book(life, queue, view).filter(|book| book.is_known()) else {
            return Ok(());
        };
        let (Held { count, bytes, .. }, span) = (book.held(), book.span());
        let is_full = count >= *config.queue_count_max()
            || bytes >= *config.queue_bytes_max()
            || span > u64::from(*config.queue_span_max());
        let buffers = model.books(life, view).map(Book::held).map(|held| held.buffer);
        let buffer: u64 = buffers.sum();
        if is_full || (count > 0 && buffer >= *config.buffer_bytes_max()) {
            return Err(Broken(format!(
                "{life:?} pulls {} with {count} messages, {bytes} bytes, span {span}; the group holds {buffer} bytes",
                view.queue(queue)
            )));
        }
        Ok(())
    }
}

impl Invariant for FlowLimits {
    fn name(&self) -> &'static str {
        "flow_limits"
    }

    fn looks_at(&self) -> Sights {
        Sights::of(&[Sight::AskedPull])
    }

    fn see(&mut self, seen: &Seen<'_>, view: &dyn View) -> Result<(), Broken> {
        if let What::Member {
            life,
            deed: Deed::Asked {
                ask: Ask::Pull { queue, .. },
                ..
            },
        } = seen.what
        {
            self.check(life, queue, view)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::bench::{Bench, record};
    use super::*;

    /// The rule behind the model it reads.
    #[derive(Debug)]
    struct Pair(Rc<RefCell<RefConsumer>>, FlowLimits);

    impl Invariant for Pair {
        fn name(&self) -> &'static str {
            self.1.name()
        }

        fn see(&mut self, seen: &Seen<'_>, view: &dyn View) -> Result<(), Broken> {
            self.0.see(seen, view)?;
            self.1.see(seen, view)
        }
    }

    fn bench() -> Bench<Pair> {
        let model = Rc::<RefCell<RefConsumer>>::default();
        let mut bench = Bench::new(Pair(Rc::clone(&model), FlowLimits::new(model)));
        bench
            .ours()
            .query()
            .stored(Some(100))
            .assign(1, 100)
            .step_end(None);
        bench.pull(100, None).found(100..104).deliver(1, 100..104).legal();
        bench
    }

    #[test]
    fn no_pull_at_the_count_or_the_bytes() {
        for (limit, full) in [(3, true), (4, true), (5, false)] {
            let mut counted = bench();
            counted.world.config.set_queue_count_max(limit);
            let mut weighed = bench();
            weighed.world.config.set_queue_bytes_max(limit.into());
            for bench in [&mut counted, &mut weighed] {
                bench.pull(104, None);
                if full {
                    bench.breaks("4 messages, 4 bytes");
                } else {
                    bench.legal();
                }
            }
        }
    }

    #[test]
    fn no_pull_above_the_span() {
        for (limit, full) in [(2, true), (3, false)] {
            let mut bench = bench();
            bench.world.config.set_queue_span_max(limit);
            bench.done(1, 101).done(1, 102).pull(104, None);
            if full {
                bench.breaks("span 3");
            } else {
                bench.legal();
            }
        }
    }

    #[test]
    fn no_pull_of_a_queue_that_holds_something_while_the_buffer_is_full() {
        let answer = 4 * record(0).len() as u64;
        for (limit, full) in [(answer, true), (answer + 1, false)] {
            let mut bench = bench();
            bench.world.config.set_buffer_bytes_max(limit);
            bench.pull(104, None);
            if full {
                bench.breaks("the group holds");
            } else {
                bench.legal();
            }
        }
        let mut empty = bench();
        empty.world.config.set_buffer_bytes_max(1);
        (100..104).for_each(|offset| {
            empty.done(1, offset);
        });
        empty.pull(104, None).legal();
    }
}
