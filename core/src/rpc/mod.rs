//! Addresses to links, requests to answers.
//!
//! A request is given to an *address*; this floor dials, waits for the link, writes, matches the
//! answer by `opaque` and ends every request exactly once: answered, past its deadline, or lost with
//! its connection. It knows codes and purposes of nobody: `P` is whatever the floor above wants back.
//!
//! A request that was never written when its deadline passes failed to *connect*; one that was
//! written failed to be *answered*. The difference is what an operator needs to know.
//!
//! ```text
//!           request            (looked up)          Connected
//!  Idle ───────────► LookingUp ───────────► Connecting ─────────► Up
//!    ▲                   │ unknown              │ failed, timed out  │ closed, silent, misbehaved
//!    │ nothing waits     ▼                      ▼                    │
//!    └────────────── BackingOff ◄───────────────┴────────────────────┘
//! ```
//= rocketmq: NettyRemotingAbstract.processResponseCommand type=differs
//  reason: one step from table to outcome; a request's time-out does not close its connection.

mod deadlines;
mod dialling;
mod going_away;
mod link;
mod pending;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;

use crate::action::{CallError, NetAction};
use crate::config::ClientConfig;
use crate::event::{NetCause, NetEvent};
use crate::ids::{ConnId, PeerAddr};
use crate::status::LinkStatus;
use crate::status::LinkTrouble;
use crate::step::Cx;
use crate::time::Instant;
use crate::wire::frame::{Frame, FrameError};

use link::{Link, LinkPhase};
use pending::{Pending, PendingTable};

/// Names of this floor's timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RpcTimer {
    /// A request's deadline.
    Deadline(i32),
    /// The end of a link's pause.
    Redial(u32),
    /// The end of an attempt to connect.
    DialTimeout(u32),
    /// Whether a link is still silent.
    Silence(u32),
}

/// Whether a request outlives a failed attempt to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Another peer can be asked instead: fail with the first failed attempt.
    FailFast,
    /// Nobody else can answer: wait for the link until the deadline.
    UntilDeadline,
}

/// What the floor above must know.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RpcSignal<P> {
    /// A request ended without an answer.
    Failed { purpose: P, error: CallError },
    /// A link stands; `again` when it had broken before.
    Up {
        addr: PeerAddr,
        conn: ConnId,
        again: bool,
    },
    /// A link that stood is gone, or an attempt failed.
    Down {
        addr: PeerAddr,
        trouble: LinkTrouble,
        failures: u32,
    },
    /// A peer sent what no peer may send; its link is closed.
    Misbehaved {
        addr: PeerAddr,
        why: alloc::string::String,
    },
}

/// A request on its way to an address.
pub(crate) struct Outgoing<'a, P> {
    pub(crate) to: &'a PeerAddr,
    pub(crate) deadline: Instant,
    pub(crate) patience: Patience,
    /// Whether it may be sent once more on another connection, if the peer goes away.
    pub(crate) elsewhere: bool,
    pub(crate) purpose: P,
}

/// Counters of what was ignored on purpose.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RpcCounters {
    pub(crate) stale_net_events: u64,
    pub(crate) late_answers: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Rpc<P> {
    settings: Settings,
    /// Indexed by `ConnId::slot`; a slot whose address was forgotten is reused.
    links: Vec<Option<Link>>,
    by_addr: BTreeMap<PeerAddr, u32>,
    pending: PendingTable<P>,
    signals: VecDeque<RpcSignal<P>>,
    /// Generations go on counting when a slot is reused, so no `ConnId` ever comes back.
    generation: u32,
    leaving: bool,
    counters: RpcCounters,
}

/// The part of the client's configuration that links need.
#[derive(Clone, Debug)]
struct Settings {
    address_map: Vec<(PeerAddr, PeerAddr)>,
    dial_timeout: Duration,
    backoff: Duration,
    backoff_max: Duration,
    backoff_long: Duration,
    silence_min: Duration,
    frame_len_max: u32,
    requests_max: usize,
    send_queue_bytes_max: u64,
}

impl<P: Clone> Rpc<P> {
    pub(crate) fn new(config: &ClientConfig) -> Self {
        Self {
            settings: Settings {
                address_map: config.address_map.clone(),
                dial_timeout: config.dial_timeout,
                backoff: config.dial_backoff,
                backoff_max: config.dial_backoff_max,
                backoff_long: config.dial_backoff_long,
                silence_min: config.silence_min,
                frame_len_max: config.frame_len_max,
                requests_max: config.requests_per_link_max as usize,
                send_queue_bytes_max: config.send_queue_bytes_max,
            },
            links: Vec::new(),
            by_addr: BTreeMap::new(),
            pending: PendingTable::new(),
            signals: VecDeque::new(),
            generation: 0,
            leaving: false,
            counters: RpcCounters::default(),
        }
    }

    /// Sends a request; `encode` writes the frame for the `opaque` it is given. Whatever happens,
    /// the request ends exactly once.
    pub(crate) fn request<K, A>(
        &mut self,
        cx: &mut Cx<'_, K, A>,
        out: Outgoing<'_, P>,
        encode: impl FnOnce(i32) -> Result<Bytes, FrameError>,
    ) where
        K: From<RpcTimer> + Ord + Clone,
        A: From<NetAction>,
    {
        let slot = self.link_slot(cx.now, out.to);
        let link = self.links[slot as usize]
            .as_ref()
            .expect("link_slot gives a slot that is in use");
        if link.requests >= self.settings.requests_max
            || link.queued_bytes > self.settings.send_queue_bytes_max
        {
            return self.fail(out.purpose, CallError::Overloaded);
        }
        if self.leaving && link.dials_left == Some(0) && !link.phase.is_alive() {
            return self.fail(out.purpose, CallError::Connect(out.to.clone()));
        }
        let opaque = self.pending.free_opaque();
        let frame = match encode(opaque) {
            Ok(frame) => frame,
            Err(error) => return self.fail(out.purpose, CallError::Malformed(alloc::format!("{error}"))),
        };
        let pending = Pending {
            slot,
            purpose: out.purpose,
            sent_at: None,
            patience: out.patience,
            kept: (out.elsewhere && frame.len() <= going_away::KEPT_BYTES_MAX).then(|| frame.clone()),
        };
        self.pending.insert(opaque, pending);
        cx.timers.set(RpcTimer::Deadline(opaque), out.deadline);
        self.link(slot).requests += 1;
        self.write(cx, slot, Some(opaque), frame);
    }

    /// Sends a frame nobody answers: a one-way request, or the answer to a peer's request. Dropped
    /// when the link does not stand, or when too much waits already.
    pub(crate) fn send<K, A>(&mut self, cx: &mut Cx<'_, K, A>, conn: ConnId, frame: Bytes)
    where
        K: From<RpcTimer> + Ord + Clone,
        A: From<NetAction>,
    {
        let queue_max = self.settings.send_queue_bytes_max;
        if let Some(link) = self.live(conn)
            && link.phase == LinkPhase::Up
            && link.queued_bytes <= queue_max
        {
            self.write(cx, conn.slot, None, frame);
        }
    }

    /// What happened to connections. Bytes are taken apart with [`Self::next_frame`] afterwards.
    pub(crate) fn on_net<K, A>(&mut self, cx: &mut Cx<'_, K, A>, event: NetEvent)
    where
        K: From<RpcTimer> + Ord + Clone,
        A: From<NetAction>,
    {
        let conn = match &event {
            NetEvent::Resolved { conn, .. }
            | NetEvent::Connected { conn }
            | NetEvent::ConnectFailed { conn, .. }
            | NetEvent::Received { conn, .. }
            | NetEvent::Sent { conn, .. }
            | NetEvent::Closed { conn, .. } => *conn,
        };
        let Some(link) = self.live(conn) else {
            self.counters.stale_net_events += 1;
            return;
        };
        match (event, link.phase) {
            (NetEvent::Resolved { addresses, .. }, LinkPhase::LookingUp) => {
                let turn = link.failures as usize;
                match addresses.get(turn % addresses.len().max(1)) {
                    Some(host) => {
                        let dial = PeerAddr::new(&**host, link.dial.port());
                        self.connect(cx, conn, dial);
                    }
                    None => self.lost(cx, conn.slot, LinkTrouble::Net(NetCause::NameUnknown)),
                }
            }
            (NetEvent::Connected { .. }, LinkPhase::Connecting) => self.connected(cx, conn),
            (
                NetEvent::ConnectFailed { cause, .. } | NetEvent::Closed { cause, .. },
                LinkPhase::LookingUp | LinkPhase::Connecting | LinkPhase::Up,
            ) => self.lost(cx, conn.slot, LinkTrouble::Net(cause)),
            (NetEvent::Received { bytes, .. }, LinkPhase::Up) => {
                link.last_byte_at = cx.now;
                link.reassembler.push(bytes);
            }
            (NetEvent::Sent { bytes, .. }, LinkPhase::Up) => {
                link.queued_bytes = link.queued_bytes.saturating_sub(u64::from(bytes));
            }
            _ => self.counters.stale_net_events += 1,
        }
    }

    /// The next whole frame of a connection. A frame that cannot be one closes the link.
    pub(crate) fn next_frame<K, A>(&mut self, cx: &mut Cx<'_, K, A>, conn: ConnId) -> Option<Frame>
    where
        K: From<RpcTimer> + Ord + Clone,
        A: From<NetAction>,
    {
        let link = self.live(conn)?;
        match link.reassembler.next_frame() {
            Ok(frame) => frame,
            Err(error) => {
                self.misbehaved(cx, conn, alloc::format!("{error}"));
                None
            }
        }
    }

    /// A good frame has come: the peer is well.
    pub(crate) fn proved(&mut self, conn: ConnId) {
        if let Some(link) = self.live(conn) {
            link.proved();
        }
    }

    /// Ends the request that an answer belongs to. `None`: nobody waits for it any more.
    pub(crate) fn complete<K, A>(&mut self, cx: &mut Cx<'_, K, A>, conn: ConnId, opaque: i32) -> Option<P>
    where
        K: From<RpcTimer> + Ord + Clone,
        A: From<NetAction>,
    {
        let Some(pending) = self.pending.take_sent(opaque, conn.slot) else {
            self.counters.late_answers += 1;
            return None;
        };
        cx.timers.cancel(RpcTimer::Deadline(opaque));
        self.link(conn.slot).requests -= 1;
        self.dismiss_if_idle(cx, conn.slot);
        Some(pending.purpose)
    }

    /// A peer broke the protocol: close the link, fail what it carried, dial again with a pause.
    pub(crate) fn misbehaved<K, A>(&mut self, cx: &mut Cx<'_, K, A>, conn: ConnId, why: alloc::string::String)
    where
        K: From<RpcTimer> + Ord + Clone,
        A: From<NetAction>,
    {
        let Some(link) = self.live(conn) else { return };
        let addr = link.addr.clone();
        cx.out.push(NetAction::Close { conn });
        self.signals.push_back(RpcSignal::Misbehaved { addr, why });
        self.lost(cx, conn.slot, LinkTrouble::Misbehaved);
    }

    pub(crate) fn on_timer<K, A>(&mut self, cx: &mut Cx<'_, K, A>, timer: RpcTimer)
    where
        K: From<RpcTimer> + Ord + Clone,
        A: From<NetAction>,
    {
        match timer {
            RpcTimer::Deadline(opaque) => self.past_deadline(cx, opaque),
            RpcTimer::Redial(slot) => {
                let waits = self.pending.waits_for(slot);
                let link = self.link(slot);
                if link.phase == LinkPhase::BackingOff {
                    link.set_phase(LinkPhase::Idle, cx.now);
                    if waits {
                        self.dial(cx, slot);
                    }
                }
            }
            RpcTimer::DialTimeout(slot) => {
                let link = self.link(slot);
                if matches!(link.phase, LinkPhase::LookingUp | LinkPhase::Connecting) {
                    cx.out.push(NetAction::Close { conn: link.conn });
                    self.lost(cx, slot, LinkTrouble::Net(NetCause::TimedOut));
                }
            }
            RpcTimer::Silence(slot) => self.judge_silence(cx, slot),
        }
    }

    pub(crate) fn pop_signal(&mut self) -> Option<RpcSignal<P>> {
        self.signals.pop_front()
    }

    /// Bytes missing for the frame in progress.
    pub(crate) fn want(&self, conn: ConnId) -> usize {
        match self.links.get(conn.slot as usize) {
            Some(Some(link)) if link.conn == conn => link.reassembler.want(),
            _ => 0,
        }
    }

    /// The address behind a connection.
    pub(crate) fn addr(&self, conn: ConnId) -> Option<&PeerAddr> {
        let link = self.links.get(conn.slot as usize)?.as_ref()?;
        (link.conn == conn).then_some(&link.addr)
    }

    /// Forgets an address: its link is closed, its back-off forgotten, its requests fail.
    pub(crate) fn forget<K, A>(&mut self, cx: &mut Cx<'_, K, A>, addr: &PeerAddr)
    where
        K: From<RpcTimer> + Ord + Clone,
        A: From<NetAction>,
    {
        self.by_addr.remove(addr);
        for slot in self.slots_of(addr) {
            if let Some(conn) = self.is_alive(slot) {
                cx.out.push(NetAction::Close { conn });
            }
            self.remove(cx, slot);
        }
    }

    /// Requests of a kind that wait for their link are not written any more. Nobody is told how they ended: who
    /// asks for this does not want to know.
    pub(crate) fn withdraw<K, A>(&mut self, cx: &mut Cx<'_, K, A>, unwanted: impl Fn(&P) -> bool)
    where
        K: From<RpcTimer> + Ord + Clone,
        A: From<NetAction>,
    {
        for (opaque, pending) in self.pending.take_unwritten(unwanted) {
            cx.timers.cancel(RpcTimer::Deadline(opaque));
            let link = self.link(pending.slot);
            link.requests -= 1;
            link.drop_waiting(opaque);
        }
    }

    /// Whether somebody waits for an answer of a kind from this address.
    pub(crate) fn awaits(&self, addr: &PeerAddr, wanted: impl Fn(&P) -> bool) -> bool {
        let slot = self.by_addr.get(addr);
        slot.is_some_and(|slot| self.pending.any(*slot, wanted))
    }

    /// From now on each link may be dialled once more at most: what is left to say is a last commit.
    pub(crate) fn leave(&mut self) {
        if !self.leaving {
            self.leaving = true;
            for link in self.links.iter_mut().flatten() {
                link.dials_left = Some(1);
            }
        }
    }

    /// While leaving: nothing is left to say to this address.
    pub(crate) fn dial_no_more(&mut self, addr: &PeerAddr) {
        let slot = self.by_addr.get(addr).copied();
        if let Some(link) = slot.and_then(|slot| self.links[slot as usize].as_mut()) {
            link.dials_left = link.dials_left.map(|_| 0);
        }
    }

    /// Closes everything.
    pub(crate) fn close_all<K, A>(&mut self, cx: &mut Cx<'_, K, A>)
    where
        K: From<RpcTimer> + Ord + Clone,
        A: From<NetAction>,
    {
        let addrs: Vec<PeerAddr> = self.by_addr.keys().cloned().collect();
        for addr in addrs {
            self.forget(cx, &addr);
        }
    }

    pub(crate) const fn counters(&self) -> RpcCounters {
        self.counters
    }

    pub(crate) fn status(&self) -> impl Iterator<Item = LinkStatus> {
        self.by_addr
            .values()
            .filter_map(|slot| self.links[*slot as usize].as_ref())
            .map(Link::status)
    }

    /// The link of an address, made if there is none.
    fn link_slot(&mut self, now: Instant, addr: &PeerAddr) -> u32 {
        if let Some(slot) = self.by_addr.get(addr) {
            return *slot;
        }
        let free = self.links.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.links.push(None);
            self.links.len() - 1
        });
        let slot = u32::try_from(index).expect("a client knows fewer than 2^32 addresses");
        let mapped = self.settings.address_map.iter().find(|(from, _)| from == addr);
        let dial = mapped.map_or_else(|| addr.clone(), |(_, to)| to.clone());
        let mut link = Link::new(addr.clone(), dial, slot, now, self.settings.frame_len_max);
        link.dials_left = self.leaving.then_some(1);
        self.links[index] = Some(link);
        self.by_addr.insert(addr.clone(), slot);
        slot
    }

    /// A link that is known to exist: its slot came out of a table of ours.
    fn link(&mut self, slot: u32) -> &mut Link {
        self.links[slot as usize]
            .as_mut()
            .expect("timers and requests of a slot end before the link is forgotten")
    }

    fn live(&mut self, conn: ConnId) -> Option<&mut Link> {
        self.links
            .get_mut(conn.slot as usize)?
            .as_mut()
            .filter(|link| link.conn == conn)
    }

    fn fail(&mut self, purpose: P, error: CallError) {
        self.signals.push_back(RpcSignal::Failed { purpose, error });
    }

    /// Writes now or when the link stands; an idle link is dialled.
    fn write<K, A>(&mut self, cx: &mut Cx<'_, K, A>, slot: u32, opaque: Option<i32>, frame: Bytes)
    where
        K: From<RpcTimer> + Ord + Clone,
        A: From<NetAction>,
    {
        let link = self.link(slot);
        link.queued_bytes += frame.len() as u64;
        match link.phase {
            LinkPhase::Up => {
                let conn = link.conn;
                if let Some(opaque) = opaque {
                    self.pending.sent(opaque, cx.now);
                }
                cx.out.push(NetAction::Send { conn, frame });
            }
            LinkPhase::Idle => {
                link.waiting.push_back((opaque, frame));
                self.dial(cx, slot);
            }
            LinkPhase::LookingUp | LinkPhase::Connecting | LinkPhase::BackingOff => {
                link.waiting.push_back((opaque, frame));
            }
        }
    }
}

#[cfg(test)]
mod tests;
