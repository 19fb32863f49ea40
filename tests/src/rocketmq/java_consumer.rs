//! The Java push consumer, in a process of its own.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::clock::Deadline;
use super::folder::Folder;
use super::jvm::{Jvm, Recipe};
use super::{LaunchError, Version};

/// How long a peer may take to start; 2 seconds on an idle machine.
pub(crate) const START_LIMIT: Duration = Duration::from_secs(60);
/// Peers cut their own shutdown short after 10 seconds.
pub(crate) const STOP_LIMIT: Duration = Duration::from_secs(30);

/// A running `DefaultMQPushConsumer`. Dropped, it is killed.
#[derive(Debug)]
pub struct JavaConsumer {
    jvm: Jvm,
    recipe: Recipe,
    client_id: String,
    lines: Receiver<String>,
    summary: Option<ConsumerSummary>,
    // Last: the process ends before its folder is removed.
    _folder: Folder,
}

/// A message as the Java consumer's listener saw it; those it failed on purpose too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Topic; for a retried message the original one.
    pub topic: String,
    /// Name of the broker it was pulled from.
    pub broker: String,
    /// Its queue.
    pub queue_id: u32,
    /// Its offset in the queue.
    pub queue_offset: i64,
    /// `UNIQ_KEY` where it has one, else the offset message id.
    pub msg_id: String,
    /// How often it was sent back.
    pub reconsume_times: u32,
    /// Its body, read as UTF-8.
    pub body: String,
    /// When the listener was called with it, Unix milliseconds.
    pub began: u64,
    /// When the listener had worked on it, Unix milliseconds; it is told then.
    pub at: u64,
}

/// What the Java consumer says when it ends.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ConsumerSummary {
    /// Messages the listener succeeded with.
    pub count: u64,
    /// From the first call of the listener to the last.
    pub seconds: f64,
    /// User and system time of its process, its start included.
    pub cpu_seconds: f64,
}

/// Says what consumer to start; see [`JavaConsumer::builder`].
#[derive(Clone, Debug)]
#[must_use = "nothing happens before `start`"]
pub struct JavaConsumerBuilder {
    arguments: Vec<OsString>,
    options: Vec<String>,
}

impl JavaConsumerBuilder {
    /// Subscribes to a topic with a tag expression, `*` for everything.
    pub fn subscribe(self, topic: &str, expression: &str) -> Self {
        self.flag("subscribe", format!("{topic}={expression}"))
    }

    /// Subscribes to a topic with an SQL92 condition over properties.
    pub fn subscribe_sql(self, topic: &str, condition: &str) -> Self {
        self.flag("sql", format!("{topic}={condition}"))
    }

    /// First part of the client id; an address of this machine by default.
    pub fn client_ip(self, ip: &str) -> Self {
        self.flag("client-ip", ip)
    }

    /// Second part of the client id; process id and a time by default.
    pub fn instance(self, name: &str) -> Self {
        self.flag("instance", name)
    }

    /// Broadcasting instead of clustering. Its offsets are forgotten with its process: the file is in its
    /// private folder.
    pub fn broadcasting(self) -> Self {
        self.flag("model", "broadcasting")
    }

    /// Starts at the first offset where nothing is committed, instead of the last.
    pub fn from_first(self) -> Self {
        self.flag("from", "first")
    }

    /// Starts at a time (`yyyyMMddHHmmss`, local) where nothing is committed.
    pub fn from_time(self, time: &str) -> Self {
        self.flag("from", time)
    }

    /// Most messages in one call of the listener; 1 by default.
    pub fn batch(self, messages: u32) -> Self {
        self.flag("batch", messages.to_string())
    }

    /// Threads that call the listener; 20 by default.
    pub fn threads(self, threads: u32) -> Self {
        self.flag("threads", threads.to_string())
    }

    /// How often it asks for routes; every 30 seconds by default, which is also how long the first retried
    /// message of a new group takes: the client learns only then that its retry topic exists.
    pub fn route_refresh(self, every: Duration) -> Self {
        self.flag("route-refresh-ms", every.as_millis().to_string())
    }

    /// How it shares queues with its group, as `rocketcat --strategy` takes it; averagely by default. Queues of
    /// `config:` are those of the topic it subscribes to last, unless they say otherwise.
    pub fn strategy(self, text: &str) -> Self {
        self.flag("strategy", text)
    }

    /// An orderly listener instead of a concurrent one.
    pub fn orderly(mut self) -> Self {
        self.arguments.push("--orderly".into());
        self
    }

    /// How long each call of the listener takes; no time by default.
    pub fn work(self, each: Duration) -> Self {
        self.flag("work-ms", each.as_millis().to_string())
    }

    /// Fails the first so many calls of the listener: the messages are retried.
    pub fn fail_first(self, calls: u64) -> Self {
        self.flag("fail-first", calls.to_string())
    }

    /// Ends cleanly by itself after so many messages.
    pub fn expect(self, messages: u64) -> Self {
        self.flag("expect", messages.to_string())
    }

    /// For benchmarks: messages are counted, not told; only the summary remains.
    pub fn quiet(mut self) -> Self {
        self.arguments.push("--quiet".into());
        self
    }

    /// A further JVM option, for example `-Xmx512m`.
    pub fn jvm_option(mut self, option: impl Into<String>) -> Self {
        self.options.push(option.into());
        self
    }

    /// Starts it and waits until the client says that it has started. Its first rebalance may still be due.
    ///
    /// # Errors
    /// When Java or Maven is missing, or it ends or is silent for 60 seconds.
    pub fn start(self) -> Result<JavaConsumer, LaunchError> {
        let folder = Folder::new("consumer")?;
        let recipe = Recipe {
            name: "java-consumer".into(),
            version: Version::CURRENT,
            home: folder.path().to_path_buf(),
            options: self.options,
            main: "rocketmq.consumer.testing.JavaConsumer",
            arguments: self.arguments,
        };
        let (jvm, lines, client_id) = start_peer(&recipe)?;
        Ok(JavaConsumer {
            jvm,
            recipe,
            client_id,
            lines,
            summary: None,
            _folder: folder,
        })
    }

    fn flag(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.arguments.extend([format!("--{name}").into(), value.into()]);
        self
    }
}

impl JavaConsumer {
    /// A consumer of `group` at a name server (`host:port`), which need not be a real one.
    pub fn builder(name_server: &str, group: &str) -> JavaConsumerBuilder {
        JavaConsumerBuilder {
            arguments: Vec::new(),
            options: Vec::new(),
        }
        .flag("name-server", name_server)
        .flag("group", group)
    }

    /// `<ip>@<instance>`, as brokers list it.
    #[must_use]
    pub fn client_id(&self) -> &str {
        &self.client_id
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.jvm.id()
    }

    /// The next message, in the order the listener was called; `None` when none came within `limit`, or when
    /// the consumer has ended.
    ///
    /// # Errors
    /// When it printed something else.
    pub fn next(&mut self, limit: Duration) -> Result<Option<Received>, LaunchError> {
        match self.lines.recv_timeout(limit) {
            Ok(line) => self.read(&line),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Ok(None),
        }
    }

    /// The next `count` messages, or those that came within `limit`.
    ///
    /// # Errors
    /// When it printed something else.
    pub fn take(&mut self, count: usize, limit: Duration) -> Result<Vec<Received>, LaunchError> {
        let deadline = Deadline::after(limit);
        let mut out = Vec::new();
        while out.len() < count {
            match self.next(deadline.left())? {
                Some(message) => out.push(message),
                None => break,
            }
        }
        Ok(out)
    }

    /// Waits until it ends by itself, which it does after [`JavaConsumerBuilder::expect`]ed messages. Messages
    /// not yet taken are passed over.
    ///
    /// # Errors
    /// When it has not ended within `limit`, or ended without a summary.
    pub fn wait(mut self, limit: Duration) -> Result<ConsumerSummary, LaunchError> {
        let deadline = Deadline::after(limit);
        loop {
            match self.lines.recv_timeout(deadline.left()) {
                Ok(line) => drop(self.read(&line)?),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => return Err(self.recipe.late("ended", limit)),
            }
        }
        self.summary
            .ok_or_else(|| self.recipe.late("ended with a summary", limit))
    }

    /// Shuts it down cleanly: it commits its offsets and leaves the group.
    ///
    /// # Errors
    /// When it has not ended within 30 seconds.
    pub fn stop(mut self) -> Result<ConsumerSummary, LaunchError> {
        self.jvm.close_stdin();
        self.wait(STOP_LIMIT)
    }

    /// Ends it at once (SIGKILL).
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn kill(mut self) -> Result<(), LaunchError> {
        self.jvm.kill()
    }

    /// Freezes it (SIGSTOP).
    ///
    /// # Errors
    /// When it has ended.
    pub fn suspend(&mut self) -> Result<(), LaunchError> {
        self.jvm.suspend()
    }

    /// Lets it go on (SIGCONT).
    ///
    /// # Errors
    /// When it has ended.
    pub fn resume(&mut self) -> Result<(), LaunchError> {
        self.jvm.resume()
    }

    /// A message, or `None` for the summary, which is kept.
    fn read(&mut self, line: &str) -> Result<Option<Received>, LaunchError> {
        let unexpected = || LaunchError::Output {
            process: self.recipe.name.clone(),
            line: line.into(),
        };
        let value: Value = serde_json::from_str(line).map_err(|_| unexpected())?;
        if let Some(summary) = value.get("summary") {
            self.summary = Some(ConsumerSummary {
                count: summary["count"].as_u64().ok_or_else(unexpected)?,
                seconds: summary["seconds"].as_f64().ok_or_else(unexpected)?,
                cpu_seconds: summary["cpu_seconds"].as_f64().ok_or_else(unexpected)?,
            });
            return Ok(None);
        }
        received(&value).map(Some).ok_or_else(unexpected)
    }
}

fn received(value: &Value) -> Option<Received> {
    let text = |name: &str| value[name].as_str().map(str::to_owned);
    let small = |name: &str| u32::try_from(value[name].as_u64()?).ok();
    Some(Received {
        topic: text("topic")?,
        broker: text("broker")?,
        queue_id: small("queue_id")?,
        queue_offset: value["queue_offset"].as_i64()?,
        msg_id: text("msg_id")?,
        reconsume_times: small("reconsume_times")?,
        body: text("body")?,
        began: value["began"].as_u64()?,
        at: value["at"].as_u64()?,
    })
}

/// Starts one of our Java programs and waits for its first line: the process, its further lines, its client id.
pub(crate) fn start_peer(recipe: &Recipe) -> Result<(Jvm, Receiver<String>, String), LaunchError> {
    let mut command = recipe.command()?;
    command.stdout(Stdio::piped());
    let mut jvm = Jvm::start(&recipe.name, command)?;
    let stdout = jvm.take_stdout().expect("it was asked to be a pipe");
    let (sender, lines) = channel();
    thread::spawn(move || {
        // Ends with the process; a line that nobody wants any more is no reason to let its pipe fill.
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    match lines.recv_timeout(START_LIMIT) {
        Ok(line) => {
            let value: Value = serde_json::from_str(&line).unwrap_or_default();
            let client_id = value["ready"]["client_id"].as_str().map(str::to_owned);
            let client_id = client_id.ok_or_else(|| LaunchError::Output {
                process: recipe.name.clone(),
                line,
            })?;
            Ok((jvm, lines, client_id))
        }
        Err(RecvTimeoutError::Timeout) => Err(recipe.late("ready", START_LIMIT)),
        Err(RecvTimeoutError::Disconnected) => match jvm.wait(STOP_LIMIT) {
            Some(status) => Err(LaunchError::Exited {
                process: recipe.name.clone(),
                status,
                log: recipe.log(),
            }),
            None => Err(recipe.late("ready", START_LIMIT)),
        },
    }
}
