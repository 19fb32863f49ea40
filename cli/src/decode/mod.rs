//! `decode`: raw bytes in, one JSON object a line out. Nothing is sent anywhere.

mod frame;
mod hex;
mod messages;

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use bytes::Bytes;
use serde::Serialize;

use crate::args::{DecodeArgs, DecodeInput};
use crate::exit::{Exit, Failure};
use crate::output::Lines;
use crate::talk::Talk;

/// Runs the command.
///
/// # Errors
/// The input cannot be read or the output cannot be written. What is wrong *in* the input becomes a
/// line, and [`Exit::Failed`] at the end.
pub(crate) fn run(args: &DecodeArgs, talk: Talk) -> Result<Exit, Failure> {
    let (input, decode): (&DecodeInput, Decoder) = match args {
        DecodeArgs::Frame(input) => (input, frame::decode),
        DecodeArgs::Messages(input) => (input, messages::decode),
    };
    let bytes = read(input)?;
    let mut lines = Lines::stdout();
    let undecodable = decode(&bytes, &mut lines)?;
    lines.finish()?;
    if undecodable == 0 {
        return Ok(Exit::Done);
    }
    let parts = if undecodable == 1 { "part" } else { "parts" };
    talk.error(format_args!(
        "{undecodable} {parts} of the input cannot be decoded"
    ));
    Ok(Exit::Failed)
}

/// Writes a line for each thing in the bytes and counts those that cannot be decoded.
type Decoder = fn(&Bytes, &mut Lines) -> Result<u64, Failure>;

fn read(input: &DecodeInput) -> Result<Bytes, Failure> {
    let bytes = match &input.file {
        Some(path) if path != Path::new("-") => fs::read(path)
            .map_err(|error| Failure::failed(format_args!("cannot read {}: {error}", path.display())))?,
        Some(_) | None => {
            let mut bytes = Vec::new();
            io::stdin()
                .lock()
                .read_to_end(&mut bytes)
                .map_err(|error| Failure::failed(format_args!("cannot read standard input: {error}")))?;
            bytes
        }
    };
    if !input.hex {
        return Ok(bytes.into());
    }
    hex::decode(&bytes).map(Bytes::from).map_err(Failure::failed)
}

/// The line for something that cannot be decoded.
#[derive(Serialize)]
struct Undecodable {
    undecodable: Why,
}

/// What is known about it.
#[derive(Serialize)]
struct Why {
    reason: String,
    /// Where it begins in the input, in bytes.
    at: usize,
    queue_offset: Option<i64>,
}

impl Undecodable {
    fn new(reason: impl ToString, at: usize, queue_offset: Option<i64>) -> Self {
        Self {
            undecodable: Why {
                reason: reason.to_string(),
                at,
                queue_offset,
            },
        }
    }
}
