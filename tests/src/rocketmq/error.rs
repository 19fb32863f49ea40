//! Errors of the launcher and of its small clients.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use thiserror::Error;

/// Why a process of the real RocketMQ could not be started or changed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// A program this module needs (`java`, `mvn`) could not be run.
    #[error("cannot run `{program}`: {source}; install OpenJDK 17 and Maven, or put them on the path")]
    Tool {
        /// The program's name or path.
        program: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// Maven could not build the Java side.
    #[error("maven failed in {folder}:\n{output}")]
    Build {
        /// Where it ran; run `mvn compile` there to see more.
        folder: PathBuf,
        /// The end of what it printed.
        output: String,
    },
    /// A process ended while it was starting.
    #[error("{process} ended with {status} while starting:\n{log}")]
    Exited {
        /// Which one, for example `broker-a`.
        process: String,
        /// How it ended.
        status: ExitStatus,
        /// The end of what it wrote.
        log: String,
    },
    /// A process did not do what was asked within its limit.
    #[error("{process} was not {wanted} within {limit:?}:\n{log}")]
    Late {
        /// Which one, for example `broker-a`.
        process: String,
        /// What was waited for, for example `ready`.
        wanted: &'static str,
        /// How long it was waited for.
        limit: Duration,
        /// The end of what it wrote.
        log: String,
    },
    /// The process is not running, so it cannot be signalled.
    #[error("{process} is not running")]
    NotRunning {
        /// Which one.
        process: String,
    },
    /// No free ports were found below the ephemeral range.
    #[error("no {count} neighbouring free ports on 127.0.0.1 in {tries} tries")]
    Ports {
        /// How many neighbours were needed.
        count: u16,
        /// How many places were tried.
        tries: u32,
    },
    /// A peer printed something that is not a line of its protocol.
    #[error("{process} printed an unexpected line: {line}")]
    Output {
        /// Which one.
        process: String,
        /// The line.
        line: String,
    },
    /// A file or folder could not be read or written, or a signal not be sent.
    #[error("{what}: {source}")]
    Io {
        /// What was attempted.
        what: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// A started server refused or did not answer a request.
    #[error(transparent)]
    Admin(#[from] AdminError),
}

impl LaunchError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

/// Why a request to a name server or broker failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AdminError {
    /// No connection, or it broke, or no answer came within the time-out.
    #[error("{address}: {source}")]
    Io {
        /// `host:port` of the server.
        address: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// The server answered with another code than success.
    #[error("{address}: request {request} was answered with code {code}: {remark}")]
    Refused {
        /// `host:port` of the server.
        address: String,
        /// The request code.
        request: i32,
        /// The response code.
        code: i32,
        /// The server's words, often a Java exception.
        remark: String,
    },
    /// The answer is not what the protocol says it should be.
    #[error("{address}: {what}")]
    Malformed {
        /// `host:port` of the server.
        address: String,
        /// What is wrong with it.
        what: String,
    },
    /// The topic has no route, or none that can be written to.
    #[error("topic {topic} has no queue to write to")]
    NoQueue {
        /// The topic.
        topic: String,
    },
}
