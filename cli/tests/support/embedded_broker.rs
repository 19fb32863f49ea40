//! The embedded broker as a process.
#![allow(dead_code, reason = "every suite uses a part of it")]

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Ran, rocketcat, run_with};

/// A broker of our own, at ports that were free. Dropped, it is killed.
pub(crate) struct Broker {
    child: Child,
    name_server: String,
}

impl Broker {
    /// Starts it with these further arguments.
    pub(crate) fn start(more: &[&str]) -> Self {
        let base = [
            "broker",
            "--listen=127.0.0.1:0",
            "--name-server-listen=127.0.0.1:0",
        ];
        let mut child = rocketcat([&base, more].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let stdout = child.stdout.as_mut().expect("it was asked for");
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).expect("UTF-8");
        let name_server = line
            .trim_end()
            .strip_prefix("NAMESRV_ADDR=")
            .expect("its address")
            .to_owned();
        Self { child, name_server }
    }

    /// Where its name server listens.
    pub(crate) fn name_server(&self) -> &str {
        &self.name_server
    }

    /// Runs a command against it.
    pub(crate) fn run(&self, args: &[&str], input: &[u8]) -> Ran {
        run_with([args, &["-n", &self.name_server]].concat(), input)
    }

    /// Ends it by a signal; its exit code.
    pub(crate) fn end(mut self, signal: Signal) -> Option<i32> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("a process number"), signal).expect("it lives");
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
