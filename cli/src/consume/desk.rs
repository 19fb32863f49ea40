use std::future::{Future, pending};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use rocketmq_consumer_core::ids::ClientId;
use rocketmq_consumer_core::message::{Message, Outcome};
use tokio::sync::Notify;

use super::ends::Ends;
use super::exec::Exec;
use super::sink::Sink;
use super::stop::Stop;
use super::tally::{Admission, Counts, Ending, Progress, Tally};
use crate::clock::Clock;
use crate::output::{Output, RecordView};
use crate::talk::Talk;

/// The handler: decides whether a message belongs to the run, prints it, and answers.
///
/// What does not belong to the run is not answered at all. The machine commits below the lowest
/// unfinished message, so whatever nobody answered comes again, to the next run of the group.
#[derive(Debug)]
pub(crate) struct Desk {
    duties: Duties,
    consumer: ClientId,
    clock: Clock,
    talk: Talk,
    tally: Mutex<Tally>,
    stop: Mutex<Option<Stop>>,
    /// The tally or the stop has changed; one task listens.
    news: Notify,
}

/// What a desk does with messages.
#[derive(Debug)]
pub(crate) struct Duties {
    /// How records are written.
    pub(crate) output: Output,
    /// The command that handles messages.
    pub(crate) exec: Option<Exec>,
    /// Where the run ends, if it does.
    pub(crate) ends: Option<Ends>,
    /// How many tries of a message are answered with retry.
    pub(crate) fail_first: u32,
    /// How many distinct records belong to the run.
    pub(crate) limit: Option<u64>,
    /// Where messages come in order: how often a queue waits for one that fails.
    pub(crate) repeats_max: Option<u32>,
}

impl Desk {
    /// The desk of this member.
    pub(crate) fn new(duties: Duties, consumer: ClientId, clock: Clock, talk: Talk) -> Self {
        let tally = Mutex::new(Tally::new(duties.limit));
        Self {
            duties,
            consumer,
            clock,
            talk,
            tally,
            stop: Mutex::default(),
            news: Notify::new(),
        }
    }

    /// Handles a message that came so often before without going through the broker. Without anything to wait
    /// for, it is done when it is first polled.
    pub(crate) async fn handle(
        &self,
        sink: Option<&Sink>,
        message: Message,
        repeats: u32,
        cancelled: impl Future<Output = ()>,
    ) -> Outcome {
        if let Some(ends) = &self.duties.ends
            && message.queue_offset().0 >= ends.of(message.batch().queue()).await
        {
            return pending().await;
        }
        let Some(ticket) = self.admit(&message) else {
            return pending().await;
        };
        let Some(body) = self.open(&message) else {
            return ticket.give_up().await;
        };
        if let Some(sink) = sink {
            let written = sink.append(|out| self.write(out, &message, repeats, &body));
            if written.await.is_err() {
                return ticket.give_up().await;
            }
        }
        let times = message.reconsume_times().saturating_add(repeats);
        let outcome = match &self.duties.exec {
            _ if times < self.duties.fail_first => Outcome::Retry,
            None => Outcome::Done,
            Some(exec) => self.execute(exec, &message, times, &body, cancelled).await,
        };
        ticket.settle(self.ending(outcome, times));
        outcome
    }

    /// Handles neighbouring messages with one write. Only for runs without a limit, an end and a
    /// command: those are about single messages.
    pub(crate) async fn handle_all(
        &self,
        sink: Option<&Sink>,
        messages: Vec<Message>,
        repeats: u32,
    ) -> Vec<Outcome> {
        let mut tickets = Vec::with_capacity(messages.len());
        let mut bodies = Vec::with_capacity(messages.len());
        for message in &messages {
            let (Some(ticket), Some(body)) = (self.admit(message), self.open(message)) else {
                drop(tickets);
                return pending().await;
            };
            tickets.push(ticket);
            bodies.push(body);
        }
        if let Some(sink) = sink {
            let written = sink.append(|out| {
                for (message, body) in messages.iter().zip(&bodies) {
                    self.write(out, message, repeats, body);
                }
            });
            if written.await.is_err() {
                drop(tickets);
                return pending().await;
            }
        }
        let answer = |(ticket, message): (Ticket<'_>, &Message)| {
            let times = message.reconsume_times().saturating_add(repeats);
            let outcome = if times < self.duties.fail_first {
                Outcome::Retry
            } else {
                Outcome::Done
            };
            ticket.settle(self.ending(outcome, times));
            outcome
        };
        tickets.into_iter().zip(&messages).map(answer).collect()
    }

    /// The ends of the run, if it has any.
    pub(crate) const fn ends(&self) -> Option<&Ends> {
        self.duties.ends.as_ref()
    }

    /// What was counted so far.
    pub(crate) fn counts(&self) -> Counts {
        self.tally().counts()
    }

    /// How many messages are being handled.
    pub(crate) fn running(&self) -> u64 {
        self.tally().running()
    }

    /// Ends the run; the first reason counts.
    pub(crate) fn stop(&self, why: Stop) {
        self.lock_stop().get_or_insert(why);
        self.news.notify_one();
    }

    /// Waits until the run is to end, and says why.
    pub(crate) async fn stopped(&self) -> Stop {
        loop {
            if let Some(why) = self.lock_stop().clone() {
                return why;
            }
            self.news.notified().await;
        }
    }

    /// Admits nothing more and waits until everything that was admitted is answered. Called after
    /// [`Self::stopped`].
    pub(crate) async fn drained(&self) {
        while self.tally().close() == Progress::Open {
            self.news.notified().await;
        }
    }

    fn admit(&self, message: &Message) -> Option<Ticket<'_>> {
        match self.tally().admit(message, || self.clock.elapsed()) {
            Admission::Admitted => Some(Ticket {
                desk: self,
                ending: Ending::GivenUp,
            }),
            Admission::Surplus => None,
        }
    }

    fn finish(&self, ending: Ending) {
        let progress = self.tally().finish(ending);
        if progress == Progress::Complete {
            // While draining this comes late, and the first reason stands.
            self.stop(Stop::Count);
        }
    }

    /// The body, as far as anybody wants it. A body that cannot be opened does not get here unless
    /// somebody asked for it; then it is held.
    fn open(&self, message: &Message) -> Option<Bytes> {
        if self.duties.output == Output::None && self.duties.exec.is_none() {
            return Some(Bytes::new());
        }
        message
            .body()
            .inspect_err(|error| {
                let (queue, offset) = (message.batch().queue(), message.queue_offset());
                self.talk
                    .error(format_args!("{queue} offset {offset} is held: {error}"));
            })
            .ok()
    }

    fn write(&self, out: &mut Vec<u8>, message: &Message, repeats: u32, body: &[u8]) {
        match &self.duties.output {
            Output::None => {}
            Output::Text => {
                out.extend_from_slice(body);
                out.push(b'\n');
            }
            Output::Json => {
                let record = RecordView::consumed(message, repeats, body, self.consumer.as_str());
                serde_json::to_writer(&mut *out, &record)
                    .expect("memory takes every write, and keys are text");
                out.push(b'\n');
            }
            Output::Format(format) => format.write(out, message, body),
        }
    }

    /// Whether a message that was answered so, and had come so often before, comes again to this run.
    fn ending(&self, outcome: Outcome, times: u32) -> Ending {
        match self.duties.repeats_max {
            _ if outcome == Outcome::Done => Ending::Done,
            Some(most) if times < most => Ending::Suspended,
            // After the last repeat it is a dead letter.
            Some(_) | None => Ending::Failed,
        }
    }

    async fn execute(
        &self,
        exec: &Exec,
        message: &Message,
        times: u32,
        body: &Bytes,
        cancelled: impl Future<Output = ()>,
    ) -> Outcome {
        match exec.run(message, times, body, cancelled).await {
            Ok(outcome) => outcome,
            Err(error) => {
                self.talk
                    .error(format_args!("cannot run the command of --exec: {error}"));
                Outcome::Retry
            }
        }
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_stop(&self) -> MutexGuard<'_, Option<Stop>> {
        self.stop.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An admitted message that is not answered yet. The machine may drop its handler at any time, so
/// giving up is what happens by itself.
struct Ticket<'a> {
    desk: &'a Desk,
    ending: Ending,
}

impl Ticket<'_> {
    fn settle(mut self, ending: Ending) {
        self.ending = ending;
    }

    /// Leaves the message to the next run.
    async fn give_up(self) -> Outcome {
        drop(self);
        pending().await
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.desk.finish(self.ending);
    }
}

#[cfg(test)]
mod tests;
