use std::fs;
use std::path::Path;

use rocketmq_consumer_testing::sim::plan::Plan;
use rocketmq_consumer_testing::sim::report::Report;
use rocketmq_consumer_testing::sim::violation::Violation;
use rocketmq_consumer_testing::sim::{invariants, swarm};

use super::film::Film;
use super::page::Page;
use super::story::narrator;
use crate::args::SimulateArgs;
use crate::exit::{Exit, Failure};
use crate::output::Lines;
use crate::talk::{Level, Talk};

/// Runs the world of one seed.
///
/// # Errors
/// Its hash or its page cannot be written.
pub(super) fn run(args: &SimulateArgs, tells: bool, talk: Talk) -> Result<Exit, Failure> {
    let plan = Plan::draw_with(args.seed, args.faults);
    let mut rules = invariants::all();
    if tells {
        rules.push(narrator(talk));
    }
    let result = match &args.report {
        None => swarm::play(plan, rules),
        Some(path) => {
            let film = Film::default();
            // First, so that it has seen what another rule calls a violation.
            rules.insert(0, film.camera());
            let result = swarm::play(plan.clone(), rules);
            write(path, &Page::new(&plan, &film.develop(), &result), talk)?;
            result
        }
    };
    end(result, talk)
}

fn write(path: &Path, page: &Page<'_>, talk: Talk) -> Result<(), Failure> {
    fs::write(path, page.to_string())
        .map_err(|error| Failure::failed(format_args!("cannot write {}: {error}", path.display())))?;
    talk.say(Level::Info, format_args!("the report is in {}", path.display()));
    Ok(())
}

fn end(result: Result<Report, Box<Violation>>, talk: Talk) -> Result<Exit, Failure> {
    match result {
        Ok(report) => {
            talk.say(Level::Info, report);
            let mut lines = Lines::stdout();
            lines.text(&format!("{:016x}\n", report.hash))?;
            lines.finish()?;
            Ok(Exit::Done)
        }
        Err(violation) => Err(Failure::failed(violation)),
    }
}
