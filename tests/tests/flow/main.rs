//! Pausing, seeking, rates and the limits of a topic, on one machine that is fed by hand.

mod limits;
mod pauses;
mod rates;
mod seeks;
mod stories;

use rocketmq_consumer_core::action::{AppAction, RefusalReason};
use rocketmq_consumer_core::config::GroupConfig;
use rocketmq_consumer_core::event::{AppEvent, FlowScope, SeekTo};
use rocketmq_consumer_core::notice::NoticeKind;
use rocketmq_consumer_core::rate::Rate;
use rocketmq_consumer_core::status::{FlowStatus, HoldReason};
use rocketmq_consumer_core::wire::code::RequestCode;
use rocketmq_consumer_core::wire::request::offsets::CommitOffsetRequest;
use rocketmq_consumer_core::wire::request::pull::PullRequest;
use rocketmq_consumer_testing::world::{Asked, Bench, Run, queue};

pub(crate) const PULL: RequestCode = RequestCode::PULL_MESSAGE;
pub(crate) const COMMIT: RequestCode = RequestCode::UPDATE_CONSUMER_OFFSET;
pub(crate) const NONE: [i64; 0] = [];

pub(crate) fn pause(scope: FlowScope) -> AppEvent {
    let group = "G".into();
    AppEvent::Pause { group, scope }
}

pub(crate) fn resume(scope: FlowScope) -> AppEvent {
    let group = "G".into();
    AppEvent::Resume { group, scope }
}

pub(crate) fn one_queue(id: i32) -> FlowScope {
    FlowScope::Queue(Box::new(queue("T", "a", id)))
}

pub(crate) fn seek(to: SeekTo) -> AppEvent {
    AppEvent::Seek {
        group: "G".into(),
        queue: Box::new(queue("T", "a", 0)),
        to,
    }
}

pub(crate) fn limit(topic: Option<&str>, rate: Option<Rate>) -> AppEvent {
    AppEvent::RateLimit {
        group: "G".into(),
        topic: topic.map(Into::into),
        rate,
    }
}

pub(crate) fn hold(bench: &Bench, id: i32) -> Option<HoldReason> {
    bench.queue(id).and_then(|queue| queue.hold)
}

pub(crate) fn flow(bench: &Bench) -> FlowStatus {
    bench.status().groups.remove(0).flow
}

pub(crate) fn refusals(bench: &Bench) -> Vec<RefusalReason> {
    let refused = bench.told().iter().filter_map(|action| {
        if let AppAction::Refused(refusal) = action {
            Some(refusal.why.clone())
        } else {
            None
        }
    });
    refused.collect()
}

pub(crate) fn stalls(bench: &Bench) -> usize {
    bench.count_notices(|kind| matches!(kind, NoticeKind::QueueStalled { .. }))
}

/// Offsets that were handed out since the last call.
pub(crate) fn handed_out(bench: &mut Bench) -> Vec<i64> {
    bench.take_runs().iter().flat_map(Run::offsets).collect()
}

/// Commits of queue 0 that were ever sent.
pub(crate) fn commits(bench: &Bench) -> Vec<i64> {
    let commits = bench.sent(COMMIT).into_iter();
    let commits = commits.map(|asked| asked.request::<CommitOffsetRequest>());
    let of_queue = commits.filter(|commit| commit.queue.topic.as_str() == "T" && commit.queue.queue.0 == 0);
    of_queue.map(|commit| commit.offset.0).collect()
}

/// A topic of so many queues, all ours, all pulled.
pub(crate) fn queues(count: u32, set_up: impl FnOnce(&mut GroupConfig)) -> Bench {
    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), "*");
        set_up(group);
    });
    bench.set_queues("T", &[("a", count)]);
    bench.settle();
    bench
}

/// The pull of queue `id` that waits.
pub(crate) fn take_pull(bench: &mut Bench, id: i32) -> Option<Asked> {
    let mut pulls = bench.drop_requests(PULL);
    let wanted = |asked: &Asked| {
        let request: PullRequest = asked.request();
        request.topic.as_str() == "T" && request.queue.0 == id
    };
    let found = pulls.iter().position(wanted).map(|at| pulls.remove(at));
    bench.put_back(pulls);
    found
}
