//! Inner batches from the pull to the commit: records of a real broker that hold several messages each.

use std::fs;

use bytes::Bytes;
use rocketmq_consumer_core::config::{GroupConfig, UndecodablePolicy};
use rocketmq_consumer_core::event::Verdict;
use rocketmq_consumer_core::ids::{PhysicalOffset, QueueOffset};
use rocketmq_consumer_core::message::{Message, Outcome};
use rocketmq_consumer_core::notice::NoticeKind;
use rocketmq_consumer_core::wire::code::RequestCode;
use rocketmq_consumer_core::wire::request::offsets::CommitOffsetRequest;
use rocketmq_consumer_core::wire::request::pull::PullStatus;
use rocketmq_consumer_core::wire::request::send_back::{Delay, SendBackRequest};
use rocketmq_consumer_testing::world::{Bench, Run, pull_answer, secs};

/// A batch of four at 0, a message at 4, a batch of two at 5.
fn golden() -> Bytes {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/messages/inner-batch.bin");
    fs::read(path).expect("a file of this repository").into()
}

/// Where the first batch lies in the commit log.
const FIRST: PhysicalOffset = PhysicalOffset(1_178_759);

/// A member that has pulled at `asked` is given all of it.
fn answered(asked: i64, set_up: impl FnOnce(&mut GroupConfig)) -> Bench {
    let mut bench = Bench::owning_one_queue(asked, |_, group| set_up(group));
    let (pull, request) = bench.expect_pull();
    assert_eq!(request.offset, QueueOffset(asked));
    bench.answer(&pull, &pull_answer(PullStatus::Found, 7, golden()));
    bench
}

fn take(bench: &mut Bench) -> (Vec<Run>, Vec<i64>) {
    let runs = bench.take_runs();
    let offsets = runs.iter().flat_map(Run::offsets).collect();
    (runs, offsets)
}

fn last_commit(bench: &mut Bench) -> Option<i64> {
    bench.sleep(secs(6));
    let last = bench.sent(RequestCode::UPDATE_CONSUMER_OFFSET).pop()?;
    Some(last.request::<CommitOffsetRequest>().offset.0)
}

#[test]
fn each_message_is_delivered_and_settled_alone() {
    let mut bench = answered(0, |_| {});
    let (runs, offsets) = take(&mut bench);
    assert_eq!(offsets, [0, 1, 2, 3, 4, 5, 6]);
    let batch = runs[0].batch.clone();
    let keys: Vec<_> = batch
        .messages()
        .map(|message| message.keys().map(|keys| keys.into_owned()))
        .collect();
    let keys: Vec<_> = keys.iter().map(Option::as_deref).collect();
    assert_eq!(
        keys[..5],
        [Some("ik0"), Some("ik1"), Some("ik2"), Some("ik3"), Some("single")]
    );
    let bytes: u64 = batch
        .messages()
        .map(|message| message.stored_body().len() as u64)
        .sum();
    assert_eq!(
        bench.queue(0).map(|queue| (queue.unfinished, queue.bytes)),
        Some((7, bytes))
    );
    // The first two of the first batch are done: the offset stops within it.
    for run in &runs {
        for position in run.range.start..run.range.end {
            let at = Message::new(batch.clone(), position).map(|message| message.queue_offset().0);
            if at != Some(2) {
                let one = rocketmq_consumer_core::event::RunRange {
                    start: position,
                    end: position + 1,
                };
                bench.report_part(run, one, Verdict::Handled(Outcome::Done));
            }
        }
    }
    assert_eq!(last_commit(&mut bench), Some(2));
}

/// Java delivers what lies below the asked offset again.
#[test]
fn a_pull_into_the_middle_brings_what_was_asked() {
    for (asked, want) in [(2, &[2, 3, 4, 5, 6][..]), (4, &[4, 5, 6]), (6, &[6])] {
        let mut bench = answered(asked, |_| {});
        let (runs, offsets) = take(&mut bench);
        assert_eq!(offsets, want);
        for run in &runs {
            bench.done(run);
        }
        assert_eq!(last_commit(&mut bench), Some(7));
        let outside = bench.count_notices(|kind| matches!(kind, NoticeKind::OutsideOfAsked { .. }));
        assert_eq!(
            outside,
            usize::from(asked > 3),
            "only a whole batch is one too many"
        );
    }
}

#[test]
fn what_one_answer_may_not_bring_is_pulled_again() {
    let mut bench = answered(1, |group| {
        group.set_inner_batch_messages_max(2);
    });
    assert_eq!(take(&mut bench).1, [1, 2]);
    for (asked, want) in [(3, &[3, 4, 5][..]), (6, &[6])] {
        let (pull, request) = bench.expect_pull();
        assert_eq!(request.offset, QueueOffset(asked));
        bench.answer(&pull, &pull_answer(PullStatus::Found, 7, golden()));
        assert_eq!(take(&mut bench).1, want);
    }
    assert_eq!(bench.expect_pull().1.offset, QueueOffset(7));
}

/// A broker finds a message by its place in the commit log, and there lies the whole batch: this is also what
/// Java asks.
#[test]
fn a_failed_message_names_the_place_of_its_batch() {
    let mut bench = answered(0, |_| {});
    let (runs, _) = take(&mut bench);
    bench.report(&runs[0], Verdict::Handled(Outcome::Retry));
    let back: SendBackRequest = bench
        .expect_request(RequestCode::CONSUMER_SEND_MSG_BACK)
        .request();
    assert_eq!((back.offset, back.delay), (FIRST, Delay::Broker));
    assert_eq!(
        back.message_id.as_deref(),
        Some("FD00000000000000000000000000000255DD30946E09935C63C2002C")
    );
}

#[test]
fn a_batch_that_cannot_be_opened_holds_or_is_buried_as_one() {
    type Set = fn(&mut GroupConfig);
    let skip: Set = |group| {
        group.set_undecodable(UndecodablePolicy::Skip);
    };
    let hold: Set = |group| {
        group.set_undecodable(UndecodablePolicy::Hold);
    };
    for (set, buried, committed) in [(skip, 0, 5), (hold, 0, 0), ((|_| {}) as Set, 1, 5)] {
        let mut bench = Bench::owning_one_queue(0, |_, group| set(group));
        bench.serve(RequestCode::CONSUMER_SEND_MSG_BACK);
        let mut damaged = golden().to_vec();
        // The size word of the first entry, where the body of the record begins.
        damaged[88] = 0xff;
        let (pull, _) = bench.expect_pull();
        bench.answer(&pull, &pull_answer(PullStatus::Found, 7, damaged.into()));
        let (runs, offsets) = take(&mut bench);
        assert_eq!(offsets, [4, 5, 6]);
        bench.report_part(&runs[0], one(&runs[0]), Verdict::Handled(Outcome::Done));
        let backs = bench.sent(RequestCode::CONSUMER_SEND_MSG_BACK);
        let backs: Vec<SendBackRequest> = backs.iter().map(|asked| asked.request()).collect();
        assert_eq!(backs.len(), buried);
        assert!(
            backs
                .iter()
                .all(|back| (back.offset, back.delay) == (FIRST, Delay::DeadLetter))
        );
        let told = bench.count_notices(|kind| {
            matches!(kind, NoticeKind::Undecodable { offset: Some(QueueOffset(0)), reason, .. }
                if reason.contains("inner batch"))
        });
        assert_eq!(told, 1, "{:?}", bench.notices());
        assert_eq!(last_commit(&mut bench).unwrap_or(0), committed);
    }
}

/// The first message of a run.
const fn one(run: &Run) -> rocketmq_consumer_core::event::RunRange {
    let start = run.range.start;
    rocketmq_consumer_core::event::RunRange {
        start,
        end: start + 1,
    }
}
