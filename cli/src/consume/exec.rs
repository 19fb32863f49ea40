//! `--exec`: a shell command as the handler.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};

use bytes::Bytes;
use rocketmq_consumer_core::message::{Message, Outcome};
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};

/// `EX_TEMPFAIL` of sysexits: try again later. Said explicitly it means the same as any other failure.
const RETRY: i32 = 75;
/// `EX_DATAERR`: the message itself is bad.
const DEAD_LETTER: i32 = 65;

/// A command that is run for each message.
#[derive(Debug)]
pub(crate) struct Exec {
    command: String,
}

impl Exec {
    /// A command for `sh -c`.
    pub(crate) const fn new(command: String) -> Self {
        Self { command }
    }

    /// Runs the command with the body on standard input; its exit status is the outcome. `times` is how often
    /// the message came before. When
    /// `cancelled` ends first the command is asked to end (SIGTERM); when this future is dropped it is
    /// killed. Both reach everything the command has started.
    ///
    /// # Errors
    /// The command could not be started.
    pub(crate) async fn run(
        &self,
        message: &Message,
        times: u32,
        body: &Bytes,
        cancelled: impl Future<Output = ()>,
    ) -> io::Result<Outcome> {
        let mut child = self.spawn(message, times)?;
        let mut group = Group::of(&child);
        let stdin = child.stdin.take();
        let feed = async {
            if let Some(mut stdin) = stdin {
                // A command need not read its input.
                let _ = stdin.write_all(body).await;
            }
        };
        let mut ended = pin!(async {
            let mut waited = pin!(child.wait());
            // Whoever the command left behind may hold its input open and never read it.
            tokio::select! {
                status = &mut waited => status,
                () = feed => waited.await,
            }
        });
        let status = tokio::select! {
            status = &mut ended => status,
            () = cancelled => {
                group.terminate();
                ended.await
            }
        };
        group.disarm();
        status.map(outcome)
    }

    fn spawn(&self, message: &Message, times: u32) -> io::Result<Child> {
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(&self.command)
            .env("ROCKETMQ_TOPIC", value(&message.topic()))
            .env("ROCKETMQ_QUEUE", message.queue_id().to_string())
            .env("ROCKETMQ_OFFSET", message.queue_offset().to_string())
            .env("ROCKETMQ_MSG_ID", value(&message.msg_id()))
            .env("ROCKETMQ_KEYS", value(&message.keys().unwrap_or_default()))
            .env("ROCKETMQ_TAGS", value(&message.tags().unwrap_or_default()))
            .env("ROCKETMQ_RECONSUME_TIMES", times.to_string())
            .stdin(Stdio::piped())
            // Records alone go to standard output.
            .stdout(Stdio::from(io::stderr()))
            .kill_on_drop(true);
        // A group of its own: Ctrl-C in a terminal is for us, and we let commands end.
        #[cfg(unix)]
        command.process_group(0);
        command.spawn()
    }
}

/// What a variable can hold: everything but NUL.
fn value(text: &str) -> String {
    text.replace('\0', "")
}

fn outcome(status: ExitStatus) -> Outcome {
    match status.code() {
        Some(0) => Outcome::Done,
        Some(DEAD_LETTER) => Outcome::DeadLetter,
        // No code: a signal ended it.
        Some(RETRY) | Some(_) | None => Outcome::Retry,
    }
}

/// The process group of a command that still runs.
struct Group {
    #[cfg(unix)]
    leader: Option<rustix::process::Pid>,
}

#[cfg(unix)]
impl Group {
    fn of(child: &Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self {
            leader: id.and_then(rustix::process::Pid::from_raw),
        }
    }

    fn terminate(&self) {
        self.send(rustix::process::Signal::TERM);
    }

    /// It has ended; its number may belong to somebody else soon.
    fn disarm(&mut self) {
        self.leader = None;
    }

    fn send(&self, signal: rustix::process::Signal) {
        if let Some(leader) = self.leader {
            // Nobody left to hear it is as good as ended.
            let _ = rustix::process::kill_process_group(leader, signal);
        }
    }
}

#[cfg(unix)]
impl Drop for Group {
    fn drop(&mut self) {
        self.send(rustix::process::Signal::KILL);
    }
}

#[cfg(not(unix))]
impl Group {
    const fn of(_child: &Child) -> Self {
        Self {}
    }

    /// There is no polite way; dropping the child kills it.
    const fn terminate(&self) {}

    const fn disarm(&mut self) {}
}

#[cfg(all(test, unix))]
mod tests {
    use std::future::{pending, ready};
    use std::time::Duration;

    use super::*;
    use crate::testing::message;

    async fn run(command: &str, body: &'static [u8]) -> Outcome {
        let exec = Exec::new(command.into());
        exec.run(&message(7), 0, &Bytes::from_static(body), pending())
            .await
            .expect("sh can be started")
    }

    #[tokio::test]
    async fn a_command_that_left_somebody_behind_has_ended() {
        let body = &[b'x'; 1 << 20];
        let run = run("exec 3<&0; sleep 60 <&3 & exit 65", body);
        let outcome = tokio::time::timeout(Duration::from_secs(20), run).await;
        assert_eq!(outcome, Ok(Outcome::DeadLetter));
    }

    #[tokio::test]
    async fn the_exit_status_is_the_outcome() {
        let table = [
            ("exit 0", Outcome::Done),
            ("exit 65", Outcome::DeadLetter),
            ("exit 75", Outcome::Retry),
            ("exit 1", Outcome::Retry),
            ("kill -9 $$", Outcome::Retry),
            ("/no/such/program 2>/dev/null", Outcome::Retry),
        ];
        for (command, want) in table {
            assert_eq!(run(command, b"").await, want, "{command}");
        }
    }

    #[tokio::test]
    async fn the_body_is_on_standard_input_and_the_rest_in_variables() {
        assert_eq!(run("test \"$(cat)\" = hello", b"hello").await, Outcome::Done);
        let command = "test \"$ROCKETMQ_TOPIC $ROCKETMQ_QUEUE $ROCKETMQ_OFFSET $ROCKETMQ_KEYS $ROCKETMQ_TAGS \
                       $ROCKETMQ_RECONSUME_TIMES $ROCKETMQ_MSG_ID\" = \
                       \"orders 3 7 k1 k2 paid 2 0A00000200002A9F00000000000003E8\"";
        let exec = Exec::new(command.into());
        let outcome = exec.run(&message(7), 2, &Bytes::new(), pending()).await;
        assert_eq!(outcome.unwrap(), Outcome::Done);
    }

    #[tokio::test]
    async fn a_large_body_nobody_reads_blocks_nothing() {
        static BODY: [u8; 1 << 20] = [b'x'; 1 << 20];
        assert_eq!(run("exit 0", &BODY).await, Outcome::Done);
        assert_eq!(run("test $(wc -c) -eq 1048576", &BODY).await, Outcome::Done);
    }

    #[tokio::test]
    async fn a_cancelled_command_is_asked_to_end() {
        let exec = Exec::new("trap 'exit 65' TERM; while :; do sleep 0.01; done".into());
        // The shell needs a moment to set its trap.
        let cancelled = tokio::time::sleep(Duration::from_millis(500));
        let outcome = exec.run(&message(7), 0, &Bytes::new(), cancelled).await;
        assert_eq!(outcome.unwrap(), Outcome::DeadLetter);
        let sleeper = Exec::new("sleep 60; exit 0".into());
        let outcome = sleeper.run(&message(7), 0, &Bytes::new(), ready(())).await;
        assert_eq!(outcome.unwrap(), Outcome::Retry);
    }

    #[tokio::test]
    async fn a_dropped_call_kills_the_command_and_its_children() {
        let exec = Exec::new("sleep 60 & echo $! > \"$ROCKETMQ_TEST_PID\"; wait".into());
        let dir = std::env::temp_dir().join(format!("rocketcat-exec-{}", std::process::id()));
        let command = exec
            .command
            .replace("$ROCKETMQ_TEST_PID", &dir.display().to_string());
        let exec = Exec::new(command);
        let (message, body) = (message(7), Bytes::new());
        let pid = {
            let mut call = pin!(exec.run(&message, 0, &body, pending()));
            loop {
                let text = std::fs::read_to_string(&dir).unwrap_or_default();
                if let Ok(pid) = text.trim().parse() {
                    break pid;
                }
                tokio::select! {
                    outcome = &mut call => panic!("{outcome:?}"),
                    () = tokio::time::sleep(Duration::from_millis(10)) => {}
                }
            }
        };
        let _ = std::fs::remove_file(&dir);
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        for _ in 0..500 {
            if rustix::process::test_kill_process(pid).is_err() || is_zombie(pid) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the child of the command lives on");
    }

    /// Killed, and waiting for whoever inherited it.
    fn is_zombie(pid: rustix::process::Pid) -> bool {
        std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).is_ok_and(|stat| {
            stat.rsplit(')')
                .next()
                .is_some_and(|rest| rest.trim_start().starts_with('Z'))
        })
    }
}
