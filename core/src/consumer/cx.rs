//! The ground of the consumer: names of its timers, what its parts may touch, and what they wish
//! from the floor above them.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::time::Duration;

use crate::action::{Action, AppAction};
use bytes::Bytes;

use super::reply::{Asker, Reply};
use crate::ids::{
    BrokerName, CallId, ClientId, ConsumerGroup, GroupKey, PeerAddr, QueueKey, QueueOffset, Topic,
};
use crate::notice::NoticeKind;
use crate::rpc::RpcTimer;
use crate::status::Counters;
use crate::step::{self, Outbox, Rng, Timers};
use crate::time::{Instant, WallTime};
use crate::wire::frame::{FrameError, HeaderForm};
use crate::wire::request::check::CheckSubscriptionRequest;
use crate::wire::request::heartbeat::UnregisterRequest;
use crate::wire::request::locks::{LockRequest, UnlockRequest};
use crate::wire::request::members::MemberListRequest;
use crate::wire::request::offsets::{
    CommitOffsetRequest, MaxOffsetRequest, MinOffsetRequest, QueryOffsetRequest, SearchOffsetRequest,
};
use crate::wire::request::operator::RunningInfoRequest;
use crate::wire::request::pull::PullRequest;
use crate::wire::request::route::RouteRequest;
use crate::wire::request::send::SendRequest;
use crate::wire::request::send_back::SendBackRequest;
use crate::wire::request::stats::ConnectionsRequest;
use crate::wire::request::{Request, encode_request};

/// Every timer of a client.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TimerKey {
    /// A link's or a request's.
    Rpc(RpcTimer),
    /// The route of a topic is asked again.
    Route(Topic),
    /// A broker is told again that we live.
    Heartbeat(PeerAddr),
    /// A broker's replica has been out of reach, or within, for long enough.
    Presence(PeerAddr),
    /// A group's.
    Group(GroupKey, GroupTimer),
    /// A queue's.
    Queue(GroupKey, QueueKey, QueueTimer),
}

/// Timers of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum GroupTimer {
    /// Compute the share again.
    Rebalance,
    /// The end of the time in which the application computes shares.
    Allocate,
    /// Commit what has changed.
    Commit,
    /// Try again to store what the group keeps itself.
    Save,
    /// Try a send back again, or deliver its message again here.
    SendBack(u64),
    /// Look for queues that stand still.
    Stalls,
    /// Ask again about filters that no broker has approved of yet.
    Filters,
    /// The end of the drain, of the last commits, or of the farewell.
    Phase,
    /// The earliest deadline of a handler whose message belongs to an ownership that has ended.
    Strays,
    /// A lock is asked for, renewed or unlocked, or its lease ends.
    Locks,
    /// The earliest deadline of a message that an operator has handed in.
    Directs,
    /// Messages that wait for their rate may be handed out.
    Flow,
}

/// Timers of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum QueueTimer {
    /// The wait before asking for the offset, or before asking again.
    Acquire,
    /// The pause before the next pull.
    Pull,
    /// The oldest delivery's deadline.
    Delivery,
    /// The end of the revoke grace, or of the pause before a last commit is sent again.
    Grace,
    /// The end of the rest after a failure, where messages are consumed in order.
    Suspend,
}

impl From<RpcTimer> for TimerKey {
    fn from(timer: RpcTimer) -> Self {
        Self::Rpc(timer)
    }
}

/// What an answer is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Route(Topic),
    Heartbeat {
        addr: PeerAddr,
        revision: u64,
    },
    Unregister {
        addr: PeerAddr,
        group: ConsumerGroup,
    },
    Members {
        group: GroupKey,
        round: u64,
        broker: BrokerName,
    },
    Queue {
        group: GroupKey,
        queue: QueueKey,
        ask: QueueAsk,
    },
    SendBack {
        group: GroupKey,
        back: u64,
    },
    /// A copy of a message that could not be sent back.
    RetryCopy {
        group: GroupKey,
        back: u64,
    },
    /// Locks on queues, by the number of the request.
    Lock {
        group: GroupKey,
        serial: u64,
    },
    /// Locks that are given back.
    Unlock {
        group: GroupKey,
        serial: u64,
    },
    /// Who is in the group, and what the broker knows of their subscriptions.
    Connections {
        group: GroupKey,
        broker: BrokerName,
    },
    /// What another member subscribes to.
    Subscriptions {
        group: GroupKey,
        member: ClientId,
    },
    /// Whether a broker takes the filter of a topic.
    Filter {
        group: GroupKey,
        topic: Topic,
        serial: u64,
    },
    Call(CallId),
}

impl Purpose {
    /// Whether a request may be sent on another connection than the one it was meant for. Pulls and questions for
    /// members may not: they wait until a heartbeat was acknowledged on theirs. Nor may commits: what is sent again
    /// later has to be what is finished by then, or it would take back what a pull has carried meanwhile. Locks neither:
    /// whether they are wanted is known when they are asked for again.
    pub(crate) const fn may_go_elsewhere(&self) -> bool {
        match self {
            Self::Members { .. } | Self::Unregister { .. } | Self::Lock { .. } | Self::Unlock { .. } => false,
            Self::Queue { ask, .. } => !matches!(ask, QueueAsk::Pull { .. } | QueueAsk::Commit(_)),
            Self::Route(_)
            | Self::Heartbeat { .. }
            | Self::SendBack { .. }
            | Self::RetryCopy { .. }
            | Self::Connections { .. }
            | Self::Subscriptions { .. }
            | Self::Filter { .. }
            | Self::Call(_) => true,
        }
    }
}

/// What a queue has asked its broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueAsk {
    /// Messages.
    Pull { serial: u64 },
    /// The stored offset, to start from it.
    StoredOffset,
    /// Where to start when nothing is stored.
    StartOffset,
    /// To store this offset.
    Commit(QueueOffset),
    /// What the master has, before it is told anything: the start was the word of a slave.
    Verify,
    /// The stored offset once more, while giving the queue back.
    Recheck,
}

/// A request one of the parts wants sent.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) to: Destination,
    pub(crate) body: QuestionBody,
    pub(crate) timeout: Duration,
    pub(crate) purpose: Purpose,
}

/// Whom to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// The name server whose turn it is.
    NameServer,
    /// A broker by name.
    Broker(BrokerName, Replica),
    /// Exactly this address.
    Address(PeerAddr),
}

/// Which replica of a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replica {
    /// Only the master.
    Master,
    /// This one.
    Exactly(i64),
}

/// What is asked. One variant per kind of request; encoded when the link is known.
#[derive(Clone, Debug)]
pub(crate) enum QuestionBody {
    Route(RouteRequest),
    Members(MemberListRequest),
    Pull(PullRequest),
    StoredOffset(QueryOffsetRequest),
    MinOffset(MinOffsetRequest),
    MaxOffset(MaxOffsetRequest),
    OffsetAt(SearchOffsetRequest),
    Commit(CommitOffsetRequest),
    SendBack(SendBackRequest),
    RetryCopy(Box<SendRequest>),
    Unregister(UnregisterRequest),
    Lock(LockRequest),
    Unlock(UnlockRequest),
    Connections(ConnectionsRequest),
    RunningInfo(RunningInfoRequest),
    CheckFilter(Box<CheckSubscriptionRequest>),
}

impl QuestionBody {
    pub(crate) fn encode(&self, form: HeaderForm, opaque: i32) -> Result<Bytes, FrameError> {
        fn write<R: Request>((form, opaque): (HeaderForm, i32), request: &R) -> Result<Bytes, FrameError> {
            encode_request(form, opaque, false, request)
        }
        let how = (form, opaque);
        match self {
            Self::Route(request) => write(how, request),
            Self::Members(request) => write(how, request),
            Self::Pull(request) => write(how, request),
            Self::StoredOffset(request) => write(how, request),
            Self::MinOffset(request) => write(how, request),
            Self::MaxOffset(request) => write(how, request),
            Self::OffsetAt(request) => write(how, request),
            Self::Commit(request) => write(how, request),
            Self::SendBack(request) => write(how, request),
            Self::RetryCopy(request) => write(how, &**request),
            Self::Unregister(request) => write(how, request),
            Self::Lock(request) => write(how, request),
            Self::Unlock(request) => write(how, request),
            Self::Connections(request) => write(how, request),
            Self::RunningInfo(request) => write(how, request),
            Self::CheckFilter(request) => write(how, &**request),
        }
    }
}

/// What a part wishes from the floors above it. Taken in order, within the same event.
#[derive(Clone, Debug)]
pub(crate) enum Wish {
    /// Send this.
    Ask(Question),
    /// Tell a broker that we live, with this revision of our subscriptions.
    Beat { addr: PeerAddr, revision: u64 },
    /// A broker has acknowledged subscriptions: what waited for it may go on.
    BrokerReady { broker: BrokerName, ready: Ready },
    /// Another replica of a broker is read from now.
    OtherReader(BrokerName),
    /// A broker seems not to know us well enough.
    TellAgain(BrokerName),
    /// A broker's answer contradicts the route of a topic.
    RouteSuspect(Topic),
    /// An ownership has ended: what waits to be written for it would be out of date when its link stands.
    Withdraw(GroupKey, QueueKey),
    /// A slave has nothing for us and sends us to its master.
    BackToMaster(BrokerName),
    /// A group's subscriptions have changed: every broker must hear of it.
    Subscriptions(GroupKey),
    /// A change of a group's subscriptions may have come further.
    Changes(GroupKey),
    /// A topic of a group is not used any more: unless another one uses it, its route is not asked either.
    Unwatch,
    /// The route of a topic has changed.
    Route(Topic),
    /// Locks of a group are to be asked for or given back, or have been granted.
    Locks(GroupKey),
    /// A group's buffer has room again: queues that were held for it may pull.
    Room(GroupKey),
    /// An ownership of a group that broadcasts has come to an offset, which is to be kept.
    Keep(GroupKey, QueueKey, QueueOffset),
    /// What a group keeps itself has changed, or may be stored again.
    Save(GroupKey),
    /// The brokers are to be told that a group leaves.
    Leave(GroupKey),
    /// A group has ended.
    Stopped(GroupKey),
    /// What a peer has asked is answered now.
    Reply(Asker, Reply),
    /// Somebody should see this.
    Notice(Option<ConsumerGroup>, NoticeKind),
}

/// What a broker's acknowledgement has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ready {
    /// The revision it knew before; `None` when it is the first one on this connection.
    pub(crate) before: Option<u64>,
    /// The revision it knows now.
    pub(crate) now: u64,
}

impl Ready {
    /// Whether the connection is new.
    pub(crate) const fn is_new(self) -> bool {
        self.before.is_none()
    }

    /// Whether it is the first time on this connection that the broker hears of what was new at `revision`.
    pub(crate) fn meets(self, revision: u64) -> bool {
        self.before < Some(revision) && revision <= self.now
    }
}

/// Everything a part may touch.
pub(crate) struct Cx<'a> {
    pub(crate) now: Instant,
    pub(crate) wall: WallTime,
    pub(crate) timers: &'a mut Timers<TimerKey>,
    pub(crate) out: &'a mut Outbox<Action>,
    pub(crate) rng: &'a mut Rng,
    pub(crate) wishes: &'a mut VecDeque<Wish>,
    pub(crate) counters: &'a mut Counters,
}

impl Cx<'_> {
    /// The part of it that `rpc` knows.
    pub(crate) const fn step(&mut self) -> step::Cx<'_, TimerKey, Action> {
        step::Cx {
            now: self.now,
            timers: self.timers,
            out: self.out,
            rng: self.rng,
        }
    }

    pub(crate) fn tell(&mut self, action: AppAction) {
        self.out.push(action);
    }

    pub(crate) fn ask(&mut self, to: Destination, body: QuestionBody, timeout: Duration, purpose: Purpose) {
        self.wishes.push_back(Wish::Ask(Question {
            to,
            body,
            timeout,
            purpose,
        }));
    }

    pub(crate) fn notice(&mut self, group: &ConsumerGroup, kind: NoticeKind) {
        self.wishes.push_back(Wish::Notice(Some(group.clone()), kind));
    }

    pub(crate) fn client_notice(&mut self, kind: NoticeKind) {
        self.wishes.push_back(Wish::Notice(None, kind));
    }
}
