//! `rocketcat`: consumes, decodes and explains, from the command line.
//!
//! Records go to standard output and nothing else does; talk, events and summaries go to standard
//! error. The exit codes are those of [`exit::Exit`].
#![forbid(unsafe_code)]

mod admin;
mod allocate;
mod args;
mod broker;
mod clock;
mod cluster;
mod config_file;
mod consume;
mod decode;
mod demo;
mod dlq;
mod doctor;
mod exit;
mod groups;
mod lag;
mod manual;
mod offset;
mod output;
mod produce;
mod settings;
mod signals;
mod simulate;
mod talk;
#[cfg(test)]
mod testing;
mod time_arg;
mod topics;

use std::process::ExitCode;

use clap::Parser as _;

use crate::args::{Cli, Command};
use crate::clock::Clock;
use crate::exit::{Exit, Failure};
use crate::settings::Settings;
use crate::talk::Talk;

fn main() -> ExitCode {
    let clock = Clock::start();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no mistakes; clap knows which stream each of them belongs to.
            let _ = error.print();
            return if error.use_stderr() {
                Exit::Usage
            } else {
                Exit::Done
            }
            .into();
        }
    };
    let unsettled = Talk::of_flags(&cli.global, cli.global.log_format.unwrap_or_default());
    match Settings::gather(&cli.global) {
        Ok(settings) => {
            let talk = settings.talk(&cli.global);
            end(run(&cli, settings, clock, talk), talk)
        }
        Err(failure) => end(Err(failure), unsettled),
    }
}

fn run(cli: &Cli, settings: Settings, clock: Clock, talk: Talk) -> Result<Exit, Failure> {
    match &cli.command {
        Command::Consume(args) => consume::run(args, settings, clock, talk),
        Command::Produce(args) => produce::run(args, settings, clock, talk),
        Command::Lag(args) => lag::run(args, settings, clock, talk),
        Command::Groups(args) => groups::run(args, settings, talk),
        Command::Topics(args) => topics::run(args, settings, talk),
        Command::Offset(args) => offset::run(args, settings, clock, talk),
        Command::Dlq(args) => dlq::run(args, settings, clock, talk),
        Command::Doctor(args) => doctor::run(args, settings, clock, talk),
        Command::Decode(args) => decode::run(args, talk),
        Command::Allocate(args) => allocate::run(args, talk),
        Command::Broker(args) => broker::run(args, talk),
        Command::Demo => demo::run(settings, clock),
        Command::Simulate(args) => simulate::run(args, cli.global.verbose > 0, clock, talk),
        Command::Completions { shell } => manual::completions(*shell),
        Command::Man => manual::man(),
    }
}

fn end(result: Result<Exit, Failure>, talk: Talk) -> ExitCode {
    let exit = result.unwrap_or_else(|failure| {
        if let Some(message) = failure.message {
            talk.error(message);
        }
        failure.exit
    });
    exit.into()
}
