//! Ordered consumption by key, step by step: messages of one key one after another, different keys side by side.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;
use rocketmq_consumer_core::config::{ConsumeMode, GroupConfig, OrderBy};
use rocketmq_consumer_core::event::Verdict;
use rocketmq_consumer_core::ids::QueueOffset;
use rocketmq_consumer_core::message::{OrderlyOutcome, Outcome};
use rocketmq_consumer_core::notice::NoticeKind;
use rocketmq_consumer_core::status::{HoldReason, QueueState};
use rocketmq_consumer_core::time::Instant;
use rocketmq_consumer_core::wire::code::{RequestCode, ResponseCode};
use rocketmq_consumer_core::wire::properties::name;
use rocketmq_consumer_core::wire::request::offsets::CommitOffsetRequest;
use rocketmq_consumer_core::wire::request::pull::PullStatus;
use rocketmq_consumer_core::wire::request::send::SendRequest;
use rocketmq_consumer_testing::world::{
    Bench, Handling, Run, Setup, StoredMessage, World, ms, pull_answer, queue, secs,
};

const UNLOCK: RequestCode = RequestCode::UNLOCK_BATCH_MQ;
const COMMIT_OFFSET: RequestCode = RequestCode::UPDATE_CONSUMER_OFFSET;
const SEND: RequestCode = RequestCode::SEND_MESSAGE_V2;

const COMMIT: Verdict = Verdict::Ordered(OrderlyOutcome::Commit);
const SUSPEND: Verdict = Verdict::Ordered(OrderlyOutcome::Suspend);

fn by_key(group: &mut GroupConfig) {
    group
        .subscribe("T".into(), "*")
        .set_mode(ConsumeMode::Orderly)
        .set_order(OrderBy::Key);
}

/// Owns queue 0 of `T` from offset 0, and has sent its first pull.
fn owning(set_up: impl FnOnce(&mut GroupConfig)) -> Bench {
    Bench::owning_one_queue(0, |_, group| {
        by_key(group);
        set_up(group);
    })
}

/// A message whose key is this letter; `-` stands for none.
fn keyed(offset: i64, key: char) -> StoredMessage {
    let mut message = StoredMessage::new(queue("T", "a", 0), offset, key.to_string(), "");
    if key != '-' {
        message.set_property(name::SHARDING_KEY, key.to_string());
    }
    message
}

/// The next pull brings a message of each of these keys, from `from` on.
fn fetch(bench: &mut Bench, from: i64, keys: &str) {
    let (pull, _) = bench.expect_pull();
    let messages: Vec<StoredMessage> = (from..)
        .zip(keys.chars())
        .map(|(at, key)| keyed(at, key))
        .collect();
    bench.found(
        &pull,
        &messages,
        from + i64::try_from(messages.len()).expect("few"),
    );
}

/// What has been handed out since, by offset. Each run is of one message.
fn runs(bench: &mut Bench) -> BTreeMap<i64, Run> {
    let runs = bench.take_runs().into_iter();
    runs.map(|run| {
        assert_eq!(run.offsets().len(), 1, "a run is of one key");
        (run.offsets()[0], run)
    })
    .collect()
}

fn offsets(runs: &BTreeMap<i64, Run>) -> Vec<i64> {
    runs.keys().copied().collect()
}

fn handed_out(bench: &mut Bench) -> Vec<i64> {
    offsets(&runs(bench))
}

fn committed(bench: &Bench) -> Option<i64> {
    let sent = bench.sent(COMMIT_OFFSET);
    let to_t = sent
        .iter()
        .rev()
        .map(|asked| asked.request::<CommitOffsetRequest>());
    let last = to_t.into_iter().find(|commit| commit.queue.topic.as_str() == "T");
    last.map(|commit| commit.offset.0)
}

#[test]
fn keys_go_side_by_side_and_messages_of_one_key_one_after_another() {
    let mut bench = owning(|_| {});
    fetch(&mut bench, 0, "aabacb-c-");
    let first = runs(&mut bench);
    assert_eq!(offsets(&first), [0, 2, 4, 6], "one of each key, and one without");
    for (offset, next) in [(2, vec![5]), (0, vec![1]), (6, vec![8]), (4, vec![7])] {
        bench.report(&first[&offset], COMMIT);
        assert_eq!(handed_out(&mut bench), next, "after {offset}");
    }
    let queue = bench.queue(0).expect("it is owned");
    assert_eq!(
        (queue.lowest_unfinished, queue.unfinished, queue.delivered),
        (Some(QueueOffset(1)), 5, 4)
    );
}

#[test]
fn permits_bound_how_many_keys_are_out() {
    let mut bench = owning(|group| {
        group.set_concurrency(2).set_handler_batch(16);
    });
    fetch(&mut bench, 0, "abcda");
    let first = runs(&mut bench);
    assert_eq!(offsets(&first), [0, 1]);
    bench.report(&first[&1], COMMIT);
    assert_eq!(handed_out(&mut bench), [2]);
    bench.report(&first[&0], COMMIT);
    assert_eq!(handed_out(&mut bench), [3], "in the order of the queue");
}

#[test]
fn a_key_that_is_suspended_waits_by_itself_and_holds_the_commit() {
    let mut bench = owning(|_| {});
    fetch(&mut bench, 0, "abab");
    let first = runs(&mut bench);
    bench.report(&first[&0], SUSPEND);
    bench.report(&first[&1], Verdict::Ordered(OrderlyOutcome::SuspendFor(ms(300))));
    assert!(runs(&mut bench).is_empty());
    let queue = bench.queue(0).expect("it is owned");
    assert_eq!(
        (queue.attempt, queue.suspended_until),
        (1, Some(bench.now() + secs(1)))
    );
    fetch(&mut bench, 4, "c");
    assert_eq!(handed_out(&mut bench), [4], "others go on");
    bench.sleep(ms(300));
    let again = runs(&mut bench);
    assert_eq!((offsets(&again), again[&1].attempt), (vec![1], 1));
    bench.report(&again[&1], COMMIT);
    assert_eq!(handed_out(&mut bench), [3]);
    bench.sleep(ms(700));
    let again = runs(&mut bench);
    assert_eq!((offsets(&again), again[&0].attempt), (vec![0], 1));
    bench.sleep(secs(5));
    assert_eq!(committed(&bench).unwrap_or(0), 0, "nothing below it is finished");
    bench.report(&again[&0], COMMIT);
    assert_eq!(handed_out(&mut bench), [2]);
    bench.sleep(secs(5));
    assert_eq!(committed(&bench), Some(2));
}

#[test]
fn a_message_that_no_handler_has_begun_comes_again_at_once() {
    let mut bench = owning(|_| {});
    fetch(&mut bench, 0, "aa");
    let first = runs(&mut bench);
    bench.report(&first[&0], Verdict::NotStarted);
    let again = runs(&mut bench);
    assert_eq!((offsets(&again), again[&0].attempt), (vec![0], 0));
}

#[test]
fn a_message_is_buried_before_the_next_of_its_key_comes_and_others_do_not_wait() {
    let mut bench = owning(|group| {
        group.set_max_reconsume(0);
    });
    fetch(&mut bench, 0, "aab");
    let first = runs(&mut bench);
    bench.report(&first[&0], SUSPEND);
    let send = bench.expect_request(SEND);
    let copy: SendRequest = send.request();
    assert_eq!(copy.topic.as_str(), "%RETRY%G");
    bench.report(&first[&2], COMMIT);
    bench.refuse(&send, ResponseCode::SYSTEM_ERROR, "disk full");
    fetch(&mut bench, 3, "c");
    assert_eq!(handed_out(&mut bench), [3]);
    bench.sleep(secs(6));
    let again = runs(&mut bench);
    assert_eq!(offsets(&again), [0], "it stays where it is");
    bench.report(&again[&0], Verdict::Handled(Outcome::DeadLetter));
    assert!(runs(&mut bench).is_empty());
}

#[test]
fn a_body_that_cannot_be_opened_holds_its_key_and_no_other() {
    let mut bench = owning(|_| {});
    fetch(&mut bench, 0, "aab");
    let first = runs(&mut bench);
    bench.report(&first[&0], Verdict::Unsupported);
    bench.report(&first[&2], COMMIT);
    fetch(&mut bench, 3, "abc");
    assert_eq!(handed_out(&mut bench), [4, 5]);
    let queue = bench.queue(0).expect("it is owned");
    assert_eq!(queue.held_record, Some(QueueOffset(0)));
}

#[test]
fn a_handler_that_hangs_is_given_up_and_its_key_waits_for_its_end() {
    let mut bench = owning(|group| {
        group.set_delivery_deadline(secs(2)).set_cancel_grace(secs(1));
    });
    fetch(&mut bench, 0, "aab");
    let first = runs(&mut bench);
    bench.report(&first[&2], COMMIT);
    bench.idle(secs(10));
    fetch(&mut bench, 3, "b");
    assert_eq!(handed_out(&mut bench), [3], "its key is free");
    bench.report(&first[&0], SUSPEND);
    bench.sleep(secs(1));
    assert_eq!(handed_out(&mut bench), [0], "and not its successor");
}

#[test]
fn a_queue_is_given_back_when_all_its_handlers_have_ended() {
    let mut bench = owning(|_| {});
    fetch(&mut bench, 0, "abca");
    let first = runs(&mut bench);
    assert_eq!(offsets(&first), [0, 1, 2]);
    bench.set_members(&["c0", "c1"]);
    bench.notify("a");
    bench.sleep(ms(50));
    assert_eq!(
        bench.queue(0).map(|queue| queue.state),
        Some(QueueState::Revoking)
    );
    for offset in [1, 0] {
        bench.report(&first[&offset], COMMIT);
        bench.sleep(ms(200));
        assert!(bench.sent(UNLOCK).is_empty(), "one of them runs");
    }
    bench.report(&first[&2], SUSPEND);
    bench.sleep(secs(1));
    assert_eq!(committed(&bench), Some(2));
    assert_eq!(bench.sent(UNLOCK).len(), 1);
    assert!(runs(&mut bench).is_empty(), "the rest is the next owner's");
}

#[test]
fn a_queue_that_comes_back_begins_anew_when_all_its_handlers_have_ended() {
    let mut bench = owning(|_| {});
    fetch(&mut bench, 0, "abc");
    let first = runs(&mut bench);
    bench.report(&first[&0], COMMIT);
    for members in [&["c0", "c1"][..], &["c1"]] {
        bench.set_members(members);
        bench.notify("a");
        bench.sleep(ms(50));
    }
    bench.drop_requests(RequestCode::PULL_MESSAGE);
    bench.report(&first[&1], COMMIT);
    bench.sleep(secs(1));
    assert!(
        bench.outstanding(RequestCode::PULL_MESSAGE).is_empty(),
        "one still runs"
    );
    bench.report(&first[&2], SUSPEND);
    bench.sleep(secs(1));
    fetch(&mut bench, 2, "ca");
    assert_eq!(handed_out(&mut bench), [2, 3]);
}

#[test]
fn another_ownership_delivers_nothing_while_handlers_of_the_one_before_run() {
    let mut bench = owning(|_| {});
    fetch(&mut bench, 0, "abc");
    let first = runs(&mut bench);
    let (pull, _) = bench.expect_pull();
    let mut reset = pull_answer(PullStatus::OffsetMoved, 0, Bytes::new());
    reset.reset = true;
    bench.answer(&pull, &reset);
    fetch(&mut bench, 0, "abc");
    for offset in [0, 2, 1] {
        assert!(runs(&mut bench).is_empty(), "{offset} runs");
        bench.report(&first[&offset], COMMIT);
    }
    assert_eq!(handed_out(&mut bench), [0, 1, 2]);
}

#[test]
fn a_window_full_behind_a_key_says_so() {
    let mut bench = owning(|group| {
        group.set_queue_count_max(3);
    });
    fetch(&mut bench, 0, "aaa");
    let first = runs(&mut bench);
    assert_eq!(offsets(&first), [0]);
    bench.report(&first[&0], SUSPEND);
    let hold = bench.queue(0).and_then(|queue| queue.hold);
    assert_eq!(hold, Some(HoldReason::Suspended));
}

// ---- anything that handlers may say ----------------------------------------------------------------

#[derive(Clone, Copy, Debug)]
enum Step {
    /// The nth handler that runs ends like this.
    End(usize, Verdict),
    Fetch([char; 4]),
    Sleep(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let verdict = prop_oneof![
        6 => Just(COMMIT),
        2 => Just(SUSPEND),
        1 => (10..3_000_u64).prop_map(|pause| Verdict::Ordered(OrderlyOutcome::SuspendFor(ms(pause)))),
        1 => Just(Verdict::NotStarted),
    ];
    let key = || prop_oneof![3 => Just('a'), 2 => Just('b'), 2 => Just('c'), 1 => Just('-')];
    prop_oneof![
        6 => (0..9_usize, verdict).prop_map(|(nth, verdict)| Step::End(nth, verdict)),
        2 => [key(), key(), key(), key()].prop_map(Step::Fetch),
        2 => (1..2_000_u64).prop_map(Step::Sleep),
    ]
}

#[derive(Default)]
struct Account {
    keys: Vec<char>,
    committed: Vec<bool>,
    out: BTreeMap<i64, Run>,
    overlapped: usize,
}

impl Account {
    /// Takes what was handed out, and judges it: in each key strictly in order, and one at a time.
    fn take(&mut self, bench: &mut Bench) -> Result<(), TestCaseError> {
        for (offset, run) in runs(bench) {
            let at = usize::try_from(offset).expect("an offset");
            let key = self.keys[at];
            let below = (0..at).filter(|below| self.keys[*below] == key);
            for below in below {
                prop_assert!(self.committed[below], "{} of {} before {}", offset, key, below);
            }
            prop_assert!(!self.committed[at], "{} once more", offset);
            prop_assert!(!self.out.contains_key(&offset), "{} twice at a time", offset);
            self.out.insert(offset, run);
        }
        self.overlapped = self.overlapped.max(self.out.len());
        let lowest = self.committed.iter().position(|committed| !committed);
        let lowest = lowest.unwrap_or(self.committed.len());
        let told = bench.queue(0).and_then(|queue| queue.lowest_unfinished);
        prop_assert_eq!(told, Some(QueueOffset(i64::try_from(lowest).expect("few"))));
        Ok(())
    }

    fn end(&mut self, bench: &mut Bench, nth: usize, verdict: Verdict) {
        let offset = self.out.keys().nth(nth % self.out.len().max(1)).copied();
        if let Some((offset, run)) = offset.and_then(|offset| self.out.remove_entry(&offset)) {
            bench.report(&run, verdict);
            self.committed[usize::try_from(offset).expect("an offset")] |= verdict == COMMIT;
        }
    }

    fn fetch(&mut self, bench: &mut Bench, keys: &str) {
        let from = i64::try_from(self.keys.len()).expect("few");
        self.keys.extend(keys.chars());
        self.committed.resize(self.keys.len(), false);
        fetch(bench, from, keys);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_handlers_say_no_message_overtakes_one_of_its_key(steps in prop::collection::vec(step(), 1..60)) {
        let mut bench = owning(|_| {});
        let mut account = Account::default();
        account.fetch(&mut bench, "ab-c");
        account.take(&mut bench)?;
        prop_assert_eq!(account.out.len(), 4, "keys are side by side");
        for step in steps {
            match step {
                Step::End(nth, verdict) => account.end(&mut bench, nth, verdict),
                Step::Fetch(keys) => account.fetch(&mut bench, &keys.iter().collect::<String>()),
                Step::Sleep(time) => bench.sleep(ms(time)),
            }
            account.take(&mut bench)?;
        }
        // Everything comes to its end when handlers succeed, and nothing is left of it.
        while account.committed.contains(&false) {
            if account.out.is_empty() {
                bench.sleep(secs(3));
            } else {
                account.end(&mut bench, 0, COMMIT);
            }
            account.take(&mut bench)?;
        }
        let queue = bench.queue(0).expect("it is owned");
        prop_assert_eq!((queue.unfinished, queue.bytes, queue.delivered, queue.retrying), (0, 0, 0, 0));
        bench.sleep(secs(6));
        prop_assert_eq!(committed(&bench), i64::try_from(account.keys.len()).ok());
    }
}

// ---- among members ---------------------------------------------------------------------------------

/// A handler takes this long.
const TAKES_MS: u64 = 30;
const KEYS: [&str; 5] = ["k0", "k1", "k2", "k3", "k4"];

fn member(setup: &mut Setup) {
    by_key(setup.config());
    setup.handler(|delivery| {
        // Every seventh message fails the first time.
        if delivery.offset.0 % 7 == 3 && delivery.attempt == 0 {
            Handling::suspend().taking(ms(TAKES_MS))
        } else {
            Handling::commit().taking(ms(TAKES_MS))
        }
    });
}

/// 100 messages a second over two queues, of five keys each: three times what one at a time could do.
fn produce_for(world: &mut World, seconds: u64) {
    for round in 0..seconds * 50 {
        for id in 0..2 {
            let key = KEYS[usize::try_from(round % 5).expect("small")];
            world.produce_with("T", "a", id, &[(name::SHARDING_KEY, key)]);
        }
        world.run_for(ms(20));
    }
}

/// What a member did to the messages of one key of a queue, in order: when each delivery began, and of which offset.
fn of_key(world: &World, id: &str, queue_id: i32, key: usize) -> Vec<(Instant, i64, u32)> {
    let delivered = world.delivered(id).into_iter();
    let is_it = |offset: i64| usize::try_from(offset).expect("an offset") % KEYS.len() == key;
    let mine = delivered.filter(|it| it.queue == queue("T", "a", queue_id) && is_it(it.offset.0));
    mine.map(|it| (it.at, it.offset.0, it.attempt)).collect()
}

#[test]
fn queues_change_hands_and_each_key_stays_in_order_in_each_hand() {
    let mut world = World::new().topic("T", &[("a", 2)]).member("c1", member);
    let mut members = vec!["c1".to_owned()];
    produce_for(&mut world, 4);
    for round in 0..2 {
        let id = format!("d{round}");
        world.join(&id, member);
        produce_for(&mut world, 4);
        world.leave(&id, secs(5));
        produce_for(&mut world, 4);
        members.push(id);
    }
    world.run_for(secs(30));
    for queue_id in 0..2 {
        for key in 0..KEYS.len() {
            for id in &members {
                for pair in of_key(&world, id, queue_id, key).windows(2) {
                    let [(began, before, _), (at, offset, attempt)] = pair else {
                        panic!("a pair");
                    };
                    let gap = at.saturating_since(*began);
                    assert!(
                        gap >= ms(TAKES_MS),
                        "{id}, {queue_id}, k{key}: two at a time: {pair:?}"
                    );
                    // The next of its key, the same again, or what a predecessor in the group has left unfinished.
                    let is_next = *offset == before + 5 || (offset == before && *attempt > 0);
                    assert!(is_next || gap > secs(1), "{id}, {queue_id}, k{key}: {pair:?}");
                }
            }
        }
        let mut done: Vec<i64> = members
            .iter()
            .flat_map(|id| world.offsets(id, &queue("T", "a", queue_id)))
            .collect();
        let deliveries = done.len();
        done.sort_unstable();
        done.dedup();
        let stored = world.stored_messages(&queue("T", "a", queue_id));
        assert_eq!(done, (0..stored).collect::<Vec<i64>>(), "nothing is lost");
        // A seventh fails once; hand-overs repeat little of what lay above the lowest unfinished message.
        assert!(
            deliveries < done.len() + done.len() / 7 + 100,
            "{deliveries} of {}",
            done.len()
        );
        assert_eq!(world.stored_offset("G", &queue("T", "a", queue_id)), Some(stored));
    }
    let lost = |kind: &NoticeKind| matches!(kind, NoticeKind::LockLost { .. });
    assert!(!world.notices("c1").iter().any(|notice| lost(&notice.kind)));
    world.assert_replays();
}
