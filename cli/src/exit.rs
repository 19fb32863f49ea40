//! How the process ends, as scripts see it.

use std::fmt;
use std::io;
use std::process::ExitCode;

/// An exit code. The numbers are stable: scripts rely on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Everything that was asked for was done.
    Done = 0,
    /// Something went wrong that is none of the others.
    Failed = 1,
    /// The command line, a name, a value or the configuration makes no sense.
    Usage = 2,
    /// It worked, but what was asked for did not come true.
    NotMet = 3,
    /// Nobody answered.
    CannotConnect = 4,
    /// A broker refused for lack of a permission.
    NotPermitted = 5,
    /// SIGINT, or a second signal while the first was being obeyed.
    Interrupted = 130,
}

impl Exit {
    /// The number.
    pub(crate) const fn code(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Why a command ends early: the exit code, and one line for the user.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The exit code.
    pub(crate) exit: Exit,
    /// What happened and what to do about it; `None` when the user knows already.
    pub(crate) message: Option<String>,
}

impl Failure {
    /// A failure with an exit code of its own.
    pub(crate) fn new(exit: Exit, message: impl fmt::Display) -> Self {
        Self {
            exit,
            message: Some(message.to_string()),
        }
    }

    /// Something went wrong.
    pub(crate) fn failed(message: impl fmt::Display) -> Self {
        Self::new(Exit::Failed, message)
    }

    /// What was asked for makes no sense.
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// Standard output cannot be written. A reader that went away, as `head` does, has seen enough:
    /// that is no error.
    pub(crate) fn stdout(error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self {
                exit: Exit::Done,
                message: None,
            };
        }
        Self::failed(format_args!("cannot write to standard output: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_stable() {
        let table = [
            (Exit::Done, 0),
            (Exit::Failed, 1),
            (Exit::Usage, 2),
            (Exit::NotMet, 3),
            (Exit::CannotConnect, 4),
            (Exit::NotPermitted, 5),
            (Exit::Interrupted, 130),
        ];
        for (exit, code) in table {
            assert_eq!(exit.code(), code);
        }
    }

    #[test]
    fn a_reader_that_left_is_no_error() {
        let left = Failure::stdout(&io::ErrorKind::BrokenPipe.into());
        assert_eq!((left.exit, left.message), (Exit::Done, None));
        assert_eq!(
            Failure::stdout(&io::ErrorKind::StorageFull.into()).exit,
            Exit::Failed
        );
    }
}
