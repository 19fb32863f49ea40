//! `simulate`: whole clusters in virtual time, from seeds.
//!
//! ```text
//! one seed:   plan ─► world under every rule ─┬─► trace hash on standard output; with --report, a page
//!                        └ -v: its story      └─► violation and its command, exit 1
//! many seeds: worlds on all cores ─► distribution on standard output, or the lowest violation that was found
//! ```

mod film;
mod many;
mod one;
mod page;
mod progress;
mod story;

use crate::args::SimulateArgs;
use crate::clock::Clock;
use crate::exit::{Exit, Failure};
use crate::talk::Talk;

/// Runs the command. `tells` asks for the whole story of a single world.
///
/// # Errors
/// An argument makes no sense, or what is asked for cannot be written.
pub(crate) fn run(args: &SimulateArgs, tells: bool, clock: Clock, talk: Talk) -> Result<Exit, Failure> {
    match args.seeds {
        Some(seeds) => many::run(args, seeds, clock, talk),
        None => one::run(args, tells, talk),
    }
}
