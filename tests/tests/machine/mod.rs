//! One consumer and the smallest world round it: a name server and a broker that answer at once. Only
//! pulls wait, to be answered by the test.
#![allow(dead_code, reason = "each suite uses another part of it")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rocketmq_consumer_core::action::{Action, AppAction, NetAction, ShutdownReport};
use rocketmq_consumer_core::config::{ClientConfig, GroupConfig, StartAt};
use rocketmq_consumer_core::consumer::ConsumerState;
use rocketmq_consumer_core::event::{AppEvent, Event, NetEvent, Report, RunRange, Verdict};
use rocketmq_consumer_core::ids::{ConnId, ConsumeId, PeerAddr, QueueId, QueueOffset};
use rocketmq_consumer_core::message::{Batch, Outcome};
use rocketmq_consumer_core::notice::NoticeKind;
use rocketmq_consumer_core::step::Seed;
use rocketmq_consumer_core::time::{Instant, WallTime};
use rocketmq_consumer_core::wire::code::{RequestCode, ResponseCode};
use rocketmq_consumer_core::wire::command::Header;
use rocketmq_consumer_core::wire::frame::{FRAME_LEN_MAX, Frame, HeaderForm};
use rocketmq_consumer_core::wire::request::heartbeat::HeartbeatAnswer;
use rocketmq_consumer_core::wire::request::members::MemberList;
use rocketmq_consumer_core::wire::request::offsets::{
    CommitOffsetRequest, OffsetAnswer, QueryOffsetRequest, StoredOffset,
};
use rocketmq_consumer_core::wire::request::pull::{PullAnswer, PullRequest, PullStatus};
use rocketmq_consumer_core::wire::request::route::{BrokerData, QueueData, TopicRoute};
use rocketmq_consumer_core::wire::request::send_back::SendBackRequest;
use rocketmq_consumer_core::wire::request::{
    Answer, Done, Request as _, decode_request, encode_answer, encode_refusal,
};

pub(crate) const TOPIC: &str = "T";
pub(crate) const BROKER_ADDR: &str = "10.1.0.1:10911";
const ME: &str = "me";

/// What is asked of the world round a machine.
pub(crate) struct Setting {
    pub(crate) queues: u32,
    pub(crate) expression: &'static str,
    /// The broker's only replica: 0 is its master.
    pub(crate) replica: i64,
    /// Where the stored offset of every queue stands; negative where none is stored.
    pub(crate) stored: i64,
    pub(crate) group: fn(&mut GroupConfig),
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            queues: 1,
            expression: "*",
            replica: 0,
            stored: 0,
            group: |_| {},
        }
    }
}

/// A pull that waits at the broker.
#[derive(Clone, Debug)]
pub(crate) struct Pull {
    pub(crate) conn: ConnId,
    pub(crate) opaque: i32,
    pub(crate) request: PullRequest,
}

/// A run that was handed out.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) id: ConsumeId,
    pub(crate) batch: Arc<Batch>,
    pub(crate) range: RunRange,
}

impl Run {
    pub(crate) fn offsets(&self) -> Vec<i64> {
        (self.range.start..self.range.end)
            .filter_map(|position| self.batch.entry(position))
            .map(|entry| entry.queue_offset().0)
            .collect()
    }
}

/// The machine, and what came out of it.
pub(crate) struct Machine {
    pub(crate) state: ConsumerState,
    pub(crate) pulls: Vec<Pull>,
    pub(crate) runs: Vec<Run>,
    /// Acknowledged commits in their order: queue and offset.
    pub(crate) commits: Vec<(i32, i64)>,
    pub(crate) backs: Vec<SendBackRequest>,
    /// How send backs are answered.
    pub(crate) back_code: ResponseCode,
    pub(crate) notices: Vec<NoticeKind>,
    pub(crate) closed: Vec<ConnId>,
    pub(crate) report: Option<ShutdownReport>,
    pub(crate) is_closed: bool,
    pub(crate) now_ms: u64,
    /// Who is in the group.
    pub(crate) members: Vec<&'static str>,
    /// Whether commits wait at the broker until [`Machine::answer_commits`].
    pub(crate) hold_commits: bool,
    held_commits: Vec<(ConnId, i32, CommitOffsetRequest)>,
    /// What the broker has stored by queue.
    pub(crate) stored: BTreeMap<i32, i64>,
    /// Where every queue ends.
    pub(crate) end: i64,
    setting: Setting,
}

impl Machine {
    /// A machine whose group owns every queue and has pulled from each.
    pub(crate) fn start(setting: Setting) -> Self {
        let client = ClientConfig::new(ME.into(), vec![PeerAddr::new("10.0.0.1", 9876)]);
        let wall = WallTime::from_unix_millis(1_700_000_000_000);
        let state = ConsumerState::new(client, Seed(1), Instant::ZERO, wall).expect("defaults are good");
        let mut group = GroupConfig::new("g".into());
        group.subscribe(TOPIC.into(), setting.expression);
        group.set_start_at(StartAt::Earliest);
        (setting.group)(&mut group);
        let mut machine = Self {
            state,
            pulls: Vec::new(),
            runs: Vec::new(),
            commits: Vec::new(),
            backs: Vec::new(),
            back_code: ResponseCode::SUCCESS,
            notices: Vec::new(),
            closed: Vec::new(),
            report: None,
            is_closed: false,
            now_ms: 0,
            members: vec![ME],
            hold_commits: false,
            held_commits: Vec::new(),
            stored: BTreeMap::new(),
            end: 100,
            setting,
        };
        machine.handle(AppEvent::StartGroup(Arc::new(group)));
        machine.pulls.sort_by_key(|pull| pull.request.queue);
        assert_eq!(
            machine.pulls.len(),
            machine.setting.queues as usize,
            "every queue is pulled"
        );
        machine
    }

    /// Hands in an event, and everything the world answers to what follows.
    pub(crate) fn handle(&mut self, event: impl Into<Event>) {
        self.state.handle(Instant::from_millis(self.now_ms), event.into());
        self.settle();
    }

    /// Lets time pass, from one deadline to the next.
    pub(crate) fn advance(&mut self, ms: u64) {
        let end = self.now_ms + ms;
        while let Some(wakeup) = self
            .state
            .poll_timeout()
            .filter(|w| w.at <= Instant::from_millis(end))
        {
            self.now_ms = wakeup.at.as_micros().div_ceil(1_000).max(self.now_ms);
            self.handle(Event::Wakeup);
        }
        self.now_ms = end;
    }

    fn settle(&mut self) {
        loop {
            while let Some(action) = self.state.poll_action() {
                self.perform(action);
            }
            let now = Instant::from_millis(self.now_ms);
            if self.state.poll_timeout().is_none_or(|wakeup| wakeup.at > now) {
                return;
            }
            self.state.handle(now, Event::Wakeup);
        }
    }

    fn perform(&mut self, action: Action) {
        let now = Instant::from_millis(self.now_ms);
        match action {
            Action::Net(NetAction::Connect { conn, .. }) => {
                self.state.handle(now, NetEvent::Connected { conn }.into());
            }
            Action::Net(NetAction::Send { conn, frame }) => {
                let bytes = u32::try_from(frame.len()).expect("frames are small");
                self.state.handle(now, NetEvent::Sent { conn, bytes }.into());
                self.on_frame(conn, frame);
            }
            Action::Net(NetAction::Close { conn }) => self.closed.push(conn),
            Action::App(AppAction::Consume { id, batch, range, .. }) => {
                self.runs.push(Run { id, batch, range });
            }
            Action::App(AppAction::Notice(notice)) => self.notices.push(notice.kind),
            Action::App(AppAction::GroupStopped { report, .. }) => self.report = Some(*report),
            Action::App(AppAction::Closed) => self.is_closed = true,
            Action::Net(_) | Action::App(_) | Action::Store(_) | _ => {}
        }
    }

    fn on_frame(&mut self, conn: ConnId, frame: Bytes) {
        let frame = Frame::parse(frame, FRAME_LEN_MAX).expect("the machine writes good frames");
        let header = Header::of(&frame).expect("with good headers");
        let opaque = header.opaque;
        match RequestCode(header.code) {
            RequestCode::GET_ROUTEINFO_BY_TOPIC if header.ext.get("topic") == Some(TOPIC) => {
                let route = self.route();
                self.answer(conn, opaque, &route);
            }
            RequestCode::GET_ROUTEINFO_BY_TOPIC => {
                self.refuse(conn, opaque, ResponseCode::TOPIC_NOT_EXIST);
            }
            RequestCode::HEART_BEAT => self.answer(conn, opaque, &HeartbeatAnswer::default()),
            RequestCode::GET_CONSUMER_LIST_BY_GROUP => {
                let client_ids = self.members.iter().map(|id| (*id).into()).collect();
                self.answer(conn, opaque, &MemberList { client_ids });
            }
            RequestCode::QUERY_CONSUMER_OFFSET => {
                let request: QueryOffsetRequest = decode_request(&frame).expect("a good request");
                let stored = self.stored.get(&request.queue.queue.0);
                let offset = stored.copied().unwrap_or(self.setting.stored);
                let offset = (offset >= 0).then_some(QueueOffset(offset));
                self.answer(conn, opaque, &StoredOffset(offset));
            }
            RequestCode::GET_MAX_OFFSET => {
                let offset = QueueOffset(self.end);
                self.answer(conn, opaque, &OffsetAnswer { offset });
            }
            RequestCode::UPDATE_CONSUMER_OFFSET => {
                let request: CommitOffsetRequest = decode_request(&frame).expect("a good request");
                self.held_commits.push((conn, opaque, request));
                if !self.hold_commits {
                    self.store_commits();
                }
            }
            RequestCode::CONSUMER_SEND_MSG_BACK => {
                self.backs.push(decode_request(&frame).expect("a good request"));
                if self.back_code == ResponseCode::SUCCESS {
                    self.answer(conn, opaque, &Done);
                } else {
                    self.refuse(conn, opaque, self.back_code);
                }
            }
            RequestCode::PULL_MESSAGE => {
                let request = PullRequest::decode(&header.ext, &frame.body).expect("a good request");
                self.pulls.push(Pull {
                    conn,
                    opaque,
                    request,
                });
            }
            _ => self.answer(conn, opaque, &Done),
        }
    }

    fn store_commits(&mut self) {
        for (conn, opaque, request) in std::mem::take(&mut self.held_commits) {
            self.stored.insert(request.queue.queue.0, request.offset.0);
            self.commits.push((request.queue.queue.0, request.offset.0));
            self.answer(conn, opaque, &Done);
        }
    }

    fn route(&self) -> TopicRoute {
        TopicRoute {
            queues: vec![QueueData {
                broker: "b".into(),
                read_queues: self.setting.queues,
                write_queues: self.setting.queues,
                perm: 6,
                topic_sys_flag: 0,
            }],
            brokers: vec![BrokerData {
                cluster: "c".into(),
                name: "b".into(),
                addresses: BTreeMap::from([(self.setting.replica, BROKER_ADDR.into())]),
                zone_name: None,
                enable_acting_master: false,
            }],
            ..TopicRoute::default()
        }
    }

    fn answer(&mut self, conn: ConnId, opaque: i32, answer: &impl Answer) {
        let bytes = encode_answer(HeaderForm::Json, opaque, answer).expect("answers are small");
        let now = Instant::from_millis(self.now_ms);
        self.state.handle(now, NetEvent::Received { conn, bytes }.into());
    }

    fn refuse(&mut self, conn: ConnId, opaque: i32, code: ResponseCode) {
        let bytes = encode_refusal(HeaderForm::Json, opaque, code, "no").expect("refusals are small");
        let now = Instant::from_millis(self.now_ms);
        self.state.handle(now, NetEvent::Received { conn, bytes }.into());
    }

    // ---- what a test does -----------------------------------------------------------------------

    /// The broker's connection sends these bytes.
    pub(crate) fn receive(&mut self, conn: ConnId, bytes: Bytes) {
        self.handle(NetEvent::Received { conn, bytes });
    }

    /// The oldest pull is answered.
    pub(crate) fn answer_pull(&mut self, status: PullStatus, next: i64, records: &[Vec<u8>]) {
        let pull = self.pulls.remove(0);
        self.receive(pull.conn, pull_answer(pull.opaque, status, next, records));
    }

    /// Commits wait no longer.
    pub(crate) fn answer_commits(&mut self) {
        self.hold_commits = false;
        self.store_commits();
        self.settle();
    }

    /// The oldest run is reported as a whole.
    pub(crate) fn report(&mut self, outcome: Outcome) {
        let run = self.runs.remove(0);
        self.handle(AppEvent::Consumed {
            id: run.id,
            range: run.range,
            report: Report::All(Verdict::Handled(outcome)),
        });
    }

    /// The offsets that were handed out and not reported.
    pub(crate) fn delivered(&self) -> Vec<i64> {
        self.runs.iter().flat_map(Run::offsets).collect()
    }

    pub(crate) fn shut_down(&mut self, drain: Duration) {
        self.handle(AppEvent::Shutdown { drain });
    }

    pub(crate) fn broker_link(&self) -> rocketmq_consumer_core::status::LinkStatus {
        let links = self.state.status().links;
        let broker: PeerAddr = BROKER_ADDR.parse().expect("an address");
        links
            .into_iter()
            .find(|link| link.addr == broker)
            .expect("the broker is known")
    }
}

/// The frame that answers a pull.
pub(crate) fn pull_answer(opaque: i32, status: PullStatus, next: i64, records: &[Vec<u8>]) -> Bytes {
    let answer = PullAnswer {
        status,
        next_begin_offset: QueueOffset(next),
        min_offset: Some(QueueOffset(0)),
        max_offset: Some(QueueOffset(next)),
        suggest_broker_id: Some(0),
        offset_delta: None,
        messages: records.concat().into(),
    };
    encode_answer(HeaderForm::Json, opaque, &answer).expect("answers are small")
}

/// A stored message of the topic.
pub(crate) fn record(queue: QueueId, offset: i64, tag: &str, body: &[u8]) -> Vec<u8> {
    let properties = format!("TAGS\u{1}{tag}\u{2}");
    let mut out = vec![0; 4];
    out.extend(0xDAA3_20A7_u32.to_be_bytes());
    out.extend((crc32fast::hash(body) & 0x7FFF_FFFF).to_be_bytes());
    out.extend(queue.0.to_be_bytes());
    out.extend([0; 4]);
    out.extend(offset.to_be_bytes());
    out.extend((offset * 1_000).to_be_bytes());
    out.extend([0; 4 + 8 + 8 + 8 + 8 + 4 + 8]);
    out.extend(u32::try_from(body.len()).expect("bodies are small").to_be_bytes());
    out.extend(body);
    out.push(1);
    out.extend(TOPIC.as_bytes());
    out.extend(
        u16::try_from(properties.len())
            .expect("properties are small")
            .to_be_bytes(),
    );
    out.extend(properties.as_bytes());
    let len = u32::try_from(out.len()).expect("records are small");
    out[..4].copy_from_slice(&len.to_be_bytes());
    out
}

/// Bytes written in hexadecimal digits.
pub(crate) fn hex(text: &str) -> Bytes {
    let digits: Vec<u8> = text
        .chars()
        .map(|digit| u8::try_from(digit.to_digit(16).expect("a hexadecimal digit")).expect("below 16"))
        .collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}
