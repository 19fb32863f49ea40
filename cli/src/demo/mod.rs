//! `demo`: ten seconds in the life of a consumer group, on an embedded broker, with real sockets and timers.
//!
//! ```text
//!  play: broker, members, producer ── what they are told and tell ──► narrator ─► standard output
//!                 │ handlers, receipts
//!                 ▼
//!              ledger: what was sent, handled, handled again ─► verdict, exit code
//! ```
//!
//! Nothing is staged but the times at which members come, fail and go: every line comes from a notice of a
//! member, an observation of the broker, a handler or a report.

mod ledger;
mod member;
mod narrator;
mod play;

use crate::clock::Clock;
use crate::exit::{Exit, Failure};
use crate::settings::Settings;
use crate::signals;

/// Runs the command.
///
/// # Errors
/// The system refuses a thread or a port, or somebody in the play cannot go on.
pub(crate) fn run(settings: Settings, clock: Clock) -> Result<Exit, Failure> {
    signals::run(async |mut signals| {
        tokio::select! {
            exit = play::play(settings, clock) => exit,
            signal = signals.next() => Ok(signal.into()),
        }
    })
}
