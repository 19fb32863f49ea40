use alloc::borrow::Cow;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;

use crate::broker::bench::*;
use crate::broker::event::Control;
use crate::ids::{ConnId, QueueId, QueueOffset};
use crate::wire::message_id::OffsetMessageId;
use crate::wire::request::locks::{LockRequest, QueueLocks};
use crate::wire::request::send::{SendKind, SendRequest};
use crate::wire::send_batch::BatchEntry;
use crate::wire::stored::Record;

fn stored<'a>(bench: &'a Bench, topic: &str, id: i32) -> Vec<Record<'a>> {
    let stored = bench.state.stored(&broker(), &topic.into(), QueueId(id));
    stored.map(|message| message.record).collect()
}

fn lock(bench: &mut Bench, conn: ConnId) {
    let locks = QueueLocks {
        client_id: "a@1".into(),
        group: "G".into(),
        queues: [queue(0)].into(),
        only_this_broker: false,
    };
    bench.do_it(conn, &LockRequest(locks));
}

#[test]
fn what_was_sent_is_stored_as_it_was() {
    for kind in [SendKind::Long, SendKind::Short] {
        let mut bench = Bench::new();
        let conn = bench.client();
        let properties = "TAGS\u{1}A\u{2}UNIQ_KEY\u{1}u1\u{2}";
        let request = SendRequest {
            kind,
            sys_flag: 0x301,
            flag: 7,
            queue: Some(QueueId(1)),
            ..send_to("T", properties)
        };
        bench.store(&["A"]);
        let sent = bench.do_it(conn, &request);
        assert_eq!((sent.queue, sent.offset), (QueueId(1), Some(QueueOffset(0))));
        assert_eq!(sent.transaction_id.as_deref(), Some("u1"));
        let found = &stored(&bench, "T", 1)[0];
        assert_eq!(
            (found.stored_body(), found.sys_flag().0, found.flag()),
            (&b"hello"[..], 0x301, 7)
        );
        let says = found.properties().iter();
        let says: BTreeMap<String, String> = says
            .map(|(name, value)| (name.into_owned(), value.into_owned()))
            .collect();
        let own = [
            ("MSG_REGION", "DefaultRegion"),
            ("TRACE_ON", "true"),
            ("CLUSTER", "DefaultCluster"),
        ];
        let given = [("TAGS", "A"), ("UNIQ_KEY", "u1")];
        let want = own
            .iter()
            .chain(&given)
            .map(|(name, value)| ((*name).into(), (*value).into()));
        assert_eq!(says, want.collect());
        assert_eq!(found.born_host().ip().to_string(), "10.1.0.1");
        assert_eq!((found.born_at(), found.store_at()), (WALL, WALL));
        let id: OffsetMessageId = sent.message_id.parse().expect("an offset id");
        assert_eq!(id.physical_offset, found.physical_offset());
        assert_eq!(id.store_host.to_string(), "10.0.0.1:10911");
    }
}

#[test]
fn a_message_without_a_key_gets_one_of_its_own() {
    let mut bench = Bench::new();
    let conn = bench.client();
    let keys: BTreeSet<String> = (0..3)
        .filter_map(|_| bench.do_it(conn, &send_to("T", "TAGS\u{1}A\u{2}")).transaction_id)
        .collect();
    assert_eq!(keys.len(), 3, "{keys:?}");
    let stored: BTreeSet<String> = (0..2)
        .flat_map(|queue| stored(&bench, "T", queue))
        .filter_map(|record| record.property("UNIQ_KEY").map(Cow::into_owned))
        .collect();
    assert_eq!(stored, keys);
}

#[test]
fn sends_that_are_refused() {
    let mut config = with_slave();
    config.settings.message_bytes_max = 10;
    let mut bench = Bench::of(config);
    let conn = bench.client();
    let body = |body: &'static [u8]| SendRequest {
        body: Bytes::from_static(body),
        ..send_to("T", "")
    };
    let no_template = SendRequest {
        default_topic: "Other".into(),
        ..send_to("New", "")
    };
    let queue = |id| SendRequest {
        queue: Some(QueueId(id)),
        ..send_to("T", "")
    };
    let half = SendRequest {
        sys_flag: 4,
        ..send_to("T", "")
    };
    let batch = SendRequest {
        kind: SendKind::Batch,
        ..send_to("%RETRY%G", "")
    };
    let long = "x".repeat(32_768);
    for (request, code) in [
        (send_to("no good", ""), 29),
        (send_to("SCHEDULE_TOPIC_XXXX", ""), 16),
        (body(b""), 1),
        (body(b"12345678901"), 13),
        (send_to("T", &long), 13),
        (no_template, 17),
        (queue(2), 29),
        (half, 16),
        (batch, 13),
        (
            SendRequest {
                kind: SendKind::Batch,
                ..body(b"abc")
            },
            1,
        ),
    ] {
        assert_eq!(
            bench.refused(conn, &request),
            code,
            "{:?} {:?}",
            request.topic,
            request.kind
        );
    }
    assert!(
        bench.ask(conn, &body(b"1234567890")).is_ok(),
        "exactly as large as may be"
    );
    let conn = bench.connect(&slave());
    assert_eq!(bench.refused(conn, &send_to("T", "")), 2);
}

#[test]
fn a_topic_is_made_by_a_send_if_that_is_allowed() {
    for (allowed, asked, made) in [
        (true, 4, Some(4)),
        (true, 99, Some(8)),
        (true, -1, Some(1)),
        (false, 4, None),
    ] {
        let mut config = config();
        config.settings.auto_create_topic = allowed;
        let mut bench = Bench::of(config);
        let conn = bench.client();
        let request = SendRequest {
            default_topic_queues: asked,
            ..send_to("New", "")
        };
        assert_eq!(bench.ask(conn, &request).is_ok(), made.is_some());
        let route = bench.state.route(&"New".into());
        assert_eq!(
            route.map(|route| route.queues[0].read_queues),
            made,
            "{allowed} {asked}"
        );
        assert_eq!(bench.state.route(&"TBW102".into()).is_some(), allowed);
    }
}

#[test]
fn the_broker_chooses_a_queue_if_the_producer_does_not() {
    let mut bench = Bench::new();
    let conn = bench.client();
    let any = SendRequest {
        queue: None,
        ..send_to("T", "")
    };
    for _ in 0..40 {
        bench.do_it(conn, &any);
    }
    let counts = [0, 1].map(|id| stored(&bench, "T", id).len());
    assert_eq!(counts.iter().sum::<usize>(), 40);
    assert!(counts.iter().all(|count| *count > 5), "{counts:?}");
}

#[test]
fn a_batch_is_stored_message_by_message() {
    let mut bench = Bench::new();
    let conn = bench.client();
    let mut body = Vec::new();
    for (text, properties) in [("one", "TAGS\u{1}A\u{2}"), ("two", "DELAY\u{1}3\u{2}")] {
        let entry = BatchEntry {
            flag: 5,
            body: text.as_bytes(),
            properties,
        };
        entry.encode(&mut body).expect("a small entry");
    }
    let request = SendRequest {
        kind: SendKind::Batch,
        body: body.into(),
        ..send_to("T", "")
    };
    bench.store(&["A"]);
    let sent = bench.do_it(conn, &request);
    assert_eq!(sent.offset, Some(QueueOffset(1)), "that of the first");
    let found: Vec<_> = stored(&bench, "T", 0);
    let ids: Vec<_> = found[1..].iter().map(Record::offset_msg_id).collect();
    assert_eq!(sent.message_id, ids.join(","));
    let found: Vec<_> = found[1..]
        .iter()
        .map(|record| (record.stored_body(), record.flag()))
        .collect();
    assert_eq!(found, [(&b"one"[..], 5), (b"two", 5)], "at once, whatever delay");
    assert_eq!(bench.state.scheduled(), 0);
}

#[test]
fn a_batch_has_a_limit() {
    let mut bench = Bench::new();
    let conn = bench.client();
    let mut body = Vec::new();
    let entry = BatchEntry {
        flag: 0,
        body: b"x",
        properties: "",
    };
    for _ in 0..=super::BATCH_MAX {
        entry.encode(&mut body).expect("a small entry");
    }
    let batch = |body: &[u8]| SendRequest {
        kind: SendKind::Batch,
        body: Bytes::copy_from_slice(body),
        ..send_to("T", "")
    };
    assert_eq!(bench.refused(conn, &batch(&body)), 1);
    assert_eq!(stored(&bench, "T", 0).len(), 0, "all or nothing");
    body.truncate(super::BATCH_MAX * 23);
    assert!(bench.ask(conn, &batch(&body)).is_ok());
    assert_eq!(stored(&bench, "T", 0).len(), super::BATCH_MAX);
}

#[test]
fn a_retry_that_came_too_often_is_buried() {
    for (times, most, buried) in [
        (None, None, false),
        (Some(16), None, false),
        (Some(17), None, true),
        (Some(3), Some(2), true),
    ] {
        let mut bench = Bench::new();
        let conn = bench.client();
        let request = SendRequest {
            reconsume_times: times,
            max_reconsume_times: most,
            ..send_to("%RETRY%G", "DELAY\u{1}0\u{2}")
        };
        bench.do_it(conn, &request);
        let counts = ["%RETRY%G", "%DLQ%G"].map(|topic| stored(&bench, topic, 0).len());
        assert_eq!(counts, if buried { [0, 1] } else { [1, 0] }, "{times:?} {most:?}");
    }
}

#[test]
fn a_group_that_holds_a_lock_buries_at_once() {
    let mut bench = Bench::new();
    let conn = bench.client();
    lock(&mut bench, conn);
    bench.do_it(conn, &send_to("%RETRY%G", "DELAY\u{1}3\u{2}"));
    let buried = stored(&bench, "%DLQ%G", 0);
    assert_eq!(buried.len(), 1);
    assert_eq!(buried[0].property("DELAY").as_deref(), Some("-1"));
    bench.pass(Duration::from_secs(60) + Duration::from_millis(1));
    bench.do_it(conn, &send_to("%RETRY%G", ""));
    assert_eq!(stored(&bench, "%RETRY%G", 0).len(), 1, "the lock has expired");
}

#[test]
fn a_send_that_is_delayed_waits_for_its_level() {
    let mut bench = Bench::new();
    let conn = bench.client();
    bench.do_it(conn, &send_to("T", "DELAY\u{1}2\u{2}TAGS\u{1}A\u{2}"));
    assert_eq!((stored(&bench, "T", 0).len(), bench.state.scheduled()), (0, 1));
    bench.pass(Duration::from_millis(4_999));
    assert_eq!(stored(&bench, "T", 0).len(), 0);
    bench.pass(Duration::from_millis(1));
    let found = stored(&bench, "T", 0);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].tags().as_deref(), Some("A"));
    assert_eq!(
        (found[0].store_at(), found[0].born_at()),
        (WALL + Duration::from_secs(5), WALL)
    );
}

#[test]
fn topics_have_a_limit() {
    let mut config = config();
    // Its own three, the one in which delayed messages wait, and T.
    config.settings.topics_max = 5;
    let mut bench = Bench::of(config);
    let conn = bench.client();
    assert_eq!(bench.refused(conn, &send_to("New", "")), 1);
    assert!(bench.ask(conn, &send_to("T", "")).is_ok());
    bench.control(Control::DeleteTopic("T".into()));
    assert!(bench.ask(conn, &send_to("New", "")).is_ok());
    assert_eq!(bench.state.topics(&broker()).count(), 5);
}
