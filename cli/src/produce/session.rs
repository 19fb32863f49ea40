use std::collections::VecDeque;
use std::future::pending;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use rocketmq_consumer_core::wire::request::send::SendStatus;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::pace::Pace;
use super::plan::{Choice, Plan, source};
use super::receipt::{Receipt, word};
use super::recipe::{Outgoing, Recipe};
use super::sender::Sender;
use super::source::Source;
use super::summary::Tally;
use super::unique_key::UniqueKeys;
use crate::args::{ProduceArgs, ProduceOutput};
use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::exit::{Exit, Failure};
use crate::output::Lines;
use crate::settings::Settings;
use crate::signals::{self, Signal, Signals};
use crate::talk::{Level, Talk};

/// Messages that are under way at once, and the bytes of their bodies: there may be one more message than fits.
const UNDER_WAY_MAX: usize = 64;
const UNDER_WAY_BYTES_MAX: usize = 8 << 20;

/// Runs the command.
///
/// # Errors
/// What makes no sense, and whatever ends the run before its input ends.
pub(crate) fn run(args: &ProduceArgs, settings: Settings, clock: Clock, talk: Talk) -> Result<Exit, Failure> {
    let plan = Plan::new(args)?;
    signals::run(async |mut signals| {
        let cluster = Cluster::new(settings).await?;
        let keys = UniqueKeys::new(cluster.client_id(), std::process::id(), clock.unix_ms());
        // Before anything is contacted: a file that is not there is worth no connection.
        let source = source(args)?;
        let is_delayed = plan.recipe.delay_level.is_some();
        let looking_up = Sender::new(cluster, plan.topic.clone(), plan.choice, is_delayed, clock);
        let sender = tokio::select! {
            sender = looking_up => sender?,
            signal = signals.next() => return Ok(signal.into()),
        };
        let session = Session {
            feed: Feed {
                source,
                pace: plan.pace,
                began: Instant::now(),
            },
            recipe: plan.recipe,
            lanes: Lanes::new(plan.choice),
            keys,
            clock,
            talk,
            sender: Arc::new(sender),
            under_way: VecDeque::new(),
            under_way_bytes: 0,
            lines: (plan.output == ProduceOutput::Json).then(Lines::stdout),
            tally: Tally::default(),
            number: 0,
            trouble: None,
        };
        session.run(&mut signals, plan.output, plan.topic.as_str()).await
    })
}

/// A run, from the first message to the summary.
struct Session {
    feed: Feed,
    recipe: Recipe,
    lanes: Lanes,
    keys: UniqueKeys,
    clock: Clock,
    talk: Talk,
    sender: Arc<Sender>,
    /// In the order of their numbers, so that receipts come in this order too.
    under_way: VecDeque<UnderWay>,
    under_way_bytes: usize,
    lines: Option<Lines>,
    tally: Tally,
    number: u64,
    /// The first thing that went wrong.
    trouble: Option<Failure>,
}

/// A message that is being sent.
struct UnderWay {
    bytes: usize,
    sending: JoinHandle<Result<Receipt, Failure>>,
}

/// Bodies, when they are due.
struct Feed {
    source: Source,
    pace: Option<Pace>,
    began: Instant,
}

impl Session {
    async fn run(
        mut self,
        signals: &mut Signals,
        output: ProduceOutput,
        topic: &str,
    ) -> Result<Exit, Failure> {
        let ended = self.send_all(signals).await;
        if matches!(ended, Ended::Hurried) {
            return Ok(Exit::Interrupted);
        }
        self.sender.close().await;
        let (tally, elapsed) = (&self.tally, self.clock.elapsed());
        if tally.empty > 0 {
            self.talk.say(
                Level::Warn,
                format_args!("{} empty lines were left out: no broker takes them", tally.empty),
            );
        }
        self.talk.say(
            Level::Info,
            format_args!(
                "{} messages sent in {elapsed:.3?}, {} retries",
                tally.sent, tally.retries
            ),
        );
        let exit = match (self.trouble.take(), ended) {
            (Some(Failure { exit, message }), _) => {
                // Before the summary, which is the last line.
                if let Some(message) = message {
                    self.talk.error(message);
                }
                exit
            }
            (None, Ended::Signal(signal)) => signal.into(),
            (None, Ended::Input | Ended::Hurried) => Exit::Done,
        };
        if output.has_summary() {
            self.talk.json(&self.tally.summary(topic, elapsed));
        }
        Ok(exit)
    }

    /// Sends until the input ends, then waits for what is under way. The first trouble is the end of it.
    async fn send_all(&mut self, signals: &mut Signals) -> Ended {
        let mut ended = None;
        while ended.is_none() || !self.under_way.is_empty() {
            let has_room = self.under_way.len() < UNDER_WAY_MAX && self.under_way_bytes < UNDER_WAY_BYTES_MAX;
            let may_take = ended.is_none() && has_room;
            let step = tokio::select! {
                biased;
                signal = signals.next() => match ended {
                    Some(Ended::Signal(_)) => return Ended::Hurried,
                    _ => Ok(Some(Ended::Signal(signal))),
                },
                result = first(&mut self.under_way) => self.on_sent(result).map(|()| None),
                body = self.feed.next(self.number), if may_take => self.on_body(body),
            };
            match step {
                Ok(step) => ended = step.or(ended),
                Err(failure) => {
                    self.trouble.get_or_insert(failure);
                    ended = ended.or(Some(Ended::Input));
                }
            }
        }
        ended.unwrap_or(Ended::Input)
    }

    fn on_body(&mut self, body: io::Result<Option<Bytes>>) -> Result<Option<Ended>, Failure> {
        let body = body.map_err(|error| Failure::failed(format_args!("cannot read on: {error}")))?;
        match body {
            None => return Ok(Some(Ended::Input)),
            Some(body) if body.is_empty() => self.tally.empty += 1,
            Some(body) => self.begin(body)?,
        }
        Ok(None)
    }

    fn begin(&mut self, body: Bytes) -> Result<(), Failure> {
        let (bytes, number) = (body.len(), self.number);
        let unique_key = self.keys.draw(self.clock.unix_ms());
        let message = self
            .recipe
            .message(number, unique_key, body)
            .map_err(|error| Failure::failed(format_args!("message {number}: {error}")))?;
        self.number += 1;
        self.under_way_bytes += bytes;
        let turn = self.lanes.turn(&message);
        let sender = Arc::clone(&self.sender);
        let sending = tokio::spawn(async move {
            let _lane = turn.wait().await;
            sender.send(message).await
        });
        self.under_way.push_back(UnderWay { bytes, sending });
        Ok(())
    }

    fn on_sent(&mut self, (bytes, result): (usize, Result<Receipt, Failure>)) -> Result<(), Failure> {
        self.under_way_bytes -= bytes;
        let receipt = result.inspect_err(|_| self.tally.failed += 1)?;
        self.tally.count(&receipt);
        if receipt.status != SendStatus::Stored {
            self.talk.say(
                Level::Warn,
                format_args!(
                    "message {} is stored, but: {}",
                    receipt.number,
                    word(receipt.status)
                ),
            );
        }
        if let Some(lines) = &mut self.lines {
            match lines.json(&receipt).and_then(|()| lines.flush()) {
                // The reader has seen enough receipts. That is no reason to leave messages unsent.
                Err(Failure { exit: Exit::Done, .. }) => self.lines = None,
                written => written?,
            }
        }
        Ok(())
    }
}

/// Waits for the oldest message under way, for ever if there is none. Dropped, it takes nothing away.
async fn first(under_way: &mut VecDeque<UnderWay>) -> (usize, Result<Receipt, Failure>) {
    let Some(front) = under_way.front_mut() else {
        return pending().await;
    };
    let result = (&mut front.sending).await;
    let bytes = front.bytes;
    under_way.pop_front();
    // Only a panic ends a task that nobody aborts, and it has said why.
    let result = result.unwrap_or_else(|_| Err(Failure::failed("a message was lost on its way")));
    (bytes, result)
}

/// Why no more is sent.
enum Ended {
    /// There is no more, or after some trouble nobody wants it.
    Input,
    /// Somebody said so.
    Signal(Signal),
    /// Somebody said so twice: what is under way is left alone.
    Hurried,
}

impl Feed {
    /// The body of message `number`, when it is due. Nothing is lost when the future is dropped.
    async fn next(&mut self, number: u64) -> io::Result<Option<Bytes>> {
        if let Some(pace) = self.pace {
            match self.began.checked_add(pace.due(number)) {
                Some(due) => tokio::time::sleep_until(due).await,
                None => pending().await,
            }
        }
        self.source.next().await
    }
}

/// Keeps messages in order where somebody relies on it: one queue was chosen, or the key chooses. In each
/// lane a message waits until the one before is stored.
#[derive(Debug)]
struct Lanes {
    choice: Choice,
    /// Tells when the last message of each lane is done.
    last: Vec<Option<oneshot::Receiver<()>>>,
}

/// How many lanes there are; messages of several keys may share one.
const LANES: usize = 256;

impl Lanes {
    fn new(choice: Choice) -> Self {
        Self {
            choice,
            last: (0..LANES).map(|_| None).collect(),
        }
    }

    fn turn(&mut self, message: &Outgoing) -> Turn {
        let lane = match (self.choice, &message.key) {
            (Choice::InTurn, _) => return Turn::default(),
            (Choice::ByKey, Some(key)) => lane_of(key),
            (Choice::ByKey, None) | (Choice::Queue(_), _) => 0,
        };
        let (done, after) = oneshot::channel();
        let before = self.last.get_mut(lane).and_then(|last| last.replace(after));
        Turn {
            before,
            done: Some(done),
        }
    }
}

fn lane_of(key: &str) -> usize {
    key.bytes().fold(0, |lane: usize, byte| {
        lane.wrapping_mul(31).wrapping_add(usize::from(byte))
    }) % LANES
}

/// A place in a lane.
#[derive(Debug, Default)]
struct Turn {
    before: Option<oneshot::Receiver<()>>,
    done: Option<oneshot::Sender<()>>,
}

impl Turn {
    /// Waits for the message before. What is given back keeps the lane until it is dropped.
    async fn wait(self) -> Option<oneshot::Sender<()>> {
        if let Some(before) = self.before {
            // It tells by being dropped.
            let _ = before.await;
        }
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(key: &str) -> Outgoing {
        Outgoing {
            number: 0,
            key: Some(key.into()),
            properties: String::new(),
            unique_key: String::new(),
            body: Bytes::new(),
        }
    }

    #[tokio::test]
    async fn messages_of_one_key_wait_for_each_other_and_others_do_not() {
        let mut lanes = Lanes::new(Choice::ByKey);
        let turns = ["a", "a", "b"].map(|key| lanes.turn(&message(key)));
        let [first, second, other] = turns;
        let first = first.wait().await;
        other.wait().await;
        let second = tokio::spawn(second.wait());
        tokio::task::yield_now().await;
        assert!(!second.is_finished());
        drop(first);
        second.await.unwrap();
    }

    #[tokio::test]
    async fn in_turn_nobody_waits() {
        let mut lanes = Lanes::new(Choice::InTurn);
        let _first = lanes.turn(&message("a"));
        lanes.turn(&message("a")).wait().await;
    }
}
