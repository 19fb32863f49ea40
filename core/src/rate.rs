//! How fast messages may be handed to handlers.

use serde::{Deserialize, Serialize};

/// A number of messages a second, and how many of them may come at once.
///
/// Counted is every message that is handed to a handler, one that is tried again among them. Over any time `t` at
/// most `per_second · t + burst` are handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    per_second: u32,
    burst: u32,
}

impl Rate {
    /// So many messages a second; what a tenth of a second allows, and at least one, may come at once.
    #[must_use]
    pub const fn per_second(messages: u32) -> Self {
        let burst = messages / 10;
        Self {
            per_second: messages,
            burst: if burst == 0 { 1 } else { burst },
        }
    }

    /// Lets so many messages come at once after a rest.
    #[must_use]
    pub const fn with_burst(self, burst: u32) -> Self {
        Self { burst, ..self }
    }

    /// Messages a second.
    #[must_use]
    pub const fn messages_per_second(self) -> u32 {
        self.per_second
    }

    /// Messages that may come at once after a rest.
    #[must_use]
    pub const fn burst(self) -> u32 {
        self.burst
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_a_tenth_of_a_second_unless_it_is_told() {
        for (messages, burst) in [
            (1, 1),
            (9, 1),
            (10, 1),
            (19, 1),
            (1_000, 100),
            (u32::MAX, 429_496_729),
        ] {
            let rate = Rate::per_second(messages);
            assert_eq!((rate.messages_per_second(), rate.burst()), (messages, burst));
        }
        let rate = Rate::per_second(1_000).with_burst(7);
        assert_eq!((rate.messages_per_second(), rate.burst()), (1_000, 7));
    }
}
