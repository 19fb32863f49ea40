//! A peer that goes away in order: it answers 1500 to whatever it is asked from then on, and hangs up some time later.
//!
//! ```text
//!  Up ──1500──► retired: what is under way there may still be answered ──nothing is left, closed──► gone
//!    └────────► a new link to the same address: what was answered 1500 is sent there, once
//! ```
//!
//! Behind the address may be another peer by now, or still the same one: then the new link meets 1500 as well,
//! without a good answer before it, and pauses as any other link that cannot be made.
//= rocketmq: NettyRemotingClient.invokeImpl type=differs
//  reason: a request that belongs to its connection is not sent on another one, and the new one has a back-off.

use core::time::Duration;

use super::link::LinkPhase;
use super::pending::Pending;
use super::{Rpc, RpcSignal, RpcTimer};
use crate::action::{CallError, NetAction};
use crate::ids::{ConnId, PeerAddr};
use crate::status::LinkTrouble;
use crate::step::Cx;
use crate::wire::code::ResponseCode;

/// How long a link must have stood to be replaced at once.
const STOOD_MIN: Duration = Duration::from_secs(5);

/// A larger frame is not kept to be sent again.
pub(super) const KEPT_BYTES_MAX: usize = 64 * 1024;

impl<P: Clone> Rpc<P> {
    /// A peer has answered that it goes away.
    pub(crate) fn go_away<K, A>(&mut self, cx: &mut Cx<'_, K, A>, conn: ConnId, opaque: i32)
    where
        K: From<RpcTimer> + Ord + Clone,
        A: From<NetAction>,
    {
        let Some(link) = self.live(conn) else { return };
        let (addr, retired) = (link.addr.clone(), link.retired);
        let has_lasted = link.has_answered && link.has_stood_for(STOOD_MIN, cx.now);
        let asked = self.pending.take_sent(opaque, conn.slot);
        if asked.is_some() {
            self.link(conn.slot).requests -= 1;
        }
        if !retired && has_lasted && !self.has_retired(&addr) {
            self.retire(cx, conn.slot);
        } else if !retired {
            self.turn_back(cx, conn);
        }
        match asked {
            Some(asked) => self.send_elsewhere(cx, &addr, opaque, asked),
            None => self.counters.late_answers += 1,
        }
        self.dismiss_if_idle(cx, conn.slot);
    }

    /// Sends a request to the same address on the connection that leads there now, once and if it may be.
    fn send_elsewhere<K, A>(&mut self, cx: &mut Cx<'_, K, A>, addr: &PeerAddr, opaque: i32, asked: Pending<P>)
    where
        K: From<RpcTimer> + Ord + Clone,
        A: From<NetAction>,
    {
        let mut asked = asked;
        match asked.kept.take() {
            Some(frame) => {
                let slot = self.link_slot(cx.now, addr);
                (asked.slot, asked.sent_at) = (slot, None);
                self.pending.insert(opaque, asked);
                self.link(slot).requests += 1;
                self.write(cx, slot, Some(opaque), frame);
            }
            None => {
                cx.timers.cancel(RpcTimer::Deadline(opaque));
                let remark = "the peer goes away".into();
                let code = ResponseCode::GO_AWAY.0;
                self.fail(asked.purpose, CallError::Broker { code, remark });
            }
        }
    }

    /// The new link meets 1500 as well, or one that was made a moment ago: it is closed, and the next one is made
    /// after the longest pause of a short outage, however well the peer has answered meanwhile.
    fn turn_back<K, A>(&mut self, cx: &mut Cx<'_, K, A>, conn: ConnId)
    where
        K: From<RpcTimer> + Ord + Clone,
        A: From<NetAction>,
    {
        cx.out.push(NetAction::Close { conn });
        self.lost(cx, conn.slot, LinkTrouble::GoneAway);
        let pause = cx.rng.jitter(self.settings.backoff_max, 20);
        cx.timers.set(RpcTimer::Redial(conn.slot), cx.now + pause);
    }

    /// Whether a connection is the one that its address is asked on.
    pub(crate) fn is_current(&self, conn: ConnId) -> bool {
        self.addr(conn)
            .is_some_and(|addr| self.by_addr.get(addr) == Some(&conn.slot))
    }

    /// One at a time: a peer that sends us away again and again is not followed at full speed.
    fn has_retired(&self, addr: &PeerAddr) -> bool {
        let mut links = self.links.iter().flatten();
        links.any(|link| link.retired && &link.addr == addr)
    }

    fn retire<K, A>(&mut self, cx: &Cx<'_, K, A>, slot: u32) {
        let link = self.link(slot);
        link.retired = true;
        let (addr, dials_left) = (link.addr.clone(), link.dials_left);
        self.by_addr.remove(&addr);
        let successor = self.link_slot(cx.now, &addr);
        let successor = self.link(successor);
        // The peer lists us twice for a while, as it does after a link that broke.
        successor.trouble = Some(LinkTrouble::GoneAway);
        successor.dials_left = dials_left;
        let trouble = LinkTrouble::GoneAway;
        self.signals.push_back(RpcSignal::Down {
            addr,
            trouble,
            failures: 0,
        });
    }

    /// A retired link on which nothing is under way any more is closed.
    pub(super) fn dismiss_if_idle<K, A>(&mut self, cx: &mut Cx<'_, K, A>, slot: u32)
    where
        K: From<RpcTimer> + Ord + Clone,
        A: From<NetAction>,
    {
        let idle = |link: &&super::Link| link.retired && link.requests == 0;
        let Some(link) = self.links[slot as usize].as_ref().filter(idle) else {
            return;
        };
        cx.out.push(NetAction::Close { conn: link.conn });
        self.remove(cx, slot);
    }

    /// The slots of an address: its link, and what has retired from it.
    pub(super) fn slots_of(&self, addr: &PeerAddr) -> alloc::vec::Vec<u32> {
        let of = |slot: &u32| {
            let link = self.links[*slot as usize].as_ref();
            link.is_some_and(|link| &link.addr == addr)
        };
        let slots = u32::try_from(self.links.len()).unwrap_or(u32::MAX);
        (0..slots).filter(of).collect()
    }

    /// Takes a link out; what it carried fails.
    pub(super) fn remove<K, A>(&mut self, cx: &mut Cx<'_, K, A>, slot: u32)
    where
        K: From<RpcTimer> + Ord + Clone,
    {
        self.links[slot as usize] = None;
        for timer in [
            RpcTimer::Redial(slot),
            RpcTimer::DialTimeout(slot),
            RpcTimer::Silence(slot),
        ] {
            cx.timers.cancel(timer);
        }
        for (opaque, pending) in self.pending.take_all(slot) {
            cx.timers.cancel(RpcTimer::Deadline(opaque));
            self.fail(pending.purpose, CallError::Closed);
        }
    }

    /// Whether the driver still holds something for a link.
    pub(super) fn is_alive(&self, slot: u32) -> Option<ConnId> {
        let link = self.links[slot as usize].as_ref()?;
        let alive = LinkPhase::is_alive(link.phase);
        alive.then_some(link.conn)
    }
}
