//! What runs were, and how many of them are distributed.

use std::fmt;
use std::time::Duration;

/// What a run without a violation was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The seed of the world.
    pub seed: u64,
    /// Members, restarts not counted.
    pub members: u32,
    /// Queues that existed at some time, those of retry topics not counted.
    pub queues: u32,
    /// Messages that producers stored.
    pub messages: u32,
    /// Deliveries to handlers, of all groups.
    pub deliveries: u64,
    /// Things that were done to the world.
    pub faults: u32,
    /// Steps of machines: events they were given.
    pub steps: u64,
    /// Virtual time.
    pub time: Duration,
    /// How long after everything was mended the world had come to rest.
    pub rest_after: Duration,
    /// The hash of everything that happened.
    pub hash: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "seed {}: {} members, {} queues, {} messages, {} deliveries, {} faults, {} steps, {:.1} s, at rest after {:.1} s, hash {:016x}",
            self.seed,
            self.members,
            self.queues,
            self.messages,
            self.deliveries,
            self.faults,
            self.steps,
            self.time.as_secs_f64(),
            self.rest_after.as_secs_f64(),
            self.hash
        )
    }
}

/// Reads one number off a report.
type Measure = fn(&Report) -> u64;

/// How the worlds of many seeds are distributed.
#[derive(Clone, Debug, Default)]
pub struct Distribution {
    reports: Vec<Report>,
}

impl Distribution {
    /// Of these runs, in any order.
    #[must_use]
    pub fn of(reports: Vec<Report>) -> Self {
        Self { reports }
    }

    /// How many runs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.reports.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.reports.is_empty()
    }

    /// The value that so many of 100 worlds do not reach or just reach; 0 without any world.
    #[must_use]
    pub fn percentile(&self, percent: usize, of: fn(&Report) -> u64) -> u64 {
        let mut values: Vec<u64> = self.reports.iter().map(of).collect();
        values.sort_unstable();
        let last = values.len().saturating_sub(1);
        values.get(last * percent.min(100) / 100).copied().unwrap_or(0)
    }
}

/// One line for each measure: its name, and the 0th, 10th, 50th, 90th and 100th percentile.
const MEASURES: [(&str, Measure); 8] = [
    ("members", |report| report.members.into()),
    ("queues", |report| report.queues.into()),
    ("messages", |report| report.messages.into()),
    ("deliveries", |report| report.deliveries),
    ("faults", |report| report.faults.into()),
    ("steps", |report| report.steps),
    ("virtual seconds", |report| report.time.as_secs()),
    ("seconds until rest", |report| report.rest_after.as_secs()),
];

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<20}{:>10}{:>10}{:>10}{:>10}{:>10}",
            format!("{} worlds", self.len()),
            "least",
            "10 %",
            "median",
            "90 %",
            "most"
        )?;
        for (name, of) in MEASURES {
            write!(f, "{name:<20}")?;
            for percent in [0, 10, 50, 90, 100] {
                write!(f, "{:>10}", self.percentile(percent, of))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_sorted_values() {
        let reports = [30, 10, 20].map(|members| Report {
            members,
            ..Report::default()
        });
        let many = Distribution::of(reports.into());
        let members = |percent| many.percentile(percent, |report| report.members.into());
        assert_eq!([members(0), members(50), members(100)], [10, 20, 30]);
        assert_eq!(Distribution::default().percentile(50, |report| report.steps), 0);
        assert!(many.to_string().contains("members"), "{many}");
    }
}
