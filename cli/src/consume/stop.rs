use std::time::Duration;

use crate::exit::Exit;
use crate::signals::Signal;

/// Why a run ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// As many records as were asked for are done.
    Count,
    /// Every queue is at its end.
    End,
    /// Nothing came for this long.
    Idle(Duration),
    /// The user, or whoever runs us, said so.
    Signal(Signal),
    /// Nobody reads our records any more.
    PipeClosed,
    /// Records cannot be written.
    WriteFailed(String),
    /// Nobody answered in time: what was tried.
    CannotConnect(String),
    /// A topic did not turn up in time: what was answered.
    UnknownTopic(String),
    /// A broker refused: its words.
    NotPermitted(String),
    /// A broker does not take the condition: its words.
    FilterRefused(String),
    /// The client has ended by itself.
    Lost,
}

impl Stop {
    /// The exit code, and what to tell the user. `missing` records were asked for and did not come;
    /// `drained` says whether everything that was begun was also finished.
    pub(crate) fn end(self, missing: u64, drained: bool) -> (Exit, Option<String>) {
        let unfinished = || Some("not everything that was begun was finished in time".to_owned());
        match self {
            Self::Idle(after) if missing > 0 => {
                let message = format!("{missing} records too few: nothing came for {after:?}");
                (Exit::NotMet, Some(message))
            }
            Self::Signal(Signal::Interrupt) => (Exit::Interrupted, None),
            Self::WriteFailed(why) => (
                Exit::Failed,
                Some(format!("cannot write to standard output: {why}")),
            ),
            Self::CannotConnect(message) => (Exit::CannotConnect, Some(message)),
            Self::UnknownTopic(message) => (Exit::Failed, Some(message)),
            Self::NotPermitted(message) => (Exit::NotPermitted, Some(message)),
            Self::FilterRefused(message) => (Exit::Usage, Some(message)),
            Self::Lost => (Exit::Failed, Some("the client has ended unexpectedly".into())),
            Self::Count | Self::End | Self::Idle(_) | Self::Signal(Signal::Terminate) if !drained => {
                (Exit::Failed, unfinished())
            }
            Self::Count | Self::End | Self::Idle(_) | Self::Signal(Signal::Terminate) | Self::PipeClosed => {
                (Exit::Done, None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_exit_code() {
        let idle = Stop::Idle(Duration::from_secs(3));
        let table = [
            (Stop::Count, 0, true, Exit::Done),
            (Stop::Count, 0, false, Exit::Failed),
            (Stop::End, 5, true, Exit::Done),
            (idle.clone(), 0, true, Exit::Done),
            (idle, 5, true, Exit::NotMet),
            (Stop::Signal(Signal::Interrupt), 5, false, Exit::Interrupted),
            (Stop::Signal(Signal::Terminate), 5, true, Exit::Done),
            (Stop::Signal(Signal::Terminate), 0, false, Exit::Failed),
            (Stop::PipeClosed, 5, true, Exit::Done),
            (Stop::WriteFailed("disk full".into()), 0, true, Exit::Failed),
            (Stop::CannotConnect("x".into()), 0, true, Exit::CannotConnect),
            (Stop::UnknownTopic("x".into()), 0, true, Exit::Failed),
            (Stop::NotPermitted("x".into()), 0, true, Exit::NotPermitted),
            (Stop::FilterRefused("x".into()), 0, true, Exit::Usage),
            (Stop::Lost, 0, true, Exit::Failed),
        ];
        for (stop, missing, drained, want) in table {
            let (exit, message) = stop.clone().end(missing, drained);
            assert_eq!(exit, want, "{stop:?}");
            let silent = matches!(exit, Exit::Done | Exit::Interrupted);
            assert_eq!(message.is_none(), silent, "{stop:?}");
        }
    }
}
