use core::time::Duration;

use crate::broker::bench::*;
use crate::broker::config::{ClusterConfig, TopicConfig};
use crate::broker::event::Control;
use crate::ids::{ConnId, PeerAddr};
use crate::wire::command::{ExtWriter, WriteExt};
use crate::wire::request::cluster::ClusterInfoRequest;
use crate::wire::request::route::RouteRequest;
use crate::wire::request::topics::{
    ClusterTopicsRequest, DeleteTopicRequest, ForgetTopicRequest, TopicListRequest,
};

const SECOND: Duration = Duration::from_secs(1);

fn route(topic: &str) -> RouteRequest {
    RouteRequest {
        topic: topic.into(),
        standard_json: true,
    }
}

fn two() -> (Bench, ConnId) {
    let mut bench = Bench::of(ClusterConfig::with_brokers(2).topic("T", 2));
    let conn = bench.connect(&name_server());
    (bench, conn)
}

#[test]
fn a_route_names_all_brokers_that_run() {
    let (mut bench, conn) = two();
    let all = bench.do_it(conn, &route("T"));
    assert_eq!((all.queues.len(), all.brokers.len()), (2, 2));
    assert_eq!(all.brokers[0].addresses, [(0, "10.0.0.1:10911".into())].into());
    bench.control(Control::Stop(master()));
    assert_eq!(bench.do_it(conn, &route("T")).brokers.len(), 1);
    bench.control(Control::Start(master()));
    assert_eq!(bench.do_it(conn, &route("T")), all);
    assert_eq!(bench.refused(conn, &route("None")), 17);
}

#[test]
fn a_broker_that_died_is_named_until_it_is_missed() {
    let mut config = config();
    config.settings.route_expiry = 120 * SECOND;
    let mut bench = Bench::of(config);
    let ask = |bench: &mut Bench| {
        let conn = bench.connect(&name_server());
        bench.ask(conn, &route("T")).is_ok()
    };
    bench.control(Control::Crash(master()));
    bench.pass(120 * SECOND - Duration::from_micros(1));
    assert!(ask(&mut bench));
    bench.pass(Duration::from_micros(1));
    assert!(!ask(&mut bench));
    bench.control(Control::Start(master()));
    bench.control(Control::Crash(master()));
    bench.control(Control::Start(master()));
    bench.pass(200 * SECOND);
    assert!(ask(&mut bench), "who came back in time is not missed");
}

#[test]
fn a_frozen_name_server_is_behind() {
    let (mut bench, conn) = two();
    let freeze = |frozen| Control::FreezeRoutes {
        name_server: name_server(),
        frozen,
    };
    bench.control(freeze(true));
    bench.control(Control::PutTopic(TopicConfig::new("T".into(), 8)));
    bench.control(Control::PutTopic(TopicConfig::new("New".into(), 1)));
    assert_eq!(bench.do_it(conn, &route("T")).queues[0].read_queues, 2);
    assert_eq!(bench.refused(conn, &route("New")), 17);
    bench.control(freeze(false));
    assert_eq!(bench.do_it(conn, &route("T")).queues[0].read_queues, 8);
}

#[test]
fn one_broker_can_have_more_queues_than_another() {
    let (mut bench, conn) = two();
    bench.control(Control::PutTopicOn {
        broker: broker(),
        topic: TopicConfig::new("T".into(), 5),
    });
    let counts: alloc::vec::Vec<u32> = bench
        .do_it(conn, &route("T"))
        .queues
        .iter()
        .map(|queues| queues.read_queues)
        .collect();
    assert_eq!(counts, [5, 2]);
}

#[test]
fn old_clients_get_broker_ids_without_quotes() {
    struct Topic;
    impl WriteExt for Topic {
        fn write_ext(&self, out: &mut ExtWriter<'_>) {
            out.text("topic", "T");
        }
    }
    let (mut bench, conn) = two();
    for (version, key) in [
        (400, "{0:\"10.0.0.1:10911\"}"),
        (401, "{\"0\":\"10.0.0.1:10911\"}"),
    ] {
        let body = bench.ask_as(conn, version, 105, &Topic).body;
        let text = core::str::from_utf8(&body).expect("text");
        assert!(text.contains(key), "{version}: {text}");
    }
}

#[test]
fn the_cluster_and_its_topics() {
    let (mut bench, conn) = two();
    let info = bench.do_it(conn, &ClusterInfoRequest);
    assert_eq!(info.brokers.len(), 2);
    assert_eq!(info.clusters["DefaultCluster"].len(), 2);
    let topics = bench.do_it(conn, &TopicListRequest).topics;
    for topic in ["T", "TBW102", "DefaultCluster", "broker-a", "broker-b"] {
        assert!(topics.contains(topic), "{topic}");
    }
    assert!(!topics.contains("SCHEDULE_TOPIC_XXXX"));
    for (cluster, count) in [("DefaultCluster", topics.len()), ("Other", 0)] {
        let request = ClusterTopicsRequest {
            cluster: cluster.into(),
        };
        assert_eq!(bench.do_it(conn, &request).topics.len(), count, "{cluster}");
    }
}

#[test]
fn a_deleted_topic_is_named_until_it_is_to_be_forgotten() {
    let (mut bench, conn) = two();
    for addr in [master(), PeerAddr::new("10.0.0.2", 10911)] {
        let to_broker = bench.connect(&addr);
        bench.do_it(to_broker, &DeleteTopicRequest { topic: "T".into() });
    }
    assert!(bench.ask(conn, &route("T")).is_ok());
    let forget = ForgetTopicRequest {
        topic: "T".into(),
        cluster: None,
    };
    bench.do_it(conn, &forget);
    assert_eq!(bench.refused(conn, &route("T")), 17);
    assert!(bench.ask(conn, &forget).is_ok(), "forgotten twice");
}

#[test]
fn a_name_server_is_no_broker_and_a_broker_no_name_server() {
    let (mut bench, conn) = two();
    assert_eq!(bench.refused(conn, &heartbeat("a@1")), 3);
    let to_broker = bench.client();
    assert_eq!(bench.refused(to_broker, &route("T")), 3);
}
