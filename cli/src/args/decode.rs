use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

/// What `decode` can read.
#[derive(Debug, Subcommand)]
pub(crate) enum DecodeArgs {
    /// Frames of the remoting protocol, as on a connection
    Frame(DecodeInput),
    /// Stored messages, the body of a pull answer
    Messages(DecodeInput),
}

/// Where `decode` reads.
#[derive(Debug, Args)]
pub(crate) struct DecodeInput {
    /// The file to read; standard input if absent or -
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,
    /// The input is hex text; white space does not count
    #[arg(long)]
    pub(crate) hex: bool,
}
