//! What the fuzz targets do with their bytes.
//!
//! The targets under `fuzz/` call these functions and nothing else, and a plain test calls them for
//! every file of the committed corpora: what a fuzzer once found is found again without one. Each is
//! total and panics when a promise is broken.

mod bodies;
mod frame_decoder;
mod stored_messages;

pub use bodies::bodies;
pub use frame_decoder::frame_decoder;
pub use stored_messages::stored_messages;
