//! What a passed deadline means for a request, and for its link.

use super::link::LinkPhase;
use super::{Rpc, RpcTimer};
use crate::action::{CallError, NetAction};
use crate::status::LinkTrouble;
use crate::step::Cx;

impl<P: Clone> Rpc<P> {
    pub(super) fn past_deadline<K, A>(&mut self, cx: &mut Cx<'_, K, A>, opaque: i32)
    where
        K: From<RpcTimer> + Ord + Clone,
        A: From<NetAction>,
    {
        let Some(pending) = self.pending.take(opaque) else {
            return;
        };
        let silence_min = self.settings.silence_min;
        let slot = pending.slot;
        let link = self.link(slot);
        link.requests -= 1;
        let Some(sent_at) = pending.sent_at else {
            link.drop_waiting(opaque);
            let addr = link.addr.clone();
            return self.fail(pending.purpose, CallError::Connect(addr));
        };
        self.fail(pending.purpose, CallError::Timeout);
        let link = self.link(slot);
        // A byte of the very event that made us send it came before it: most pulls go out like that.
        if link.phase != LinkPhase::Up || link.last_byte_at > sent_at {
            return;
        }
        // Not one byte since: the link is suspect, and dead once it has been silent long enough.
        if cx.now >= sent_at + silence_min {
            return self.close_silent(cx, slot);
        }
        if link.silent_since.is_none() {
            link.silent_since = Some(sent_at);
            cx.timers.set(RpcTimer::Silence(slot), sent_at + silence_min);
        }
    }

    pub(super) fn close_silent<K, A>(&mut self, cx: &mut Cx<'_, K, A>, slot: u32)
    where
        K: From<RpcTimer> + Ord + Clone,
        A: From<NetAction>,
    {
        let conn = self.link(slot).conn;
        cx.out.push(NetAction::Close { conn });
        self.lost(cx, slot, LinkTrouble::Silent);
    }
}
