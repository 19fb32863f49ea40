//! What is produced, and when.

use std::time::Duration;

use rocketmq_consumer_core::time::Instant;

use super::{Painter, Step};

impl Painter {
    pub(super) fn draw_messages(&mut self) {
        // Some are lost before they are stored: their broker is down.
        let total = if self.dice.chance(35) {
            self.dice.number(40..300)
        } else {
            self.dice.number(660..720)
        };
        let mut left = total;
        while left > 0 {
            let burst = if self.dice.chance(10) {
                self.dice.number(20..80)
            } else {
                self.dice.number(1..12)
            };
            let burst = burst.min(left);
            left -= burst;
            let at = Instant::ZERO + self.dice.time(Duration::ZERO..self.safety);
            let topics = self.cluster.topics.len();
            let topic = self.cluster.topics[self.dice.index(0..topics)].name.clone();
            self.script
                .push((at, Step::Produce(topic, u32::try_from(burst).unwrap_or(1))));
        }
    }
}
