//! A rule that was broken, and how to see it again.

use std::fmt;

use rocketmq_consumer_core::time::Instant;

use super::invariant::Broken;
use super::trouble::Troubles;

/// A rule was broken: which, when, how, and how to see it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The seed of the world.
    pub seed: u64,
    /// What was allowed to go wrong in a world that was drawn; `None` for one that somebody wrote down.
    pub troubles: Option<Troubles>,
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
    /// The one command that runs the same world again; `None` when there is no other way than to run the same
    /// test again.
    #[must_use]
    pub fn command(&self) -> Option<String> {
        let seed = self.seed;
        self.troubles.map(|troubles| {
            let faults = match troubles {
                Troubles::ALL => String::new(),
                some => format!(" --faults {some}"),
            };
            format!("cargo run --release -- simulate --seed {seed}{faults} -v")
        })
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {} at {:?}: {} is broken", self.seed, self.at, self.rule)?;
        writeln!(f, "  {}", self.what)?;
        for fault in &self.faults {
            writeln!(f, "  fault {fault}")?;
        }
        match self.command() {
            Some(command) => write!(f, "  again: {command}"),
            None => f.write_str("  again: the same calls on Sim::seed with this seed"),
        }
    }
}

impl std::error::Error for Violation {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_names_the_seed_and_what_was_allowed() {
        let again = |troubles: Option<&str>| {
            let violation = Violation {
                seed: 7,
                troubles: troubles.map(|text| text.parse().unwrap()),
                at: Instant::ZERO,
                rule: "rule",
                what: Broken("words".into()),
                faults: Vec::new(),
            };
            violation.command()
        };
        let simulate = "cargo run --release -- simulate --seed 7";
        assert_eq!(again(Some("all")), Some(format!("{simulate} -v")));
        assert_eq!(again(Some("none")), Some(format!("{simulate} --faults none -v")));
        assert_eq!(
            again(Some("cut,crash")),
            Some(format!("{simulate} --faults cut,crash -v"))
        );
        assert_eq!(again(None), None);
    }
}
