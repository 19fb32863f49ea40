use std::io::{self, BufWriter, LineWriter, Write};

use rocketmq_consumer_testing::sim::invariant::Invariant;
use rocketmq_consumer_testing::sim::narrator::Narrator;

use crate::talk::{Level, LogFormat, Talk};

/// A rule that is never broken and tells everything it sees on standard error, a line each.
pub(super) fn narrator(talk: Talk) -> Box<dyn Invariant> {
    match talk.format() {
        // Thousands of lines, all of the same kind: without the label that talk has.
        LogFormat::Text => Box::new(Narrator::new(BufWriter::new(io::stderr().lock()))),
        LogFormat::Json => Box::new(Narrator::new(LineWriter::new(Talking(talk)))),
    }
}

/// Says each line that is written as talk.
struct Talking(Talk);

impl Write for Talking {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        text.lines().for_each(|line| self.0.say(Level::Info, line));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
