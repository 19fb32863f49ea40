//! Nothing that cannot be undone is done before somebody has said yes: with `--yes`, or on a terminal.

use std::io::{self, IsTerminal as _, Write as _};

use crate::exit::{Exit, Failure};

/// Who says yes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consent {
    /// `--yes` did.
    Given,
    /// Somebody at the terminal is asked.
    Asked,
}

impl Consent {
    /// Finds out before anything is contacted. `what` is to be done, `dry_run` how to look without doing it.
    ///
    /// # Errors
    /// Nobody is there to be asked.
    pub(crate) fn of(yes: bool, what: &str, dry_run: &str) -> Result<Self, Failure> {
        Self::choose(yes, io::stdin().is_terminal(), what, dry_run)
    }

    fn choose(yes: bool, is_terminal: bool, what: &str, dry_run: &str) -> Result<Self, Failure> {
        match (yes, is_terminal) {
            (true, _) => Ok(Self::Given),
            (false, true) => Ok(Self::Asked),
            (false, false) => Err(Failure::usage(format_args!(
                "standard input is no terminal, so nobody can be asked: add --yes to {what}{dry_run}"
            ))),
        }
    }

    /// Shows what is about to happen and waits for a yes, if it was not given before.
    ///
    /// # Errors
    /// The answer is no, or nobody answers.
    pub(crate) async fn get(self, about: String, question: String) -> Result<(), Failure> {
        match self {
            Self::Given => Ok(()),
            Self::Asked => {
                let answer = tokio::task::spawn_blocking(move || ask(&about, &question)).await;
                match answer {
                    Ok(Ok(true)) => Ok(()),
                    Ok(Ok(false)) => Err(Failure::new(
                        Exit::Failed,
                        "the answer was no: nothing is changed",
                    )),
                    Ok(Err(error)) => Err(Failure::failed(format_args!("cannot ask: {error}"))),
                    Err(_) => Err(Failure::failed("cannot ask")),
                }
            }
        }
    }
}

fn ask(about: &str, question: &str) -> io::Result<bool> {
    let mut err = anstream::stderr().lock();
    write!(err, "{about}{question} [y/N] ")?;
    err.flush()?;
    drop(err);
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    Ok(is_yes(&line))
}

fn is_yes(line: &str) -> bool {
    matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_terminal_a_yes_has_to_be_given() {
        let of = |yes, terminal| Consent::choose(yes, terminal, "reset offsets", ", or --dry-run to look");
        assert_eq!(of(true, false), Ok(Consent::Given));
        assert_eq!(of(true, true), Ok(Consent::Given));
        assert_eq!(of(false, true), Ok(Consent::Asked));
        let refused = of(false, false).unwrap_err();
        let words = "standard input is no terminal, so nobody can be asked: add --yes to reset offsets, or \
                     --dry-run to look";
        assert_eq!(refused, Failure::usage(words));
    }

    #[test]
    fn only_a_yes_is_a_yes() {
        for (line, yes) in [
            ("y\n", true),
            (" YES \n", true),
            ("\n", false),
            ("", false),
            ("no\n", false),
            ("yep\n", false),
        ] {
            assert_eq!(is_yes(line), yes, "{line:?}");
        }
    }
}
