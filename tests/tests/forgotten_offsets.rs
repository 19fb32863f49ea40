//! Brokers that forget offsets: a crash costs them what was committed during the last seconds.

mod machine;

use machine::{Machine, Setting, record};
use rocketmq_consumer_core::config::StartAt;
use rocketmq_consumer_core::event::{AppEvent, Report, RunRange, Verdict};
use rocketmq_consumer_core::ids::{QueueId, QueueOffset};
use rocketmq_consumer_core::message::Outcome;
use rocketmq_consumer_core::wire::request::pull::PullStatus;

/// The share is lost and comes back, as it does when a route loses a broker; meanwhile messages arrive.
/// The second column is what the broker has stored when it is asked again, the third where it goes on.
#[test]
fn a_queue_that_comes_back_skips_nothing_when_its_broker_has_forgotten_the_offset() {
    for (what, stored, from) in [
        ("forgotten", None, 101),
        ("an older one", Some(100), 100),
        ("another member's", Some(300), 300),
    ] {
        let mut machine = Machine::start(Setting {
            stored: -1,
            group: |group| {
                group.set_start_at(StartAt::Latest);
            },
            ..Setting::default()
        });
        assert_eq!(machine.commits, [(0, 100)], "the start that was chosen");
        let records = [100, 101].map(|offset| record(QueueId(0), offset, "A", b""));
        machine.answer_pull(PullStatus::Found, 102, &records);
        machine.handle(AppEvent::Consumed {
            id: machine.runs[0].id,
            range: RunRange { start: 0, end: 1 },
            report: Report::All(Verdict::Handled(Outcome::Done)),
        });
        machine.members = vec!["another", "me"];
        machine.advance(30_000);
        machine.pulls.clear();
        machine.stored.clear();
        machine.stored.extend(stored.map(|offset| (0, offset)));
        machine.end = 500;
        machine.members = vec!["me"];
        machine.advance(30_000);
        let offsets: Vec<QueueOffset> = machine.pulls.iter().map(|pull| pull.request.offset).collect();
        assert_eq!(offsets, [QueueOffset(from)], "{what}");
    }
}
