use crate::broker::bench::*;
use crate::wire::request::topics::{
    DeleteTopicRequest, TopicConfigRequest, TopicFilterType, UpdateTopicRequest,
};

fn update(topic: &str, queues: i32) -> UpdateTopicRequest {
    UpdateTopicRequest {
        topic: topic.into(),
        default_topic: "TBW102".into(),
        read_queues: queues,
        write_queues: queues,
        perm: 6,
        filter_type: TopicFilterType::SingleTag,
        sys_flag: 0,
        order: true,
        attributes: None,
    }
}

#[test]
fn topics_are_made_changed_and_deleted() {
    let mut bench = Bench::new();
    let conn = bench.client();
    let queues = |bench: &Bench, topic: &str| {
        let route = bench.state.route(&topic.into())?;
        Some(route.queues[0].read_queues)
    };
    let config = |topic: &str| TopicConfigRequest { topic: topic.into() };
    assert_eq!(bench.refused(conn, &config("New")), 17);
    for asked in [4, 8, 2, 0, -1] {
        bench.do_it(conn, &update("New", asked));
        let made = bench.do_it(conn, &config("New"));
        assert_eq!((made.read_queues, made.order), (asked.max(0), true));
        assert_eq!(queues(&bench, "New"), u32::try_from(asked.max(0)).ok());
    }
    let delete = |topic: &str| DeleteTopicRequest { topic: topic.into() };
    bench.do_it(conn, &delete("New"));
    assert_eq!(bench.refused(conn, &config("New")), 17);
    assert_eq!(queues(&bench, "New"), Some(0), "name servers are not told");
    assert!(bench.ask(conn, &delete("New")).is_ok(), "deleted twice");
}

#[test]
fn messages_and_offsets_of_a_deleted_topic_are_gone() {
    let mut bench = Bench::new();
    let conn = bench.client();
    bench.do_it(conn, &heartbeat("a@1"));
    bench.store(&["A"]);
    bench.do_it(
        conn,
        &crate::wire::request::offsets::CommitOffsetRequest {
            group: "G".into(),
            queue: queue_ref("T", 0),
            offset: crate::ids::QueueOffset(1),
        },
    );
    bench.do_it(conn, &DeleteTopicRequest { topic: "T".into() });
    bench.do_it(conn, &update("T", 2));
    assert_eq!(
        (bench.committed("G"), bench.state.max_offset(&queue(0)).0),
        (None, 0)
    );
    assert_eq!(bench.state.progress(&broker(), &"G".into()).count(), 0);
}

#[test]
fn illegal_names_and_too_many_queues_are_refused() {
    let mut bench = Bench::new();
    let conn = bench.client();
    for (topic, queues, code) in [("no good", 1, 29), ("TBW102", 1, 29), ("New", 1_025, 1)] {
        assert_eq!(bench.refused(conn, &update(topic, queues)), code, "{topic}");
    }
    assert!(bench.ask(conn, &update("New", 1_024)).is_ok());
    let system = DeleteTopicRequest {
        topic: "SCHEDULE_TOPIC_XXXX".into(),
    };
    assert_eq!(bench.refused(conn, &system), 29);
}
