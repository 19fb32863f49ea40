//! `produce`: sends lines, or numbered messages for a load.
//!
//! ```text
//! flags ─► Plan ─► session ─────────────────────────────────────────────► summary, exit code
//!                    │ takes           spawns, so many at once ▲ receipts, in order
//!   Source ─ body ─► Recipe ─ message ─► Sender ─ tries ─► Ring: a queue ─► broker
//! ```

mod key;
mod pace;
mod plan;
mod receipt;
mod recipe;
mod request;
mod ring;
mod sender;
mod session;
mod source;
mod summary;
mod unique_key;

pub(crate) use key::KeyFormat;
pub(crate) use plan::Choice;
pub(crate) use recipe::Recipe;
pub(crate) use request::request;
pub(crate) use sender::Sender;
pub(crate) use session::run;
pub(crate) use unique_key::UniqueKeys;
