use core::time::Duration;

use crate::broker::bench::*;
use crate::broker::config::TopicConfig;
use crate::broker::event::Control;
use crate::wire::properties::Properties;

use super::with_properties;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn setting_a_property_takes_the_place_of_the_old_one() {
    let old = Properties::new("A\u{1}1\u{2}B\u{1}2\u{2}A\u{1}3\u{2}".as_bytes());
    let set = with_properties(old, &[("A", "9"), ("C", "4")]);
    assert_eq!(set.as_deref(), Ok("B\u{1}2\u{2}A\u{1}9\u{2}C\u{1}4\u{2}"));
    let long = "x".repeat(32_000);
    assert!(with_properties(old, &[("A", &long), ("C", &long)]).is_err());
}

#[test]
fn delays_survive_a_crash_and_go_on_when_the_broker_runs_again() {
    let mut bench = Bench::new();
    let conn = bench.client();
    bench.do_it(conn, &send_to("T", "DELAY\u{1}1\u{2}"));
    bench.control(Control::Crash(master()));
    bench.pass(10 * SECOND);
    assert_eq!(
        (bench.state.max_offset(&queue(0)).0, bench.state.scheduled()),
        (0, 1)
    );
    bench.control(Control::Start(master()));
    assert_eq!(
        (bench.state.max_offset(&queue(0)).0, bench.state.scheduled()),
        (1, 0)
    );
}

#[test]
fn a_delayed_message_whose_topic_is_gone_goes_nowhere() {
    let mut bench = Bench::new();
    let conn = bench.client();
    bench.do_it(conn, &send_to("T", "DELAY\u{1}1\u{2}"));
    bench.control(Control::DeleteTopic("T".into()));
    bench.pass(2 * SECOND);
    assert_eq!(bench.state.scheduled(), 0);
    bench.control(Control::PutTopic(TopicConfig::new("T".into(), 2)));
    assert_eq!(bench.state.max_offset(&queue(0)).0, 0);
}

#[test]
fn a_delayed_message_wakes_who_waits_for_it() {
    let mut bench = Bench::new();
    let conn = bench.client();
    bench.do_it(conn, &heartbeat("a@1"));
    bench.do_it(conn, &send_to("T", "DELAY\u{1}1\u{2}"));
    let waiting = bench.send(conn, &long_pull(0, 15 * SECOND));
    bench.pass(SECOND);
    let answer = bench.answer::<crate::wire::request::pull::PullRequest>(waiting);
    assert_eq!(
        answer.expect("woken").map(|answer| answer.next_begin_offset.0),
        Ok(1)
    );
}

#[test]
fn delayed_messages_have_a_limit() {
    let mut config = config();
    config.settings.scheduled_max = 1;
    let mut bench = Bench::of(config);
    let conn = bench.client();
    bench.do_it(conn, &send_to("T", "DELAY\u{1}1\u{2}"));
    assert_eq!(bench.refused(conn, &send_to("T", "DELAY\u{1}1\u{2}")), 1);
    bench.pass(SECOND);
    assert!(bench.ask(conn, &send_to("T", "DELAY\u{1}1\u{2}")).is_ok());
}

#[test]
fn levels_that_are_none_delay_nothing() {
    for level in ["0", "-1", "x", "99999999999999999999"] {
        let mut bench = Bench::new();
        let conn = bench.client();
        let properties = alloc::format!("DELAY\u{1}{level}\u{2}");
        bench.do_it(conn, &send_to("T", &properties));
        assert_eq!(bench.state.max_offset(&queue(0)).0, 1, "{level}");
    }
    let mut config = config();
    config.settings.delay_levels.clear();
    let mut bench = Bench::of(config);
    let conn = bench.client();
    bench.do_it(conn, &send_to("T", "DELAY\u{1}3\u{2}"));
    assert_eq!(bench.state.max_offset(&queue(0)).0, 1, "there are no levels");
}
