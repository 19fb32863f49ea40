//! Requests of an operator's tools. The bodies are those of a 5.5.0 name server, broker or client.

use super::super::check::CheckSubscriptionRequest;
use super::super::cluster::{ClusterInfo, ClusterInfoRequest};
use super::super::find::{FoundMessages, QueryMessageRequest, ViewMessageRequest, ViewedMessage};
use super::super::groups::{
    DataVersion, DeleteGroupRequest, GroupConfigRequest, GroupListRequest, GroupTable,
    SubscriptionGroupConfig, UpdateGroupRequest,
};
use super::super::offsets::{EarliestStoreTime, EarliestStoreTimeRequest};
use super::super::reset::{GroupStatus, GroupStatusRequest, OperatorResetRequest, ResetOffsets};
use super::super::running_info::{ConsumerRunningInfo, PopQueueInfo, QueueInfo, TopicStatus};
use super::super::stats::{
    Connection, ConnectionsRequest, ConsumeStats, ConsumeStatsRequest, ConsumerConnections, GroupList,
    QueueProgress, QueueStats, TopicGroupsRequest, TopicStats, TopicStatsRequest,
};
use super::super::topics::{
    ClusterTopicsRequest, DeleteTopicRequest, ForgetTopicRequest, TopicConfig, TopicConfigRequest,
    TopicFilterType, TopicList, TopicListRequest, UpdateTopicRequest,
};
use super::*;

fn mq(topic: &str, id: i32) -> MessageQueue {
    MessageQueue {
        topic: topic.into(),
        broker: "broker-a".into(),
        id: QueueId(id),
    }
}

const fn at(millis: i64) -> WallTime {
    WallTime::from_unix_millis(millis)
}

/// Reads a body, and writes it again as it was.
fn same_body<R: Request>(text: &str, want: &R::Answer)
where
    R::Answer: Debug + PartialEq,
{
    assert_eq!(body::<R>(text).as_ref(), Ok(want));
    assert_eq!(core::str::from_utf8(&want.body()), Ok(text));
    answer::<R>(want);
}

fn refused_as_malformed<R: Request>(text: &str)
where
    R::Answer: Debug + PartialEq,
{
    let got = body::<R>(text);
    assert!(
        matches!(got, Err(AnswerError::Malformed(Malformed::Body(_)))),
        "{text}: {got:?}"
    );
}

#[test]
fn requests_about_topics_come_through() {
    let update = UpdateTopicRequest {
        topic: "op_t1".into(),
        default_topic: "TBW102".into(),
        read_queues: 2,
        write_queues: -1,
        perm: 6,
        filter_type: TopicFilterType::SingleTag,
        sys_flag: 0,
        order: false,
        attributes: Some("+message.type=FIFO".into()),
    };
    request(&update);
    request(&UpdateTopicRequest {
        attributes: None,
        ..update
    });
    request(&TopicConfigRequest { topic: "t".into() });
    request(&DeleteTopicRequest { topic: "t".into() });
    for cluster in [None, Some("C".into())] {
        request(&ForgetTopicRequest {
            topic: "t".into(),
            cluster,
        });
    }
    request(&TopicListRequest);
    request(&ClusterTopicsRequest { cluster: "C".into() });
    request(&ClusterInfoRequest);
}

#[test]
fn a_topic_needs_a_known_filter_type() {
    let update = |filter: &'static str| {
        let mut ext = ExtFields::new();
        for (name, value) in [
            ("topic", "t"),
            ("readQueueNums", "1"),
            ("writeQueueNums", "1"),
            ("perm", "6"),
        ] {
            ext.set(name, value).unwrap();
        }
        if !filter.is_empty() {
            ext.set("topicFilterType", filter).unwrap();
        }
        UpdateTopicRequest::decode(&ext, &Bytes::new()).map(|request| request.filter_type)
    };
    assert_eq!(update("MULTI_TAG"), Ok(TopicFilterType::MultiTag));
    assert_eq!(
        update("TAG"),
        Err(FieldError::new("topicFilterType", FieldFault::Unknown).into())
    );
    assert_eq!(update(""), Err(FieldError::missing("topicFilterType").into()));
}

#[test]
fn answers_about_topics_come_through() {
    let mut config = TopicConfig {
        attributes: [].into(),
        order: false,
        perm: 6,
        read_queues: 2,
        filter_type: Some(TopicFilterType::SingleTag),
        topic: "op_t1".into(),
        sys_flag: 0,
        write_queues: 2,
    };
    same_body::<TopicConfigRequest>(
        r#"{"attributes":{},"order":false,"perm":6,"readQueueNums":2,"topicFilterType":"SINGLE_TAG","topicName":"op_t1","topicSysFlag":0,"writeQueueNums":2}"#,
        &config,
    );
    config.attributes = [("message.type".into(), "FIFO".into())].into();
    answer::<TopicConfigRequest>(&config);
    refused_as_malformed::<TopicConfigRequest>("{}");

    let list = TopicList {
        topics: ["OpCluster".into(), "broker-a".into()].into(),
    };
    same_body::<TopicListRequest>(r#"{"topicList":["OpCluster","broker-a"]}"#, &list);
    assert_eq!(
        body::<ClusterTopicsRequest>(
            r#"{"brokerAddr":"127.0.0.1:46911","topicList":["broker-a","OpCluster"]}"#
        ),
        Ok(list)
    );
    same_body::<ClusterTopicsRequest>(r#"{"topicList":[]}"#, &TopicList::default());
}

#[test]
fn a_cluster_may_have_brokers_without_addresses() {
    let broker = |name: &str, addresses: &[(i64, &str)]| BrokerData {
        cluster: "OpCluster".into(),
        name: name.into(),
        addresses: addresses.iter().map(|&(id, addr)| (id, addr.into())).collect(),
        zone_name: None,
        enable_acting_master: false,
    };
    let info = ClusterInfo {
        brokers: [
            (
                "broker-a".into(),
                broker("broker-a", &[(0, "127.0.0.1:46911"), (1, "10.255.255.1:10911")]),
            ),
            ("broker-dead".into(), broker("broker-dead", &[])),
        ]
        .into(),
        clusters: [(
            "OpCluster".into(),
            ["broker-a".into(), "broker-dead".into()].into(),
        )]
        .into(),
    };
    let text = r#"{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"127.0.0.1:46911",1:"10.255.255.1:10911"},"brokerName":"broker-a","cluster":"OpCluster","enableActingMaster":false},"broker-dead":{"brokerAddrs":{},"brokerName":"broker-dead","cluster":"OpCluster","enableActingMaster":false}},"clusterAddrTable":{"OpCluster":["broker-a","broker-dead"]}}"#;
    same_body::<ClusterInfoRequest>(text, &info);
    // A name server writes sets as they come.
    let unordered = text.replace(r#"["broker-a","broker-dead"]"#, r#"["broker-dead","broker-a"]"#);
    assert_eq!(body::<ClusterInfoRequest>(&unordered), Ok(info));
    assert_eq!(body::<ClusterInfoRequest>("{}"), Ok(ClusterInfo::default()));
    refused_as_malformed::<ClusterInfoRequest>(r#"{"clusterAddrTable":{"C":"b"}}"#);
}

const GROUP: &str = r#"{"attributes":{},"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":true,"consumeFromMinEnable":true,"consumeMessageOrderly":false,"consumeTimeoutMinute":15,"groupName":"GID_moved_json","groupSysFlag":0,"notifyConsumerIdsChangedEnable":true,"retryMaxTimes":16,"retryQueueNums":1,"whichBrokerWhenConsumeSlowly":1,"groupRetryPolicy":{"type":"CUSTOMIZED"}}"#;

fn group() -> SubscriptionGroupConfig {
    let mut group = SubscriptionGroupConfig::new("GID_moved_json".into());
    let policy = serde_json::json!({ "type": "CUSTOMIZED" });
    group.other.insert("groupRetryPolicy".into(), policy);
    group
}

#[test]
fn groups_come_through() {
    let edited = SubscriptionGroupConfig {
        retry_max_times: 3,
        consume_enable: false,
        attributes: [("+k".into(), "v".into())].into(),
        ..group()
    };
    request(&UpdateGroupRequest(edited.clone()));
    request(&GroupConfigRequest { group: "g".into() });
    request(&GroupListRequest::default());
    request(&GroupListRequest {
        skip: Some(0),
        limit: Some(1),
    });
    for clean_offset in [false, true] {
        request(&DeleteGroupRequest {
            group: "g".into(),
            clean_offset,
        });
    }
    same_body::<GroupConfigRequest>(GROUP, &group());
    let table = GroupTable {
        data_version: DataVersion {
            counter: 7,
            state_version: 0,
            timestamp: 1_795_966_800_000,
        },
        groups: [("a".into(), group()), ("b".into(), edited)].into(),
        total: Some(2),
    };
    answer::<GroupListRequest>(&table);
    answer::<GroupListRequest>(&GroupTable::default());
    let page = alloc::format!(
        r#"{{"dataVersion":{{"counter":7,"stateVersion":0,"timestamp":1795966800000}},"forbiddenTable":{{}},"subscriptionGroupTable":{{"a":{GROUP}}}}}"#
    );
    let read = body::<GroupListRequest>(&page).unwrap();
    assert_eq!((read.data_version, read.total), (table.data_version, None));
    assert_eq!(read.groups.into_values().collect::<Vec<_>>(), [group()]);
}

#[test]
fn what_a_group_leaves_out_falls_back_to_its_default() {
    let decode = |text: &'static str| {
        UpdateGroupRequest::decode(&ExtFields::new(), &Bytes::from_static(text.as_bytes()))
    };
    let want = SubscriptionGroupConfig {
        retry_queue_nums: 0,
        ..SubscriptionGroupConfig::new("g".into())
    };
    assert_eq!(
        decode(r#"{"groupName":"g","retryQueueNums":0}"#),
        Ok(UpdateGroupRequest(want))
    );
    for wrong in ["", "[]", r#"{"groupName":1}"#, r#"{"retryQueueNums":"x"}"#] {
        assert!(decode(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn requests_for_statistics_come_through() {
    request(&TopicStatsRequest { topic: "t".into() });
    for (topic, topics) in [
        (None, Vec::new()),
        (Some("t".into()), ["a".into(), "b".into()].into()),
    ] {
        request(&ConsumeStatsRequest {
            group: "g".into(),
            topic,
            topics,
        });
    }
    request(&ConnectionsRequest { group: "g".into() });
    request(&TopicGroupsRequest { topic: "t".into() });
}

#[test]
fn topic_statistics_are_named_by_queues() {
    let stats = TopicStats {
        queues: [(0, 945, 3), (1, 949, 3)]
            .map(|(id, millis, max)| {
                let stats = QueueStats {
                    last_update: Some(at(1_795_966_836_000 + millis)),
                    max_offset: QueueOffset(max),
                    min_offset: QueueOffset(0),
                };
                (mq("op_t1", id), stats)
            })
            .into(),
        put_tps: 0.0,
    };
    same_body::<TopicStatsRequest>(
        r#"{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"op_t1"}:{"lastUpdateTimestamp":1795966836945,"maxOffset":3,"minOffset":0},{"brokerName":"broker-a","queueId":1,"topic":"op_t1"}:{"lastUpdateTimestamp":1795966836949,"maxOffset":3,"minOffset":0}},"topicPutTps":0.0}"#,
        &stats,
    );
    for empty in ["{}", r#"{"offsetTable":{}}"#] {
        assert_eq!(body::<TopicStatsRequest>(empty), Ok(TopicStats::default()));
    }
    let one = |last: i64, max: i64| {
        let text = alloc::format!(
            r#"{{"offsetTable":{{{{"brokerName":"b","queueId":0,"topic":"t"}}:{{"lastUpdateTimestamp":{last},"maxOffset":{max},"minOffset":0}}}}}}"#
        );
        body::<TopicStatsRequest>(&text).map(|stats| stats.queues.into_values().next())
    };
    let never = |max| {
        Ok(Some(QueueStats {
            last_update: None,
            max_offset: QueueOffset(max),
            min_offset: QueueOffset(0),
        }))
    };
    assert_eq!((one(0, 1), one(-1, i64::MAX)), (never(1), never(i64::MAX)));
    assert!(one(1, -1).is_err());
    // Names in quotes, as no Java peer writes them, must not pass for an empty table.
    refused_as_malformed::<TopicStatsRequest>(
        r#"{"offsetTable":{"{}":{"lastUpdateTimestamp":1,"maxOffset":1,"minOffset":0}}}"#,
    );
}

#[test]
fn consume_statistics_tell_the_lag() {
    let row = |consumed, last_timestamp| QueueProgress {
        broker_offset: QueueOffset(3),
        consumer_offset: QueueOffset(consumed),
        last_timestamp,
        pull_offset: Some(QueueOffset(consumed)),
    };
    let stats = ConsumeStats {
        consume_tps: 0.0,
        queues: [
            (mq("op_t1", 0), row(1, Some(at(1_795_966_836_889)))),
            (mq("op_t1", 1), row(0, None)),
        ]
        .into(),
    };
    same_body::<ConsumeStatsRequest>(
        r#"{"consumeTps":0.0,"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"op_t1"}:{"brokerOffset":3,"consumerOffset":1,"lastTimestamp":1795966836889,"pullOffset":1},{"brokerName":"broker-a","queueId":1,"topic":"op_t1"}:{"brokerOffset":3,"consumerOffset":0,"lastTimestamp":0,"pullOffset":0}}}"#,
        &stats,
    );
    same_body::<ConsumeStatsRequest>(r#"{"consumeTps":0.0,"offsetTable":{}}"#, &ConsumeStats::default());
    for (consumed, pulled, lag, in_flight) in [
        (0, Some(2), 3, Some(2)),
        (3, Some(3), 0, Some(0)),
        (5, None, -2, None),
        (i64::MAX, Some(0), 3 - i64::MAX, Some(-i64::MAX)),
    ] {
        let row = QueueProgress {
            pull_offset: pulled.map(QueueOffset),
            ..row(consumed, None)
        };
        assert_eq!((row.lag(), row.in_flight()), (lag, in_flight));
    }
    let silent = r#"{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"t"}:{"brokerOffset":3,"consumerOffset":1}}}"#;
    let read = body::<ConsumeStatsRequest>(silent).unwrap();
    let row = read.queues.into_values().next().unwrap();
    assert_eq!((row.pull_offset, row.last_timestamp), (None, None));
    refused_as_malformed::<ConsumeStatsRequest>(&silent.replace(":1}", ":-1}"));
}

#[test]
fn connections_show_the_group_as_a_whole() {
    let text = r#"{"connectionSet":[{"clientAddr":"127.0.0.1:52162","clientId":"10.0.0.2@c2","language":"JAVA","version":513},{"clientAddr":"127.0.0.1:52148","clientId":"10.0.0.1@c1","language":"RUST","version":513}],"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","subscriptionTable":{"%RETRY%op_g1":{"classFilterMode":false,"codeSet":[],"expressionType":"TAG","subString":"*","subVersion":1795966800000,"tagsSet":[],"topic":"%RETRY%op_g1"},"op_t1":{"classFilterMode":false,"codeSet":[65,66],"expressionType":"TAG","subString":"A||B","subVersion":1795966800000,"tagsSet":["A","B"],"topic":"op_t1"}}}"#;
    let subscription = |topic: &str, expression: &str| SubscriptionData {
        topic: topic.into(),
        expression: expression.into(),
        expression_type: Some("TAG".into()),
        tags: [].into(),
        codes: [].into(),
        sub_version: at(1_795_966_800_000),
        class_filter_mode: false,
    };
    let connection = |port: u16, id: &str, language: &str| Connection {
        client_addr: alloc::format!("127.0.0.1:{port}"),
        client_id: id.into(),
        language: language.into(),
        version: 513,
    };
    let want = ConsumerConnections {
        connections: [
            connection(52_162, "10.0.0.2@c2", "JAVA"),
            connection(52_148, "10.0.0.1@c1", "RUST"),
        ]
        .into(),
        consume_from_where: Some(ConsumeFrom::Last),
        consume_type: Some(ConsumeType::Passively),
        message_model: Some(MessageModel::Clustering),
        subscriptions: [
            ("%RETRY%op_g1".into(), subscription("%RETRY%op_g1", "*")),
            (
                "op_t1".into(),
                SubscriptionData {
                    tags: ["A".into(), "B".into()].into(),
                    codes: [65, 66].into(),
                    ..subscription("op_t1", "A||B")
                },
            ),
        ]
        .into(),
    };
    assert_eq!(body::<ConnectionsRequest>(text).as_ref(), Ok(&want));
    answer::<ConnectionsRequest>(&want);
    assert_eq!(
        body::<ConnectionsRequest>(r#"{"consumeType":"CONSUME_SIDEWAYS"}"#),
        Ok(ConsumerConnections::default())
    );

    let groups = GroupList {
        groups: ["op_g1".into()].into(),
    };
    same_body::<TopicGroupsRequest>(r#"{"groupList":["op_g1"]}"#, &groups);
}

#[test]
fn a_reset_names_what_was_set() {
    let reset = OperatorResetRequest {
        group: "g".into(),
        topic: "t".into(),
        timestamp: at(-1),
        force: true,
        queue: None,
        offset: None,
    };
    request(&reset);
    request(&OperatorResetRequest {
        queue: Some(QueueId(0)),
        offset: Some(QueueOffset(0)),
        ..reset
    });
    let offsets = ResetOffsets {
        offsets: [0, 1].map(|id| (mq("op_t1", id), QueueOffset(3))).into(),
    };
    same_body::<OperatorResetRequest>(
        r#"{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"op_t1"}:3,{"brokerName":"broker-a","queueId":1,"topic":"op_t1"}:3}}"#,
        &offsets,
    );
}

#[test]
fn a_reset_without_a_time_means_the_oldest_message() {
    let decode = |fields: &[(&'static str, &'static str)]| {
        let mut ext = ExtFields::new();
        for &(name, value) in [("topic", "t"), ("group", "g")].iter().chain(fields) {
            ext.set(name, value).unwrap();
        }
        OperatorResetRequest::decode(&ext, &Bytes::new())
    };
    let got = decode(&[("queueId", "-1"), ("offset", "-1")]).unwrap();
    assert_eq!(
        (got.timestamp, got.force, got.queue, got.offset),
        (at(0), false, None, None)
    );
    assert!(decode(&[("timestamp", "yesterday")]).is_err());
}

#[test]
fn the_status_of_a_group_has_a_table_for_each_member() {
    for client_id in [None, Some("10.0.0.2@c2".into())] {
        request(&GroupStatusRequest {
            group: "g".into(),
            topic: "t".into(),
            client_id,
        });
    }
    let offsets: OffsetTable = [(mq("op_t1", 0), QueueOffset(1))].into();
    let status = GroupStatus {
        members: [
            ("10.0.0.1@c1".into(), offsets.clone()),
            ("10.0.0.2@c2".into(), offsets),
            ("10.0.0.3@c3".into(), OffsetTable::new()),
        ]
        .into(),
    };
    same_body::<GroupStatusRequest>(
        r#"{"consumerTable":{"10.0.0.1@c1":{{"brokerName":"broker-a","queueId":0,"topic":"op_t1"}:1},"10.0.0.2@c2":{{"brokerName":"broker-a","queueId":0,"topic":"op_t1"}:1},"10.0.0.3@c3":{}},"messageQueueTable":{}}"#,
        &status,
    );
    let mut ext = ExtFields::new();
    for (name, value) in [("group", "g"), ("topic", "t"), ("clientAddr", "")] {
        ext.set(name, value).unwrap();
    }
    // What Java's tool sends for all members.
    let got = GroupStatusRequest::decode(&ext, &Bytes::new()).unwrap();
    assert_eq!(got.client_id, None);
}

#[test]
fn a_filter_is_checked_with_its_client() {
    let check = CheckSubscriptionRequest {
        client_id: "10.0.0.7@sql".into(),
        group: "GID_sql_json".into(),
        namespace: None,
        subscription: SubscriptionData {
            topic: "GoldenMisc_json".into(),
            expression: "price >= 20 AND TAGS IS NOT NULL".into(),
            expression_type: Some("SQL92".into()),
            tags: [].into(),
            codes: [].into(),
            sub_version: at(1_795_963_419_605),
            class_filter_mode: false,
        },
    };
    request(&check);
    let text = r#"{"clientId":"10.0.0.7@sql","group":"GID_sql_json","subscriptionData":{"classFilterMode":false,"codeSet":[],"expressionType":"SQL92","subString":"price >= 20 AND TAGS IS NOT NULL","subVersion":1795963419605,"tagsSet":[],"topic":"GoldenMisc_json"}}"#;
    let read = CheckSubscriptionRequest::decode(&ExtFields::new(), &Bytes::from_static(text.as_bytes()));
    assert_eq!(read.as_ref(), Ok(&check));
    request(&CheckSubscriptionRequest {
        namespace: Some("ns".into()),
        ..check
    });
    answer::<CheckSubscriptionRequest>(&Done);
}

#[test]
fn single_messages_are_found() {
    for topic in [None, Some("t".into())] {
        request(&ViewMessageRequest {
            offset: PhysicalOffset(1_606),
            topic,
        });
    }
    answer::<ViewMessageRequest>(&ViewedMessage {
        message: Bytes::from_static(b"stored"),
    });
    for unique_key in [false, true] {
        request(&QueryMessageRequest {
            topic: "t".into(),
            key: "k1".into(),
            max: 64,
            begin: at(0),
            end: at(i64::MAX),
            unique_key,
        });
    }
    answer::<QueryMessageRequest>(&FoundMessages {
        messages: Bytes::from_static(b"stored"),
        indexed_until: Some(at(5)),
        indexed_offset: Some(PhysicalOffset(7)),
    });
    answer::<QueryMessageRequest>(&FoundMessages::default());
    let decode = |code, fields: &[_]| decode_answer::<QueryMessageRequest>(&answered(code, fields));
    assert_eq!(decode(22, &[]), Ok(FoundMessages::default()));
    assert!(decode(0, &[("indexLastUpdateTimestamp", "x")]).is_err());

    request(&EarliestStoreTimeRequest { queue: queue() });
    for time in [None, Some(at(0)), Some(at(1_795_966_836_949))] {
        answer::<EarliestStoreTimeRequest>(&EarliestStoreTime(time));
    }
    assert_eq!(
        decode_answer::<EarliestStoreTimeRequest>(&answered(0, &[])),
        Err(FieldError::missing("timestamp").into())
    );
}

/// What a Java member answers, shortened.
const RUNNING: &str = r#"{"jstack":"AsyncAppender-Worker TID: 31\n","mqPopTable":{},"mqTable":{{"brokerName":"broker-a","queueId":0,"topic":"GoldenBasic_json"}:{"cachedMsgCount":0,"cachedMsgMaxOffset":0,"cachedMsgMinOffset":0,"cachedMsgSizeInMiB":0,"commitOffset":42,"droped":false,"lastConsumeTimestamp":1795963332728,"lastLockTimestamp":1795963324803,"lastPullTimestamp":1795963370986,"locked":true,"transactionMsgCount":0,"transactionMsgMaxOffset":0,"transactionMsgMinOffset":0,"tryUnlockTimes":0}},"properties":{"PROP_CLIENT_VERSION":"V5_5_0","PROP_CONSUMEORDERLY":"false","pullBatchSize":"32"},"statusTable":{"GoldenBasic_json":{"consumeFailedMsgs":0,"consumeFailedTPS":0.04,"consumeOKTPS":0.8200164003280066,"consumeRT":0.875,"pullRT":2861.5,"pullTPS":0.86}},"subscriptionSet":[],"userConsumerInfo":{}}"#;

#[test]
fn a_running_info_is_read_and_written() {
    let info = ConsumerRunningInfo {
        jstack: Some("AsyncAppender-Worker TID: 31\n".into()),
        queues: [(
            mq("GoldenBasic_json", 0),
            QueueInfo {
                commit_offset: Some(QueueOffset(42)),
                last_consume: Some(at(1_795_963_332_728)),
                last_lock: Some(at(1_795_963_324_803)),
                last_pull: Some(at(1_795_963_370_986)),
                locked: true,
                ..QueueInfo::default()
            },
        )]
        .into(),
        properties: [
            ("PROP_CLIENT_VERSION", "V5_5_0"),
            ("PROP_CONSUMEORDERLY", "false"),
            ("pullBatchSize", "32"),
        ]
        .map(|(name, value)| (name.into(), value.into()))
        .into(),
        topics: [(
            "GoldenBasic_json".into(),
            TopicStatus {
                failed_messages: 0,
                failed_tps: 0.04,
                ok_tps: 0.820_016_400_328_006_6,
                consume_millis: 0.875,
                pull_millis: 2_861.5,
                pull_tps: 0.86,
            },
        )]
        .into(),
        ..ConsumerRunningInfo::default()
    };
    let answer = info.to_answer();
    assert_eq!(core::str::from_utf8(&answer.json), Ok(RUNNING));
    assert_eq!(answer.read(), Ok(info.clone()));

    let more = ConsumerRunningInfo {
        pop_queues: [(
            mq("t", 3),
            PopQueueInfo {
                dropped: true,
                last_pop: Some(at(1)),
                wait_ack_count: 2,
            },
        )]
        .into(),
        queues: [(mq("t", 4), QueueInfo::default())].into(),
        subscriptions: [SubscriptionData {
            topic: "t".into(),
            expression: "*".into(),
            expression_type: None,
            tags: [].into(),
            codes: [].into(),
            sub_version: at(1),
            class_filter_mode: false,
        }]
        .into(),
        user_info: [("a".into(), "b".into())].into(),
        ..info
    };
    assert_eq!(more.to_answer().read(), Ok(more));
}

#[test]
fn a_running_info_may_lack_members_and_have_others() {
    let read = |text: &'static str| {
        RunningInfo {
            json: Bytes::from_static(text.as_bytes()),
        }
        .read()
    };
    for empty in ["{}", r#"{"someNewMember":{{"a":1}:2},"mqTable":{}}"#] {
        assert_eq!(read(empty), Ok(ConsumerRunningInfo::default()));
    }
    let sparse = read(
        r#"{"mqTable":{{"brokerName":"broker-a","queueId":0,"topic":"t"}:{"commitOffset":-2,"new":[1]}}}"#,
    );
    assert_eq!(
        sparse.map(|info| info.queues),
        Ok([(mq("t", 0), QueueInfo::default())].into())
    );
    for wrong in [
        "",
        "[]",
        r#"{"mqTable":[1]}"#,
        r#"{"mqTable":{"{}":{}}}"#,
        r#"{"mqTable":{{"brokerName":"b","queueId":0,"topic":"t"}:{"cachedMsgMaxOffset":-1}}}"#,
    ] {
        assert!(read(wrong).is_err(), "{wrong}");
    }
}

proptest! {
    #[test]
    fn noise_never_panics(noise in prop::collection::vec(prop::sample::select(b"{}[]:,\"'\\u01-.e brokeNamtqu\xff".to_vec()), 0..64)) {
        let noise = Bytes::from(noise);
        let header = Header::decode(HeaderForm::Json, b"{\"flag\":1}").unwrap();
        let ext = ExtFields::new();
        let _ = LockRequest::decode(&ext, &noise);
        let _ = UpdateGroupRequest::decode(&ext, &noise);
        let _ = CheckSubscriptionRequest::decode(&ext, &noise);
        let _ = ClusterInfo::decode(&header, &noise);
        let _ = TopicStats::decode(&header, &noise);
        let _ = ConsumeStats::decode(&header, &noise);
        let _ = GroupStatus::decode(&header, &noise);
        let _ = RunningInfo { json: noise }.read();
    }
}
