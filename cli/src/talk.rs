//! Talk: everything for people, on standard error, one line each.

use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};

use anstyle::{AnsiColor, Style};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::args::GlobalArgs;

/// How important a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// It does not work.
    Error,
    /// It works, but look at it.
    Warn,
    /// What happens.
    Info,
    /// What happens, in every detail.
    Debug,
}

impl Level {
    /// The level that `-q` and so many `-v` ask for. Somebody who watches a terminal hears what
    /// happens without asking.
    pub(crate) const fn asked(quiet: bool, verbose: u8, terminal: bool) -> Self {
        match (quiet, verbose) {
            (true, _) => Self::Error,
            (false, 0) if terminal => Self::Info,
            (false, 0) => Self::Warn,
            (false, 1) => Self::Info,
            (false, _) => Self::Debug,
        }
    }

    const fn label(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warning",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }

    fn style(self) -> Style {
        let colour = match self {
            Self::Error => AnsiColor::Red,
            Self::Warn => AnsiColor::Yellow,
            Self::Info => AnsiColor::Green,
            Self::Debug => AnsiColor::Blue,
        };
        colour.on_default().bold()
    }
}

/// How lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// `rocketcat: error: what is wrong`.
    #[default]
    Text,
    /// `{"level":"error","message":"what is wrong"}`.
    Json,
}

/// The mouth of the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Talk {
    level: Level,
    format: LogFormat,
}

impl Talk {
    /// The mouth that the flags ask for.
    pub(crate) fn of_flags(args: &GlobalArgs, format: LogFormat) -> Self {
        let terminal = io::stderr().is_terminal();
        Self::new(Level::asked(args.quiet, args.verbose, terminal), format)
    }

    /// Says lines of this level and of more important ones.
    pub(crate) const fn new(level: Level, format: LogFormat) -> Self {
        Self { level, format }
    }

    /// How lines are written.
    pub(crate) const fn format(self) -> LogFormat {
        self.format
    }

    /// Whether a line of this level is said at all.
    pub(crate) fn says(self, level: Level) -> bool {
        level <= self.level
    }

    /// Says a line.
    pub(crate) fn say(self, level: Level, message: impl fmt::Display) {
        if !self.says(level) {
            return;
        }
        match self.format {
            LogFormat::Text => {
                let (style, label) = (level.style(), level.label());
                write_line(format_args!("rocketcat: {style}{label}{style:#}: {message}"));
            }
            LogFormat::Json => self.json(&Line {
                level,
                message: message.to_string(),
            }),
        }
    }

    /// Says that something does not work.
    pub(crate) fn error(self, message: impl fmt::Display) {
        self.say(Level::Error, message);
    }

    /// Writes a line for programs, whatever the level: they asked for it by a flag of its own.
    pub(crate) fn json(self, line: &impl Serialize) {
        let text = serde_json::to_string(line).expect("our lines have text keys and no failing parts");
        write_line(format_args!("{text}"));
    }
}

/// One line of `--log-format json`.
#[derive(Serialize)]
struct Line {
    level: Level,
    message: String,
}

/// Whoever closed standard error does not want to hear about it.
fn write_line(line: fmt::Arguments<'_>) {
    let mut out = anstream::stderr().lock();
    let _ = out.write_all(format!("{line}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_leaves_errors_and_each_v_adds_a_level() {
        let says = |quiet, verbose, level| {
            Talk::new(Level::asked(quiet, verbose, false), LogFormat::Text).says(level)
        };
        assert!(says(true, 0, Level::Error) && !says(true, 0, Level::Warn));
        assert!(says(false, 0, Level::Warn) && !says(false, 0, Level::Info));
        assert!(says(false, 1, Level::Info) && !says(false, 1, Level::Debug));
        assert!(says(false, 2, Level::Debug) && says(false, 9, Level::Debug));
        assert_eq!(Level::asked(false, 0, true), Level::Info);
        assert_eq!(Level::asked(true, 0, true), Level::Error);
    }
}
