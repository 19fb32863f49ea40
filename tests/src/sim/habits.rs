//! How simulated handlers behave, in shares.

use std::time::Duration;

use rocketmq_consumer_core::message::Outcome;

use super::dice::Dice;
use super::handler::Handling;

/// How the handlers of a simulated member behave: shares out of 1000, and times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Habits {
    /// An error, which is a retry.
    pub fails: u64,
    /// A retry after a time of its own choice.
    pub fails_with_delay: u64,
    /// A panic.
    pub panics: u64,
    /// Straight to the dead letters.
    pub buries: u64,
    /// Never ends; half of those listen to their token.
    pub hangs: u64,
    /// Takes `slow` instead of `quick`.
    pub slows: u64,
    /// Of the slow ones, how many ask for more time in between.
    pub extends: u64,
    /// The longest that an ordinary call takes.
    pub quick: Duration,
    /// The longest that a slow one does.
    pub slow: Duration,
    /// The longest that a message waits in its lane before a handler begins it.
    pub lane: Duration,
}

impl Habits {
    /// Everything succeeds at once.
    pub const GOOD: Self = Self {
        fails: 0,
        fails_with_delay: 0,
        panics: 0,
        buries: 0,
        hangs: 0,
        slows: 0,
        extends: 0,
        quick: Duration::ZERO,
        slow: Duration::ZERO,
        lane: Duration::ZERO,
    };

    /// What becomes of one message.
    pub(crate) fn draw(&self, dice: &mut Dice) -> Handling {
        let mut number = dice.number(0..1000);
        let mut is = |share: u64| {
            let hit = number < share;
            number = number.wrapping_sub(share);
            hit
        };
        let handling = if is(self.fails) {
            Handling::ends(Outcome::Retry)
        } else if is(self.fails_with_delay) {
            Handling::ends(Outcome::RetryAfter(Duration::from_secs(2)))
        } else if is(self.panics) {
            Handling::panics()
        } else if is(self.buries) {
            Handling::ends(Outcome::DeadLetter)
        } else if is(self.hangs) {
            let hanging = Handling::hangs();
            return if dice.chance(50) {
                hanging.listening()
            } else {
                hanging
            };
        } else if is(self.slows) {
            let slow = Handling::done().taking(dice.time(self.quick..self.slow));
            let extends = dice.number(0..1000) < self.extends;
            let slow = if extends {
                let after = dice.time(Duration::ZERO..self.quick);
                slow.extending(after, self.slow)
            } else {
                slow
            };
            return slow.beginning_after(dice.time(Duration::ZERO..self.lane));
        } else {
            Handling::done()
        };
        let handling = if self.quick.is_zero() {
            handling
        } else {
            handling.taking(dice.time(Duration::ZERO..self.quick))
        };
        if self.lane.is_zero() {
            handling
        } else {
            handling.beginning_after(dice.time(Duration::ZERO..self.lane))
        }
    }
}
