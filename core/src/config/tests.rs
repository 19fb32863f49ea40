use alloc::string::ToString as _;
use alloc::vec;

use super::*;
use crate::allocate::AllocateStrategy;
use crate::ids::PeerAddr;
use crate::rate::Rate;

fn client() -> ClientConfig {
    ClientConfig::new("10.0.0.1@7".into(), vec![PeerAddr::new("ns.local", 9876)])
}

fn group() -> GroupConfig {
    let mut group = GroupConfig::new("orders".into());
    group.subscribe("T".into(), "*");
    group
}

/// The setting that is refused, if one is.
fn client_key(change: impl FnOnce(&mut ClientConfig)) -> Option<&'static str> {
    let mut config = client();
    change(&mut config);
    config.check().err().map(|error| error.key)
}

fn group_key(change: impl FnOnce(&mut GroupConfig)) -> Option<&'static str> {
    let mut config = group();
    change(&mut config);
    config.check().err().map(|error| error.key)
}

#[test]
fn defaults_are_good() {
    assert_eq!((client().check(), group().check()), (Ok(()), Ok(())));
}

/// A range and the values on both sides of both of its ends.
macro_rules! ends {
    ($key:ident, $($set:ident: $good:expr, $bad:expr;)*) => {$(
        for value in $good {
            assert_eq!($key(|c| { c.$set(value); }), None, "{} {value:?}", stringify!($set));
        }
        for value in $bad {
            let key = $key(|c| { c.$set(value); }).expect(stringify!($set));
            assert_eq!(["set_", key].concat(), stringify!($set), "{value:?}");
        }
    )*};
}

#[test]
fn times_of_a_client_have_ends() {
    const ZERO: Duration = Duration::ZERO;
    let hour = secs(3600);
    let more = hour + millis(1);
    ends! { client_key,
        set_route_interval: [millis(1), hour], [ZERO, more];
        set_route_retry: [millis(1), hour], [ZERO, more];
        set_heartbeat_interval: [millis(1), secs(60)], [ZERO, secs(61), more];
        set_request_timeout: [millis(1), hour], [ZERO, more];
        set_offset_timeout: [millis(1), hour], [ZERO, more];
        set_dial_timeout: [millis(1), hour], [ZERO, more];
        set_silence_min: [millis(1), hour], [ZERO, more];
        set_slave_read_after: [millis(1), hour], [ZERO, more];
        set_dial_backoff: [millis(1), secs(1)], [ZERO, millis(1_001)];
        set_frame_len_max: [1024, 16_777_212], [0, 1023, 16_777_213];
        set_requests_per_link_max: [1, u32::MAX], [0];
        set_groups_max: [1, 1024], [0, 1025];
    }
    assert_eq!(
        client_key(|c| {
            c.set_send_queue_bytes_max(65_535);
        }),
        Some("requests_per_link_max")
    );
    assert_eq!(
        client_key(|c| {
            c.set_dial_backoff_max(secs(11));
        }),
        Some("dial_backoff")
    );
    assert_eq!(
        client_key(|c| {
            c.set_dial_backoff_long(millis(999));
        }),
        Some("dial_backoff")
    );
}

#[test]
fn what_a_member_stores_has_a_name() {
    for (name, good) in [("a", true), ("", false), (" ", false)] {
        let key = client_key(|c| {
            c.set_instance(name.into());
        });
        assert_eq!(key, (!good).then_some("instance"), "{name:?}");
    }
    for (bytes, key) in [(128, None), (129, Some("instance"))] {
        let refused = client_key(|c| {
            c.set_instance("x".repeat(bytes));
        });
        assert_eq!(refused, key, "{bytes}");
    }
}

#[test]
fn a_client_has_an_id_and_a_name_server() {
    let servers = || vec![PeerAddr::new("ns.local", 9876)];
    for (config, key) in [
        (ClientConfig::new(" ".into(), servers()), "client_id"),
        (ClientConfig::new("x".repeat(1025).into(), servers()), "client_id"),
        (ClientConfig::new("me".into(), vec![]), "name_servers"),
    ] {
        assert_eq!(config.check().map_err(|error| error.key), Err(key));
    }
    assert_eq!(
        ClientConfig::new("x".repeat(1024).into(), servers()).check(),
        Ok(())
    );
}

#[test]
fn settings_of_a_group_have_ends() {
    const ZERO: Duration = Duration::ZERO;
    let hour = secs(3600);
    let more = hour + millis(1);
    ends! { group_key,
        set_concurrency: [1, 1000], [0, 1001];
        set_handler_batch: [1, 1024], [0, 1025];
        set_pull_batch: [1, 1024], [0, 1025];
        set_queue_count_max: [1, 65_535], [0, 65_536];
        set_queue_span_max: [1, 65_535], [0, 65_536];
        set_queue_bytes_max: [1, u64::MAX], [0];
        set_buffer_bytes_max: [1, u64::MAX], [0];
        set_body_bytes_max: [1, u64::MAX], [0];
        set_inner_batch_messages_max: [1, 65_535], [0, 65_536];
        set_inner_batch_bytes_max: [1, u64::MAX], [0];
        set_max_reconsume: [0, i32::MAX.unsigned_abs()], [u32::MAX];
        set_pull_hold: [millis(1), millis(22_999)], [ZERO];
        set_pull_deadline: [millis(15_001), secs(7200)], [ZERO, secs(15), secs(7201)];
        set_pull_retry: [millis(1), secs(30)], [ZERO, millis(30_001)];
        set_pull_retry_max: [secs(1), hour], [more];
        set_flow_control_pause: [millis(1), secs(60)], [ZERO, secs(61)];
        set_commit_interval: [millis(10), hour], [millis(9), more];
        set_rebalance_interval: [millis(100), hour], [millis(99), more];
        set_notify_debounce: [ZERO, millis(50)], [millis(51)];
        set_revoke_grace: [ZERO, millis(450)], [millis(451)];
        set_allocate_timeout: [millis(1), hour], [ZERO, more];
        set_takeover_delay: [ZERO, secs(60)], [secs(61)];
        set_delivery_deadline: [millis(1), secs(30 * 24 * 3600)], [ZERO, secs(30 * 24 * 3600 + 1)];
        set_cancel_grace: [millis(1), hour], [ZERO, more];
        set_local_retry: [millis(1), hour], [ZERO, more];
        set_suspend_time: [millis(10), secs(30)], [millis(9), millis(30_001)];
        set_orderly_revoke_max: [ZERO, hour], [more];
        set_send_back_retries: [0, 64], [65];
        set_consume_directly_max: [0, 64], [65];
        set_consume_directly_deadline: [millis(1), hour], [ZERO, more];
        set_rate_limit: [None, Some(Rate::per_second(1)), Some(Rate::per_second(1_000_000)),
            Some(Rate::per_second(1).with_burst(1_000_000))],
            [Some(Rate::per_second(0)), Some(Rate::per_second(1_000_001)),
            Some(Rate::per_second(5).with_burst(0)), Some(Rate::per_second(5).with_burst(1_000_001))];
        set_flow_names_max: [1, 65_535], [0, 65_536];
        set_topic_count_max: [None, Some(1), Some(6_553_500)], [Some(0), Some(6_553_501)];
        set_topic_bytes_max: [None, Some(1), Some(u64::MAX)], [Some(0)];
        set_stalled_after: [secs(1), secs(24 * 3600)], [millis(999), secs(24 * 3600 + 1)];
    }
    assert_eq!(
        group_key(|c| {
            c.set_model(MessageModel::Broadcasting);
        }),
        None
    );
    assert_eq!(
        group_key(|c| {
            c.set_model(MessageModel::Broadcasting)
                .set_mode(ConsumeMode::Orderly);
        }),
        Some("mode")
    );
    for (mode, wrong) in [
        (ConsumeMode::Concurrently, Some("order")),
        (ConsumeMode::Orderly, None),
    ] {
        let by_key = group_key(|c| {
            c.set_mode(mode).set_order(OrderBy::Key);
        });
        assert_eq!(by_key, wrong, "{mode:?}");
    }
    assert_eq!(
        group_key(|c| {
            c.set_strategy(AllocateStrategy::ConsistentHash { virtual_nodes: 0 });
        }),
        Some("strategy")
    );
}

#[test]
fn retries_end_unless_messages_are_consumed_in_order() {
    for (mode, set, times) in [
        (ConsumeMode::Concurrently, None, 16),
        (ConsumeMode::Orderly, None, i32::MAX.unsigned_abs()),
        (ConsumeMode::Concurrently, Some(3), 3),
        (ConsumeMode::Orderly, Some(3), 3),
    ] {
        let mut config = group();
        if let Some(times) = set {
            config.set_max_reconsume(times);
        }
        config.set_mode(mode);
        assert_eq!(
            (config.max_reconsume(), config.check()),
            (times, Ok(())),
            "{mode:?} {set:?}"
        );
    }
}

#[test]
fn rates_of_topics_have_ends_and_there_are_not_too_many() {
    for (rate, times, good) in [
        (Rate::per_second(1), 0, true),
        (Rate::per_second(1), 1024, true),
        (Rate::per_second(1), 1025, false),
        (Rate::per_second(0), 1, false),
    ] {
        let key = group_key(|c| {
            c.set_topic_rate_limits(vec![("T".into(), rate); times]);
        });
        assert_eq!(key, (!good).then_some("topic_rate_limits"), "{rate:?} {times}");
    }
}

#[test]
fn a_pull_must_outlast_its_hold_and_the_error_names_both() {
    for (hold, good) in [(15_000, false), (14_999, true), (15_001, false)] {
        let mut config = group();
        config.set_pull_deadline(secs(15)).set_pull_hold(millis(hold));
        match config.check() {
            Ok(()) => assert!(good, "{hold}"),
            Err(error) => {
                let text = error.to_string();
                assert!(
                    !good && text.contains("pull_hold") && text.contains("pull_deadline"),
                    "{text}"
                );
            }
        }
    }
}

#[test]
fn names_are_those_a_broker_takes() {
    let long = |len| "x".repeat(len);
    for (name, good) in [
        ("orders-2_x%|", true),
        (&*long(120), true),
        (&*long(121), false),
        ("", false),
        ("  ", false),
        ("a b", false),
        ("größe", false),
        ("a.b", false),
        ("DEFAULT_CONSUMER", false),
    ] {
        assert_eq!(check_group_name(name).is_ok(), good, "{name:?}");
    }
    for (topic, good) in [
        (&*long(127), true),
        (&*long(128), false),
        ("a/b", false),
        ("", false),
    ] {
        let key = group_key(|c| {
            c.subscribe(topic.into(), "*");
        });
        assert_eq!(key, (!good).then_some("subscribe"), "{topic:?}");
    }
}

#[test]
fn a_subscription_names_a_tag_or_everything() {
    for (topic, filter, good) in [
        ("T", FilterExpression::from("a || b"), true),
        ("T", "||".into(), false),
        ("T", FilterExpression::sql92("a > 3"), true),
        ("T", FilterExpression::sql92(""), false),
        ("%RETRY%g", "*".into(), false),
        ("%RETRY%h", "*".into(), true),
    ] {
        let mut config = GroupConfig::new("g".into());
        config.subscribe(topic.into(), filter.clone());
        assert_eq!(config.check().is_ok(), good, "{topic} {filter}");
    }
    let mut config = GroupConfig::new("g".into());
    assert_eq!(config.check().map_err(|error| error.key), Err("subscribe"));
    for topic in 0..SUBSCRIPTIONS_MAX {
        config.subscribe(alloc::format!("T{topic}").into(), "*");
    }
    assert_eq!(config.check(), Ok(()));
    config.subscribe("T".into(), "*");
    assert_eq!(config.check().map_err(|error| error.key), Err("subscribe"));
}

#[test]
fn every_setting_reads_back() {
    let mut config = client();
    config.set_dial_timeout(secs(9)).set_frame_len_max(2048);
    assert_eq!((config.dial_timeout(), config.frame_len_max()), (&secs(9), &2048));
    assert_eq!(config.client_id().as_str(), "10.0.0.1@7");
    let mut config = group();
    config.set_concurrency(7).set_start_at(StartAt::Earliest);
    assert_eq!(
        (config.concurrency(), config.start_at()),
        (&7, &StartAt::Earliest)
    );
    assert_eq!(config.illegal_offset(), &IllegalOffsetPolicy::Resume);
    config.set_illegal_offset(IllegalOffsetPolicy::Hold);
    assert_eq!(config.illegal_offset(), &IllegalOffsetPolicy::Hold);
    assert_eq!(config.subscriptions(), [("T".into(), "*".into())]);
}
