//! A consumer that is paused, slowed down and sent elsewhere over sockets: for the embedded and the real broker alike.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rocketmq_consumer_core::status::{HoldReason, PauseScope};
use rocketmq_consumer_tokio::{
    ChangeError, Consumer, FlowScope, Message, MessageQueue, QueueId, QueueOffset, Rate, RefusalReason,
    SeekTo, StartAt,
};
use tokio::time::Instant;

pub(crate) const TOPIC: &str = "slow-lane";
pub(crate) const QUEUES: u32 = 4;

/// Messages that are stored before it starts: more than the rate allows within the time that is measured.
pub(crate) const FIRST: usize = 4_000;

const RATE: u32 = 400;
const MEASURED: Duration = Duration::from_secs(5);
/// How long anything may take that is waited for.
const LIMIT: Duration = Duration::from_secs(60);

type Seen = Arc<Mutex<Vec<(Instant, MessageQueue, i64)>>>;

fn lock(of: &Seen) -> MutexGuard<'_, Vec<(Instant, MessageQueue, i64)>> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn wait_for(what: &str, mut met: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !met() {
        assert!(Instant::now() < end, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The whole story; `produce` stores so many more messages, spread evenly over the queues of `broker`.
pub(crate) async fn it_does_what_it_is_told(
    name_server: &str,
    broker: &str,
    mut produce: impl AsyncFnMut(usize),
) {
    let seen = Seen::default();
    let note = Arc::clone(&seen);
    let consumer = Consumer::builder("slow-lane-group")
        .name_server(name_server)
        .subscribe(TOPIC, "*")
        .start_at(StartAt::Earliest)
        .rate_limit(Rate::per_second(RATE))
        .start(move |message: Message| {
            let queue = message.batch().queue().clone();
            lock(&note).push((Instant::now(), queue, message.queue_offset().0));
            async {}
        });
    let consumer = consumer.await.expect("good settings");
    wait_for("the first message", || !lock(&seen).is_empty()).await;
    tokio::time::sleep(MEASURED).await;
    a_rate_holds_within_a_twentieth(&seen);

    consumer.set_rate_limit(None).await.expect("it runs");
    wait_for("everything, at once", || lock(&seen).len() >= FIRST).await;
    // One queue has another end of its own than the others from here on, so that a mistake shows.
    let queue = |id| MessageQueue {
        topic: TOPIC.into(),
        broker: broker.into(),
        id: QueueId(id),
    };
    a_pause_loses_nothing(&consumer, &seen, queue(1), &mut produce).await;
    a_seek_reads_again(&consumer, &seen, queue(2)).await;

    let nobodys = queue(77);
    let refused = ChangeError::Refused(RefusalReason::NotOwned(nobodys.clone()));
    assert_eq!(consumer.seek(nobodys, SeekTo::Earliest).await, Err(refused));
    let report = consumer.shutdown(Duration::from_secs(10)).await;
    assert!(!report.timed_out, "{report:?}");
    let stored = (FIRST + 800) as i64 / i64::from(QUEUES);
    for (queue, committed) in report
        .committed
        .iter()
        .filter(|(queue, _)| queue.topic.as_str() == TOPIC)
    {
        assert_eq!(*committed, Some(QueueOffset(stored)), "{queue}");
    }
}

fn a_rate_holds_within_a_twentieth(seen: &Seen) {
    let seen = lock(seen);
    let first = seen.iter().map(|(at, ..)| *at).min().expect("some have come");
    let within = seen.iter().filter(|(at, ..)| *at < first + MEASURED).count();
    let wanted = RATE as usize * MEASURED.as_secs() as usize;
    let twentieth = wanted / 20;
    assert!(
        (wanted - twentieth..=wanted + twentieth).contains(&within),
        "{within} messages within {MEASURED:?}, {wanted} wanted"
    );
}

async fn a_pause_loses_nothing(
    consumer: &Consumer,
    seen: &Seen,
    one: MessageQueue,
    produce: &mut impl AsyncFnMut(usize),
) {
    consumer.pause(FlowScope::Group).await.expect("it runs");
    let before = lock(seen).len();
    produce(400).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(lock(seen).len(), before, "nothing comes while it is paused");
    let status = consumer.status().await.expect("it runs");
    let queues = status.groups.into_iter().flat_map(|group| group.queues);
    let holds: Vec<_> = queues.map(|queue| queue.hold).collect();
    assert!(holds.len() > QUEUES as usize, "{holds:?}");
    assert!(
        holds
            .iter()
            .all(|hold| *hold == Some(HoldReason::Paused(PauseScope::Group))),
        "{holds:?}"
    );

    consumer
        .pause(one.clone())
        .await
        .expect("there is room for its name");
    consumer.resume(FlowScope::Group).await.expect("it runs");
    wait_for("three queues flow", || lock(seen).len() >= before + 300).await;
    produce(400).await;
    wait_for("and go on", || lock(seen).len() >= before + 600).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let of_one = |seen: &Seen| {
        let seen = lock(seen);
        seen[before..]
            .iter()
            .filter(|(_, queue, _)| *queue == one)
            .count()
    };
    assert_eq!((of_one(seen), lock(seen).len()), (0, before + 600));
    consumer.resume(one.clone()).await.expect("it runs");
    wait_for("the fourth too", || of_one(seen) >= 200).await;

    let mut times: BTreeMap<(MessageQueue, i64), u32> = BTreeMap::new();
    for (_, queue, offset) in lock(seen).iter() {
        *times.entry((queue.clone(), *offset)).or_default() += 1;
    }
    assert_eq!(
        (times.len(), times.values().max()),
        (FIRST + 800, Some(&1)),
        "each once"
    );
}

async fn a_seek_reads_again(consumer: &Consumer, seen: &Seen, queue: MessageQueue) {
    let before = lock(seen).len();
    let end = (FIRST + 800) / QUEUES as usize;
    let to = SeekTo::Offset(QueueOffset((end - 50) as i64));
    consumer.seek(queue.clone(), to).await.expect("it is owned");
    wait_for("the last fifty", || lock(seen).len() >= before + 50).await;
    consumer
        .seek(queue.clone(), SeekTo::Earliest)
        .await
        .expect("it is owned");
    wait_for("all of the queue", || lock(seen).len() >= before + 50 + end).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let seen = lock(seen);
    assert!(seen[before..].iter().all(|(_, of, _)| *of == queue));
    assert_eq!(seen.len(), before + 50 + end);
}
