//! Runs worlds of many seeds and prints how they are distributed:
//! `cargo run --release -p rocketmq-consumer-testing --example simulate -- 0 1000`. With a third argument it
//! tells the whole story of the first seed instead.

use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use rocketmq_consumer_testing::sim::narrator::Narrator;
use rocketmq_consumer_testing::sim::report::Distribution;
use rocketmq_consumer_testing::sim::{invariants, swarm};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut ends = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let (from, to) = (ends.next().unwrap_or(Ok(0))?, ends.next().unwrap_or(Ok(1000))?);
    if ends.next().is_some() {
        let told = swarm::run(from, || {
            let mut rules = invariants::all();
            rules.push(Box::new(Narrator::new(std::io::stdout().lock())));
            rules
        });
        return Ok(match told {
            Ok(report) => {
                println!("{report}");
                ExitCode::SUCCESS
            }
            Err(violation) => {
                println!("{violation}");
                ExitCode::FAILURE
            }
        });
    }
    let begun = now();
    match swarm::run_many(from..to, invariants::all, &|_| ()) {
        Ok(reports) => {
            let speed = reports.len() as f64 / begun.elapsed().as_secs_f64();
            println!("{}{speed:.0} seeds/s", Distribution::of(reports));
            Ok(ExitCode::SUCCESS)
        }
        Err(violation) => {
            println!("{violation}");
            Ok(ExitCode::FAILURE)
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "how fast worlds run is a matter of real time"
)]
fn now() -> Instant {
    Instant::now()
}
