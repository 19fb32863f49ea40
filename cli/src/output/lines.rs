use std::io::{self, BufWriter, StdoutLock, Write};

use serde::Serialize;

use crate::exit::Failure;

/// Buffered lines on standard output, JSON most of them.
pub(crate) struct Lines {
    out: BufWriter<StdoutLock<'static>>,
}

impl Lines {
    /// Takes standard output for this thread.
    pub(crate) fn stdout() -> Self {
        Self {
            out: BufWriter::with_capacity(64 * 1024, io::stdout().lock()),
        }
    }

    /// Writes one line.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(crate) fn json(&mut self, line: &impl Serialize) -> Result<(), Failure> {
        serde_json::to_writer(&mut self.out, line)
            .map_err(io::Error::from)
            .and_then(|()| self.out.write_all(b"\n"))
            .map_err(|error| Failure::stdout(&error))
    }

    /// Writes text as it is.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        self.bytes(text.as_bytes())
    }

    /// Writes bytes as they are.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let written = self.out.write_all(bytes);
        written.map_err(|error| Failure::stdout(&error))
    }

    /// Hands over to the system what was written so far.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.out.flush().map_err(|error| Failure::stdout(&error))
    }

    /// Hands everything over to the system. Forgetting it would lose an error.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        self.flush()
    }
}
