//! Runs the binary and looks at what it said.
#![allow(dead_code, reason = "every suite uses a part of it")]

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Output, Stdio};
use std::thread;

use serde_json::Value;

/// The binary, with an environment of its own.
pub(crate) fn rocketcat<'a>(args: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocketcat"));
    command.args(args).env_remove("NAMESRV_ADDR").stdin(Stdio::null());
    command
}

/// Takes the steps of a suite at once. One that panics names its assertion; the others are waited for and
/// the test fails.
pub(crate) fn side_by_side<B: Sync>(bench: &B, steps: &[fn(&B)]) {
    thread::scope(|scope| {
        for step in steps {
            scope.spawn(move || step(bench));
        }
    });
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ran {
    /// The exit code; `None` for a signal.
    pub(crate) code: Option<i32>,
    /// Standard output.
    pub(crate) stdout: String,
    /// Standard error.
    pub(crate) stderr: String,
}

impl Ran {
    /// What a finished process left.
    pub(crate) fn new(output: Output) -> Self {
        Self::of(output.status, output.stdout, output.stderr)
    }

    fn of(status: ExitStatus, stdout: Vec<u8>, stderr: Vec<u8>) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("our output is UTF-8");
        Self {
            code: status.code(),
            stdout: text(stdout),
            stderr: text(stderr),
        }
    }

    /// Standard output as JSON lines.
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.stdout.lines().map(json).collect()
    }

    /// The last line of standard error as JSON.
    pub(crate) fn last_error_line(&self) -> Value {
        json(self.stderr.lines().last().expect("standard error has a line"))
    }
}

/// One JSON value.
pub(crate) fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// Runs it to its end.
pub(crate) fn run<'a>(args: impl IntoIterator<Item = &'a str>) -> Ran {
    Ran::new(rocketcat(args).output().expect("the binary starts"))
}

/// Runs it with something on standard input.
pub(crate) fn run_with<'a>(args: impl IntoIterator<Item = &'a str>, input: &[u8]) -> Ran {
    let mut child = rocketcat(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut stdin = child.stdin.take().expect("it was asked for");
    let input = input.to_vec();
    let feeder = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("it ends");
    // A command that fails early does not read everything.
    let _ = feeder.join().expect("the feeder does not panic");
    Ran::new(output)
}

/// The path of a golden file.
pub(crate) fn golden(file: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../tests/golden", file]
        .iter()
        .collect()
}

/// The rows of a golden JSONL file.
pub(crate) fn golden_rows(file: &str) -> Vec<Value> {
    let text = fs::read_to_string(golden(file)).expect("a file of this repository");
    text.lines().map(json).collect()
}

/// A path as an argument.
pub(crate) fn arg(path: &std::path::Path) -> &str {
    path.to_str().expect("paths of this repository are UTF-8")
}
