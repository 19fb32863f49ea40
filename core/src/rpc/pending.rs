use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use bytes::Bytes;

use crate::rpc::Patience;
use crate::time::Instant;

/// A request that has not ended.
#[derive(Clone, Debug)]
pub(super) struct Pending<P> {
    pub(super) slot: u32,
    pub(super) purpose: P,
    /// When it was written; `None` while it waits for the link.
    pub(super) sent_at: Option<Instant>,
    pub(super) patience: Patience,
    /// Its frame, as long as it may be sent once more on another connection.
    pub(super) kept: Option<Bytes>,
}

/// Requests by `opaque`. Taking one out is the only way a request ends, so it ends once.
#[derive(Clone, Debug)]
pub(super) struct PendingTable<P> {
    by_opaque: BTreeMap<i32, Pending<P>>,
    next_opaque: i32,
}

impl<P> PendingTable<P> {
    pub(super) const fn new() -> Self {
        Self {
            by_opaque: BTreeMap::new(),
            next_opaque: 0,
        }
    }

    /// The next number nobody waits under; never negative, wraps behind 2³¹ − 1.
    pub(super) fn free_opaque(&mut self) -> i32 {
        loop {
            let opaque = self.next_opaque;
            self.next_opaque = opaque.checked_add(1).unwrap_or(0);
            if !self.by_opaque.contains_key(&opaque) {
                return opaque;
            }
        }
    }

    pub(super) fn insert(&mut self, opaque: i32, pending: Pending<P>) {
        self.by_opaque.insert(opaque, pending);
    }

    pub(super) fn sent(&mut self, opaque: i32, now: Instant) {
        if let Some(pending) = self.by_opaque.get_mut(&opaque) {
            pending.sent_at = Some(now);
        }
    }

    pub(super) fn take(&mut self, opaque: i32) -> Option<Pending<P>> {
        self.by_opaque.remove(&opaque)
    }

    /// Takes the request an answer from this link belongs to; an answer to what was never written,
    /// or was written to somebody else, belongs to nobody.
    pub(super) fn take_sent(&mut self, opaque: i32, slot: u32) -> Option<Pending<P>> {
        let pending = self.by_opaque.get(&opaque)?;
        if pending.slot != slot || pending.sent_at.is_none() {
            return None;
        }
        self.by_opaque.remove(&opaque)
    }

    pub(super) fn waits_for(&self, slot: u32) -> bool {
        self.by_opaque
            .values()
            .any(|pending| pending.slot == slot && pending.sent_at.is_none())
    }

    /// Whether any request of this link that has not ended is of a kind.
    pub(super) fn any(&self, slot: u32, wanted: impl Fn(&P) -> bool) -> bool {
        let mut pending = self.by_opaque.values();
        pending.any(|pending| pending.slot == slot && wanted(&pending.purpose))
    }

    /// Takes what ends with a lost connection: the written ones and the impatient ones.
    pub(super) fn take_lost(&mut self, slot: u32) -> Vec<(i32, Pending<P>)> {
        self.take_where(|p| p.slot == slot && (p.sent_at.is_some() || p.patience == Patience::FailFast))
    }

    /// Takes what is of a kind and was not written yet.
    pub(super) fn take_unwritten(&mut self, unwanted: impl Fn(&P) -> bool) -> Vec<(i32, Pending<P>)> {
        self.take_where(|p| p.sent_at.is_none() && unwanted(&p.purpose))
    }

    pub(super) fn take_all(&mut self, slot: u32) -> Vec<(i32, Pending<P>)> {
        self.take_where(|p| p.slot == slot)
    }

    fn take_where(&mut self, ends: impl Fn(&Pending<P>) -> bool) -> Vec<(i32, Pending<P>)> {
        let opaques: Vec<i32> = self
            .by_opaque
            .iter()
            .filter(|(_, pending)| ends(pending))
            .map(|(opaque, _)| *opaque)
            .collect();
        opaques
            .into_iter()
            .filter_map(|opaque| Some((opaque, self.by_opaque.remove(&opaque)?)))
            .collect()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.by_opaque.is_empty()
    }

    #[cfg(test)]
    pub(super) fn purpose(&self, opaque: i32) -> Option<&P> {
        self.by_opaque.get(&opaque).map(|pending| &pending.purpose)
    }

    #[cfg(test)]
    pub(super) const fn start_at(&mut self, opaque: i32) {
        self.next_opaque = opaque;
    }
}
