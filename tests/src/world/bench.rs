mod operator;
mod polite;
mod storing;

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rocketmq_consumer_core::action::{AppAction, ShutdownReport};
use rocketmq_consumer_core::config::{ClientConfig, GroupConfig, StartAt};
use rocketmq_consumer_core::consumer::{ConsumerState, Wakeup};
use rocketmq_consumer_core::event::{AppEvent, Event, NetCause, NetEvent, Report, RunRange, Verdict};
use rocketmq_consumer_core::ids::{ClientId, ConnId, ConsumeId, MessageQueue, PeerAddr, QueueOffset, Topic};
use rocketmq_consumer_core::message::{Batch, Message, Outcome};
use rocketmq_consumer_core::notice::{Notice, NoticeKind};
use rocketmq_consumer_core::status::{LinkState, QueueStatus, Status};
use rocketmq_consumer_core::step::Seed;
use rocketmq_consumer_core::time::Instant;
use rocketmq_consumer_core::wire::code::{RequestCode, ResponseCode};
use rocketmq_consumer_core::wire::frame::{Frame, HeaderForm};
use rocketmq_consumer_core::wire::request::members::MembersChanged;
use rocketmq_consumer_core::wire::request::pull::{PullAnswer, PullRequest, PullStatus};
use rocketmq_consumer_core::wire::request::route::TopicRoute;
use rocketmq_consumer_core::wire::request::{Answer, encode_request};

use super::ORIGIN;
use super::asked::Asked;
use super::cluster::queue;
use super::peer::Dial;
use super::recorder::Recorder;
use super::stored::{StoredMessage, records};
use storing::Shelf;

/// How long a broker holds a pull.
const HOLD: Duration = Duration::from_secs(15);

/// A run of messages the machine has handed out.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its name.
    pub id: ConsumeId,
    /// The batch.
    pub batch: Arc<Batch>,
    /// Which part of it.
    pub range: RunRange,
    /// How often it was delivered before.
    pub attempt: u32,
}

impl Run {
    /// The offsets of its messages.
    #[must_use]
    pub fn offsets(&self) -> Vec<i64> {
        let messages = (self.range.start..self.range.end).filter_map(|position| {
            let message = Message::new(Arc::clone(&self.batch), position)?;
            Some(message.queue_offset().0)
        });
        messages.collect()
    }
}

/// One machine on a bench: nothing happens to it but what the test does.
///
/// Peers are as quick and polite as the test wants them: requests of a kind they serve, see
/// [`Bench::serve`], are answered at once; the others wait in the order they came until the test takes
/// them with [`Bench::expect_request`]. All of them are found again in [`Bench::sent`].
#[derive(Debug)]
pub struct Bench {
    machine: Recorder,
    now: Instant,
    id: ClientId,
    serving: BTreeSet<RequestCode>,
    refusing: BTreeMap<RequestCode, ResponseCode>,
    dial: Dial,
    /// Addresses at which nobody listens.
    deserted: BTreeSet<PeerAddr>,
    routes: BTreeMap<Topic, TopicRoute>,
    members: Vec<ClientId>,
    stored: BTreeMap<(Topic, i32), i64>,
    /// Queues that another member has locked.
    locked: BTreeSet<MessageQueue>,
    links: BTreeMap<ConnId, PeerAddr>,
    standing: BTreeSet<ConnId>,
    dialled: Vec<(Instant, ConnId, PeerAddr)>,
    waiting: Vec<Asked>,
    sent: Vec<Asked>,
    runs: Vec<Run>,
    notices: Vec<Notice>,
    told: Vec<AppAction>,
    shelf: Shelf,
    /// Answers of the machine to what brokers asked, and how often they did.
    answers: Vec<Frame>,
    asked_of_member: i32,
}

impl Bench {
    /// A machine with the group `G`, starting at the earliest message; `set_up` subscribes and
    /// changes what it likes. It has been told to start; nothing was answered yet. Routes, heartbeats,
    /// member lists, queries for stored and for lowest offsets, commits, locks and good-byes are answered at once,
    /// everything else waits.
    #[must_use]
    pub fn new(set_up: impl FnOnce(&mut ClientConfig, &mut GroupConfig)) -> Self {
        let mut client = ClientConfig::new("c1".into(), vec![PeerAddr::new("10.0.1.1", 9876)]);
        let mut group = GroupConfig::new("G".into());
        group.set_start_at(StartAt::Earliest);
        set_up(&mut client, &mut group);
        let id = client.client_id().clone();
        let mut bench = Self {
            machine: Recorder::new(client, Seed(1), Instant::ZERO, ORIGIN),
            now: Instant::ZERO,
            members: vec![id.clone()],
            id,
            serving: [
                RequestCode::GET_ROUTEINFO_BY_TOPIC,
                RequestCode::HEART_BEAT,
                RequestCode::GET_CONSUMER_LIST_BY_GROUP,
                RequestCode::QUERY_CONSUMER_OFFSET,
                RequestCode::UPDATE_CONSUMER_OFFSET,
                RequestCode::GET_MIN_OFFSET,
                RequestCode::UNREGISTER_CLIENT,
                RequestCode::LOCK_BATCH_MQ,
                RequestCode::UNLOCK_BATCH_MQ,
            ]
            .into(),
            refusing: BTreeMap::new(),
            dial: Dial::Accept,
            deserted: BTreeSet::new(),
            routes: BTreeMap::new(),
            stored: BTreeMap::new(),
            locked: BTreeSet::new(),
            links: BTreeMap::new(),
            standing: BTreeSet::new(),
            dialled: Vec::new(),
            waiting: Vec::new(),
            sent: Vec::new(),
            runs: Vec::new(),
            notices: Vec::new(),
            told: Vec::new(),
            shelf: Shelf::default(),
            answers: Vec::new(),
            asked_of_member: 0,
        };
        bench.set_queues("T", &[("a", 1)]);
        bench.feed_alone(AppEvent::StartGroup(Arc::new(group)).into());
        bench
    }

    /// A machine that owns queue 0 of topic `T` on broker `a`, where this offset is stored, and has
    /// sent its first pull.
    #[must_use]
    pub fn owning_one_queue(stored: i64, set_up: impl FnOnce(&mut ClientConfig, &mut GroupConfig)) -> Self {
        let mut bench = Self::new(|client, group| {
            group.subscribe("T".into(), "*");
            set_up(client, group);
        });
        bench.store("T", 0, stored);
        bench.settle();
        bench
    }

    // ---- events ---------------------------------------------------------------------------------

    /// What time it is.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Feeds an event now and carries out what follows, peers included.
    pub fn feed(&mut self, event: impl Into<Event>) {
        self.feed_alone(event.into());
        self.settle();
    }

    /// Feeds an event of the application.
    pub fn tell(&mut self, event: AppEvent) {
        self.feed(event);
    }

    /// Time passes without anybody noticing.
    pub fn skip(&mut self, time: Duration) {
        self.now = self.now + time;
    }

    /// Time passes, and the machine is woken whenever it wants to be.
    ///
    /// # Panics
    /// When it wants to be woken again and again at one moment.
    pub fn sleep(&mut self, time: Duration) {
        self.settle();
        let until = self.now + time;
        let mut at_once = 0;
        while let Some(Wakeup { at, .. }) = self.wakeup().filter(|wakeup| wakeup.at <= until) {
            at_once = if at > self.now { 0 } else { at_once + 1 };
            assert!(
                at_once < 1_000,
                "woken without end at {at:?}: {:?}",
                self.wakeup()
            );
            self.now = self.now.max(at);
            self.feed(Event::Wakeup);
        }
        self.now = until;
    }

    /// Time passes in which the brokers answer pulls with nothing at the end of their hold, so that
    /// links stay busy.
    pub fn idle(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            let second = Duration::from_secs(1);
            self.sleep(second.min(until.saturating_since(self.now)));
            let over = |asked: &&Asked| {
                let pull = asked.code == RequestCode::PULL_MESSAGE;
                pull && self.now >= asked.at + HOLD
            };
            let over: Vec<_> = self.waiting.iter().filter(over).cloned().collect();
            for pull in over {
                self.waiting.retain(|asked| asked != &pull);
                let next = pull.request::<PullRequest>().offset.0;
                self.nothing(&pull, PullStatus::NotFound, next);
            }
        }
    }

    /// When the machine wants to be woken, and why.
    #[must_use]
    pub fn wakeup(&self) -> Option<Wakeup> {
        self.machine.state().poll_timeout()
    }

    /// Answers a request.
    pub fn answer<A: Answer>(&mut self, asked: &Asked, answer: &A) {
        self.receive(asked.link.conn, asked.answered(answer));
    }

    /// Refuses a request.
    pub fn refuse(&mut self, asked: &Asked, code: ResponseCode, remark: &str) {
        self.receive(asked.link.conn, asked.refused(code, remark));
    }

    /// Answers a pull with these messages; the next pull starts at `next`.
    pub fn found(&mut self, pull: &Asked, messages: &[StoredMessage], next: i64) {
        let answer = pull_answer(PullStatus::Found, next, records(messages));
        self.answer(pull, &answer);
    }

    /// Answers a pull with messages at these offsets, in this order, each with a body of this length.
    pub fn found_at(&mut self, pull: &Asked, offsets: impl IntoIterator<Item = i64>, body: usize, next: i64) {
        let request: PullRequest = pull.request();
        let queue = queue(request.topic.as_str(), "a", request.queue.0);
        let body = Bytes::from(vec![b'x'; body]);
        let message = |offset| StoredMessage::new(queue.clone(), offset, body.clone(), "");
        let messages: Vec<_> = offsets.into_iter().map(message).collect();
        self.found(pull, &messages, next);
    }

    /// Answers a pull that found nothing.
    pub fn nothing(&mut self, pull: &Asked, status: PullStatus, next: i64) {
        self.answer(pull, &pull_answer(status, next, Bytes::new()));
    }

    /// Answers a pull with an operator's reset.
    pub fn reset(&mut self, pull: &Asked, to: i64) {
        let moved = pull_answer(PullStatus::OffsetMoved, to, Bytes::new());
        self.answer(pull, &PullAnswer { reset: true, ..moved });
    }

    /// The broker says that the members of the group have changed.
    pub fn notify(&mut self, broker: &str) {
        let word = MembersChanged { group: "G".into() };
        let frame = encode_request(HeaderForm::Json, 0, true, &word).expect("a small request");
        let conn = self.conn_to(&address(broker));
        self.receive(conn, frame);
    }

    /// Bytes arrive on a connection.
    pub fn receive(&mut self, conn: ConnId, bytes: Bytes) {
        self.feed(NetEvent::Received { conn, bytes });
    }

    /// Breaks a connection.
    pub fn close(&mut self, conn: ConnId) {
        self.links.remove(&conn);
        self.standing.remove(&conn);
        self.waiting.retain(|asked| asked.link.conn != conn);
        let cause = NetCause::Reset;
        self.feed(NetEvent::Closed { conn, cause });
    }

    /// The process at an address dies: its connections break, and it takes no new ones.
    pub fn kill(&mut self, addr: &PeerAddr) {
        self.deserted.insert(addr.clone());
        let broken: Vec<ConnId> = self
            .links
            .iter()
            .filter(|(_, to)| *to == addr)
            .map(|(conn, _)| *conn)
            .collect();
        for conn in broken {
            self.close(conn);
        }
    }

    /// It runs again.
    pub fn revive(&mut self, addr: &PeerAddr) {
        self.deserted.remove(addr);
    }

    /// The handlers of a run report the same for all its messages.
    pub fn report(&mut self, run: &Run, verdict: Verdict) {
        self.report_part(run, run.range, verdict);
    }

    /// The handlers of a run succeed.
    pub fn done(&mut self, run: &Run) {
        self.report(run, Verdict::Handled(Outcome::Done));
    }

    /// The handlers of a part of a run report.
    pub fn report_part(&mut self, run: &Run, range: RunRange, verdict: Verdict) {
        let (id, report) = (run.id, Report::All(verdict));
        self.tell(AppEvent::Consumed { id, range, report });
    }

    // ---- what came of it ------------------------------------------------------------------------

    /// Takes the oldest waiting request of a kind.
    ///
    /// # Panics
    /// When there is none.
    pub fn expect_request(&mut self, code: RequestCode) -> Asked {
        let codes: Vec<_> = self.waiting.iter().map(|asked| asked.code).collect();
        let found = self.waiting.iter().position(|asked| asked.code == code);
        self.waiting
            .remove(found.unwrap_or_else(|| panic!("no {code} among {codes:?} at {:?}", self.now)))
    }

    /// Takes the oldest waiting pull and what it asks for.
    pub fn expect_pull(&mut self) -> (Asked, PullRequest) {
        let asked = self.expect_request(RequestCode::PULL_MESSAGE);
        let request = asked.request();
        (asked, request)
    }

    /// Requests of a kind that wait for the test.
    #[must_use]
    pub fn outstanding(&self, code: RequestCode) -> Vec<&Asked> {
        self.waiting.iter().filter(|asked| asked.code == code).collect()
    }

    /// Forgets waiting requests of a kind without an answer; returns them.
    pub fn drop_requests(&mut self, code: RequestCode) -> Vec<Asked> {
        let (gone, kept) = mem::take(&mut self.waiting)
            .into_iter()
            .partition(|asked| asked.code == code);
        self.waiting = kept;
        gone
    }

    /// These wait for the test again.
    pub fn put_back(&mut self, requests: Vec<Asked>) {
        self.waiting.extend(requests);
    }

    /// Everything of a kind that was ever sent.
    #[must_use]
    pub fn sent(&self, code: RequestCode) -> Vec<&Asked> {
        self.sent.iter().filter(|asked| asked.code == code).collect()
    }

    /// Everything that was ever sent.
    #[must_use]
    pub fn all_sent(&self) -> &[Asked] {
        &self.sent
    }

    /// Every attempt to connect.
    #[must_use]
    pub fn dialled(&self) -> &[(Instant, ConnId, PeerAddr)] {
        &self.dialled
    }

    /// Takes the one run that was handed out since the last call.
    ///
    /// # Panics
    /// When it was none, or more than one.
    pub fn take_run(&mut self) -> Run {
        let mut runs = self.take_runs();
        assert_eq!(runs.len(), 1, "{runs:?}");
        runs.remove(0)
    }

    /// Takes the runs that were handed out since the last call.
    pub fn take_runs(&mut self) -> Vec<Run> {
        mem::take(&mut self.runs)
    }

    /// What was told worth knowing.
    #[must_use]
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// How many notices there are of a kind.
    #[must_use]
    pub fn count_notices(&self, wanted: impl Fn(&NoticeKind) -> bool) -> usize {
        self.notices.iter().filter(|notice| wanted(&notice.kind)).count()
    }

    /// What else the application was told.
    #[must_use]
    pub fn told(&self) -> &[AppAction] {
        &self.told
    }

    /// How the group ended, once it has.
    #[must_use]
    pub fn report_of_end(&self) -> Option<&ShutdownReport> {
        self.told.iter().find_map(|action| {
            if let AppAction::GroupStopped { report, .. } = action {
                Some(&**report)
            } else {
                None
            }
        })
    }

    /// Whether the machine has closed everything.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.told.last() == Some(&AppAction::Closed)
    }

    /// The machine with its record.
    #[must_use]
    pub const fn machine(&self) -> &Recorder {
        &self.machine
    }

    /// The machine.
    #[must_use]
    pub const fn state(&self) -> &ConsumerState {
        self.machine.state()
    }

    /// The machine's own account of itself.
    #[must_use]
    pub fn status(&self) -> Status {
        self.state().status()
    }

    /// Queue `id` of topic `T` on broker `a`, in its newest ownership.
    #[must_use]
    pub fn queue(&self, id: i32) -> Option<QueueStatus> {
        let wanted = queue("T", "a", id);
        let status = self.status();
        let queues = status.groups.into_iter().flat_map(|group| group.queues);
        queues
            .filter(|status| status.queue == wanted)
            .max_by_key(|status| status.epoch)
    }

    /// Connections that stand, by address.
    #[must_use]
    pub fn connections(&self) -> Vec<(ConnId, PeerAddr)> {
        let standing = self.links.iter().filter(|(conn, _)| self.standing.contains(conn));
        standing.map(|(conn, addr)| (*conn, addr.clone())).collect()
    }

    /// The connection that leads to an address.
    ///
    /// # Panics
    /// When none stands.
    #[must_use]
    pub fn conn_to(&self, addr: &PeerAddr) -> ConnId {
        let found = self.connections().into_iter().find(|(_, to)| to == addr);
        found.unwrap_or_else(|| panic!("no connection to {addr}")).0
    }

    /// Whether the machine thinks that a link stands.
    #[must_use]
    pub fn link_state(&self, addr: &PeerAddr) -> Option<LinkState> {
        let links = self.status().links;
        links
            .into_iter()
            .find(|link| &link.addr == addr)
            .map(|link| link.state)
    }
}

/// The address of a broker with a name of one letter: `a` is 10.0.0.1.
#[must_use]
pub fn address(broker: &str) -> PeerAddr {
    let letter = broker.bytes().next().unwrap_or(b'a');
    let number = letter.wrapping_sub(b'a').wrapping_add(1);
    PeerAddr::new(format!("10.0.0.{number}"), 10911)
}

/// An answer to a pull, for a queue from 0 to far away.
#[must_use]
pub fn pull_answer(status: PullStatus, next: i64, messages: Bytes) -> PullAnswer {
    PullAnswer {
        status,
        next_begin_offset: QueueOffset(next),
        min_offset: Some(QueueOffset(0)),
        max_offset: Some(QueueOffset(next.saturating_add(1_000_000))),
        suggest_broker_id: Some(0),
        offset_delta: None,
        reset: false,
        messages,
    }
}
