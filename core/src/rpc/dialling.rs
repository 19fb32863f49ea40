//! How a link is made, how it is lost, and how long it pauses in between.

use core::time::Duration;

use super::link::LinkPhase;
use super::{Rpc, RpcSignal, RpcTimer, Settings};
use crate::action::{CallError, NetAction};
use crate::ids::{ConnId, PeerAddr};
use crate::status::LinkTrouble;
use crate::step::Cx;

/// How long an outage must last before attempts become rare.
const LONG_OUTAGE: Duration = Duration::from_secs(5 * 60);

impl<P: Clone> Rpc<P> {
    pub(super) fn dial<K, A>(&mut self, cx: &mut Cx<'_, K, A>, slot: u32)
    where
        K: From<RpcTimer> + Ord + Clone,
        A: From<NetAction>,
    {
        self.generation = self.generation.wrapping_add(1);
        let generation = self.generation;
        let timeout = self.settings.dial_timeout;
        let link = self.link(slot);
        match &mut link.dials_left {
            Some(0) => return self.give_up(cx, slot),
            Some(left) => *left -= 1,
            None => {}
        }
        link.conn = ConnId { slot, generation };
        let conn = link.conn;
        cx.timers.set(RpcTimer::DialTimeout(slot), cx.now + timeout);
        if link.dial.host().parse::<core::net::IpAddr>().is_ok() {
            let dial = link.dial.clone();
            self.connect(cx, conn, dial);
        } else {
            link.set_phase(LinkPhase::LookingUp, cx.now);
            cx.out.push(NetAction::Lookup {
                conn,
                name: link.dial.host().into(),
            });
        }
    }

    pub(super) fn connect<K, A>(&mut self, cx: &mut Cx<'_, K, A>, conn: ConnId, addr: PeerAddr)
    where
        A: From<NetAction>,
    {
        self.link(conn.slot).set_phase(LinkPhase::Connecting, cx.now);
        cx.out.push(NetAction::Connect {
            conn,
            addr,
            tls: None,
        });
    }

    pub(super) fn connected<K, A>(&mut self, cx: &mut Cx<'_, K, A>, conn: ConnId)
    where
        K: From<RpcTimer> + Ord + Clone,
        A: From<NetAction>,
    {
        cx.timers.cancel(RpcTimer::DialTimeout(conn.slot));
        let link = self.link(conn.slot);
        link.up(cx.now);
        let (addr, again) = (link.addr.clone(), link.trouble.is_some());
        for (opaque, frame) in core::mem::take(&mut link.waiting) {
            if let Some(opaque) = opaque {
                self.pending.sent(opaque, cx.now);
            }
            cx.out.push(NetAction::Send { conn, frame });
        }
        self.signals.push_back(RpcSignal::Up { addr, conn, again });
    }

    /// A link or an attempt is gone. What was written is lost with it; what waits goes on waiting.
    pub(super) fn lost<K, A>(&mut self, cx: &mut Cx<'_, K, A>, slot: u32, trouble: LinkTrouble)
    where
        K: From<RpcTimer> + Ord + Clone,
        A: From<NetAction>,
    {
        if self.link(slot).retired {
            return self.remove(cx, slot);
        }
        cx.timers.cancel(RpcTimer::DialTimeout(slot));
        cx.timers.cancel(RpcTimer::Silence(slot));
        let pause = self.next_pause(cx, slot);
        let link = self.link(slot);
        link.down(cx.now, trouble);
        let (addr, failures) = (link.addr.clone(), link.failures);
        cx.timers.set(RpcTimer::Redial(slot), cx.now + pause);
        // Told before the requests that end with it, so that whoever asks again knows that it is down.
        self.signals.push_back(RpcSignal::Down {
            addr: addr.clone(),
            trouble,
            failures,
        });
        for (opaque, pending) in self.pending.take_lost(slot) {
            cx.timers.cancel(RpcTimer::Deadline(opaque));
            let error = match pending.sent_at {
                Some(_) => CallError::Closed,
                None => CallError::Connect(addr.clone()),
            };
            let link = self.link(slot);
            link.requests -= 1;
            link.drop_waiting(opaque);
            self.fail(pending.purpose, error);
        }
    }

    /// No attempt is left: everything that waits for the link fails.
    pub(super) fn give_up<K, A>(&mut self, cx: &mut Cx<'_, K, A>, slot: u32)
    where
        K: From<RpcTimer> + Ord + Clone,
    {
        let link = self.link(slot);
        link.waiting.clear();
        link.requests = 0;
        let addr = link.addr.clone();
        for (opaque, pending) in self.pending.take_all(slot) {
            cx.timers.cancel(RpcTimer::Deadline(opaque));
            self.fail(pending.purpose, CallError::Connect(addr.clone()));
        }
    }

    pub(super) fn next_pause<K, A>(&mut self, cx: &mut Cx<'_, K, A>, slot: u32) -> Duration {
        let Settings {
            backoff,
            backoff_max,
            backoff_long,
            ..
        } = self.settings;
        let link = self.link(slot);
        let outage = link
            .broken_since
            .map_or(Duration::ZERO, |at| cx.now.saturating_since(at));
        let most = if outage < LONG_OUTAGE {
            backoff_max
        } else {
            backoff_long
        };
        let pause = backoff.saturating_mul(1 << link.failures.min(16)).min(most);
        cx.rng.jitter(pause, 20)
    }
}
