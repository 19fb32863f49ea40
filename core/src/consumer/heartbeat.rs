//! Who has been told that we live, and what of us they know.
//!
//! A heartbeat carries the subscriptions of every group, at a *revision* that rises whenever one of
//! them changes. A broker that acknowledged the newest revision on the connection that stands is
//! ready: it may be asked for members and pulled from. Everything else waits for that.
//!
//! ```text
//!  unknown ──► telling ──acknowledged──► told (again every 30 s, at once for a new revision)
//!    ▲            │ refused: again after a pause      │
//!    └─ link lost ┴────────────────────────────────────┘
//! ```
//= rocketmq: MQClientInstance.sendHeartbeatToAllBroker type=differs
//  reason: pulls wait for the acknowledgement instead of meeting SUBSCRIPTION_NOT_LATEST.

use alloc::collections::BTreeMap;
use core::time::Duration;

use crate::action::CallError;
use crate::config::ClientConfig;
use crate::consumer::cx::{Cx, Ready, TimerKey, Wish};
use crate::ids::{BrokerName, PeerAddr};
use crate::notice::NoticeKind;
use crate::status::HoldReason;
use crate::time::Instant;

mod presence;

use presence::Presence;

/// First pause after a refused or unanswered heartbeat; doubles.
const RETRY: Duration = Duration::from_secs(1);

/// Longest such pause: a broker that does not know us is not pulled from.
const RETRY_MAX: Duration = Duration::from_secs(5);

/// How long a broker may go on listing a connection of ours that is gone: its idle limit and a bit.
const REDIAL_SHADOW: Duration = Duration::from_secs(130);

/// How long the members of a group need to come back to a broker that was away.
const RETURN: Duration = Duration::from_secs(3);

#[derive(Clone, Debug)]
pub(crate) struct Heartbeats {
    revision: u64,
    interval: Duration,
    /// Pause after a link could not be made.
    redial: Duration,
    /// How long a replica is out of reach before it is done without.
    patience: Duration,
    beats: BTreeMap<PeerAddr, Beat>,
    /// Groups come and go; without one there is nothing to tell.
    silent: bool,
    /// Links that break are not made again for a heartbeat's sake.
    leaving: bool,
    redialled_at: Option<Instant>,
}

#[derive(Clone, Debug)]
struct Beat {
    broker: BrokerName,
    in_flight: Option<u64>,
    /// The newest revision acknowledged on the connection that stands.
    acknowledged: Option<u64>,
    failures: u32,
    trouble: HoldReason,
    presence: Presence,
}

impl Heartbeats {
    pub(crate) const fn new(config: &ClientConfig) -> Self {
        Self {
            revision: 0,
            interval: config.heartbeat_interval,
            redial: config.dial_backoff,
            patience: config.slave_read_after,
            beats: BTreeMap::new(),
            silent: true,
            leaving: false,
            redialled_at: None,
        }
    }

    /// The subscriptions have changed: every broker is told at once. Returns the new revision.
    pub(crate) fn subscriptions_changed(&mut self, cx: &mut Cx<'_>, anything_to_tell: bool) -> u64 {
        self.revision += 1;
        self.silent = !anything_to_tell;
        let addrs: alloc::vec::Vec<PeerAddr> = self.beats.keys().cloned().collect();
        for addr in addrs {
            self.tell(cx, &addr);
        }
        self.revision
    }

    /// The addresses that are told: every replica of every broker of a watched topic. Returns those
    /// that are no longer among them.
    pub(crate) fn set_addresses(
        &mut self,
        cx: &mut Cx<'_>,
        addresses: BTreeMap<PeerAddr, BrokerName>,
    ) -> alloc::vec::Vec<PeerAddr> {
        let gone: alloc::vec::Vec<PeerAddr> = self
            .beats
            .keys()
            .filter(|addr| !addresses.contains_key(*addr))
            .cloned()
            .collect();
        for addr in &gone {
            self.beats.remove(addr);
            cx.timers.cancel(TimerKey::Heartbeat(addr.clone()));
            cx.timers.cancel(TimerKey::Presence(addr.clone()));
        }
        for (addr, broker) in addresses {
            match self.beats.get_mut(&addr) {
                Some(beat) => beat.broker = broker,
                None => self.meet(cx, addr, broker),
            }
        }
        gone
    }

    /// A replica is named for the first time.
    fn meet(&mut self, cx: &mut Cx<'_>, addr: PeerAddr, broker: BrokerName) {
        // A master that comes back beside a slave that is read from has to last first.
        let is_beside_another = self
            .beats
            .values()
            .any(|beat| beat.broker == broker && beat.acknowledged.is_some());
        let presence = Presence::after(!is_beside_another);
        presence.changed(cx, &addr, false, self.patience);
        let beat = Beat {
            broker,
            in_flight: None,
            acknowledged: None,
            failures: 0,
            trouble: HoldReason::HeartbeatPending,
            presence,
        };
        self.beats.insert(addr.clone(), beat);
        self.tell(cx, &addr);
    }

    /// It is time to tell again.
    pub(crate) fn on_timer(&mut self, cx: &mut Cx<'_>, addr: &PeerAddr) {
        self.tell(cx, addr);
    }

    /// A broker said that it does not know us, or not well enough: tell it at once.
    pub(crate) fn tell_again(&mut self, cx: &mut Cx<'_>, broker: &BrokerName) {
        let concerned: alloc::vec::Vec<PeerAddr> = self
            .beats
            .iter()
            .filter(|(_, beat)| &beat.broker == broker)
            .map(|(addr, _)| addr.clone())
            .collect();
        for addr in concerned {
            self.tell(cx, &addr);
        }
    }

    fn tell(&mut self, cx: &mut Cx<'_>, addr: &PeerAddr) {
        let Some(beat) = self.beats.get_mut(addr) else {
            return;
        };
        // Who leaves does not introduce himself again: what is left to say is the last commit.
        let stranger = self.leaving && beat.acknowledged.is_none();
        if self.silent || stranger || beat.in_flight.is_some() {
            return;
        }
        beat.in_flight = Some(self.revision);
        cx.timers
            .set(TimerKey::Heartbeat(addr.clone()), cx.now + self.interval);
        cx.wishes.push_back(Wish::Beat {
            addr: addr.clone(),
            revision: self.revision,
        });
    }

    /// The broker knows `revision` of us.
    pub(crate) fn on_acknowledged(&mut self, cx: &mut Cx<'_>, addr: &PeerAddr, revision: u64) {
        let Some(beat) = self.beats.get_mut(addr) else {
            return;
        };
        beat.in_flight = None;
        beat.failures = 0;
        let before = beat.acknowledged;
        let now = before.map_or(revision, |before| before.max(revision));
        beat.acknowledged = Some(now);
        let broker = beat.broker.clone();
        if before.is_none() {
            beat.presence.changed(cx, addr, true, self.patience);
        }
        if revision < self.revision {
            self.tell(cx, addr);
        }
        let ready = Ready { before, now };
        cx.wishes.push_back(Wish::BrokerReady { broker, ready });
    }

    /// The heartbeat was refused, or not answered, or its link broke.
    pub(crate) fn on_failed(&mut self, cx: &mut Cx<'_>, addr: &PeerAddr, error: &CallError) {
        let Some(beat) = self.beats.get_mut(addr) else {
            return;
        };
        beat.in_flight = None;
        match error {
            CallError::Closed => {
                beat.lost(cx, addr, self.patience);
                // The request waits for the link; the link has its own back-off.
                self.tell(cx, addr);
                return;
            }
            CallError::Connect(_) => {
                beat.lost(cx, addr, self.patience);
                // A link that may not be dialled any more fails at once; to ask again within the same
                // event would never end.
                cx.timers
                    .set(TimerKey::Heartbeat(addr.clone()), cx.now + self.redial);
                return;
            }
            CallError::Broker { code, remark } => {
                beat.trouble = HoldReason::HeartbeatPending;
                cx.client_notice(NoticeKind::RequestRefused {
                    by: alloc::format!("{} ({addr})", beat.broker),
                    request: "heartbeat",
                    code: *code,
                    remark: remark.clone(),
                });
            }
            CallError::Timeout | CallError::NoRoute | CallError::Overloaded | CallError::Malformed(_) => {
                beat.trouble = HoldReason::HeartbeatPending;
            }
        }
        let pause = RETRY
            .saturating_mul(1 << beat.failures.min(5))
            .min(RETRY_MAX)
            .min(self.interval);
        beat.failures = beat.failures.saturating_add(1);
        cx.timers.set(TimerKey::Heartbeat(addr.clone()), cx.now + pause);
    }

    /// The link is gone: whatever stands next knows nothing of us.
    pub(crate) fn on_link_down(&mut self, cx: &mut Cx<'_>, addr: &PeerAddr) {
        let Some(beat) = self.beats.get_mut(addr) else {
            return;
        };
        beat.lost(cx, addr, self.patience);
        self.tell(cx, addr);
    }

    /// The link stands; what is missing now is the acknowledgement.
    pub(crate) fn on_link_up(&mut self, addr: &PeerAddr) {
        if let Some(beat) = self.beats.get_mut(addr) {
            beat.trouble = HoldReason::HeartbeatPending;
        }
    }

    /// A replica has been out of reach, or within, for as long as it takes.
    pub(crate) fn on_presence_timer(&mut self, cx: &mut Cx<'_>, addr: &PeerAddr) {
        if let Some(beat) = self.beats.get_mut(addr) {
            beat.presence = Presence::after(beat.acknowledged.is_some());
            cx.wishes.push_back(Wish::OtherReader(beat.broker.clone()));
        }
    }

    /// A slave sends us back to this replica: if it knows us, it need not last any longer.
    pub(crate) fn recommended(&mut self, cx: &mut Cx<'_>, addr: &PeerAddr) {
        if let Some(beat) = self
            .beats
            .get_mut(addr)
            .filter(|beat| beat.acknowledged.is_some())
        {
            cx.timers.cancel(TimerKey::Presence(addr.clone()));
            beat.presence = Presence::Here;
        }
    }

    /// Whether a replica has been out of reach for so long that another one is read from.
    pub(crate) fn is_away(&self, addr: &PeerAddr) -> bool {
        self.beats
            .get(addr)
            .is_none_or(|beat| beat.presence == Presence::Away)
    }

    /// A link to a broker that had broken stands again.
    pub(crate) const fn redialled(&mut self, now: Instant) {
        self.redialled_at = Some(now);
    }

    /// Whether a link was dialled again so recently that a broker may still list its former self.
    pub(crate) fn may_be_listed_twice(&self, now: Instant) -> bool {
        self.redialled_within(now, REDIAL_SHADOW)
    }

    /// Whether a link was dialled again so recently that a broker that had been away may not know the
    /// other members again yet.
    pub(crate) fn may_be_listed_alone(&self, now: Instant) -> bool {
        self.redialled_within(now, RETURN)
    }

    fn redialled_within(&self, now: Instant, span: Duration) -> bool {
        self.redialled_at
            .is_some_and(|at| now.saturating_since(at) < span)
    }

    /// Whether a broker's replica knows at least `revision` of us, or why it does not.
    pub(crate) fn readiness(&self, addr: &PeerAddr, revision: u64) -> Result<(), HoldReason> {
        let beat = self.beats.get(addr).ok_or(HoldReason::NoBrokerAddress)?;
        match beat.acknowledged {
            Some(known) if known >= revision => Ok(()),
            Some(_) => Err(HoldReason::HeartbeatPending),
            None => Err(beat.trouble),
        }
    }

    /// Whether everybody who knows us knows `revision`. Who is out of reach has forgotten us.
    pub(crate) fn is_known_to_all(&self, revision: u64) -> bool {
        let mut known = self.beats.values().filter_map(|beat| beat.acknowledged);
        known.all(|known| known >= revision)
    }

    /// Whether an address is one of those that are told.
    pub(crate) fn names(&self, addr: &PeerAddr) -> bool {
        self.beats.contains_key(addr)
    }

    /// Whether somebody knows us at all.
    pub(crate) fn is_known(&self) -> bool {
        self.beats.values().any(|beat| beat.acknowledged.is_some())
    }

    pub(crate) fn is_acknowledged(&self, addr: &PeerAddr) -> bool {
        self.beats
            .get(addr)
            .is_some_and(|beat| beat.acknowledged.is_some())
    }

    /// The addresses that know us or are just being told, and whether a heartbeat is under way there.
    pub(crate) fn told(&self) -> alloc::vec::Vec<(PeerAddr, bool)> {
        let told = self
            .beats
            .iter()
            .filter(|(_, beat)| beat.acknowledged.is_some() || beat.in_flight.is_some());
        told.map(|(addr, beat)| (addr.clone(), beat.in_flight.is_some()))
            .collect()
    }

    /// The client is on its way out: only who knows us is told that we still live.
    pub(crate) const fn leave(&mut self) {
        self.leaving = true;
    }

    /// Nobody is told any more.
    pub(crate) fn stop(&mut self, cx: &mut Cx<'_>) {
        for addr in self.beats.keys() {
            cx.timers.cancel(TimerKey::Heartbeat(addr.clone()));
        }
        self.silent = true;
    }
}

impl Beat {
    /// Whatever stands next at its address knows nothing of us.
    fn lost(&mut self, cx: &mut Cx<'_>, addr: &PeerAddr, patience: Duration) {
        self.trouble = HoldReason::LinkDown;
        if self.acknowledged.take().is_some() {
            self.presence.changed(cx, addr, false, patience);
        }
    }
}

#[cfg(test)]
mod tests;
