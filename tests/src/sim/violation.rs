//! A rule that was broken, and how to see it again.

use std::fmt;

use rocketmq_consumer_core::time::Instant;

use super::invariant::Broken;

/// A rule was broken: which, when, how, and how to see it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The seed of the world.
    pub seed: u64,
    /// When, in virtual time.
    pub at: Instant,
    /// The rule.
    pub rule: &'static str,
    /// What happened.
    pub what: Broken,
    /// What was done to the world until then, one line each.
    pub faults: Vec<String>,
}

impl Violation {
    /// The one command that runs the same world again.
    #[must_use]
    pub fn command(&self) -> String {
        format!("cargo run --release -- simulate --seed {} -v", self.seed)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {} at {:?}: {} is broken", self.seed, self.at, self.rule)?;
        writeln!(f, "  {}", self.what)?;
        for fault in &self.faults {
            writeln!(f, "  fault {fault}")?;
        }
        write!(f, "  again: {}", self.command())
    }
}

impl std::error::Error for Violation {}
