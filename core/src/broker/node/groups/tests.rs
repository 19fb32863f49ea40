use crate::broker::bench::*;
use crate::wire::request::groups::{
    DeleteGroupRequest, GroupConfigRequest, GroupListRequest, SubscriptionGroupConfig, UpdateGroupRequest,
};
use crate::wire::request::offsets::CommitOffsetRequest;

fn config_of(group: &str) -> GroupConfigRequest {
    GroupConfigRequest { group: group.into() }
}

const fn list(skip: Option<i32>, limit: Option<i32>) -> GroupListRequest {
    GroupListRequest { skip, limit }
}

#[test]
fn groups_are_made_when_they_are_named_if_that_is_allowed() {
    let mut bench = Bench::new();
    let conn = bench.client();
    assert_eq!(bench.do_it(conn, &list(None, None)).total, Some(0));
    assert_eq!(
        bench.do_it(conn, &config_of("G")),
        SubscriptionGroupConfig::new("G".into()).complete()
    );
    assert_eq!(bench.do_it(conn, &list(None, None)).total, Some(1));
    assert_eq!(bench.refused(conn, &config_of("no good")), 26);

    let mut config = config();
    config.settings.auto_create_group = false;
    let mut bench = Bench::of(config);
    let conn = bench.client();
    assert_eq!(bench.refused(conn, &config_of("G")), 26);
    assert!(
        bench.ask(conn, &heartbeat("a@1")).is_ok(),
        "the heartbeat says nothing of it"
    );
    assert_eq!(bench.refused(conn, &pull(0)), 26);
    let made = SubscriptionGroupConfig::new("G".into());
    bench.do_it(conn, &UpdateGroupRequest(made.clone()));
    assert_eq!(bench.do_it(conn, &config_of("G")), made.complete());
}

#[test]
fn groups_are_listed_page_by_page() {
    let mut bench = Bench::new();
    let conn = bench.client();
    for group in ["A", "B", "C"] {
        bench.do_it(conn, &config_of(group));
    }
    for (skip, limit, want) in [
        (None, None, ["A", "B", "C"].as_slice()),
        (Some(0), Some(1), &["A"]),
        (Some(2), Some(5), &["C"]),
        (Some(-1), Some(2), &["A", "B"]),
        (Some(9), None, &[]),
    ] {
        let page = bench.do_it(conn, &list(skip, limit));
        assert!(
            page.groups
                .keys()
                .map(|name| name.as_str())
                .eq(want.iter().copied()),
            "{page:?}"
        );
        assert_eq!(page.total, Some(3));
    }
}

#[test]
fn a_group_that_is_deleted_without_its_offsets_is_made_anew() {
    let mut bench = Bench::new();
    let conn = bench.client();
    let mut changed = SubscriptionGroupConfig::new("G".into());
    changed.retry_max_times = 3;
    for clean_offset in [false, true] {
        bench.do_it(conn, &UpdateGroupRequest(changed.clone()));
        let commit = CommitOffsetRequest {
            group: "G".into(),
            queue: queue_ref("T", 0),
            offset: crate::ids::QueueOffset(1),
        };
        bench.do_it(conn, &commit);
        let delete = DeleteGroupRequest {
            group: "G".into(),
            clean_offset,
        };
        bench.do_it(conn, &delete);
        let left = bench.do_it(conn, &list(None, None)).groups;
        let retry_max = left.values().map(|config| config.retry_max_times).next();
        let want = if clean_offset {
            (None, None)
        } else {
            (Some(16), Some(1))
        };
        assert_eq!((retry_max, bench.committed("G")), want, "{clean_offset}");
    }
}

#[test]
fn illegal_groups_and_groups_without_room_are_refused() {
    let mut config = config();
    config.settings.groups_max = 1;
    let mut bench = Bench::of(config);
    let conn = bench.client();
    let mut make = |group: &str| {
        let request = UpdateGroupRequest(SubscriptionGroupConfig::new(group.into()));
        match bench.ask(conn, &request) {
            Ok(_) => 0,
            Err(crate::wire::request::AnswerError::Refused { code, .. }) => code.0,
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(
        [make(""), make("a b"), make("G"), make("H"), make("G")],
        [29, 29, 0, 1, 0]
    );
}
