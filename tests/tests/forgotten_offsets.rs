//! Brokers that forget offsets: a crash costs them what was committed during the last seconds.

use rocketmq_consumer_core::config::StartAt;
use rocketmq_consumer_core::event::{RunRange, Verdict};
use rocketmq_consumer_core::ids::QueueOffset;
use rocketmq_consumer_core::message::Outcome;
use rocketmq_consumer_core::wire::code::RequestCode;
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
