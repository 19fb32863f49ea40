//! `completions` and `man`: what a package installs beside the binary.

use std::io::{self, Write as _};

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::args::Cli;
use crate::exit::{Exit, Failure};

/// Writes a completion script.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn completions(shell: Shell) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "rocketcat", &mut script);
    write(&script)
}

/// Writes the manual: a page for the program and one for each verb.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn man() -> Result<Exit, Failure> {
    let mut command = Cli::command();
    command.build();
    let mut pages = Vec::new();
    render(command, &mut pages).expect("memory takes every write");
    write(&pages)
}

/// A command and, behind it, those below it.
fn render(command: clap::Command, pages: &mut Vec<u8>) -> io::Result<()> {
    let below: Vec<_> = command.get_subcommands().cloned().collect();
    clap_mangen::Man::new(command).render(pages)?;
    below.into_iter().try_for_each(|command| render(command, pages))
}

fn write(bytes: &[u8]) -> Result<Exit, Failure> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)
        .and_then(|()| out.flush())
        .map(|()| Exit::Done)
        .map_err(|error| Failure::stdout(&error))
}
