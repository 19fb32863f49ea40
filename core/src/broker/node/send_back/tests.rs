use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::broker::bench::*;
use crate::broker::observation::Observation;
use crate::ids::{ConnId, PhysicalOffset, QueueId};
use crate::wire::request::groups::{SubscriptionGroupConfig, UpdateGroupRequest};
use crate::wire::request::send_back::{Delay, SendBackRequest};
use crate::wire::stored::Record;

const SECOND: Duration = Duration::from_secs(1);

/// A member of `G` and one message in `T`.
fn member() -> (Bench, ConnId) {
    let mut bench = Bench::new();
    let conn = bench.client();
    bench.do_it(conn, &heartbeat("a@1"));
    bench.store(&["A"]);
    (bench, conn)
}

fn back(offset: PhysicalOffset, delay: Delay) -> SendBackRequest {
    SendBackRequest {
        group: "G".into(),
        offset,
        delay,
        message_id: None,
        topic: Some("T".into()),
        unit_mode: None,
        max_reconsume_times: None,
        broker: None,
    }
}

fn stored<'a>(bench: &'a Bench, topic: &str) -> Vec<Record<'a>> {
    let stored = bench.state.stored(&broker(), &topic.into(), QueueId(0));
    stored.map(|message| message.record).collect()
}

fn property(record: &Record<'_>, name: &str) -> Option<String> {
    record.property(name).map(|value| value.into_owned())
}

#[test]
fn a_message_comes_back_later_each_time_and_then_is_buried() {
    let (mut bench, _) = member();
    let origin = stored(&bench, "T")[0].offset_msg_id();
    let mut at = stored(&bench, "T")[0].physical_offset();
    let waits = [
        10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1_200, 1_800, 3_600, 7_200,
    ];
    for (times, wait) in (1..).zip(waits) {
        // An idle connection would not live as long as the delays.
        let conn = bench.client();
        bench.do_it(conn, &back(at, Delay::Broker));
        bench.pass(wait * SECOND - Duration::from_millis(1));
        assert_eq!(stored(&bench, "%RETRY%G").len(), times - 1, "attempt {times}");
        bench.pass(Duration::from_millis(1));
        let retries = stored(&bench, "%RETRY%G");
        assert_eq!(retries.len(), times, "attempt {times}");
        let last = &retries[times - 1];
        assert_eq!(usize::try_from(last.reconsume_times()), Ok(times));
        assert_eq!(property(last, "RETRY_TOPIC").as_deref(), Some("T"));
        assert_eq!(property(last, "ORIGIN_MESSAGE_ID").as_ref(), Some(&origin));
        assert_eq!(property(last, "TAGS").as_deref(), Some("A"));
        assert_eq!(property(last, "WAIT").as_deref(), Some("false"));
        at = last.physical_offset();
    }
    let conn = bench.client();
    bench.do_it(conn, &back(at, Delay::Broker));
    let buried = stored(&bench, "%DLQ%G");
    assert_eq!((buried.len(), bench.state.scheduled()), (1, 0), "at once");
    assert_eq!(buried[0].reconsume_times(), 17);
    assert_eq!(property(&buried[0], "RETRY_TOPIC").as_deref(), Some("T"));
    assert_eq!(property(&buried[0], "DELAY").as_deref(), Some("0"));
}

#[test]
fn the_client_may_choose_the_delay() {
    for (delay, wait) in [
        (Delay::Level(1), 1),
        (Delay::Level(3), 10),
        (Delay::Level(99), 7_200),
    ] {
        let (mut bench, conn) = member();
        let at = stored(&bench, "T")[0].physical_offset();
        bench.do_it(conn, &back(at, delay));
        bench.pass(wait * SECOND - Duration::from_millis(1));
        assert_eq!(stored(&bench, "%RETRY%G").len(), 0, "{delay:?}");
        bench.pass(Duration::from_millis(1));
        assert_eq!(stored(&bench, "%RETRY%G").len(), 1, "{delay:?}");
    }
}

#[test]
fn what_is_given_up_is_buried_at_once() {
    for (delay, most, dead) in [
        (Delay::DeadLetter, None, true),
        (Delay::Level(1), Some(0), true),
        (Delay::Level(1), Some(1), false),
    ] {
        let (mut bench, conn) = member();
        bench.state.observe(10);
        let at = stored(&bench, "T")[0].physical_offset();
        let request = SendBackRequest {
            max_reconsume_times: most,
            ..back(at, delay)
        };
        bench.do_it(conn, &request);
        assert_eq!(
            stored(&bench, "%DLQ%G").len(),
            usize::from(dead),
            "{delay:?} {most:?}"
        );
        let seen = bench.observations();
        let sent_back = Observation::SentBack {
            group: "G".into(),
            queue: queue(0),
            offset: crate::ids::QueueOffset(0),
            dead,
        };
        assert!(seen.contains(&sent_back), "{seen:?}");
    }
}

#[test]
fn send_backs_that_are_refused() {
    let (mut bench, conn) = member();
    let at = stored(&bench, "T")[0].physical_offset();
    let inside = PhysicalOffset(at.0 + 1);
    let illegal = SendBackRequest {
        group: "no good".into(),
        ..back(at, Delay::Broker)
    };
    let nameless = SendBackRequest {
        topic: None,
        ..back(at, Delay::DeadLetter)
    };
    for (request, code) in [(back(inside, Delay::Broker), 1), (illegal, 26), (nameless, 1)] {
        assert_eq!(bench.refused(conn, &request), code, "{request:?}");
    }
    let nameless = SendBackRequest {
        topic: None,
        ..back(at, Delay::Broker)
    };
    assert!(bench.ask(conn, &nameless).is_ok(), "a retry needs no name");
    assert_eq!(bench.state.scheduled(), 1);
}

#[test]
fn a_group_without_retries_loses_the_message() {
    let (mut bench, conn) = member();
    let at = stored(&bench, "T")[0].physical_offset();
    let mut config = SubscriptionGroupConfig::new("G".into());
    config.retry_queue_nums = 0;
    bench.do_it(conn, &UpdateGroupRequest(config));
    bench.do_it(conn, &back(at, Delay::Broker));
    assert_eq!(bench.state.scheduled(), 0);
    assert_eq!(stored(&bench, "%DLQ%G").len(), 0);
}

#[test]
fn a_slave_takes_nothing_back() {
    let mut bench = Bench::of(with_slave());
    let conn = bench.connect(&slave());
    assert_eq!(bench.refused(conn, &back(PhysicalOffset(0), Delay::Broker)), 2);
}
