//! `consume`: a member of a group that prints what it gets.
//!
//! ```text
//! flags, file ─► Plan ─► session ──────────────────────────────────────────► exit code, summary
//!                           │ starts           ▲ Stop: count, end, idle, signal, trouble
//!                           ▼                  │
//!  machine ─ messages ─► Desk: admit (Tally) ─► write (Sink) ─► Exec ─► outcome ─► machine
//!  machine ─ notices ──► words and events on standard error
//! ```

mod desk;
mod distinct;
mod ends;
mod events;
mod exec;
mod face;
mod plan;
mod reporter;
mod session;
mod sink;
mod stop;
mod summary;
mod tally;
mod watch;
mod words;

pub(crate) use session::run;
pub(crate) use words::Trouble;
