//! How groups consume. Drawn apart, so that the rest of a world is as it was without it.

use rocketmq_consumer_core::config::ConsumeMode;
use rocketmq_consumer_core::time::Instant;

use super::{Painter, ms, secs};
use crate::sim::dice::Dice;
use crate::sim::fault::Fault;
use crate::sim::trouble::Trouble;

/// Of 100 worlds, how many consume in order.
const ORDERLY: u64 = 20;

impl Painter {
    pub(super) fn draw_modes(&mut self) {
        let of_its_own = Dice::new(self.seed ^ 0x0DE5_A11D_0DE5_A11D);
        let of_the_rest = std::mem::replace(&mut self.dice, of_its_own);
        if self.dice.chance(ORDERLY) && self.troubles.has(Trouble::Orderly) {
            self.draw_orderly();
        }
        self.dice = of_the_rest;
    }

    /// All groups of the world consume in order, and now and then a broker forgets its locks.
    fn draw_orderly(&mut self) {
        let suspend = self.dice.time(ms(10)..secs(3));
        for member in &mut self.members {
            member
                .group
                .set_mode(ConsumeMode::Orderly)
                .set_suspend_time(suspend);
        }
        for _ in 0..self.dice.number(0..3) {
            let at = Instant::ZERO + self.dice.time(secs(5)..self.safety);
            let broker = self.dice.index(0..self.cluster.brokers.len());
            let broker = self.cluster.brokers[broker].name.clone();
            self.add(at, Fault::ExpireLocks(broker));
        }
    }
}
