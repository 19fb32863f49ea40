//! Strategies in the life of a member: own ones that answer, answer late or nonsense, and lists of queues that
//! do not fit the topic.

use rocketmq_consumer_core::action::{AllocateQuestion, AppAction};
use rocketmq_consumer_core::event::AppEvent;
use rocketmq_consumer_core::ids::MessageQueue;
use rocketmq_consumer_core::notice::NoticeKind;
use rocketmq_consumer_core::wire::code::RequestCode;
use rocketmq_consumer_testing::world::{Bench, ms, queue, secs};

const LIST: RequestCode = RequestCode::GET_CONSUMER_LIST_BY_GROUP;

/// A member of `T` with this strategy; its routes are known, its heartbeat is acknowledged.
fn member(strategy: &str, queues: &[(&str, u32)], members: &[&str]) -> Bench {
    let mut bench = Bench::new(|_, group| {
        group.subscribe("T".into(), "*");
        group.set_strategy(match strategy.strip_prefix("own:") {
            Some(name) => rocketmq_consumer_core::allocate::AllocateStrategy::Own(name.into()),
            None => strategy.parse().expect("a strategy"),
        });
    });
    bench.set_queues("T", queues);
    bench.set_queues("%RETRY%G", &[("a", 1)]);
    bench.set_members(members);
    bench.settle();
    bench
}

/// Every question so far for a topic.
fn questions(bench: &Bench, topic: &str) -> Vec<AllocateQuestion> {
    let mut asked = Vec::new();
    for action in bench.told() {
        if let AppAction::Allocate(question) = action
            && question.topic.as_str() == topic
        {
            asked.push((**question).clone());
        }
    }
    asked
}

fn answer(bench: &mut Bench, question: &AllocateQuestion, share: &[MessageQueue]) {
    let share = Ok(share.into());
    bench.tell(AppEvent::Allocated {
        id: question.id,
        share,
    });
}

/// Every question that has not been answered gets nothing, but for those of `T`.
fn answer_retry(bench: &mut Bench) {
    let last = questions(bench, "%RETRY%G")
        .pop()
        .expect("the retry topic is shared too");
    answer(bench, &last, &[]);
}

fn owned(bench: &Bench) -> Vec<String> {
    let queues = &bench.status().groups[0].queues;
    let mut names: Vec<String> = queues.iter().map(|queue| queue.queue.to_string()).collect();
    names.sort();
    names
}

fn failures(bench: &Bench) -> Vec<String> {
    let mut failures = Vec::new();
    for notice in bench.notices() {
        if let NoticeKind::AllocationFailed { topic, strategy, why } = &notice.kind {
            failures.push(format!("{topic} {strategy}: {why}"));
        }
    }
    failures
}

fn foreign(bench: &Bench) -> Vec<Vec<MessageQueue>> {
    let mut foreign = Vec::new();
    for notice in bench.notices() {
        if let NoticeKind::QueuesNotInTopic { queues, .. } = &notice.kind {
            foreign.push(queues.clone());
        }
    }
    foreign
}

#[test]
fn an_own_strategy_is_asked_with_sorted_lists_and_its_answer_is_taken() {
    let mut bench = member("own:mine", &[("b", 2), ("a", 1)], &["c2", "c1", "c10"]);
    let asked = questions(&bench, "T");
    assert_eq!(asked.len(), 1);
    let question = &asked[0];
    assert_eq!(&*question.strategy, "mine");
    assert_eq!(
        *question.queues,
        [queue("T", "a", 0), queue("T", "b", 0), queue("T", "b", 1)]
    );
    assert_eq!(*question.members, ["c1", "c10", "c2"].map(Into::into));
    assert_eq!(question.own.as_str(), "c1");
    assert!(owned(&bench).is_empty(), "nothing before the answer");
    answer(
        &mut bench,
        question,
        &[queue("T", "b", 1), queue("T", "a", 0), queue("T", "b", 1)],
    );
    assert_eq!(owned(&bench), ["T/a/0", "T/b/1"]);
    // The round lasts until every topic is decided; the next one comes with the safety net.
    answer_retry(&mut bench);
    bench.sleep(ms(19_900));
    assert_eq!(questions(&bench, "T").len(), 1);
    bench.sleep(ms(200));
    let again = questions(&bench, "T");
    assert_eq!(again.len(), 2);
    answer(&mut bench, &again[1], &[queue("T", "a", 0)]);
    assert_eq!(
        owned(&bench),
        ["T/a/0"],
        "what it does not name any more is given back"
    );
    assert_eq!(
        (failures(&bench), bench.status().counters.stale_answers),
        (vec![], 0)
    );
}

#[test]
fn an_own_strategy_that_is_silent_is_asked_again_and_its_late_answer_changes_nothing() {
    let mut bench = member("own:mine", &[("a", 2)], &["c1"]);
    let first = questions(&bench, "T")[0].clone();
    answer(&mut bench, &first, &[queue("T", "a", 0)]);
    answer_retry(&mut bench);
    bench.sleep(secs(20));
    // A notification in between waits for the end of the round.
    bench.notify("a");
    bench.sleep(ms(4_900));
    assert_eq!((questions(&bench, "T").len(), failures(&bench).len()), (2, 0));
    bench.sleep(ms(100));
    assert_eq!(
        failures(&bench),
        [
            "%RETRY%G mine: no answer within 5s",
            "T mine: no answer within 5s"
        ]
    );
    assert_eq!(owned(&bench), ["T/a/0"], "what it has it keeps");
    let late = questions(&bench, "T")[1].clone();
    answer(&mut bench, &late, &[queue("T", "a", 1)]);
    assert_eq!(owned(&bench), ["T/a/0"]);
    assert_eq!(bench.status().counters.stale_answers, 1);
    bench.sleep(secs(1));
    let asked = questions(&bench, "T");
    assert_eq!(asked.len(), 3, "asked again");
    answer(&mut bench, &asked[2], &[queue("T", "a", 1)]);
    answer(&mut bench, &asked[2], &[]);
    assert_eq!(owned(&bench), ["T/a/1"], "a second answer is one too many");
    assert_eq!(bench.status().counters.stale_answers, 2);
}

#[test]
fn queues_that_the_topic_does_not_have_are_told_and_not_owned() {
    let mut bench = member("own:mine", &[("a", 2)], &["c1"]);
    let question = questions(&bench, "T")[0].clone();
    let foreign_ones = [queue("T", "a", 2), queue("OTHER", "a", 0), queue("T", "z", 0)];
    let share = [&foreign_ones[..], &[queue("T", "a", 1)]].concat();
    answer(&mut bench, &question, &share);
    assert_eq!(owned(&bench), ["T/a/1"]);
    assert_eq!(foreign(&bench), [foreign_ones]);
}

#[test]
fn an_own_strategy_that_fails_is_told_and_asked_again() {
    let mut bench = member("own:mine", &[("a", 2)], &["c1"]);
    let question = questions(&bench, "T")[0].clone();
    let share = Err("the function panicked".into());
    bench.tell(AppEvent::Allocated {
        id: question.id,
        share,
    });
    answer_retry(&mut bench);
    assert_eq!(failures(&bench), ["T mine: the function panicked"]);
    bench.sleep(secs(1));
    assert_eq!(questions(&bench, "T").len(), 2);
}

#[test]
fn who_is_not_listed_is_not_asked_and_gives_back_what_it_has() {
    let mut bench = member("own:mine", &[("a", 2)], &["c1"]);
    let question = questions(&bench, "T")[0].clone();
    answer(&mut bench, &question, &[queue("T", "a", 0)]);
    answer_retry(&mut bench);
    bench.set_members(&["b1", "b2"]);
    bench.sleep(secs(25));
    assert_eq!((questions(&bench, "T").len(), owned(&bench)), (1, vec![]));
}

#[test]
fn a_group_that_leaves_waits_for_no_share() {
    let mut bench = member("own:mine", &[("a", 2)], &["c1"]);
    let question = questions(&bench, "T")[0].clone();
    bench.withhold(RequestCode::UNREGISTER_CLIENT);
    bench.tell(AppEvent::Shutdown { drain: secs(1) });
    answer(&mut bench, &question, &[queue("T", "a", 0)]);
    assert_eq!(
        (owned(&bench), bench.status().counters.stale_answers),
        (vec![], 1)
    );
    bench.serve(RequestCode::UNREGISTER_CLIENT);
    assert!(bench.is_closed());
    assert_eq!((failures(&bench), bench.wakeup()), (vec![], None));
}

/// W19, and what Java does with lists: it owns queues that do not exist, leaves retried messages to nobody, and
/// rebalances every second for ever.
#[test]
fn a_list_is_compared_with_the_route_and_rebalanced_at_leisure() {
    let mut bench = member("config:a:1,a:7,b:0", &[("a", 2)], &["c1"]);
    assert_eq!(owned(&bench), ["%RETRY%G/a/0", "T/a/1"]);
    assert_eq!(foreign(&bench), [[queue("T", "a", 7), queue("T", "b", 0)]]);
    let rounds = bench.sent(LIST).len();
    bench.idle(secs(60));
    let rounds = bench.sent(LIST).len() - rounds;
    assert!((3..=4).contains(&rounds), "{rounds} rounds in a minute");
    // It may come into being later.
    bench.set_queues("T", &[("a", 8)]);
    bench.idle(secs(35));
    assert_eq!(owned(&bench), ["%RETRY%G/a/0", "T/a/1", "T/a/7"]);
}

/// Who else is there does not matter, but for the retry topic.
#[test]
fn a_list_counts_for_its_own_topic_and_whoever_else_is_there() {
    let mut bench = member("config:T/a:1,OTHER/a:0", &[("a", 2)], &["a1", "c1"]);
    bench.sleep(secs(1));
    assert_eq!(
        (owned(&bench), foreign(&bench)),
        (vec!["T/a/1".to_owned()], vec![])
    );
}

#[test]
fn a_member_without_a_room_is_told_and_keeps_what_it_has() {
    let mut bench = member("near:a=r1,c1=r1", &[("a", 2)], &["c1"]);
    assert_eq!(owned(&bench), ["%RETRY%G/a/0", "T/a/0", "T/a/1"]);
    bench.set_members(&["c1", "c2"]);
    bench.notify("a");
    bench.sleep(ms(50));
    assert_eq!(owned(&bench), ["%RETRY%G/a/0", "T/a/0", "T/a/1"]);
    assert_eq!(
        failures(&bench),
        [
            "%RETRY%G MACHINE_ROOM_NEARBY-AVG: Machine room is null for consumer id c2",
            "T MACHINE_ROOM_NEARBY-AVG: Machine room is null for consumer id c2"
        ]
    );
}
