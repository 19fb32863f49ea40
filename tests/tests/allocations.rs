//! How often the machine asks the allocator on the way of a message. Memory that is reused costs
//! nothing; a clone, a `format!` or a list per message would show here.

use rocketmq_consumer_core::action::{Action, AppAction, NetAction};
use rocketmq_consumer_core::consumer::ConsumerState;
use rocketmq_consumer_core::event::{AppEvent, Event, NetEvent, Report, Verdict};
use rocketmq_consumer_core::message::Outcome;
use rocketmq_consumer_core::time::Instant;
use rocketmq_consumer_core::wire::code::RequestCode;
use rocketmq_consumer_core::wire::request::pull::{PullRequest, PullStatus};
use rocketmq_consumer_testing::world::{Asked, Bench, StoredMessage, pull_answer, queue, records, secs};

const QUEUES: u32 = 8;
const BATCH: i64 = 32;
const WARM_UP: u32 = 10;
const ROUNDS: u32 = 50;

/// One pull answer, all reports, and the pull that follows. Returns the frame of that pull.
fn turn(state: &mut ConsumerState, now: Instant, answer: Event) -> Option<bytes::Bytes> {
    let mut pull = None;
    state.handle(now, answer);
    while let Some(action) = state.poll_action() {
        match action {
            Action::Net(NetAction::Send { frame, .. }) => pull = Some(frame),
            Action::App(AppAction::Consume { id, range, .. }) => {
                let report = Report::All(Verdict::Handled(Outcome::Done));
                state.handle(now, AppEvent::Consumed { id, range, report }.into());
            }
            other @ (Action::Net(_) | Action::App(_) | Action::Store(_) | _) => {
                panic!("{other:?} was not expected")
            }
        }
    }
    pull
}

/// The answer to a pull: as many messages as it may carry.
fn answer(pull: &Asked) -> Event {
    let request: PullRequest = pull.request();
    let (queue, from) = (queue("T", "a", request.queue.0), request.offset.0);
    let messages: Vec<_> = (from..from + BATCH)
        .map(|offset| StoredMessage::new(queue.clone(), offset, vec![b'x'; 128], "A"))
        .collect();
    let answer = pull_answer(PullStatus::Found, from + BATCH, records(&messages));
    let (conn, bytes) = (pull.link.conn, pull.answered(&answer));
    NetEvent::Received { conn, bytes }.into()
}

#[test]
fn a_message_costs_less_than_a_tenth_of_an_allocation() {
    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), "*");
        // No timer fires while we count; what timers do is not done per message.
        group.set_commit_interval(secs(3_600));
    });
    bench.set_queues("T", &[("a", QUEUES)]);
    for id in (0..).take(QUEUES as usize) {
        bench.store("T", id, 0);
    }
    bench.settle();
    let mut pulls = bench.drop_requests(RequestCode::PULL_MESSAGE);
    assert_eq!(pulls.len(), QUEUES as usize, "every queue is pulled");
    // From here on without the bench, which keeps everything it sees.
    let mut state = bench.state().clone();
    let mut counted = 0;
    for round in 0..WARM_UP + ROUNDS {
        let now = Instant::from_millis(u64::from(round));
        for pull in &mut pulls {
            let from = pull.request::<PullRequest>().offset.0;
            let answer = answer(pull);
            let mut next = None;
            let info = allocation_counter::measure(|| next = turn(&mut state, now, answer));
            if round >= WARM_UP {
                counted += info.count_total;
            }
            let frame = next.expect("the next pull goes out");
            let bytes = u32::try_from(frame.len()).expect("small");
            let conn = pull.link.conn;
            state.handle(now, NetEvent::Sent { conn, bytes }.into());
            *pull = Asked::read(now, &pull.link, &pull.to, frame).expect("a request");
            assert_eq!(pull.request::<PullRequest>().offset.0, from + BATCH);
        }
    }
    let messages = u64::from(ROUNDS * QUEUES) * BATCH.unsigned_abs();
    let per_message = counted as f64 / messages as f64;
    println!("{per_message:.3} allocations per message");
    assert!(per_message <= 0.1, "{per_message:.3} allocations per message");
}
