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
        if self.link(slot).retired {
            return self.dismiss_if_idle(cx, slot);
        }
        let link = self.link(slot);
        // A suspicion that has been refuted since, but not judged yet, must not hide this one.
        let is_suspect = |since| link.nothing_whole_since(since).is_some();
        if link.phase != LinkPhase::Up || link.silent_since.is_some_and(is_suspect) {
            return;
        }
        // A byte of the very event that made us send it came before it: most pulls go out like that.
        let Some(since) = link.nothing_whole_since(sent_at) else {
            return;
        };
        // The link is suspect, and dead once it has been silent long enough.
        if cx.now >= since + silence_min {
            return self.close_silent(cx, slot);
        }
        link.silent_since = Some(since);
        cx.timers.set(RpcTimer::Silence(slot), since + silence_min);
    }

    /// A suspect link has had its time.
    pub(super) fn judge_silence<K, A>(&mut self, cx: &mut Cx<'_, K, A>, slot: u32)
    where
        K: From<RpcTimer> + Ord + Clone,
        A: From<NetAction>,
    {
        let silence_min = self.settings.silence_min;
        let link = self.link(slot);
        let Some(suspect) = link.silent_since.take().filter(|_| link.phase == LinkPhase::Up) else {
            return;
        };
        match link.nothing_whole_since(suspect) {
            Some(since) if cx.now >= since + silence_min => self.close_silent(cx, slot),
            Some(since) => {
                link.silent_since = Some(since);
                cx.timers.set(RpcTimer::Silence(slot), since + silence_min);
            }
            None => {}
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
