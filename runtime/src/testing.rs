//! What the tests of this crate share: small values, sockets in memory, a runtime, and a machine that
//! follows a script.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::pin::{Pin, pin};
use std::sync::{Arc, LazyLock, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures_io::{AsyncRead, AsyncWrite};
use rocketmq_consumer_core::action::Action;
use rocketmq_consumer_core::config::GroupConfig;
use rocketmq_consumer_core::event::{AppEvent, Event, Report, RunRange, Verdict};
use rocketmq_consumer_core::ids::{ConsumeId, GroupKey, MessageQueue, PhysicalOffset, QueueId, QueueOffset};
use rocketmq_consumer_core::message::{Batch, Outcome};
use rocketmq_consumer_core::notice::{Notice, NoticeKind};
use rocketmq_consumer_core::status::{Counters, Status};
use rocketmq_consumer_core::time::{Instant, WallTime};
use rocketmq_consumer_core::wire::stored::{RecordParts, Scanned, Scanner, SysFlag};
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::net::TcpStream;

use crate::driver::{Command, Inbox, Settled};
use crate::machine::Machine;
use crate::opener::Opener;
use crate::runs::Run;
use crate::runtime::Runtime;
use crate::sync::lock;

pub(crate) const fn consume_id(run: u64) -> ConsumeId {
    ConsumeId {
        group: GroupKey {
            slot: 0,
            generation: 1,
        },
        run,
    }
}

/// Messages in a [`batch`]; more than any test hands out in one run.
const BATCH_LEN: i64 = 4096;

/// A batch of empty messages, made once.
pub(crate) fn batch() -> Arc<Batch> {
    static BATCH: LazyLock<Arc<Batch>> = LazyLock::new(|| {
        let queue = MessageQueue {
            topic: "orders".into(),
            broker: "b".into(),
            id: QueueId(0),
        };
        let frame = Bytes::from((0..BATCH_LEN).flat_map(record).collect::<Vec<u8>>());
        let entries = Scanner::new(&frame)
            .map(|scanned| match scanned {
                Scanned::Message(entry) => entry,
                other => panic!("{other:?}"),
            })
            .collect();
        Arc::new(Batch::new(
            queue,
            false,
            frame,
            entries,
            QueueOffset(0),
            QueueOffset(BATCH_LEN),
        ))
    });
    Arc::clone(&BATCH)
}

/// A stored message without body and properties.
fn record(offset: i64) -> Vec<u8> {
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
    let parts = RecordParts {
        topic: "orders",
        queue_id: QueueId(0),
        flag: 0,
        queue_offset: QueueOffset(offset),
        physical_offset: PhysicalOffset(0),
        sys_flag: SysFlag(0),
        born_at: WallTime::default(),
        born_host: nowhere,
        store_at: WallTime::default(),
        store_host: nowhere,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body: b"",
        properties: "",
    };
    let mut record = Vec::new();
    parts.encode(&mut record).unwrap();
    record
}

/// Opens bodies by the default settings.
pub(crate) fn opener(inbox: &Arc<Inbox>) -> Opener {
    Opener::new(&GroupConfig::new("tests".into()), Arc::clone(inbox))
}

pub(crate) const fn range(range: Range<u32>) -> RunRange {
    RunRange {
        start: range.start,
        end: range.end,
    }
}

pub(crate) fn run(id: u64, positions: Range<u32>) -> Run {
    Run {
        id: consume_id(id),
        batch: batch(),
        range: range(positions),
        attempt: 0,
    }
}

pub(crate) const fn settled(id: u64, positions: Range<u32>, outcome: Outcome) -> Settled {
    Settled::all(consume_id(id), range(positions), Verdict::Handled(outcome))
}

pub(crate) const fn notice(at: u64) -> Notice {
    Notice {
        at: Instant::from_millis(at),
        group: None,
        repeated: 0,
        kind: NoticeKind::Ready,
    }
}

/// A frame with `len` bytes behind its two words.
pub(crate) fn frame(len: usize, fill: u8) -> Bytes {
    let mut frame = u32::try_from(len + 4).unwrap().to_be_bytes().to_vec();
    frame.resize(len + 8, fill);
    Bytes::from(frame)
}

pub(crate) fn commands(inbox: &Inbox) -> Vec<Command> {
    let mut commands = VecDeque::new();
    inbox.take(&mut commands);
    commands.into()
}

/// The reports that wait in an inbox.
pub(crate) fn reports(inbox: &Inbox) -> Vec<Settled> {
    let reports = commands(inbox).into_iter().filter_map(|command| match command {
        Command::App(AppEvent::Consumed { id, range, report }) => Some(Settled { id, range, report }),
        _ => None,
    });
    reports.collect()
}

/// Waits until `count` messages are reported and says what became of each; none may be reported twice.
pub(crate) async fn verdicts(inbox: &Inbox, count: usize) -> BTreeMap<(u64, u32), Verdict> {
    let mut known = BTreeMap::new();
    eventually(|| {
        for Settled { id, range, report } in reports(inbox) {
            let each = match report {
                Report::All(verdict) => vec![verdict; range.len() as usize],
                Report::Each(each) => each.into_vec(),
            };
            assert_eq!(each.len(), range.len() as usize, "as many outcomes as messages");
            for (position, verdict) in (range.start..).zip(each) {
                let before = known.insert((id.run, position), verdict);
                assert_eq!(before, None, "{id:?}/{position} was reported twice");
            }
        }
        (known.len() >= count).then_some(())
    })
    .await;
    known
}

pub(crate) fn now_or_never<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// Waits for what another task or thread will make true; fails the test instead of hanging.
pub(crate) async fn eventually<T>(mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..5_000 {
        if let Some(found) = look() {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("it did not happen within seconds");
}

/// Gives bytes in pieces of at most `step`, then the end.
pub(crate) struct Chunks<'a> {
    rest: &'a [u8],
    step: usize,
}

impl<'a> Chunks<'a> {
    pub(crate) const fn new(rest: &'a [u8], step: usize) -> Self {
        Self { rest, step }
    }
}

impl AsyncRead for Chunks<'_> {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        assert!(!buf.is_empty(), "an empty read looks like the end of the stream");
        let len = self.rest.len().min(self.step).min(buf.len());
        let (piece, rest) = self.rest.split_at(len);
        buf[..len].copy_from_slice(piece);
        self.rest = rest;
        Poll::Ready(Ok(len))
    }
}

/// What is written goes nowhere.
impl AsyncWrite for Chunks<'_> {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Takes at most `step` bytes at a time.
pub(crate) struct Sink {
    pub(crate) taken: Vec<u8>,
    pub(crate) flushed: bool,
    step: usize,
}

impl Sink {
    pub(crate) const fn new(step: usize) -> Self {
        Self {
            taken: Vec::new(),
            flushed: false,
            step,
        }
    }
}

impl AsyncWrite for Sink {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let len = buf.len().min(self.step);
        self.taken.extend_from_slice(&buf[..len]);
        self.flushed = false;
        Poll::Ready(Ok(len))
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.flushed = true;
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

/// tokio, as far as the tests need it; the real one lives in a crate that depends on this one.
#[derive(Clone)]
pub(crate) struct TestRuntime {
    origin: tokio::time::Instant,
}

impl Default for TestRuntime {
    fn default() -> Self {
        Self {
            origin: tokio::time::Instant::now(),
        }
    }
}

impl Runtime for TestRuntime {
    type Socket = TestSocket;
    type Sleep = tokio::time::Sleep;

    fn now(&self) -> Instant {
        Instant::from_micros(u64::try_from(self.origin.elapsed().as_micros()).unwrap())
    }

    fn wall(&self) -> WallTime {
        WallTime::from_unix_millis(1_700_000_000_000)
    }

    fn connect(&self, addr: SocketAddr) -> impl Future<Output = io::Result<TestSocket>> + Send + 'static {
        dial(addr)
    }

    fn lookup(&self, host: &str) -> impl Future<Output = io::Result<Vec<IpAddr>>> + Send + 'static {
        let found = match host {
            "two" => Ok(vec![IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 2])]),
            _ => Err(io::ErrorKind::NotFound.into()),
        };
        std::future::ready(found)
    }

    fn sleep_until(&self, at: Instant) -> tokio::time::Sleep {
        tokio::time::sleep_until(self.origin + Duration::from_micros(at.as_micros()))
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        tokio::spawn(task);
    }

    fn spawn_blocking(&self, job: impl FnOnce() + Send + 'static) {
        tokio::task::spawn_blocking(job);
    }
}

async fn dial(addr: SocketAddr) -> io::Result<TestSocket> {
    TcpStream::connect(addr).await.map(TestSocket)
}

pub(crate) struct TestSocket(TcpStream);

impl AsyncRead for TestSocket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buf = ReadBuf::new(buf);
        Pin::new(&mut self.0)
            .poll_read(cx, &mut buf)
            .map_ok(|()| buf.filled().len())
    }
}

impl AsyncWrite for TestSocket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// A machine that a test leads by hand: it keeps what it is told and does what it is given.
#[derive(Clone, Default)]
pub(crate) struct Script(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    events: VecDeque<(Instant, Event)>,
    actions: VecDeque<Action>,
    wakeup: Option<Instant>,
    status: Option<Status>,
    /// Answers an event before the test sees it.
    reflex: Option<Reflex>,
}

type Reflex = Box<dyn FnMut(&Event) -> Vec<Action> + Send>;

impl Script {
    /// Actions to take next; the driver must be woken by something else.
    pub(crate) fn act(&self, actions: impl IntoIterator<Item = Action>) {
        lock(&self.0).actions.extend(actions);
    }

    pub(crate) fn wake_at(&self, at: Option<Instant>) {
        lock(&self.0).wakeup = at;
    }

    pub(crate) fn set_status(&self, status: Status) {
        lock(&self.0).status = Some(status);
    }

    pub(crate) fn on_event(&self, reflex: impl FnMut(&Event) -> Vec<Action> + Send + 'static) {
        lock(&self.0).reflex = Some(Box::new(reflex));
    }

    pub(crate) fn try_event(&self) -> Option<Event> {
        lock(&self.0).events.pop_front().map(|(_, event)| event)
    }

    pub(crate) async fn event(&self) -> Event {
        eventually(|| self.try_event()).await
    }
}

impl Machine for Script {
    fn handle(&mut self, now: Instant, event: Event) {
        let mut state = lock(&self.0);
        if matches!(event, Event::Wakeup) {
            state.wakeup = None;
        }
        if let Some(mut reflex) = state.reflex.take() {
            let actions = reflex(&event);
            state.actions.extend(actions);
            state.reflex = Some(reflex);
        }
        state.events.push_back((now, event));
    }

    fn poll_action(&mut self) -> Option<Action> {
        lock(&self.0).actions.pop_front()
    }

    fn wakeup_at(&self) -> Option<Instant> {
        lock(&self.0).wakeup
    }

    fn status(&self) -> Status {
        lock(&self.0).status.clone().unwrap_or_else(empty_status)
    }
}

pub(crate) fn empty_status() -> Status {
    Status {
        at: Instant::ZERO,
        client_id: "test".into(),
        links: Vec::new(),
        topics: Vec::new(),
        groups: Vec::new(),
        counters: Counters::default(),
        timers: 0,
    }
}
