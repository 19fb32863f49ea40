//! What the tests of rules feed them with: one member, one queue, and a world that says what it is told to say.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use rocketmq_consumer_core::action::ShutdownReport;
use rocketmq_consumer_core::config::GroupConfig;
use rocketmq_consumer_core::event::{RunRange, Verdict};
use rocketmq_consumer_core::ids::{
    BrokerName, ConnId, ConsumeId, ConsumerGroup, Epoch, GroupKey, MessageQueue, PeerAddr, PhysicalOffset,
    QueueId, QueueOffset,
};
use rocketmq_consumer_core::message::{Batch, OrderlyOutcome, Outcome};
use rocketmq_consumer_core::notice::{Notice, NoticeKind};
use rocketmq_consumer_core::status::{
    Counters, FlowStatus, GroupPhase, GroupStatus, LinkState, LinkStatus, QueueState, QueueStatus, Status,
};
use rocketmq_consumer_core::time::Instant;
use rocketmq_consumer_core::wire::code::RequestCode;
use rocketmq_consumer_core::wire::request::pull::PullStatus;
use rocketmq_consumer_core::wire::stored::{Scanned, Scanner};

use crate::sim::invariant::{Allowances, Broken, Invariant, View};
use crate::sim::seen::{
    Answer, Ask, BrokerDeed, Deed, GroupNo, Kind, Life, MemberId, NodeNo, QueueNo, Seen, Sight, Upheaval,
    What,
};
use crate::sim::tenures::Tenures;

const LIFE: Life = Life(0);
const GROUP: GroupNo = GroupNo(0);
pub(in crate::sim) const QUEUE: QueueNo = QueueNo(0);
const NODE: NodeNo = NodeNo(1);

/// A stored message of queue 0 with a body of one byte and no properties; its place in the log is 1000 times
/// its offset.
pub(in crate::sim) fn record(offset: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for value in [0, 0xDAA3_20A7_u32.cast_signed(), 0, 0, 0] {
        bytes.extend(value.to_be_bytes());
    }
    bytes.extend(offset.to_be_bytes());
    bytes.extend((offset * 1_000).to_be_bytes());
    bytes.extend(0_i32.to_be_bytes());
    for _ in 0..2 {
        bytes.extend(0_i64.to_be_bytes());
        bytes.extend([127, 0, 0, 1, 0, 0, 0, 1]);
    }
    bytes.extend(0_i32.to_be_bytes());
    bytes.extend(0_i64.to_be_bytes());
    bytes.extend(1_i32.to_be_bytes());
    bytes.push(b'x');
    bytes.extend([1, b'T', 0, 0]);
    let len = i32::try_from(bytes.len()).unwrap();
    bytes[..4].copy_from_slice(&len.to_be_bytes());
    bytes
}

fn records(offsets: Range<i64>) -> Bytes {
    offsets.flat_map(record).collect::<Vec<u8>>().into()
}

pub(in crate::sim) const fn retry() -> Verdict {
    Verdict::Handled(Outcome::Retry)
}

pub(in crate::sim) const fn run_id(run: u64) -> ConsumeId {
    ConsumeId {
        group: GroupKey {
            slot: 0,
            generation: 1,
        },
        run,
    }
}

/// What the rules can look up.
#[derive(Debug)]
pub(in crate::sim) struct World {
    queue: MessageQueue,
    retry_queue: MessageQueue,
    group: ConsumerGroup,
    pub(in crate::sim) config: GroupConfig,
    pub(in crate::sim) alive: Vec<Life>,
    pub(in crate::sim) committed: Option<QueueOffset>,
    pub(in crate::sim) max: QueueOffset,
    pub(in crate::sim) status: Option<Status>,
    pub(in crate::sim) allowances: Allowances,
    /// Which replica every node is.
    pub(in crate::sim) replica: i64,
    tenures: Tenures,
}

impl World {
    pub(in crate::sim) fn new() -> Self {
        let queue = |topic: &str| MessageQueue {
            topic: topic.into(),
            broker: "a".into(),
            id: QueueId(0),
        };
        let mut config = GroupConfig::new("G".into());
        config.subscribe("T".into(), "*");
        Self {
            queue: queue("T"),
            retry_queue: queue("%DLQ%G"),
            group: "G".into(),
            config,
            alive: vec![LIFE],
            committed: None,
            max: QueueOffset(0),
            status: None,
            allowances: Allowances::default(),
            replica: 0,
            tenures: Tenures::default(),
        }
    }
}

/// Whose word it is that an offset moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) enum Mover {
    Master,
    Slave,
    /// A master's that tells of an operator's reset.
    Reset,
}

impl View for World {
    fn queue(&self, queue: QueueNo) -> &MessageQueue {
        if queue == QUEUE {
            &self.queue
        } else {
            &self.retry_queue
        }
    }

    fn group(&self, _: GroupNo) -> &ConsumerGroup {
        &self.group
    }

    fn config(&self, _: Life) -> &GroupConfig {
        &self.config
    }

    fn tenures(&self) -> &Tenures {
        &self.tenures
    }

    fn is_wanted(&self, _: GroupNo, _: QueueNo) -> bool {
        true
    }

    fn wants(&self, _: GroupNo, _: u32) -> bool {
        true
    }

    fn origin(&self, _: QueueNo, offset: QueueOffset) -> Option<u32> {
        u32::try_from(offset.0).ok()
    }

    fn alive(&self) -> &[Life] {
        &self.alive
    }

    fn queues_of(&self, _: GroupNo) -> Vec<QueueNo> {
        vec![QUEUE]
    }

    fn committed(&self, _: GroupNo, _: QueueNo) -> Option<QueueOffset> {
        self.committed
    }

    fn max_offset(&self, _: QueueNo) -> QueueOffset {
        self.max
    }

    fn replica(&self, _: NodeNo) -> Option<i64> {
        Some(self.replica)
    }

    fn broker_at(&self, _: &PeerAddr) -> Option<&BrokerName> {
        Some(&self.queue.broker)
    }

    fn status(&self, _: Life) -> Option<Status> {
        self.status.clone()
    }

    fn allowances(&self) -> Allowances {
        self.allowances
    }
}

/// A rule, and one member that does what a test says.
#[derive(Debug)]
pub(in crate::sim) struct Bench<I> {
    pub(in crate::sim) rule: I,
    pub(in crate::sim) world: World,
    at: Instant,
    life: Life,
    conn: ConnId,
    opaque: i32,
    asked: BTreeMap<i32, Ask>,
    /// The numbers of the pulls, in order.
    pulls: Vec<i32>,
    broken: Option<Broken>,
}

impl<I: Invariant + Debug> Bench<I> {
    pub(in crate::sim) fn new(rule: I) -> Self {
        Self {
            rule,
            world: World::new(),
            at: Instant::ZERO,
            life: LIFE,
            conn: ConnId {
                slot: 0,
                generation: 1,
            },
            opaque: 0,
            asked: BTreeMap::new(),
            pulls: Vec::new(),
            broken: None,
        }
    }

    /// Nothing is broken so far.
    #[track_caller]
    pub(in crate::sim) fn legal(&mut self) -> &mut Self {
        assert_eq!(self.broken, None);
        self
    }

    /// The last thing broke the rule, and the words say so.
    #[track_caller]
    pub(in crate::sim) fn breaks(&mut self, word: &str) {
        let broken = self.broken.take().expect("the rule should have been broken");
        assert!(broken.0.contains(word), "{broken}");
    }

    #[track_caller]
    fn show(&mut self, what: What<'_>) -> &mut Self {
        assert_eq!(self.broken, None, "broken earlier than expected");
        let seen = Seen { at: self.at, what };
        self.world.tenures.begin(&seen);
        if self.rule.looks_at().has(Sight::of(&what)) {
            self.broken = self.rule.see(&seen, &self.world).err();
        }
        self.world.tenures.end(&seen);
        self
    }

    #[track_caller]
    pub(in crate::sim) fn deed(&mut self, deed: Deed<'_>) -> &mut Self {
        let life = self.life;
        self.show(What::Member { life, deed })
    }

    #[track_caller]
    pub(in crate::sim) fn broker(&mut self, deed: BrokerDeed) -> &mut Self {
        self.show(What::Broker(deed))
    }

    /// It is now this many milliseconds after the start.
    pub(in crate::sim) fn at(&mut self, ms: u64) -> &mut Self {
        self.at = Instant::from_millis(ms);
        self
    }

    #[track_caller]
    fn begin(&mut self, kind: Kind) -> &mut Self {
        self.deed(Deed::Begun {
            member: MemberId(self.life.0),
            kind,
            group: GROUP,
        })
    }

    #[track_caller]
    pub(in crate::sim) fn ours(&mut self) -> &mut Self {
        self.begin(Kind::Ours)
    }

    #[track_caller]
    pub(in crate::sim) fn java(&mut self) -> &mut Self {
        self.begin(Kind::Java)
    }

    /// Another member does what follows.
    pub(in crate::sim) fn as_life(&mut self, life: u32) -> &mut Self {
        self.life = Life(life);
        self
    }

    #[track_caller]
    pub(in crate::sim) fn assign(&mut self, epoch: u64, from: i64) -> &mut Self {
        self.deed(Deed::Assigned {
            group: GROUP,
            queue: QUEUE,
            epoch: Epoch(epoch),
            from: QueueOffset(from),
        })
    }

    #[track_caller]
    pub(in crate::sim) fn revoke(&mut self, epoch: u64) -> &mut Self {
        self.deed(Deed::Revoked {
            group: GROUP,
            queue: QUEUE,
            epoch: Epoch(epoch),
            committed: None,
        })
    }

    #[track_caller]
    pub(in crate::sim) fn deliver(&mut self, run: u64, offsets: Range<i64>) -> &mut Self {
        self.deliver_again(run, offsets, 0)
    }

    #[track_caller]
    pub(in crate::sim) fn deliver_again(&mut self, run: u64, offsets: Range<i64>, attempt: u32) -> &mut Self {
        let len = u32::try_from(offsets.end - offsets.start).unwrap();
        let body = records(offsets);
        let entries = Scanner::new(&body).filter_map(|scanned| match scanned {
            Scanned::Message(entry) => Some(entry),
            Scanned::Undecodable(_) | Scanned::Broken { .. } => None,
        });
        let entries = entries.collect();
        let (min, max) = (QueueOffset(0), QueueOffset(1_000));
        let batch = Batch::new(self.world.queue.clone(), false, body.clone(), entries, min, max);
        self.deed(Deed::Delivered {
            group: GROUP,
            queue: QUEUE,
            run: run_id(run),
            batch: &batch,
            range: RunRange { start: 0, end: len },
            attempt,
        })
    }

    #[track_caller]
    pub(in crate::sim) fn withdraw(&mut self, run: u64) -> &mut Self {
        self.deed(Deed::Withdrawn { run: run_id(run) })
    }

    #[track_caller]
    pub(in crate::sim) fn settle(&mut self, run: u64, offset: i64, verdict: Verdict) -> &mut Self {
        self.deed(Deed::Settled {
            group: GROUP,
            queue: QUEUE,
            offset: QueueOffset(offset),
            run: run_id(run),
            position: 0,
            verdict,
        })
    }

    #[track_caller]
    pub(in crate::sim) fn done(&mut self, run: u64, offset: i64) -> &mut Self {
        self.settle(run, offset, Verdict::Handled(Outcome::Done))
    }

    /// A handler that consumes in order has ended.
    #[track_caller]
    pub(in crate::sim) fn ordered(&mut self, run: u64, offset: i64, outcome: OrderlyOutcome) -> &mut Self {
        self.settle(run, offset, Verdict::Ordered(outcome))
    }

    #[track_caller]
    pub(in crate::sim) fn locking(&mut self) -> &mut Self {
        let (group, queue) = (GROUP, QUEUE);
        self.ask(Ask::Lock { group }).deed(Deed::Locking { group, queue })
    }

    #[track_caller]
    pub(in crate::sim) fn unlocking(&mut self) -> &mut Self {
        let (group, queue) = (GROUP, QUEUE);
        self.ask(Ask::Unlock { group })
            .deed(Deed::Unlocking { group, queue })
    }

    /// The answer to a lock request that was written then.
    #[track_caller]
    pub(in crate::sim) fn locked(&mut self, granted: bool, asked_ms: u64) -> &mut Self {
        self.deed(Deed::Locked {
            group: GROUP,
            queue: QUEUE,
            granted,
            asked_at: Instant::from_millis(asked_ms),
        })
    }

    /// The broker has heard of an unlocking.
    #[track_caller]
    pub(in crate::sim) fn unlocked(&mut self) -> &mut Self {
        let member = Some(MemberId(self.life.0));
        self.broker(BrokerDeed::Unlocked {
            group: GROUP,
            queue: QUEUE,
            member,
        })
    }

    #[track_caller]
    pub(in crate::sim) fn upheaval(&mut self, upheaval: Upheaval) -> &mut Self {
        self.show(What::Fault(upheaval))
    }

    #[track_caller]
    pub(in crate::sim) fn ask(&mut self, ask: Ask) -> &mut Self {
        self.opaque += 1;
        self.ask_as(self.opaque, ask)
    }

    #[track_caller]
    pub(in crate::sim) fn ask_as(&mut self, opaque: i32, ask: Ask) -> &mut Self {
        self.asked.insert(opaque, ask);
        self.deed(Deed::Asked {
            conn: self.conn,
            node: NODE,
            opaque,
            oneway: false,
            ask,
        })
    }

    #[track_caller]
    pub(in crate::sim) fn commit(&mut self, offset: i64) -> &mut Self {
        self.ask(Ask::Commit {
            group: GROUP,
            queue: QUEUE,
            offset: QueueOffset(offset),
        })
    }

    #[track_caller]
    pub(in crate::sim) fn pull(&mut self, offset: i64, commit: Option<i64>) -> &mut Self {
        self.pulls.push(self.opaque + 1);
        self.ask(Ask::Pull {
            group: GROUP,
            queue: QUEUE,
            offset: QueueOffset(offset),
            max: 32,
            commit: commit.map(QueueOffset),
            hold: Duration::from_secs(15),
        })
    }

    #[track_caller]
    pub(in crate::sim) fn heartbeat(&mut self) -> &mut Self {
        self.ask(Ask::Heartbeat)
    }

    #[track_caller]
    pub(in crate::sim) fn unregister(&mut self) -> &mut Self {
        self.ask(Ask::Unregister { group: None })
    }

    #[track_caller]
    pub(in crate::sim) fn query(&mut self) -> &mut Self {
        self.ask(Ask::QueryOffset {
            group: GROUP,
            queue: QUEUE,
        })
    }

    #[track_caller]
    pub(in crate::sim) fn send_back(&mut self, offset: i64) -> &mut Self {
        self.ask(Ask::SendBack {
            group: GROUP,
            physical: PhysicalOffset(offset * 1_000),
            delay_level: 0,
        })
    }

    /// A copy of the message at an offset is to be stored.
    #[track_caller]
    pub(in crate::sim) fn copy(&mut self, offset: i64) -> &mut Self {
        self.ask(Ask::Copy {
            group: GROUP,
            origin: u32::try_from(offset).unwrap(),
            dead: false,
        })
    }

    #[track_caller]
    pub(in crate::sim) fn answer(&mut self, opaque: i32, answer: Answer<'_>) -> &mut Self {
        let asked = self.asked[&opaque];
        self.deed(Deed::Answered {
            conn: self.conn,
            opaque,
            asked: &asked,
            answer,
        })
    }

    /// The last request is answered.
    #[track_caller]
    pub(in crate::sim) fn answer_last(&mut self, answer: Answer<'_>) -> &mut Self {
        self.answer(self.opaque, answer)
    }

    #[track_caller]
    pub(in crate::sim) fn stored(&mut self, offset: Option<i64>) -> &mut Self {
        self.answer_last(Answer::Offset(offset.map(QueueOffset)))
    }

    /// The last pull is answered with these messages.
    #[track_caller]
    pub(in crate::sim) fn found(&mut self, offsets: Range<i64>) -> &mut Self {
        self.answer_pull(self.pulls.len() - 1, offsets)
    }

    /// One of the pulls is.
    #[track_caller]
    pub(in crate::sim) fn answer_pull(&mut self, nth: usize, offsets: Range<i64>) -> &mut Self {
        let records = records(offsets.clone());
        let answer = Answer::Pulled {
            status: PullStatus::Found,
            next: QueueOffset(offsets.end),
            records: &records,
            bounds: (QueueOffset(0), QueueOffset(i64::MAX)),
            reset: false,
            by_slave: false,
        };
        self.answer(self.pulls[nth], answer)
    }

    /// The last pull is answered without messages.
    #[track_caller]
    pub(in crate::sim) fn pulled(&mut self, status: PullStatus, next: i64) -> &mut Self {
        let answer = Answer::Pulled {
            status,
            next: QueueOffset(next),
            records: &Bytes::new(),
            bounds: (QueueOffset(0), QueueOffset(i64::MAX)),
            reset: false,
            by_slave: false,
        };
        self.answer(*self.pulls.last().unwrap(), answer)
    }

    /// The last pull is answered with an offset to go on at (code 21).
    #[track_caller]
    pub(in crate::sim) fn moved(&mut self, to: i64, (min, max): (i64, i64), word: Mover) -> &mut Self {
        let answer = Answer::Pulled {
            status: PullStatus::OffsetMoved,
            next: QueueOffset(to),
            records: &Bytes::new(),
            bounds: (QueueOffset(min), QueueOffset(max)),
            reset: word == Mover::Reset,
            by_slave: word == Mover::Slave,
        };
        self.answer(*self.pulls.last().unwrap(), answer)
    }

    #[track_caller]
    pub(in crate::sim) fn sent_back(&mut self, offset: i64) -> &mut Self {
        self.broker(BrokerDeed::SentBack {
            group: GROUP,
            queue: QUEUE,
            offset: QueueOffset(offset),
        })
    }

    #[track_caller]
    pub(in crate::sim) fn connected(&mut self) -> &mut Self {
        self.conn.generation += 1;
        self.deed(Deed::Connected {
            conn: self.conn,
            node: NODE,
        })
    }

    #[track_caller]
    pub(in crate::sim) fn disconnected(&mut self) -> &mut Self {
        self.deed(Deed::Disconnected {
            conn: self.conn,
            by_itself: false,
        })
    }

    /// The member closes the link itself.
    #[track_caller]
    pub(in crate::sim) fn hung_up(&mut self) -> &mut Self {
        self.deed(Deed::Disconnected {
            conn: self.conn,
            by_itself: true,
        })
    }

    #[track_caller]
    pub(in crate::sim) fn requested(&mut self) -> &mut Self {
        self.deed(Deed::Requested {
            code: RequestCode::NOTIFY_CONSUMER_IDS_CHANGED,
        })
    }

    #[track_caller]
    pub(in crate::sim) fn told(&mut self, kind: NoticeKind) -> &mut Self {
        self.deed(Deed::Told(&Notice {
            at: self.at,
            group: None,
            repeated: 0,
            kind,
        }))
    }

    #[track_caller]
    pub(in crate::sim) fn woken(&mut self) -> &mut Self {
        self.deed(Deed::Woken)
    }

    #[track_caller]
    pub(in crate::sim) fn step_end(&mut self, wake_at: Option<u64>) -> &mut Self {
        self.step_end_after(1, wake_at)
    }

    #[track_caller]
    pub(in crate::sim) fn step_end_after(&mut self, actions: u32, wake_at: Option<u64>) -> &mut Self {
        self.deed(Deed::StepEnd {
            actions,
            wake_at: wake_at.map(Instant::from_millis),
        })
    }

    #[track_caller]
    pub(in crate::sim) fn leave(&mut self, drain_ms: u64) -> &mut Self {
        self.deed(Deed::AskedToLeave {
            drain: Duration::from_millis(drain_ms),
        })
    }

    #[track_caller]
    pub(in crate::sim) fn left(&mut self) -> &mut Self {
        self.deed(Deed::Left(&ShutdownReport::default()))
    }

    /// Everything should have come about by now.
    #[track_caller]
    pub(in crate::sim) fn rest(&mut self) -> &mut Self {
        assert_eq!(self.broken, None, "broken earlier than expected");
        self.broken = self.rule.at_rest(self.at, &self.world).err();
        self
    }

    /// The world is over.
    #[track_caller]
    pub(in crate::sim) fn end(&mut self) -> &mut Self {
        assert_eq!(self.broken, None, "broken earlier than expected");
        self.broken = self.rule.at_end(self.at, &self.world).err();
        self
    }
}

/// A member that runs and owns the queue, at rest.
pub(in crate::sim) fn status(world: &World) -> Status {
    let queue = QueueStatus {
        queue: world.queue.clone(),
        epoch: Epoch(1),
        state: QueueState::Pulling,
        hold: None,
        since: Instant::ZERO,
        next_offset: None,
        lowest_unfinished: None,
        committed: None,
        max_offset: None,
        unfinished: 0,
        bytes: 0,
        delivered: 0,
        retrying: 0,
        attempt: 0,
        suspended_until: None,
        lock: None,
        held_record: None,
        reads_from: None,
        stalled_since: None,
        last_error: None,
    };
    let group = GroupStatus {
        group: world.group.clone(),
        phase: GroupPhase::Running,
        members: Vec::new(),
        subscriptions: Vec::new(),
        queues: vec![queue],
        permits: (20, 0),
        past_deadline: 0,
        buffer_bytes: 0,
        finished: 0,
        retried: 0,
        dropped: 0,
        store: None,
        retrying: 0,
        oldest_delivery: None,
        lag: 0,
        flow: FlowStatus::default(),
    };
    let link = LinkStatus {
        addr: PeerAddr::new("10.0.0.1", 10911),
        state: LinkState::Up,
        since: Instant::ZERO,
        requests: 1,
        failed_dials: 0,
        trouble: None,
        heartbeat_acknowledged: true,
    };
    Status {
        at: Instant::ZERO,
        client_id: "a@1".into(),
        links: vec![link],
        topics: Vec::new(),
        groups: vec![group],
        counters: Counters::default(),
        timers: 0,
    }
}
