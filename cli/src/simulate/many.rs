use std::num::NonZeroU64;
use std::time::Duration;

use rocketmq_consumer_testing::sim::report::{Distribution, Report};
use rocketmq_consumer_testing::sim::trouble::Troubles;
use rocketmq_consumer_testing::sim::{invariants, swarm};
use serde::Serialize;

use super::progress::Progress;
use crate::args::{SimulateArgs, TableOutput};
use crate::clock::Clock;
use crate::exit::{Exit, Failure};
use crate::output::{Lines, Table};
use crate::talk::{Level, Talk};

/// Runs the worlds of many seeds on all cores.
///
/// # Errors
/// There are not so many seeds, a rule was broken, or standard output cannot be written.
pub(super) fn run(args: &SimulateArgs, seeds: NonZeroU64, clock: Clock, talk: Talk) -> Result<Exit, Failure> {
    let end = args.seed.checked_add(seeds.get());
    let end = end.ok_or_else(|| {
        Failure::usage(format_args!(
            "--seeds: the last seed would be greater than {}",
            u64::MAX
        ))
    })?;
    let begun = clock.elapsed();
    let progress = Progress::new(seeds.get(), clock, talk);
    let result = swarm::run_many_with(args.seed..end, args.faults, invariants::all, &|report| {
        progress.step();
        talk.say(Level::Debug, report);
    });
    progress.finish();
    let reports = result.map_err(Failure::failed)?;
    let run = Run {
        first_seed: args.seed,
        faults: args.faults,
        time: clock.elapsed().saturating_sub(begun),
        cores: swarm::cores(),
        worlds: Distribution::of(reports),
    };
    let mut lines = Lines::stdout();
    match args.output.unwrap_or(TableOutput::Table) {
        TableOutput::Table => lines.text(&run.words())?,
        TableOutput::Json => lines.json(&run.line())?,
    }
    lines.finish()?;
    Ok(Exit::Done)
}

/// What many worlds were, and how long it took.
struct Run {
    first_seed: u64,
    faults: Troubles,
    time: Duration,
    cores: usize,
    worlds: Distribution,
}

/// Three percentiles of a measure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Spread<T> {
    p10: T,
    median: T,
    p90: T,
}

/// The line of `-o json`. The keys are stable.
#[derive(Serialize)]
struct Line {
    first_seed: u64,
    seeds: usize,
    faults_allowed: String,
    seconds: f64,
    cores: usize,
    seeds_per_second: f64,
    seeds_per_second_per_core: f64,
    members: Spread<u64>,
    queues: Spread<u64>,
    messages: Spread<u64>,
    faults: Spread<u64>,
    virtual_minutes: Spread<f64>,
}

impl Run {
    fn per_second(&self) -> f64 {
        self.worlds.len() as f64 / self.time.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    fn spread(&self, of: fn(&Report) -> u64) -> Spread<u64> {
        let at = |percent| self.worlds.percentile(percent, of);
        Spread {
            p10: at(10),
            median: at(50),
            p90: at(90),
        }
    }

    fn minutes(&self) -> Spread<f64> {
        let Spread { p10, median, p90 } =
            self.spread(|report| u64::try_from(report.time.as_millis()).unwrap_or(u64::MAX));
        // Hundredths are as exact as anybody needs.
        let minutes = |millis: u64| (millis as f64 / 600.0).round() / 100.0;
        Spread {
            p10: minutes(p10),
            median: minutes(median),
            p90: minutes(p90),
        }
    }

    fn line(&self) -> Line {
        let speed = self.per_second();
        Line {
            first_seed: self.first_seed,
            seeds: self.worlds.len(),
            faults_allowed: self.faults.to_string(),
            seconds: self.time.as_secs_f64(),
            cores: self.cores,
            seeds_per_second: speed,
            seeds_per_second_per_core: speed / self.cores as f64,
            members: self.spread(|report| report.members.into()),
            queues: self.spread(|report| report.queues.into()),
            messages: self.spread(|report| report.messages.into()),
            faults: self.spread(|report| report.faults.into()),
            virtual_minutes: self.minutes(),
        }
    }

    fn words(&self) -> String {
        let line = self.line();
        let mut table = Table::new()
            .text("OF A WORLD")
            .number("P10")
            .number("MEDIAN")
            .number("P90");
        let counts = [
            ("members", line.members),
            ("queues", line.queues),
            ("messages", line.messages),
            ("faults", line.faults),
        ];
        for (name, Spread { p10, median, p90 }) in counts {
            table.row([name.into(), p10.to_string(), median.to_string(), p90.to_string()]);
        }
        let Spread { p10, median, p90 } = line.virtual_minutes;
        let minutes = |minutes: f64| format!("{minutes:.1}");
        table.row([
            "virtual minutes".into(),
            minutes(p10),
            minutes(median),
            minutes(p90),
        ]);
        let (seeds, first, cores) = (line.seeds, line.first_seed, line.cores);
        format!(
            "{table}\n{seeds} seeds from {first} on, faults allowed: {}; no violation\n\
             {:.1} s on {cores} cores: {:.1} seeds/s, {:.1} seeds/s/core\n",
            line.faults_allowed, line.seconds, line.seeds_per_second, line.seeds_per_second_per_core,
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run() -> Run {
        let report = |number: u32| Report {
            members: number,
            faults: 10 * number,
            time: Duration::from_secs(60) * number,
            ..Report::default()
        };
        Run {
            first_seed: 7,
            faults: Troubles::ALL,
            time: Duration::from_secs(2),
            cores: 2,
            worlds: Distribution::of((1..=11).map(report).collect()),
        }
    }

    #[test]
    fn programs_get_every_figure_by_its_name() {
        let nothing = json!({"p10": 0, "median": 0, "p90": 0});
        let want = json!({
            "first_seed": 7, "seeds": 11, "faults_allowed": "all", "seconds": 2.0, "cores": 2,
            "seeds_per_second": 5.5, "seeds_per_second_per_core": 2.75,
            "members": {"p10": 2, "median": 6, "p90": 10}, "queues": nothing, "messages": nothing,
            "faults": {"p10": 20, "median": 60, "p90": 100},
            "virtual_minutes": {"p10": 2.0, "median": 6.0, "p90": 10.0},
        });
        assert_eq!(serde_json::to_value(run().line()).unwrap(), want);
    }

    #[test]
    fn people_get_a_table_and_the_speed() {
        let want = "OF A WORLD       P10  MEDIAN   P90\n\
                    members            2       6    10\n\
                    queues             0       0     0\n\
                    messages           0       0     0\n\
                    faults            20      60   100\n\
                    virtual minutes  2.0     6.0  10.0\n\n\
                    11 seeds from 7 on, faults allowed: all; no violation\n\
                    2.0 s on 2 cores: 5.5 seeds/s, 2.8 seeds/s/core\n";
        assert_eq!(run().words(), want);
    }
}
