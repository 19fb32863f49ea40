//! The Java producer, in a process of its own.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use serde_json::Value;

use super::clock::Deadline;
use super::folder::Folder;
use super::java_consumer::{STOP_LIMIT, start_peer};
use super::jvm::{Jvm, Recipe};
use super::{LaunchError, Version};

/// A running `DefaultMQProducer`. Dropped, it is killed.
#[derive(Debug)]
pub struct JavaProducer {
    jvm: Jvm,
    recipe: Recipe,
    lines: Receiver<String>,
    record: PathBuf,
    // Last: the process ends before its folder is removed.
    _folder: Folder,
}

/// What the Java producer says when it ends.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProducerSummary {
    /// Sends that were acknowledged.
    pub acknowledged: u64,
    /// Sends that failed after the client's own retries. Some may be stored all the same.
    pub failed: u64,
    /// From the first send to the last answer.
    pub seconds: f64,
    /// The acknowledged bodies, in the order they were sent.
    pub bodies: Vec<String>,
}

/// Says what producer to start; see [`JavaProducer::builder`].
#[derive(Clone, Debug)]
#[must_use = "nothing happens before `start`"]
pub struct JavaProducerBuilder {
    arguments: Vec<OsString>,
    options: Vec<String>,
}

impl JavaProducerBuilder {
    /// How many messages it sends before it ends; 1 by default.
    pub fn count(self, messages: u64) -> Self {
        self.flag("count", messages.to_string())
    }

    /// Messages a second; as quickly as answers come by default.
    pub fn rate(self, per_second: u64) -> Self {
        self.flag("rate", per_second.to_string())
    }

    /// Pads the bodies `<number>:` with `x` to so many bytes.
    pub fn size(self, bytes: usize) -> Self {
        self.flag("size", bytes.to_string())
    }

    /// The tag of every message.
    pub fn tags(self, tags: &str) -> Self {
        self.flag("tags", tags)
    }

    /// Gives message `n` the key `<prefix><n>`.
    pub fn keys(self, prefix: &str) -> Self {
        self.flag("keys", prefix)
    }

    /// Its producer group; `java-producer` by default.
    pub fn group(self, group: &str) -> Self {
        self.flag("group", group)
    }

    /// A further JVM option.
    pub fn jvm_option(mut self, option: impl Into<String>) -> Self {
        self.options.push(option.into());
        self
    }

    /// Starts it and waits until the client says that it has started.
    ///
    /// # Errors
    /// When Java or Maven is missing, or it ends or is silent for 60 seconds.
    pub fn start(self) -> Result<JavaProducer, LaunchError> {
        let folder = Folder::new("producer")?;
        let record = folder.path().join("acknowledged");
        let recipe = Recipe {
            name: "java-producer".into(),
            version: Version::CURRENT,
            home: folder.path().to_path_buf(),
            options: self.options.clone(),
            main: "rocketmq.consumer.testing.JavaProducer",
            arguments: self.flag("acknowledged", record.clone()).arguments,
        };
        let (jvm, lines, _client_id) = start_peer(&recipe)?;
        Ok(JavaProducer {
            jvm,
            recipe,
            lines,
            record,
            _folder: folder,
        })
    }

    fn flag(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.arguments.extend([format!("--{name}").into(), value.into()]);
        self
    }
}

impl JavaProducer {
    /// A producer for `topic` at a name server (`host:port`), which need not be a real one.
    pub fn builder(name_server: &str, topic: &str) -> JavaProducerBuilder {
        JavaProducerBuilder {
            arguments: Vec::new(),
            options: Vec::new(),
        }
        .flag("name-server", name_server)
        .flag("topic", topic)
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.jvm.id()
    }

    /// The bodies acknowledged so far.
    ///
    /// # Errors
    /// When its record cannot be read.
    pub fn acknowledged(&self) -> Result<Vec<String>, LaunchError> {
        let text = match fs::read_to_string(&self.record) {
            Ok(text) => text,
            // A JVM that is still starting has not made its record yet.
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => {
                return Err(LaunchError::io(format!("reading {}", self.record.display()))(
                    error,
                ));
            }
        };
        // A line without its end is still being written.
        Ok(text
            .split_inclusive('\n')
            .filter_map(|line| line.strip_suffix('\n'))
            .map(str::to_owned)
            .collect())
    }

    /// Waits until it has sent everything.
    ///
    /// # Errors
    /// When it has not ended within `limit`, or ended without a summary.
    pub fn wait(self, limit: Duration) -> Result<ProducerSummary, LaunchError> {
        let deadline = Deadline::after(limit);
        let line = self.lines.recv_timeout(deadline.left()).map_err(|e| match e {
            RecvTimeoutError::Timeout => self.recipe.late("done", limit),
            RecvTimeoutError::Disconnected => self.recipe.late("ended with a summary", limit),
        })?;
        let value: Value = serde_json::from_str(&line).unwrap_or_default();
        let summary = &value["summary"];
        let parts = (
            summary["acknowledged"].as_u64(),
            summary["failed"].as_u64(),
            summary["seconds"].as_f64(),
        );
        let (Some(acknowledged), Some(failed), Some(seconds)) = parts else {
            return Err(LaunchError::Output {
                process: self.recipe.name.clone(),
                line,
            });
        };
        Ok(ProducerSummary {
            acknowledged,
            failed,
            seconds,
            bodies: self.acknowledged()?,
        })
    }

    /// Ends it after the message it is sending.
    ///
    /// # Errors
    /// When it has not ended within 30 seconds.
    pub fn stop(mut self) -> Result<ProducerSummary, LaunchError> {
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
}
