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
use super::tally::{Admission, Counts, Progress, Tally};
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

    /// Handles a message. Without anything to wait for, it is done when it is first polled.
    pub(crate) async fn handle(
        &self,
        sink: Option<&Sink>,
        message: Message,
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
            let written = sink.append(|out| self.write(out, &message, &body));
            if written.await.is_err() {
                return ticket.give_up().await;
            }
        }
        let outcome = match &self.duties.exec {
            _ if self.is_rehearsal(&message) => Outcome::Retry,
            None => Outcome::Done,
            Some(exec) => self.execute(exec, &message, &body, cancelled).await,
        };
        ticket.settle(outcome);
        outcome
    }

    /// Handles neighbouring messages with one write. Only for runs without a limit, an end and a
    /// command: those are about single messages.
    pub(crate) async fn handle_all(&self, sink: Option<&Sink>, messages: Vec<Message>) -> Vec<Outcome> {
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
                    self.write(out, message, body);
                }
            });
            if written.await.is_err() {
                drop(tickets);
                return pending().await;
            }
        }
        let answer = |(ticket, message): (Ticket<'_>, &Message)| {
            let outcome = if self.is_rehearsal(message) {
                Outcome::Retry
            } else {
                Outcome::Done
            };
            ticket.settle(outcome);
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
                outcome: None,
            }),
            Admission::Surplus => None,
        }
    }

    fn finish(&self, outcome: Option<Outcome>) {
        let progress = self.tally().finish(outcome);
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

    fn write(&self, out: &mut Vec<u8>, message: &Message, body: &[u8]) {
        match &self.duties.output {
            Output::None => {}
            Output::Text => {
                out.extend_from_slice(body);
                out.push(b'\n');
            }
            Output::Json => {
                let record = RecordView::consumed(message, body, self.consumer.as_str());
                serde_json::to_writer(&mut *out, &record)
                    .expect("memory takes every write, and keys are text");
                out.push(b'\n');
            }
            Output::Format(format) => format.write(out, message, body),
        }
    }

    fn is_rehearsal(&self, message: &Message) -> bool {
        message.reconsume_times() < self.duties.fail_first
    }

    async fn execute(
        &self,
        exec: &Exec,
        message: &Message,
        body: &Bytes,
        cancelled: impl Future<Output = ()>,
    ) -> Outcome {
        match exec.run(message, body, cancelled).await {
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
    outcome: Option<Outcome>,
}

impl Ticket<'_> {
    fn settle(mut self, outcome: Outcome) {
        self.outcome = Some(outcome);
    }

    /// Leaves the message to the next run.
    async fn give_up(self) -> Outcome {
        drop(self);
        pending().await
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.desk.finish(self.outcome);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::talk::{Level, LogFormat};
    use crate::testing::{message, message_of, queue};

    fn desk(change: impl FnOnce(&mut Duties)) -> Desk {
        let mut duties = Duties {
            output: Output::None,
            exec: None,
            ends: None,
            fail_first: 0,
            limit: None,
        };
        change(&mut duties);
        let talk = Talk::new(Level::Error, LogFormat::Text);
        Desk::new(duties, "me@1".into(), Clock::start(), talk)
    }

    /// The outcome of a call that does not have to wait.
    fn at_once(desk: &Desk, message: Message) -> Option<Outcome> {
        let call = pin!(desk.handle(None, message, pending()));
        match call.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => Some(outcome),
            Poll::Pending => None,
        }
    }

    /// What was written, for the test to look at.
    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A pipe nobody reads any more.
    struct Closed;

    impl Write for Closed {
        fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn without_output_a_message_is_done_at_once() {
        let desk = desk(|_| {});
        assert_eq!(at_once(&desk, message(1)), Some(Outcome::Done));
        assert_eq!((desk.counts().consumed, desk.running()), (1, 0));
    }

    #[test]
    fn the_first_tries_fail_when_rehearsing() {
        let desk = desk(|duties| duties.fail_first = 2);
        let table = [(0, Outcome::Retry), (1, Outcome::Retry), (2, Outcome::Done)];
        for (times, want) in table {
            assert_eq!(at_once(&desk, message_of(i64::from(times), times)), Some(want));
        }
        assert_eq!(desk.counts().failed, 2);
    }

    #[tokio::test]
    async fn what_lies_beyond_the_count_is_never_answered() {
        let desk = desk(|duties| duties.limit = Some(2));
        assert_eq!(at_once(&desk, message(1)), Some(Outcome::Done));
        assert_eq!(at_once(&desk, message(2)), Some(Outcome::Done));
        assert_eq!(at_once(&desk, message(3)), None);
        assert_eq!(desk.stopped().await, Stop::Count);
        desk.drained().await;
        assert_eq!(desk.counts().distinct, 2);
    }

    #[tokio::test]
    async fn what_lies_behind_the_end_is_never_answered() {
        let desk = desk(|duties| duties.ends = Some(Ends::default()));
        assert_eq!(at_once(&desk, message(1)), None, "the end is not known");
        desk.ends().unwrap().set(queue(), 2);
        assert_eq!(at_once(&desk, message(1)), Some(Outcome::Done));
        assert_eq!(at_once(&desk, message(2)), None);
        desk.stop(Stop::End);
        desk.drained().await;
    }

    #[tokio::test]
    async fn a_record_is_settled_after_its_write() {
        let (desk, paper) = (desk(|duties| duties.output = Output::Text), Paper::default());
        let sink = Sink::new(paper.clone(), |_| {}).unwrap();
        let outcome = desk.handle(Some(&sink), message(1), pending()).await;
        assert_eq!(
            (outcome, &**paper.0.lock().unwrap()),
            (Outcome::Done, &b"hello\n"[..])
        );
        let outcomes = desk.handle_all(Some(&sink), vec![message(2), message(3)]).await;
        assert_eq!(outcomes, [Outcome::Done; 2]);
        assert_eq!(&**paper.0.lock().unwrap(), b"hello\nhello\nhello\n");
    }

    #[tokio::test]
    async fn what_cannot_be_written_is_never_answered() {
        let desk = Arc::new(desk(|duties| {
            (duties.output, duties.limit) = (Output::Text, Some(2))
        }));
        let told = Arc::clone(&desk);
        let sink = Sink::new(Closed, move |_| told.stop(Stop::PipeClosed)).unwrap();
        tokio::select! {
            outcome = desk.handle(Some(&sink), message(1), pending()) => panic!("{outcome:?}"),
            outcomes = desk.handle_all(Some(&sink), vec![message(2)]) => panic!("{outcomes:?}"),
            why = async {
                let why = desk.stopped().await;
                desk.drained().await;
                why
            } => assert_eq!(why, Stop::PipeClosed),
        }
        assert_eq!((desk.counts().consumed, desk.counts().failed), (2, 0));
    }
}
