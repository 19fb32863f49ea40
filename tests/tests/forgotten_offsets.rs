//! Brokers that forget offsets: a crash costs them what was committed during the last seconds.

use rocketmq_consumer_core::config::StartAt;
use rocketmq_consumer_core::event::{RunRange, Verdict};
use rocketmq_consumer_core::ids::QueueOffset;
use rocketmq_consumer_core::message::Outcome;
use rocketmq_consumer_core::notice::NoticeKind;
use rocketmq_consumer_core::wire::code::{RequestCode, ResponseCode};
use rocketmq_consumer_core::wire::request::offsets::{CommitOffsetRequest, OffsetAnswer};
use rocketmq_consumer_core::wire::request::pull::PullRequest;
use rocketmq_consumer_testing::world::{Bench, secs};

const PULL: RequestCode = RequestCode::PULL_MESSAGE;
const END: RequestCode = RequestCode::GET_MAX_OFFSET;

/// The share is lost and comes back, as it does when a route loses a broker; meanwhile messages arrive.
/// The second column is what the broker has stored when it is asked again, the third where it goes on.
#[test]
fn a_queue_that_comes_back_skips_nothing_when_its_broker_has_forgotten_the_offset() {
    for (what, stored, from) in [
        ("forgotten", None, 101),
        ("an older one", Some(100), 100),
        ("another member's", Some(300), 300),
    ] {
        let mut bench = Bench::new(|_, group| {
            group.subscribe("T".into(), "*").set_start_at(StartAt::Latest);
        });
        bench.settle();
        let asked = bench.expect_request(END);
        let offset = QueueOffset(100);
        bench.answer(&asked, &OffsetAnswer { offset });
        let commits = bench.sent(RequestCode::UPDATE_CONSUMER_OFFSET);
        let commits: Vec<_> = commits
            .iter()
            .map(|asked| asked.request::<CommitOffsetRequest>().offset.0)
            .collect();
        assert_eq!(commits, [100], "the start that was chosen");
        let (pull, _) = bench.expect_pull();
        bench.found_at(&pull, [100, 101], 0, 102);
        let run = bench.take_runs().remove(0);
        let start = run.range.start;
        let first = RunRange {
            start,
            end: start + 1,
        };
        bench.report_part(&run, first, Verdict::Handled(Outcome::Done));
        bench.set_members(&["c0", "c1"]);
        bench.sleep(secs(30));
        bench.drop_requests(PULL);
        bench.forget_stored("T", 0);
        if let Some(stored) = stored {
            bench.store("T", 0, stored);
        }
        bench.set_members(&["c1"]);
        bench.sleep(secs(30));
        let pulls = bench.outstanding(PULL).into_iter();
        let offsets: Vec<i64> = pulls.map(|pull| pull.request::<PullRequest>().offset.0).collect();
        assert_eq!(offsets, [from], "{what}");
        assert!(
            bench.outstanding(END).is_empty(),
            "{what}: nobody asks where it ends now"
        );
    }
}

/// The route loses the broker, so the queue belongs to nobody, and the broker comes back with less than was committed.
/// Who gets the queue at once knows better; who gets it after others may have had it does not.
#[test]
fn a_queue_that_was_away_from_everybody_goes_on_where_it_was_left() {
    for (what, others_first, from, told_from) in [
        ("we are the first", false, 102, 102),
        ("somebody else was", true, 7, 7),
    ] {
        let mut bench = Bench::owning_one_queue(100, |_, _| {});
        bench.set_queues("T", &[("a", 1), ("b", 1)]);
        let (pull, _) = bench.expect_pull();
        bench.found_at(&pull, [100, 101], 0, 102);
        let run = bench.take_runs().remove(0);
        bench.done(&run);
        bench.set_queues("T", &[("b", 1)]);
        bench.sleep(secs(40));
        bench.store("T", 0, 7);
        if others_first {
            bench.set_members(&["c0", "c1"]);
        }
        bench.set_queues("T", &[("a", 1), ("b", 1)]);
        bench.sleep(secs(50));
        // Bench and commits know a queue by its number alone, and the other broker has one of the same.
        bench.store("T", 0, 7);
        bench.set_members(&["c1"]);
        bench.sleep(secs(30));
        let of_a = bench.queue(0).and_then(|queue| queue.lowest_unfinished);
        assert_eq!(of_a, Some(QueueOffset(from)), "{what}");
        let told = bench.count_notices(|kind| {
            matches!(kind, NoticeKind::ProgressFellBack { stored, finished, from, .. }
                if (stored.0, finished.0, from.0) == (7, 102, told_from))
        });
        assert_eq!(told, 1, "{what}");
        bench.sleep(secs(10));
        let commits = bench.sent(RequestCode::UPDATE_CONSUMER_OFFSET);
        let last = commits.iter().rev().find(|asked| asked.to.host() == "10.0.0.1");
        let last = last.map(|asked| asked.request::<CommitOffsetRequest>().offset.0);
        assert_eq!(last, Some(from), "{what}: and is stored");
    }
}

/// A broker that does not know a group or a topic any more says so to a commit.
#[test]
fn a_refused_commit_is_told_and_its_cause_is_looked_into() {
    for (code, asked_again) in [
        (
            ResponseCode::SUBSCRIPTION_GROUP_NOT_EXIST,
            RequestCode::HEART_BEAT,
        ),
        (ResponseCode::TOPIC_NOT_EXIST, RequestCode::GET_ROUTEINFO_BY_TOPIC),
    ] {
        let mut bench = Bench::owning_one_queue(100, |_, _| {});
        bench.idle(secs(2));
        let (pull, _) = bench.expect_pull();
        bench.found_at(&pull, [100, 101], 0, 102);
        bench.refuse_all(RequestCode::UPDATE_CONSUMER_OFFSET, code);
        let run = bench.take_runs().remove(0);
        bench.done(&run);
        let before = bench.sent(asked_again).len();
        bench.sleep(secs(4));
        let refused = |kind: &NoticeKind| matches!(kind, NoticeKind::CommitFailed { .. });
        assert_eq!(bench.count_notices(refused), 1, "{code}");
        assert!(bench.sent(asked_again).len() > before, "{code}");
        bench.serve(RequestCode::UPDATE_CONSUMER_OFFSET);
        bench.sleep(secs(5));
        assert_eq!(
            bench.queue(0).and_then(|queue| queue.committed),
            Some(QueueOffset(102))
        );
    }
}
