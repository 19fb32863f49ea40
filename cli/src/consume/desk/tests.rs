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
        repeats_max: None,
    };
    change(&mut duties);
    let talk = Talk::new(Level::Error, LogFormat::Text);
    Desk::new(duties, "me@1".into(), Clock::start(), talk)
}

fn now_or_never<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// The outcome of a call that does not have to wait.
fn at_once(desk: &Desk, message: Message) -> Option<Outcome> {
    now_or_never(desk.handle(None, message, 0, pending()))
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
async fn in_order_repeats_are_tries_and_the_run_waits_for_them() {
    let failing =
        desk(|duties| (duties.fail_first, duties.limit, duties.repeats_max) = (9, Some(1), Some(2)));
    for repeats in 0..3 {
        assert!(
            now_or_never(failing.stopped()).is_none(),
            "the queue waits for it"
        );
        let outcome = failing.handle(None, message(1), repeats, pending()).await;
        assert_eq!(outcome, Outcome::Retry);
    }
    assert_eq!(failing.stopped().await, Stop::Count, "it is a dead letter");
    let rehearsing = desk(|duties| (duties.fail_first, duties.repeats_max) = (1, Some(2)));
    let outcomes = rehearsing.handle_all(None, vec![message(1), message(2)], 1).await;
    assert_eq!(outcomes, [Outcome::Done; 2]);
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
    let outcome = desk.handle(Some(&sink), message(1), 0, pending()).await;
    assert_eq!(
        (outcome, &**paper.0.lock().unwrap()),
        (Outcome::Done, &b"hello\n"[..])
    );
    let outcomes = desk
        .handle_all(Some(&sink), vec![message(2), message(3)], 0)
        .await;
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
        // Both are admitted before anybody hears that the pipe is closed.
        biased;
        outcome = desk.handle(Some(&sink), message(1), 0, pending()) => panic!("{outcome:?}"),
        outcomes = desk.handle_all(Some(&sink), vec![message(2)], 0) => panic!("{outcomes:?}"),
        why = async {
            let why = desk.stopped().await;
            desk.drained().await;
            why
        } => assert_eq!(why, Stop::PipeClosed),
    }
    assert_eq!((desk.counts().consumed, desk.counts().failed), (2, 0));
}
