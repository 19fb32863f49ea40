//! A cluster on the table, and clients that ask it things.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;

use bytes::Bytes;

use super::BrokerState;
use super::config::ClusterConfig;
use super::event::{BrokerAction, BrokerEvent, Control, NewMessage, ServerEvent};
use super::observation::Observation;
use crate::ids::{BrokerName, ClientId, ConnId, ConsumerGroup, MessageQueue, PeerAddr, QueueId, QueueOffset};
use crate::step::Seed;
use crate::time::{Instant, WallTime};
use crate::wire::code::RequestCode;
use crate::wire::command::{Command, Header, Language, VERSION, WriteExt};
use crate::wire::frame::{FRAME_LEN_MAX, Frame, HeaderForm};
use crate::wire::request::heartbeat::{
    ConsumeFrom, ConsumeType, ConsumerData, HeartbeatRequest, MessageModel, SubscriptionData,
};
use crate::wire::request::offsets::QueueRef;
use crate::wire::request::pull::PullRequest;
use crate::wire::request::send::{SendKind, SendRequest};
use crate::wire::request::{self, Answer as _, AnswerError, Request};
use crate::wire::subscription::Subscription;

/// The time of day when a bench begins.
pub(super) const WALL: WallTime = WallTime::from_unix_millis(1_800_000_000_000);

/// A cluster and the time.
pub(super) struct Bench {
    pub(super) state: BrokerState,
    pub(super) now: Instant,
    conns: u32,
    opaque: i32,
    frames: VecDeque<(ConnId, Frame)>,
    pub(super) closed: Vec<ConnId>,
}

impl Bench {
    /// One broker with the topic `T` of two queues.
    pub(super) fn new() -> Self {
        Self::of(config())
    }

    pub(super) fn of(config: ClusterConfig) -> Self {
        let now = Instant::from_millis(1_000);
        Self {
            state: BrokerState::new(config, Seed(7), now, WALL),
            now,
            conns: 0,
            opaque: 100,
            frames: VecDeque::new(),
            closed: Vec::new(),
        }
    }

    fn handle(&mut self, event: BrokerEvent) {
        self.state.handle(self.now, event);
        while let Some(action) = self.state.poll_action() {
            match action {
                BrokerAction::Send { conn, frame } => {
                    let frame = Frame::parse(frame, FRAME_LEN_MAX).expect("a broker writes whole frames");
                    self.frames.push_back((conn, frame));
                }
                BrokerAction::Close { conn } => self.closed.push(conn),
            }
        }
    }

    pub(super) fn control(&mut self, control: Control) {
        self.handle(BrokerEvent::Control(control));
    }

    /// Lets time pass.
    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(at) = self.state.poll_timeout().filter(|at| *at <= end) {
            self.now = at;
            self.handle(BrokerEvent::Wakeup);
            assert!(self.state.poll_timeout() > Some(at) || self.state.poll_timeout().is_none());
        }
        self.now = end;
    }

    pub(super) fn connect(&mut self, at: &PeerAddr) -> ConnId {
        self.conns += 1;
        let conn = ConnId {
            slot: self.conns,
            generation: 1,
        };
        let port = u16::try_from(40_000 + self.conns).expect("few connections");
        self.handle(BrokerEvent::Net(ServerEvent::Accepted {
            conn,
            at: at.clone(),
            from: SocketAddr::new(Ipv4Addr::new(10, 1, 0, 1).into(), port),
        }));
        conn
    }

    /// A connection to the first broker's master.
    pub(super) fn client(&mut self) -> ConnId {
        self.connect(&master())
    }

    pub(super) fn hang_up(&mut self, conn: ConnId) {
        self.handle(BrokerEvent::Net(ServerEvent::Closed { conn }));
    }

    pub(super) fn receive(&mut self, conn: ConnId, bytes: Bytes) {
        self.handle(BrokerEvent::Net(ServerEvent::Received { conn, bytes }));
    }

    /// Sends a request; its number.
    pub(super) fn send<R: Request>(&mut self, conn: ConnId, request: &R) -> i32 {
        self.opaque += 1;
        let frame = request::encode_request(HeaderForm::Rocketmq, self.opaque, false, request);
        self.receive(conn, frame.expect("a small request"));
        self.opaque
    }

    pub(super) fn send_oneway<R: Request>(&mut self, conn: ConnId, request: &R) {
        let frame = request::encode_request(HeaderForm::Json, 1, true, request);
        self.receive(conn, frame.expect("a small request"));
    }

    /// The answer to a request, if it has come.
    pub(super) fn answer<R: Request>(&mut self, opaque: i32) -> Option<Result<R::Answer, AnswerError>> {
        let is_it = |(_, frame): &(ConnId, Frame)| {
            let header = Header::of(frame).expect("a header");
            header.is_response() && header.opaque == opaque
        };
        let at = self.frames.iter().position(is_it)?;
        let (_, frame) = self.frames.remove(at)?;
        let header = Header::of(&frame).expect("a header");
        Some(R::Answer::decode(&header, &frame.body))
    }

    /// Asks, and expects an answer at once.
    pub(super) fn ask<R: Request>(&mut self, conn: ConnId, request: &R) -> Result<R::Answer, AnswerError> {
        let opaque = self.send(conn, request);
        self.answer::<R>(opaque).expect("an answer at once")
    }

    /// Asks and expects that it is done.
    pub(super) fn do_it<R: Request>(&mut self, conn: ConnId, request: &R) -> R::Answer {
        self.ask(conn, request)
            .unwrap_or_else(|error| panic!("refused: {error}"))
    }

    /// Asks and expects a refusal: its code.
    pub(super) fn refused<R: Request<Answer: core::fmt::Debug>>(&mut self, conn: ConnId, request: &R) -> i32 {
        match self.ask(conn, request) {
            Err(AnswerError::Refused { code, .. }) => code.0,
            other => panic!("no refusal: {other:?}"),
        }
    }

    /// Asks something that may make no sense; the code of the answer.
    pub(super) fn ask_raw(&mut self, conn: ConnId, code: i32, ext: &impl WriteExt) -> i32 {
        let frame = self.ask_as(conn, VERSION, code, ext);
        Header::of(&frame).expect("a header").code
    }

    /// Asks as a client of some version; the whole answer.
    pub(super) fn ask_as(&mut self, conn: ConnId, version: i32, code: i32, ext: &impl WriteExt) -> Frame {
        self.opaque += 1;
        let command = Command {
            code,
            language: Language::Java,
            version,
            opaque: self.opaque,
            flag: 0,
            remark: None,
            ext,
            body: &[],
        };
        self.receive(conn, command.encode(HeaderForm::Json).expect("a small request"));
        let answer = self.frames(conn).pop().expect("an answer");
        let is_it = |header: Header<'_>| header.is_response() && header.opaque == self.opaque;
        assert!(Header::of(&answer).is_ok_and(is_it));
        answer
    }

    /// What brokers have asked of clients, in order. Answers that nobody has looked at are forgotten.
    pub(super) fn pushed(&mut self) -> Vec<(ConnId, RequestCode)> {
        let frames = self.frames.drain(..).filter_map(|(conn, frame)| {
            let header = Header::of(&frame).expect("a header");
            (!header.is_response()).then_some((conn, RequestCode(header.code)))
        });
        frames.collect()
    }

    /// All frames to a connection that nobody has looked at.
    pub(super) fn frames(&mut self, conn: ConnId) -> Vec<Frame> {
        let (of, others): (VecDeque<_>, VecDeque<_>) = self.frames.drain(..).partition(|(to, _)| *to == conn);
        self.frames = others;
        of.into_iter().map(|(_, frame)| frame).collect()
    }

    pub(super) fn observations(&mut self) -> Vec<Observation> {
        core::iter::from_fn(|| self.state.poll_observation()).collect()
    }

    /// Stores messages with these tags in queue 0 of `T`; an empty one is none.
    pub(super) fn store(&mut self, tags: &[&str]) {
        for tag in tags {
            let properties = if tag.is_empty() {
                String::new()
            } else {
                format!("TAGS\u{1}{tag}\u{2}")
            };
            let message = NewMessage {
                properties,
                ..NewMessage::new(Bytes::from_static(b"body"))
            };
            self.control(Control::Append {
                queue: queue(0),
                message,
            });
        }
    }

    pub(super) fn committed(&self, group: &str) -> Option<i64> {
        self.state
            .committed(&group.into(), &queue(0))
            .map(|offset| offset.0)
    }
}

/// One broker with the topic `T` of two queues.
pub(super) fn config() -> ClusterConfig {
    ClusterConfig::with_brokers(1).topic("T", 2)
}

/// The same with a slave.
pub(super) fn with_slave() -> ClusterConfig {
    let mut config = config();
    config.brokers[0].replicas.insert(1, slave());
    config
}

pub(super) fn master() -> PeerAddr {
    PeerAddr::new("10.0.0.1", 10911)
}

pub(super) fn slave() -> PeerAddr {
    PeerAddr::new("10.0.0.1", 10920)
}

pub(super) fn name_server() -> PeerAddr {
    PeerAddr::new("10.0.1.1", 9876)
}

pub(super) fn broker() -> BrokerName {
    "broker-a".into()
}

pub(super) fn queue(id: i32) -> MessageQueue {
    MessageQueue {
        topic: "T".into(),
        broker: broker(),
        id: QueueId(id),
    }
}

pub(super) fn queue_ref(topic: &str, id: i32) -> QueueRef {
    QueueRef {
        topic: topic.into(),
        queue: QueueId(id),
        broker: None,
    }
}

/// The heartbeat of a member of `G` that subscribes to `T`.
pub(super) fn heartbeat(client: &str) -> HeartbeatRequest {
    heartbeat_with(client, "T", "*", 1)
}

pub(super) fn heartbeat_with(client: &str, topic: &str, expression: &str, version: i64) -> HeartbeatRequest {
    HeartbeatRequest {
        client_id: ClientId::from(client),
        consumers: [consumer("G", &[subscription(topic, expression, version)])].into(),
        producers: Vec::new(),
        fingerprint: 0,
        without_sub: false,
    }
}

pub(super) fn consumer(group: &str, subscriptions: &[SubscriptionData]) -> ConsumerData {
    ConsumerData {
        group: ConsumerGroup::from(group),
        consume_type: Some(ConsumeType::Passively),
        message_model: Some(MessageModel::Clustering),
        consume_from_where: Some(ConsumeFrom::Last),
        subscriptions: subscriptions.into(),
        unit_mode: false,
    }
}

pub(super) fn subscription(topic: &str, expression: &str, version: i64) -> SubscriptionData {
    let of = Subscription::tagged(topic.into(), expression).expect("a legal expression");
    SubscriptionData {
        topic: of.topic,
        expression: of.expression,
        expression_type: Some("TAG".to_string()),
        tags: of.tags,
        codes: of.codes,
        sub_version: WallTime::from_unix_millis(version),
        class_filter_mode: false,
    }
}

/// A pull of `G` from queue 0 of `T` that does not wait.
pub(super) fn pull(offset: i64) -> PullRequest {
    PullRequest {
        group: "G".into(),
        topic: "T".into(),
        queue: QueueId(0),
        offset: QueueOffset(offset),
        max_messages: 32,
        max_bytes: None,
        commit: None,
        suspend: None,
        sub_version: WallTime::from_unix_millis(1),
        filter: None,
        lite: false,
        broker: None,
    }
}

/// The same, and it may wait.
pub(super) fn long_pull(offset: i64, wait: Duration) -> PullRequest {
    PullRequest {
        suspend: Some(wait),
        ..pull(offset)
    }
}

/// A message for a topic, any queue.
pub(super) fn send_to(topic: &str, properties: &str) -> SendRequest {
    SendRequest {
        kind: SendKind::Short,
        producer_group: "P".into(),
        topic: topic.into(),
        default_topic: "TBW102".into(),
        default_topic_queues: 4,
        queue: Some(QueueId(0)),
        sys_flag: 0,
        born_timestamp: WALL,
        flag: 0,
        properties: Some(properties.into()),
        reconsume_times: None,
        unit_mode: None,
        max_reconsume_times: None,
        broker: None,
        body: Bytes::from_static(b"hello"),
    }
}
