mod tools;

use alloc::string::ToString;
use alloc::vec::Vec;
use core::fmt::Debug;

use proptest::prelude::*;

use super::heartbeat::{
    ConsumeFrom, ConsumeType, ConsumerData, HeartbeatAnswer, HeartbeatRequest, MessageModel, ProducerData,
    SubscriptionData, UnregisterRequest,
};
use super::locks::{LockAnswer, LockRequest, QueueLocks, UnlockRequest};
use super::members::{MemberList, MemberListRequest, MembersChanged};
use super::offsets::{
    Boundary, CommitOffsetRequest, MaxOffsetRequest, MinOffsetRequest, OffsetAnswer, QueryOffsetRequest,
    QueueRef, SearchOffsetRequest, StoredOffset,
};
use super::operator::{
    ConsumeDirectlyAnswer, ConsumeDirectlyRequest, ConsumerStatus, ConsumerStatusRequest, DirectResult,
    OffsetTable, ResetOffsetRequest, RunningInfo, RunningInfoRequest,
};
use super::pull::{PullAnswer, PullFilter, PullRequest, PullStatus};
use super::route::{BrokerData, DialectRoute, QueueData, RouteRequest, StaticQueues, TopicRoute};
use super::send::{SendAnswer, SendKind, SendRequest, SendStatus};
use super::send_back::{Delay, SendBackRequest};
use super::*;
use crate::ids::{MessageQueue, PhysicalOffset, QueueId};
use crate::time::WallTime;
use crate::wire::frame::FRAME_LEN_MAX;

const FORMS: [HeaderForm; 2] = [HeaderForm::Json, HeaderForm::Rocketmq];

fn frame(bytes: Result<Bytes, FrameError>) -> Frame {
    Frame::parse(bytes.unwrap(), FRAME_LEN_MAX).unwrap()
}

/// The request comes through in both forms, two-way and one-way, with its own code.
fn request<R: Request + Debug + PartialEq>(request: &R) {
    for form in FORMS {
        for oneway in [false, true] {
            let frame = frame(encode_request(form, -7, oneway, request));
            let header = Header::of(&frame).unwrap();
            assert_eq!((header.code, header.opaque), (request.code().0, -7));
            assert_eq!((header.is_response(), header.is_oneway()), (false, oneway));
            assert_eq!(decode_request::<R>(&frame).as_ref(), Ok(request));
        }
    }
}

/// The answer to an `R` comes through in both forms, and a refusal is one.
fn answer<R: Request>(answer: &R::Answer)
where
    R::Answer: Debug + PartialEq,
{
    for form in FORMS {
        let answered = frame(encode_answer(form, 7, answer));
        let header = Header::of(&answered).unwrap();
        assert!(header.is_response() && header.opaque == 7);
        assert_eq!(decode_answer::<R>(&answered).as_ref(), Ok(answer));
        let refused = frame(encode_refusal(form, 7, ResponseCode::SYSTEM_BUSY, "[OVERLOAD]"));
        assert_eq!(
            decode_answer::<R>(&refused),
            Err(AnswerError::Refused {
                code: ResponseCode::SYSTEM_BUSY,
                remark: "[OVERLOAD]".into(),
            })
        );
    }
}

fn queue() -> QueueRef {
    QueueRef {
        topic: "t".into(),
        queue: QueueId(3),
        broker: Some("broker-a".into()),
    }
}

fn pull() -> PullRequest {
    PullRequest {
        group: "g".into(),
        topic: "t".into(),
        queue: QueueId(1),
        offset: QueueOffset(40),
        max_messages: 32,
        max_bytes: Some(262_144),
        commit: Some(QueueOffset(39)),
        suspend: Some(Duration::from_secs(15)),
        sub_version: WallTime::from_unix_millis(1_795_961_260_970),
        filter: None,
        lite: false,
        broker: Some("broker-a".into()),
    }
}

fn answered(code: i32, fields: &[(&'static str, &'static str)]) -> Frame {
    struct Fields<'a>(&'a [(&'static str, &'static str)]);
    impl WriteExt for Fields<'_> {
        fn write_ext(&self, out: &mut ExtWriter<'_>) {
            self.0.iter().for_each(|(name, value)| out.text(name, value));
        }
    }
    frame(command(code, 7, FLAG_RESPONSE, None, &Fields(fields), b"").encode(HeaderForm::Json))
}

fn body<R: Request>(body: &str) -> Result<R::Answer, AnswerError> {
    let answer = command(0, 7, FLAG_RESPONSE, None, &(), body.as_bytes());
    decode_answer::<R>(&frame(answer.encode(HeaderForm::Json)))
}

#[test]
fn requests_come_through() {
    for standard_json in [false, true] {
        request(&RouteRequest {
            topic: "%RETRY%g".into(),
            standard_json,
        });
    }
    request(&HeartbeatRequest {
        client_id: "10.0.0.1@7".into(),
        consumers: [ConsumerData {
            group: "g".into(),
            consume_type: Some(ConsumeType::Passively),
            message_model: Some(MessageModel::Clustering),
            consume_from_where: Some(ConsumeFrom::Last),
            subscriptions: [SubscriptionData {
                topic: "t".into(),
                expression: "TagA || \"Täg\"".into(),
                expression_type: Some("TAG".into()),
                tags: ["TagA".into(), "Täg".into()].into(),
                codes: [2_598_919, -5].into(),
                sub_version: WallTime::from_unix_millis(17),
                class_filter_mode: false,
            }]
            .into(),
            unit_mode: false,
        }]
        .into(),
        producers: [ProducerData { group: "p".into() }].into(),
        fingerprint: 0,
        without_sub: false,
    });
    for consumer_group in [None, Some("g".into())] {
        request(&UnregisterRequest {
            client_id: "c".into(),
            consumer_group,
            producer_group: Some("p".into()),
        });
    }
    request(&MemberListRequest { group: "g".into() });
    request(&MembersChanged { group: "g".into() });
    request(&pull());
    request(&PullRequest {
        commit: None,
        suspend: None,
        max_bytes: None,
        broker: None,
        lite: true,
        filter: Some(PullFilter {
            expression: "a > 3".into(),
            expression_type: Some("SQL92".into()),
        }),
        ..pull()
    });
    request(&QueryOffsetRequest {
        group: "g".into(),
        queue: queue(),
        set_zero_if_not_found: Some(false),
    });
    request(&CommitOffsetRequest {
        group: "g".into(),
        queue: queue(),
        offset: QueueOffset(i64::MAX),
    });
    for boundary in [None, Some(Boundary::Lower), Some(Boundary::Upper)] {
        request(&SearchOffsetRequest {
            queue: queue(),
            timestamp: WallTime::from_unix_millis(-1),
            boundary,
        });
    }
    request(&MaxOffsetRequest {
        queue: queue(),
        committed: Some(true),
    });
    request(&MinOffsetRequest { queue: queue() });
}

#[test]
fn requests_about_one_message_come_through() {
    for delay in [Delay::Broker, Delay::Level(3), Delay::DeadLetter] {
        request(&SendBackRequest {
            group: "g".into(),
            offset: PhysicalOffset(12_753),
            delay,
            message_id: Some("FD00".into()),
            topic: Some("t".into()),
            unit_mode: Some(false),
            max_reconsume_times: Some(16),
            broker: None,
        });
    }
    for (kind, queue) in [
        (SendKind::Long, None),
        (SendKind::Short, Some(QueueId(0))),
        (SendKind::Batch, Some(QueueId(2))),
    ] {
        request(&SendRequest {
            kind,
            producer_group: "p".into(),
            topic: "t".into(),
            default_topic: "TBW102".into(),
            default_topic_queues: 4,
            queue,
            sys_flag: 1,
            born_timestamp: WallTime::from_unix_millis(5),
            flag: -9,
            properties: Some("KEYS\u{1}k\u{2}".into()),
            reconsume_times: Some(1),
            unit_mode: Some(false),
            max_reconsume_times: Some(16),
            broker: Some("broker-a".into()),
            body: Bytes::from_static(b"\0body"),
        });
    }
    request(&ConsumeDirectlyRequest {
        group: "g".into(),
        client_id: Some("c".into()),
        message_id: Some("7F".into()),
        broker: Some("b".into()),
        topic: None,
        message: Bytes::from_static(b"stored"),
    });
}

#[test]
fn requests_of_an_operator_come_through() {
    request(&ResetOffsetRequest {
        group: "g".into(),
        topic: "t".into(),
        timestamp: Some(WallTime::from_unix_millis(0)),
        force: true,
        offsets: table(),
    });
    request(&ConsumerStatusRequest {
        group: "g".into(),
        topic: "t".into(),
        client_addr: None,
    });
    request(&RunningInfoRequest {
        group: "g".into(),
        client_id: "c".into(),
        jstack: true,
    });
}

fn table() -> OffsetTable {
    [(2, 5), (10, 7)]
        .map(|(id, offset)| {
            let queue = MessageQueue {
                topic: "test".into(),
                broker: "b-a".into(),
                id: QueueId(id),
            };
            (queue, QueueOffset(offset))
        })
        .into()
}

#[test]
fn answers_come_through() {
    answer::<CommitOffsetRequest>(&Done);
    answer::<RouteRequest>(&route());
    answer::<HeartbeatRequest>(&HeartbeatAnswer {
        supports_v2: Some(true),
        sub_changed: None,
    });
    answer::<MemberListRequest>(&MemberList {
        client_ids: ["a".into(), "a".into(), "b".into()].into(),
    });
    for status in [
        PullStatus::Found,
        PullStatus::NotFound,
        PullStatus::RetryImmediately,
        PullStatus::OffsetMoved,
    ] {
        answer::<PullRequest>(&PullAnswer {
            status,
            next_begin_offset: QueueOffset(72),
            min_offset: Some(QueueOffset(0)),
            max_offset: None,
            suggest_broker_id: Some(1),
            offset_delta: Some(-3),
            reset: status == PullStatus::OffsetMoved,
            messages: Bytes::from_static(b"stored"),
        });
    }
    answer::<QueryOffsetRequest>(&StoredOffset(None));
    answer::<QueryOffsetRequest>(&StoredOffset(Some(QueueOffset(0))));
    answer::<MaxOffsetRequest>(&OffsetAnswer {
        offset: QueueOffset(9),
    });
    for status in [
        SendStatus::Stored,
        SendStatus::FlushDiskTimeout,
        SendStatus::SlaveNotAvailable,
        SendStatus::FlushSlaveTimeout,
    ] {
        answer::<SendRequest>(&SendAnswer {
            status,
            message_id: "7F".into(),
            queue: QueueId(1),
            offset: Some(QueueOffset(4)),
            transaction_id: Some("FD".into()),
        });
    }
    answer::<ConsumerStatusRequest>(&ConsumerStatus { offsets: table() });
    answer::<ConsumerStatusRequest>(&ConsumerStatus::default());
    answer::<RunningInfoRequest>(&RunningInfo {
        json: Bytes::from_static(b"{}"),
    });
    answer::<ConsumeDirectlyRequest>(&ConsumeDirectlyAnswer {
        order: false,
        auto_commit: true,
        result: Some(DirectResult::ThrowException),
        remark: Some("why".into()),
        spent_millis: 3,
    });
}

fn route() -> TopicRoute {
    TopicRoute {
        order_conf: None,
        queues: [QueueData {
            broker: "b-a".into(),
            read_queues: 4,
            write_queues: 4,
            perm: 6,
            topic_sys_flag: 0,
        }]
        .into(),
        brokers: [BrokerData {
            cluster: "C".into(),
            name: "b-a".into(),
            addresses: [(0, "192.0.2.10:10911".into()), (1, "192.0.2.11:10911".into())].into(),
            zone_name: None,
            enable_acting_master: false,
        }]
        .into(),
        static_queues: [(
            "b-a".into(),
            StaticQueues {
                topic: "t".into(),
                scope: Some("__global__".into()),
                total_queues: 2,
                broker: "b-a".into(),
                epoch: 7,
                ids: [(0, 1), (1, 0)].into(),
            },
        )]
        .into(),
    }
}

#[test]
fn a_route_of_an_old_name_server_is_read() {
    let old = r#"{"brokerDatas":[{"brokerAddrs":{0:"192.0.2.10:10911",1:"192.0.2.11:10911"},"brokerName":"b-a","cluster":"C"}],"filterServerTable":{},"queueDatas":[{"brokerName":"b-a","perm":6,"readQueueNums":4,"topicSynFlag":0,"writeQueueNums":4}]}"#;
    let want = TopicRoute {
        static_queues: [].into(),
        ..route()
    };
    assert_eq!(body::<RouteRequest>(old), Ok(want.clone()));
    let quoted = old.replace("{0:", "{\"0\":").replace(",1:", ",\"1\":");
    assert_eq!(body::<RouteRequest>(&quoted), Ok(want));
    let fixed = r#"{"topicQueueMappingByBroker":{"b-a":{"bname":"b-a","currIdMap":{0:1,1:0},"dirty":false,"epoch":7,"scope":"__global__","topic":"t","totalQueues":2}}}"#;
    assert_eq!(
        body::<RouteRequest>(fixed).map(|route| route.static_queues),
        Ok(route().static_queues)
    );
}

#[test]
fn a_route_may_lack_parts_but_not_make_us_allocate() {
    for empty in [
        "{}",
        r#"{"queueDatas":null,"brokerDatas":null,"orderTopicConf":null}"#,
    ] {
        assert_eq!(body::<RouteRequest>(empty), Ok(TopicRoute::default()));
    }
    let queues = |count: &str| {
        body::<RouteRequest>(&alloc::format!(
            r#"{{"queueDatas":[{{"brokerName":"b","readQueueNums":{count}}}]}}"#
        ))
        .map(|route| route.queues[0].read_queues)
    };
    assert_eq!((queues("-1"), queues("65536")), (Ok(0), Ok(65_536)));
    for wrong in ["65537", "2147483647", "4294967296", "\"x\""] {
        assert!(
            matches!(queues(wrong), Err(AnswerError::Malformed(Malformed::Body(_)))),
            "{wrong}"
        );
    }
    for wrong in [
        "",
        "[]",
        "null",
        r#"{"brokerDatas":[{"brokerAddrs":{"x":"a"},"brokerName":"b"}]}"#,
    ] {
        assert!(body::<RouteRequest>(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_pull_answer_needs_only_the_next_offset() {
    let decode = |code, fields: &[_]| decode_answer::<PullRequest>(&answered(code, fields));
    let answer = |suggest_broker_id| PullAnswer {
        status: PullStatus::NotFound,
        next_begin_offset: QueueOffset(5),
        min_offset: Some(QueueOffset(0)),
        max_offset: Some(QueueOffset(5)),
        suggest_broker_id,
        offset_delta: None,
        reset: false,
        messages: Bytes::new(),
    };
    let mut fields = [
        ("nextBeginOffset", "5"),
        ("minOffset", "0"),
        ("maxOffset", "5"),
        ("suggestWhichBrokerId", "0"),
    ];
    assert_eq!(decode(19, &fields), Ok(answer(Some(0))));
    assert_eq!(decode(19, &fields[..3]), Ok(answer(None)));
    fields[3] = ("someNewField", "x");
    assert_eq!(decode(19, &fields), Ok(answer(None)));
    assert_eq!(
        decode(0, &fields[1..]),
        Err(FieldError::missing("nextBeginOffset").into())
    );
    for (value, why) in [
        ("-1", FieldFault::OutOfRange),
        ("-2", FieldFault::OutOfRange),
        ("", FieldFault::NotANumber),
        ("9223372036854775808", FieldFault::NotANumber),
    ] {
        assert_eq!(
            decode(21, &[("nextBeginOffset", value)]),
            Err(FieldError::new("nextBeginOffset", why).into()),
            "{value}"
        );
    }
    // Where a failure has these fields they are not looked at.
    assert!(matches!(
        decode(25, &fields),
        Err(AnswerError::Refused {
            code: ResponseCode::SUBSCRIPTION_NOT_LATEST,
            ..
        })
    ));
}

#[test]
fn nothing_stored_is_an_answer_and_a_failure_is_not() {
    let decode = |code, fields: &[_]| decode_answer::<QueryOffsetRequest>(&answered(code, fields));
    assert_eq!(decode(22, &[]), Ok(StoredOffset(None)));
    assert_eq!(decode(0, &[("offset", "-1")]), Ok(StoredOffset(None)));
    assert_eq!(decode(0, &[]), Err(FieldError::missing("offset").into()));
    assert_eq!(
        decode(0, &[("offset", "-2")]),
        Err(FieldError::new("offset", FieldFault::OutOfRange).into())
    );
    assert_eq!(
        decode(1, &[]).unwrap_err().to_string(),
        "refused with 1 (SYSTEM_ERROR): "
    );
}

#[test]
fn offset_tables_are_read_in_every_form() {
    let decode = |table: &str| {
        body::<ConsumerStatusRequest>(&alloc::format!("{{\"messageQueueTable\":{table}}}"))
            .map(|status| status.offsets)
    };
    for form in [
        r#"{{"brokerName":"b-a","queueId":2,"topic":"test"}:5,{"brokerName":"b-a","queueId":10,"topic":"test"}:7}"#,
        r#"{{"topic":"test","queueId":2,"brokerName":"b-a"}:5,{"topic":"test","queueId":10,"brokerName":"b-a"}:7}"#,
        r#"[{"brokerName":"b-a","offset":5,"queueId":2,"topic":"test"},{"brokerName":"b-a","offset":7,"queueId":10,"topic":"test"}]"#,
        r#"[{"key":{"brokerName":"b-a","queueId":2,"topic":"test"},"value":5},{"key":{"brokerName":"b-a","queueId":10,"topic":"test"},"value":7}]"#,
    ] {
        assert_eq!(decode(form), Ok(table()), "{form}");
    }
    let one = |offset: &str| {
        decode(&alloc::format!(
            r#"{{{{"brokerName":"b","queueId":0,"topic":"t"}}:{offset}}}"#
        ))
    };
    for none in [decode("{}"), decode("[]"), one("-1")] {
        assert_eq!(none, Ok(OffsetTable::new()));
    }
    // Names in quotes, as no Java peer writes them, must not pass for an empty table.
    for wrong in [
        decode(r#"{"{\"topic\":\"t\"}":1}"#),
        one("-2"),
        one("\"x\""),
        decode("{{}:1}"),
    ] {
        assert!(
            matches!(wrong, Err(AnswerError::Malformed(Malformed::Body(_)))),
            "{wrong:?}"
        );
    }
}

#[test]
fn names_that_nobody_has_defined_are_none() {
    let heartbeat = |text: &'static str| {
        HeartbeatRequest::decode(&ExtFields::new(), &Bytes::from_static(text.as_bytes()))
    };
    let got = heartbeat(
        r#"{"clientID":"c","consumerDataSet":[{"groupName":"g","consumeType":"CONSUME_SIDEWAYS","messageModel":null,"consumeFromWhere":"CONSUME_FROM_TIMESTAMP"}]}"#,
    )
    .unwrap();
    let consumer = &got.consumers[0];
    assert_eq!(
        (
            consumer.consume_type,
            consumer.message_model,
            consumer.consume_from_where
        ),
        (None, None, Some(ConsumeFrom::Timestamp))
    );
    // As at a broker: what is absent is empty, `null` is an error.
    assert!(got.producers.is_empty() && consumer.subscriptions.is_empty());
    assert!(heartbeat(r#"{"clientID":"c","consumerDataSet":null}"#).is_err());
    assert!(heartbeat("").is_err());
}

#[test]
fn a_pull_request_fits_its_buffer() {
    for form in FORMS {
        let bytes = encode_request(form, 24, false, &pull()).unwrap();
        // Were there room to spare, the buffer would come back with it.
        let (len, buffer) = (bytes.len(), Vec::from(bytes));
        assert_eq!(buffer.capacity(), len);
    }
}

proptest! {
    #[test]
    fn noise_in_a_body_never_panics(noise in prop::collection::vec(prop::sample::select(b"{}[]:,\"'\\u01-.e brokeNamt\xff".to_vec()), 0..64)) {
        let noise = Bytes::from(noise);
        let ext = ExtFields::new();
        let _ = HeartbeatRequest::decode(&ext, &noise);
        let _ = ResetOffsetRequest::decode(&ext, &noise);
        let _ = fastjson_route(&noise);
    }
}

fn fastjson_route(noise: &Bytes) -> Result<TopicRoute, AnswerError> {
    let header = Header::decode(HeaderForm::Json, b"{\"flag\":1}").map_err(Malformed::from)?;
    TopicRoute::decode(&header, noise)
}

fn locks() -> QueueLocks {
    QueueLocks {
        client_id: "10.0.0.7@c2".into(),
        group: "GID_order_json".into(),
        queues: [2, 3]
            .map(|id| MessageQueue {
                topic: "GoldenOrder_json".into(),
                broker: "broker-a".into(),
                id: QueueId(id),
            })
            .into(),
        only_this_broker: false,
    }
}

#[test]
fn locks_are_written_as_java_writes_them() {
    let text = r#"{"clientId":"10.0.0.7@c2","consumerGroup":"GID_order_json","mqSet":[{"brokerName":"broker-a","queueId":2,"topic":"GoldenOrder_json"},{"brokerName":"broker-a","queueId":3,"topic":"GoldenOrder_json"}],"onlyThisBroker":false}"#;
    request(&LockRequest(locks()));
    request(&UnlockRequest(locks()));
    assert_eq!(LockRequest(locks()).body(), text);
    assert_eq!(UnlockRequest(locks()).body(), text);

    let held = LockAnswer {
        locked: locks().queues,
    };
    answer::<LockRequest>(&held);
    answer::<UnlockRequest>(&Done);
    assert_eq!(
        held.body(),
        r#"{"lockOKMQSet":[{"brokerName":"broker-a","queueId":2,"topic":"GoldenOrder_json"},{"brokerName":"broker-a","queueId":3,"topic":"GoldenOrder_json"}]}"#
    );
    assert_eq!(body::<LockRequest>("{}"), Ok(LockAnswer::default()));
    assert!(body::<LockRequest>(r#"{"lockOKMQSet":[{"queueId":2}]}"#).is_err());
}

#[test]
fn an_old_client_gets_its_route_in_the_dialect() {
    let text = r#"{"brokerDatas":[{"brokerAddrs":{0:"192.0.2.10:10911",1:"192.0.2.11:10911"},"brokerName":"b-a","cluster":"C","enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"b-a","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}],"topicQueueMappingByBroker":{"b-a":{"bname":"b-a","currIdMap":{0:1,1:0},"dirty":false,"epoch":7,"scope":"__global__","topic":"t","totalQueues":2}}}"#;
    let dialect = DialectRoute(route());
    assert_eq!(dialect.body(), text);
    assert_eq!(body::<RouteRequest>(text), Ok(route()));
    let more = TopicRoute {
        order_conf: Some("b-a:4".into()),
        brokers: [
            BrokerData {
                zone_name: Some("z".into()),
                ..route().brokers.remove(0)
            },
            route().brokers.remove(0),
        ]
        .into(),
        ..route()
    };
    for route in [TopicRoute::default(), more] {
        let written = DialectRoute(route.clone()).body();
        assert_eq!(fastjson_route(&written), Ok(route));
    }
    for (standard_json, version, strict) in [(false, 400, false), (false, 401, true), (true, 0, true)] {
        let topic = "t".into();
        assert_eq!(
            RouteRequest { topic, standard_json }.reads_standard_json(version),
            strict
        );
    }
}
