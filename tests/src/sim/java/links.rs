//! Connections the Java way: dialled by whoever has something to send, without any back-off; whoever waits
//! for a connection that fails, fails with it.
//= rocketmq: NettyRemotingClient, NettyRemotingAbstract.scanResponseTable

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use rocketmq_consumer_core::action::NetAction;
use rocketmq_consumer_core::event::NetEvent;
use rocketmq_consumer_core::ids::{ConnId, PeerAddr};
use rocketmq_consumer_core::time::Instant;
use rocketmq_consumer_core::wire::frame::{FRAME_LEN_MAX, Frame, HeaderForm};
use rocketmq_consumer_core::wire::link::Reassembler;
use rocketmq_consumer_core::wire::request::{Request, encode_request};

use super::ground::{Ground, Timer};

/// `connectTimeoutMillis`.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// How long a request may take, and what its end does to its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// Somebody waits for it: it ends exactly then, and its connection is closed.
    Sync(Duration),
    /// Nobody does: a sweep finds it a second late, and the connection stays.
    Swept(Duration),
}

/// What happened that the floor above must know.
#[derive(Debug)]
pub(super) enum Heard<P> {
    /// A connection stands.
    Up(PeerAddr),
    /// An answer, or none.
    Ended(P, Option<Frame>),
    /// A frame that may be an answer or a request of the peer.
    Frame(ConnId, Frame),
}

#[derive(Debug)]
struct Link {
    addr: PeerAddr,
    conn: ConnId,
    phase: Phase,
    waiting: Vec<Bytes>,
    reassembler: Reassembler,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Connecting { until: Instant },
    Up,
}

#[derive(Debug)]
struct Pending<P> {
    slot: u32,
    due: Instant,
    closes: bool,
    purpose: P,
}

/// Addresses to connections, opaques to requests.
#[derive(Debug)]
pub(super) struct Links<P> {
    links: Vec<Link>,
    by_addr: BTreeMap<PeerAddr, u32>,
    pending: BTreeMap<i32, Pending<P>>,
    next_opaque: i32,
    generation: u32,
}

impl<P> Links<P> {
    pub(super) const fn new() -> Self {
        Self {
            links: Vec::new(),
            by_addr: BTreeMap::new(),
            pending: BTreeMap::new(),
            next_opaque: 0,
            generation: 0,
        }
    }

    /// Sends a request; it ends once, with [`Heard::Ended`].
    pub(super) fn ask<R: Request>(
        &mut self,
        ground: &mut Ground,
        to: &PeerAddr,
        request: &R,
        patience: Patience,
        purpose: P,
    ) {
        let opaque = self.next_opaque;
        self.next_opaque = opaque.checked_add(1).unwrap_or(0);
        let (after, closes) = match patience {
            Patience::Sync(timeout) => (timeout, true),
            Patience::Swept(timeout) => (sweep_after(ground.now, timeout), false),
        };
        let due = ground.arm(after, Timer::Request(opaque));
        let slot = self.slot(to);
        self.pending.insert(
            opaque,
            Pending {
                slot,
                due,
                closes,
                purpose,
            },
        );
        self.write(ground, slot, opaque, false, request);
    }

    /// Sends a request that nobody answers.
    pub(super) fn tell<R: Request>(&mut self, ground: &mut Ground, to: &PeerAddr, request: &R) {
        let opaque = self.next_opaque;
        self.next_opaque = opaque.checked_add(1).unwrap_or(0);
        let slot = self.slot(to);
        self.write(ground, slot, opaque, true, request);
    }

    fn write<R: Request>(&mut self, ground: &mut Ground, slot: u32, opaque: i32, oneway: bool, request: &R) {
        let frame = encode_request(HeaderForm::Json, opaque, oneway, request)
            .expect("requests of this model are far smaller than a frame may be");
        let link = &mut self.links[slot as usize];
        match link.phase {
            Phase::Up => ground.net(NetAction::Send {
                conn: link.conn,
                frame,
            }),
            Phase::Connecting { .. } => link.waiting.push(frame),
            Phase::Idle => {
                link.waiting.push(frame);
                self.generation += 1;
                link.conn = ConnId {
                    slot,
                    generation: self.generation,
                };
                link.phase = Phase::Connecting {
                    until: ground.arm(CONNECT_TIMEOUT, Timer::Dial(slot)),
                };
                ground.net(NetAction::Connect {
                    conn: link.conn,
                    addr: link.addr.clone(),
                    tls: None,
                });
            }
        }
    }

    fn slot(&mut self, addr: &PeerAddr) -> u32 {
        if let Some(slot) = self.by_addr.get(addr) {
            return *slot;
        }
        let slot = u32::try_from(self.links.len()).expect("a member knows fewer than 2^32 addresses");
        self.links.push(Link {
            addr: addr.clone(),
            conn: ConnId { slot, generation: 0 },
            phase: Phase::Idle,
            waiting: Vec::new(),
            reassembler: Reassembler::new(FRAME_LEN_MAX),
        });
        self.by_addr.insert(addr.clone(), slot);
        slot
    }

    /// What a connection did. Answers are only cut out here; [`Self::complete`] finds whose they are.
    pub(super) fn on_net(&mut self, ground: &mut Ground, event: NetEvent) -> Vec<Heard<P>> {
        let (NetEvent::Connected { conn }
        | NetEvent::ConnectFailed { conn, .. }
        | NetEvent::Received { conn, .. }
        | NetEvent::Closed { conn, .. }) = event
        else {
            return Vec::new();
        };
        let Some(link) = self
            .links
            .get_mut(conn.slot as usize)
            .filter(|link| link.conn == conn)
        else {
            return Vec::new();
        };
        match (event, link.phase) {
            (NetEvent::Connected { .. }, Phase::Connecting { until }) => {
                ground.disarm(until, Timer::Dial(conn.slot));
                link.phase = Phase::Up;
                link.reassembler = Reassembler::new(FRAME_LEN_MAX);
                for frame in std::mem::take(&mut link.waiting) {
                    ground.net(NetAction::Send { conn, frame });
                }
                vec![Heard::Up(link.addr.clone())]
            }
            (NetEvent::Received { bytes, .. }, Phase::Up) => {
                link.reassembler.push(bytes);
                let mut frames = Vec::new();
                loop {
                    match link.reassembler.next_frame() {
                        Ok(Some(frame)) => frames.push(Heard::Frame(conn, frame)),
                        Ok(None) => return frames,
                        Err(_) => break,
                    }
                }
                ground.net(NetAction::Close { conn });
                frames.extend(self.lost(ground, conn.slot));
                frames
            }
            (
                NetEvent::ConnectFailed { .. } | NetEvent::Closed { .. },
                Phase::Connecting { .. } | Phase::Up,
            ) => self.lost(ground, conn.slot),
            _ => Vec::new(),
        }
    }

    /// Ends the request an answer belongs to.
    pub(super) fn complete(&mut self, ground: &mut Ground, conn: ConnId, opaque: i32) -> Option<P> {
        self.pending
            .get(&opaque)
            .filter(|pending| pending.slot == conn.slot)?;
        let pending = self.pending.remove(&opaque)?;
        ground.disarm(pending.due, Timer::Request(opaque));
        Some(pending.purpose)
    }

    /// A request has waited long enough.
    pub(super) fn overdue(&mut self, ground: &mut Ground, opaque: i32) -> Vec<Heard<P>> {
        let Some(pending) = self.pending.remove(&opaque) else {
            return Vec::new();
        };
        let mut heard = vec![Heard::Ended(pending.purpose, None)];
        if pending.closes {
            heard.extend(self.hang_up(ground, pending.slot));
        }
        heard
    }

    /// An attempt to connect has lasted long enough.
    pub(super) fn give_up(&mut self, ground: &mut Ground, slot: u32) -> Vec<Heard<P>> {
        match self.links[slot as usize].phase {
            Phase::Connecting { .. } => self.hang_up(ground, slot),
            Phase::Idle | Phase::Up => Vec::new(),
        }
    }

    fn hang_up(&mut self, ground: &mut Ground, slot: u32) -> Vec<Heard<P>> {
        let link = &self.links[slot as usize];
        if link.phase == Phase::Idle {
            return Vec::new();
        }
        ground.net(NetAction::Close { conn: link.conn });
        self.lost(ground, slot)
    }

    fn lost(&mut self, ground: &mut Ground, slot: u32) -> Vec<Heard<P>> {
        let link = &mut self.links[slot as usize];
        if let Phase::Connecting { until } = link.phase {
            ground.disarm(until, Timer::Dial(slot));
        }
        link.phase = Phase::Idle;
        link.waiting.clear();
        let lost: Vec<i32> = self
            .pending
            .iter()
            .filter(|(_, pending)| pending.slot == slot)
            .map(|(opaque, _)| *opaque)
            .collect();
        lost.into_iter()
            .filter_map(|opaque| {
                let pending = self.pending.remove(&opaque)?;
                ground.disarm(pending.due, Timer::Request(opaque));
                Some(Heard::Ended(pending.purpose, None))
            })
            .collect()
    }

    /// Answers what the peer asked.
    pub(super) fn answer(&self, ground: &mut Ground, conn: ConnId, frame: Bytes) {
        if self
            .links
            .get(conn.slot as usize)
            .is_some_and(|link| link.conn == conn && link.phase == Phase::Up)
        {
            ground.net(NetAction::Send { conn, frame });
        }
    }

    /// Closes everything; whoever waits is forgotten.
    pub(super) fn close_all(&mut self, ground: &mut Ground) {
        self.pending.clear();
        for link in &mut self.links {
            if link.phase != Phase::Idle {
                link.phase = Phase::Idle;
                ground.net(NetAction::Close { conn: link.conn });
            }
        }
    }
}

/// The sweep runs every second and takes what is overdue by a second: 31 to 32 s for a pull.
fn sweep_after(now: Instant, timeout: Duration) -> Duration {
    let due = now + timeout + Duration::from_secs(1);
    let on_the_second = Instant::from_millis(due.as_millis().div_ceil(1_000) * 1_000);
    on_the_second.saturating_since(now).max(timeout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unanswered_pull_surfaces_after_31_to_32_seconds() {
        for sent in [0, 1, 400, 999, 1_000] {
            let after = sweep_after(Instant::from_millis(sent), Duration::from_secs(30)).as_millis();
            assert!((31_000..=32_000).contains(&after), "{sent}: {after}");
        }
    }
}
