//! How often the machine asks the allocator on the way of a message. Memory that is reused costs
//! nothing; a clone, a `format!` or a list per message would show here.

mod machine;

use machine::{Machine, Setting, pull_answer, record};
use rocketmq_consumer_core::action::{Action, AppAction, NetAction};
use rocketmq_consumer_core::event::{AppEvent, Event, NetEvent, Report, Verdict};
use rocketmq_consumer_core::message::Outcome;
use rocketmq_consumer_core::time::Instant;
use rocketmq_consumer_core::wire::frame::{FRAME_LEN_MAX, Frame};
use rocketmq_consumer_core::wire::request::decode_request;
use rocketmq_consumer_core::wire::request::pull::{PullRequest, PullStatus};

const QUEUES: u32 = 8;
const BATCH: i64 = 32;
const WARM_UP: u32 = 10;
const ROUNDS: u32 = 50;

/// One pull answer, all reports, and the pull that follows. Returns the frame of that pull.
fn turn(machine: &mut Machine, now: Instant, answer: Event) -> Option<bytes::Bytes> {
    let mut pull = None;
    machine.state.handle(now, answer);
    while let Some(action) = machine.state.poll_action() {
        match action {
            Action::Net(NetAction::Send { frame, .. }) => pull = Some(frame),
            Action::App(AppAction::Consume { id, range, .. }) => {
                let report = Report::All(Verdict::Handled(Outcome::Done));
                machine
                    .state
                    .handle(now, AppEvent::Consumed { id, range, report }.into());
            }
            other @ (Action::Net(_) | Action::App(_) | Action::Store(_) | _) => {
                panic!("{other:?} was not expected")
            }
        }
    }
    pull
}

#[test]
fn a_message_costs_less_than_a_tenth_of_an_allocation() {
    let mut machine = Machine::start(Setting {
        queues: QUEUES,
        group: |group| {
            // No timer fires while we count; what timers do is not done per message.
            group.set_commit_interval(std::time::Duration::from_secs(3600));
        },
        ..Setting::default()
    });
    let mut pulls: Vec<_> = machine.pulls.drain(..).collect();
    let mut counted = 0;
    for round in 0..WARM_UP + ROUNDS {
        let now = Instant::from_millis(u64::from(round));
        for pull in &mut pulls {
            let from = pull.request.offset.0;
            let records: Vec<_> = (from..from + BATCH)
                .map(|offset| record(pull.request.queue, offset, "A", &[b'x'; 128]))
                .collect();
            let bytes = pull_answer(pull.opaque, PullStatus::Found, from + BATCH, &records);
            let conn = pull.conn;
            let answer = NetEvent::Received { conn, bytes }.into();
            let mut next = None;
            let info = allocation_counter::measure(|| next = turn(&mut machine, now, answer));
            if round >= WARM_UP {
                counted += info.count_total;
            }
            let frame = next.expect("the next pull goes out");
            let sent = u32::try_from(frame.len()).expect("small");
            machine
                .state
                .handle(now, NetEvent::Sent { conn, bytes: sent }.into());
            let frame = Frame::parse(frame, FRAME_LEN_MAX).expect("a good frame");
            let header = rocketmq_consumer_core::wire::command::Header::of(&frame).expect("a good header");
            pull.opaque = header.opaque;
            pull.request = decode_request::<PullRequest>(&frame).expect("a good request");
            assert_eq!(pull.request.offset.0, from + BATCH);
        }
    }
    let messages = u64::from(ROUNDS * QUEUES) * BATCH.unsigned_abs();
    let per_message = counted as f64 / messages as f64;
    println!("{per_message:.3} allocations per message");
    assert!(per_message <= 0.1, "{per_message:.3} allocations per message");
}
