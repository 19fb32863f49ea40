//! One JVM process: started behind a pipe that ends it with us, signalled by its id.

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::clock::Deadline;
use super::{LaunchError, Version, class_path, folder};

/// Options every JVM of ours gets; what a caller adds comes later and wins.
const OPTIONS: &[&str] = &[
    // No shared files outside the private folder.
    "-XX:-UsePerfData",
    // RocketMQ unmaps its files through these.
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
];

/// Earlier releases read files of `conf` in their home.
const FIRST_WITHOUT_CONF: Version = Version::new(5, 0, 0);

/// How long the threads of a process may take to stop.
const SUSPEND_LIMIT: Duration = Duration::from_secs(10);

/// Everything needed to start a JVM, again and again.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    /// For messages, for example `broker-a`.
    pub(crate) name: String,
    /// Whose jars it runs.
    pub(crate) version: Version,
    /// `user.home` of the process: its logs, temporary files and stores.
    pub(crate) home: PathBuf,
    pub(crate) options: Vec<String>,
    pub(crate) main: &'static str,
    pub(crate) arguments: Vec<OsString>,
}

impl Recipe {
    /// The command, with standard error (and output, unless the caller redirects it) in [`Self::printed`].
    pub(crate) fn command(&self) -> Result<Command, LaunchError> {
        let temporary = self.home.join("tmp");
        folder::create(&temporary)?;
        if self.version < FIRST_WITHOUT_CONF {
            self.write_conf()?;
        }
        let printed = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.printed())
            .map_err(LaunchError::io(format!("opening {}", self.printed().display())))?;
        let again = printed
            .try_clone()
            .map_err(LaunchError::io("duplicating a log file"))?;
        let mut command = Command::new(java());
        command
            .args(OPTIONS)
            .arg(property("user.home", &self.home))
            .arg(property("java.io.tmpdir", &temporary))
            .arg(property("rocketmq.home.dir", &self.home))
            .args(&self.options)
            .arg("-cp")
            .arg(class_path::class_path(self.version)?)
            .arg(self.main)
            .args(&self.arguments)
            .env_remove("NAMESRV_ADDR")
            .stdout(printed)
            .stderr(again);
        Ok(command)
    }

    /// Where servers of releases before 5.0 look for how to log, and do not start without.
    fn write_conf(&self) -> Result<(), LaunchError> {
        let conf = self.home.join("conf");
        folder::create(&conf)?;
        ["logback_namesrv.xml", "logback_broker.xml"]
            .iter()
            .try_for_each(|name| folder::write(&conf.join(name), class_path::LOGBACK))
    }

    /// Where the process's own output goes.
    pub(crate) fn printed(&self) -> PathBuf {
        self.home.join("printed.log")
    }

    /// The end of everything the process wrote.
    pub(crate) fn log(&self) -> String {
        folder::tail(&[self.home.join("rocketmq.log"), self.printed()])
    }

    /// The error for something that did not happen in time.
    pub(crate) fn late(&self, wanted: &'static str, limit: Duration) -> LaunchError {
        LaunchError::Late {
            process: self.name.clone(),
            wanted,
            limit,
            log: self.log(),
        }
    }
}

fn property(name: &str, value: &Path) -> OsString {
    let mut out = OsString::from(format!("-D{name}="));
    out.push(value);
    out
}

fn tool(command: &Command, source: io::Error) -> LaunchError {
    LaunchError::Tool {
        program: command.get_program().to_string_lossy().into_owned(),
        source,
    }
}

fn java() -> PathBuf {
    env::var_os("JAVA_HOME").map_or_else(
        || PathBuf::from("java"),
        |home| PathBuf::from(home).join("bin/java"),
    )
}

/// A running JVM; dropped, it is killed.
#[derive(Debug)]
pub(crate) struct Jvm {
    name: String,
    child: Child,
    /// Held open: its end is what ends the process when ours is gone.
    stdin: Option<ChildStdin>,
    stopped: bool,
}

impl Jvm {
    pub(crate) fn start(name: &str, mut command: Command) -> Result<Self, LaunchError> {
        // A process group of its own: an interrupt typed at the terminal is for the test alone. And should
        // the test die while this JVM is suspended, the kernel wakes the orphaned group, and it sees its
        // standard input closed.
        let mut child = command
            .process_group(0)
            .stdin(Stdio::piped())
            .spawn()
            .map_err(|source| tool(&command, source))?;
        let stdin = child.stdin.take();
        Ok(Self {
            name: name.into(),
            child,
            stdin,
            stopped: false,
        })
    }

    /// Runs a command to its end, its input held open all the while.
    pub(crate) fn output(mut command: Command) -> Result<Output, LaunchError> {
        let mut child = command
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|source| tool(&command, source))?;
        // `wait_with_output` would close it first, and the guard end the command before it has begun.
        let stdin = child.stdin.take();
        let output = child
            .wait_with_output()
            .map_err(LaunchError::io("waiting for a command"));
        drop(stdin);
        output
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// How it ended, if it has.
    pub(crate) fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let deadline = Deadline::after(limit);
        loop {
            let exited = self.exited();
            if exited.is_some() || deadline.is_over() {
                return exited;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Freezes it, and waits until its last thread has stopped: only then is it silent, and only then does the
    /// kernel count its group as stopped.
    pub(crate) fn suspend(&mut self) -> Result<(), LaunchError> {
        self.signal(Signal::STOP)?;
        self.stopped = true;
        let deadline = Deadline::after(SUSPEND_LIMIT);
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        loop {
            let status = waitid(WaitId::Pid(Pid::from_child(&self.child)), options)
                .map_err(|e| LaunchError::io(format!("waiting for {}", self.name))(e.into()))?;
            if status.is_some_and(|status| status.stopped()) {
                return Ok(());
            }
            if deadline.is_over() {
                return Err(LaunchError::Late {
                    process: self.name.clone(),
                    wanted: "suspended",
                    limit: SUSPEND_LIMIT,
                    log: String::new(),
                });
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    pub(crate) fn resume(&mut self) -> Result<(), LaunchError> {
        self.signal(Signal::CONT)?;
        self.stopped = false;
        Ok(())
    }

    /// Asks for a clean end (SIGTERM); a suspended process is woken to hear it.
    pub(crate) fn terminate(&mut self) -> Result<(), LaunchError> {
        self.signal(Signal::TERM)?;
        if self.stopped {
            self.resume()?;
        }
        Ok(())
    }

    /// Ends it at once (SIGKILL), also while suspended, and waits until it is gone.
    pub(crate) fn kill(&mut self) -> Result<(), LaunchError> {
        let name = self.name.clone();
        self.child
            .kill()
            .and_then(|()| self.child.wait().map(drop))
            .map_err(LaunchError::io(format!("killing {name}")))
    }

    /// Closes its standard input, which our Java programs take as the request to end.
    pub(crate) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    fn signal(&mut self, signal: Signal) -> Result<(), LaunchError> {
        // Asked first, so that the id is known to be still ours: it is not reused before we have waited.
        if self.exited().is_some() {
            return Err(LaunchError::NotRunning {
                process: self.name.clone(),
            });
        }
        kill_process(Pid::from_child(&self.child), signal)
            .map_err(|e| LaunchError::io(format!("signalling {}", self.name))(e.into()))
    }
}

impl Drop for Jvm {
    fn drop(&mut self) {
        // Already ended is fine, and there is nobody to tell of anything else.
        let _ = self.kill();
    }
}
