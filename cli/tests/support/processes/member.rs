//! A `rocketcat consume` that is read as it runs.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::clock::{now, wait_until};
use super::journal::{Journal, Queue};
use crate::support::rocketcat;

/// How long a member may take to leave.
const LEAVE: Duration = Duration::from_secs(30);

/// A running member. Dropped, it is killed.
#[derive(Debug)]
pub(crate) struct Member {
    id: Arc<str>,
    child: Child,
    pace: Arc<AtomicU32>,
    account: Arc<Mutex<Account>>,
    readers: Vec<JoinHandle<()>>,
}

/// What a member has said on standard error so far.
#[derive(Debug, Default)]
struct Account {
    /// Queues it owns, and where each ownership began.
    owned: BTreeMap<Queue, i64>,
    summary: Option<Value>,
    /// Everything that is not told elsewhere.
    talk: Vec<String>,
}

/// How a member ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Its exit code; `None` for a signal.
    pub(crate) code: Option<i32>,
    /// Its summary, unless it was killed.
    pub(crate) summary: Option<Value>,
    /// What it said on standard error besides assignments and commits.
    pub(crate) talk: Vec<String>,
}

impl Member {
    /// Starts `consume` with these further arguments. It reads at most `pace` records a second, 0 for as
    /// many as come: a record is settled when the pipe has taken it, so this is the pace of the consumer.
    pub(crate) fn start(journal: &Journal, id: &str, pace: u32, args: &[&str]) -> Self {
        let own = ["--from", "earliest", "--client-id", id, "-o", "json", "--events"];
        let mut child = rocketcat(["consume"].iter().chain(args).chain(&own).copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let stdout = child.stdout.take().expect("it was asked for");
        let stderr = child.stderr.take().expect("it was asked for");
        let id = Arc::<str>::from(id);
        let pace = Arc::new(AtomicU32::new(pace));
        let account = Arc::<Mutex<Account>>::default();
        let (own_id, own_pace, own_journal) = (Arc::clone(&id), Arc::clone(&pace), journal.clone());
        let told = Arc::clone(&account);
        let readers = vec![
            thread::spawn(move || {
                let mut due = now();
                for line in whole_lines(stdout) {
                    let record = crate::support::json(&line);
                    let (queue, offset) = place(&record, "stored_topic");
                    let offset = offset("queue_offset");
                    own_journal.add(&own_id, queue, offset, record["body"].as_str().expect("text"));
                    if let Some(pause) = Duration::from_secs(1).checked_div(own_pace.load(Ordering::Relaxed))
                    {
                        due = due.max(now() - PACE_SLACK) + pause;
                        thread::sleep(due.saturating_duration_since(now()));
                    }
                }
            }),
            thread::spawn(move || whole_lines(stderr).for_each(|line| lock(&told).hear(line))),
        ];
        Self {
            id,
            child,
            pace,
            account,
            readers,
        }
    }

    /// Its client id.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The queues it owns of a topic.
    pub(crate) fn owned(&self, topic: &str) -> BTreeSet<Queue> {
        let account = lock(&self.account);
        let owned = account.owned.keys().filter(|queue| queue.topic == topic);
        owned.cloned().collect()
    }

    /// Where its ownership of each of its queues began.
    pub(crate) fn begun_at(&self) -> BTreeMap<Queue, i64> {
        lock(&self.account).owned.clone()
    }

    /// What it has said besides assignments and commits.
    pub(crate) fn talk(&self) -> Vec<String> {
        lock(&self.account).talk.clone()
    }

    /// Lets it go as fast as it can.
    pub(crate) fn hurry(&self) {
        self.pace.store(0, Ordering::Relaxed);
    }

    /// Ends it without warning (SIGKILL), and says when.
    pub(crate) fn kill(&mut self) -> Instant {
        self.signal(Signal::KILL)
    }

    /// Asks it to leave (SIGTERM), and says when.
    pub(crate) fn terminate(&mut self) -> Instant {
        self.signal(Signal::TERM)
    }

    /// Waits until it has ended and everything it said was read.
    ///
    /// # Panics
    /// When it does not end within 30 seconds.
    pub(crate) fn finish(mut self) -> Ended {
        self.hurry();
        let mut status = None;
        wait_until(
            now(),
            LEAVE,
            || {
                status = self.child.try_wait().expect("it is a child of ours");
                status.is_some()
            },
            || format!("{} has not ended", self.id),
        );
        for reader in self.readers.drain(..) {
            reader.join().expect("what it said can be read");
        }
        let mut account = lock(&self.account);
        Ended {
            code: status.and_then(|status| status.code()),
            summary: account.summary.take(),
            talk: std::mem::take(&mut account.talk),
        }
    }

    fn signal(&mut self, signal: Signal) -> Instant {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let at = now();
        kill_process(pid.expect("a process number"), signal).expect("it was not waited for yet");
        at
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How far a paced reader may fall behind and still catch up.
const PACE_SLACK: Duration = Duration::from_millis(50);

impl Account {
    fn hear(&mut self, line: String) {
        let Ok(value) = serde_json::from_str::<Value>(&line) else {
            return self.talk.push(line);
        };
        match value["event"].as_str() {
            Some("assigned") => {
                let (queue, offset) = place(&value, "topic");
                self.owned.insert(queue, offset("from"));
            }
            Some("revoked") => drop(self.owned.remove(&place(&value, "topic").0)),
            Some("commit" | "ready") => {}
            Some(_) => self.talk.push(line),
            None if value.get("summary").is_some() => self.summary = value.get("summary").cloned(),
            None => self.talk.push(line),
        }
    }
}

/// The queue that a record or event is about, and a reader of its offsets.
fn place<'a>(line: &'a Value, topic: &str) -> (Queue, impl Fn(&str) -> i64 + 'a) {
    let text = |key: &str| line[key].as_str().expect("text").to_owned();
    let id = line["queue_id"].as_u64().and_then(|id| u32::try_from(id).ok());
    let queue = Queue {
        topic: text(topic),
        broker: text("broker"),
        id: id.expect("a queue number"),
    };
    (queue, move |key| line[key].as_i64().expect("an offset"))
}

/// The lines of a pipe. What follows the last line break was cut off when its writer was killed.
fn whole_lines(pipe: impl Read) -> impl Iterator<Item = String> {
    let mut pipe = BufReader::new(pipe);
    std::iter::from_fn(move || {
        let mut line = String::new();
        pipe.read_line(&mut line).ok()?;
        line.ends_with('\n').then(|| line.trim_end().to_owned())
    })
}

fn lock(account: &Mutex<Account>) -> MutexGuard<'_, Account> {
    account.lock().unwrap_or_else(PoisonError::into_inner)
}
