use alloc::collections::VecDeque;
use core::time::Duration;

use bytes::Bytes;

use crate::ids::{ConnId, PeerAddr};
use crate::status::LinkTrouble;
use crate::status::{LinkState, LinkStatus};
use crate::time::Instant;
use crate::wire::link::Reassembler;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkPhase {
    Idle,
    LookingUp,
    Connecting,
    Up,
    BackingOff,
}

impl LinkPhase {
    /// Whether the driver holds something for the current connection.
    pub(super) const fn is_alive(self) -> bool {
        matches!(self, Self::LookingUp | Self::Connecting | Self::Up)
    }
}

/// What leads to one address, over all lives of its connection.
#[derive(Clone, Debug)]
pub(super) struct Link {
    /// The address the peer is known by.
    pub(super) addr: PeerAddr,
    /// The address that is dialled for it.
    pub(super) dial: PeerAddr,
    pub(super) conn: ConnId,
    pub(super) phase: LinkPhase,
    since: Instant,
    /// Frames that wait for the link to stand, each with its request if it has one.
    pub(super) waiting: VecDeque<(Option<i32>, Bytes)>,
    /// Requests that have not ended.
    pub(super) requests: usize,
    /// Bytes waiting here or handed over and not yet reported as sent.
    pub(super) queued_bytes: u64,
    pub(super) reassembler: Reassembler,
    pub(super) last_byte_at: Instant,
    /// A request passed its deadline, and since this time not one byte came, or none of a frame that was begun.
    pub(super) silent_since: Option<Instant>,
    /// Attempts and connections lost in a row without a single good frame between them.
    pub(super) failures: u32,
    pub(super) broken_since: Option<Instant>,
    pub(super) trouble: Option<LinkTrouble>,
    /// Whether a good frame came on the connection that stands.
    pub(super) has_answered: bool,
    /// Its peer goes away: another link leads to the address, this one only waits for what is under way.
    pub(super) retired: bool,
    /// While leaving: how often it may still be dialled.
    pub(super) dials_left: Option<u32>,
    frame_len_max: u32,
}

impl Link {
    pub(super) fn new(addr: PeerAddr, dial: PeerAddr, slot: u32, now: Instant, frame_len_max: u32) -> Self {
        Self {
            addr,
            dial,
            conn: ConnId { slot, generation: 0 },
            phase: LinkPhase::Idle,
            since: now,
            waiting: VecDeque::new(),
            requests: 0,
            queued_bytes: 0,
            reassembler: Reassembler::new(frame_len_max),
            last_byte_at: now,
            silent_since: None,
            failures: 0,
            broken_since: None,
            trouble: None,
            has_answered: false,
            retired: false,
            dials_left: None,
            frame_len_max,
        }
    }

    pub(super) fn set_phase(&mut self, phase: LinkPhase, now: Instant) {
        self.phase = phase;
        self.since = now;
    }

    pub(super) fn up(&mut self, now: Instant) {
        self.set_phase(LinkPhase::Up, now);
        self.reassembler = Reassembler::new(self.frame_len_max);
        self.last_byte_at = now;
        self.silent_since = None;
        self.has_answered = false;
    }

    pub(super) fn down(&mut self, now: Instant, trouble: LinkTrouble) {
        self.set_phase(LinkPhase::BackingOff, now);
        self.reassembler = Reassembler::new(self.frame_len_max);
        self.silent_since = None;
        self.failures = self.failures.saturating_add(1);
        self.broken_since.get_or_insert(now);
        self.trouble = Some(trouble);
        self.queued_bytes = self.waiting.iter().map(|(_, frame)| frame.len() as u64).sum();
    }

    /// Whether the connection has stood for so long.
    pub(super) fn has_stood_for(&self, time: Duration, now: Instant) -> bool {
        self.phase == LinkPhase::Up && now.saturating_since(self.since) >= time
    }

    /// Since when nothing has come, counted from `at`: since then if there was not one byte; since the last byte
    /// if a frame was begun and does not go on. `None` if whole frames came and nothing is missing.
    pub(super) fn nothing_whole_since(&self, at: Instant) -> Option<Instant> {
        if self.last_byte_at <= at {
            Some(at)
        } else {
            (self.reassembler.want() > 0).then_some(self.last_byte_at)
        }
    }

    /// A good frame came: the peer is well. Only this ends an outage; a peer that accepts
    /// connections and drops them at once stays in its back-off.
    pub(super) fn proved(&mut self) {
        self.has_answered = true;
        if self.broken_since.is_some() || self.trouble.is_some() {
            self.failures = 0;
            self.broken_since = None;
            self.trouble = None;
        }
    }

    pub(super) fn drop_waiting(&mut self, opaque: i32) {
        let queued = &mut self.queued_bytes;
        self.waiting.retain(|(request, frame)| {
            let keep = *request != Some(opaque);
            if !keep {
                *queued = queued.saturating_sub(frame.len() as u64);
            }
            keep
        });
    }

    pub(super) fn status(&self) -> LinkStatus {
        LinkStatus {
            addr: self.addr.clone(),
            state: match self.phase {
                LinkPhase::Idle => LinkState::Idle,
                LinkPhase::LookingUp | LinkPhase::Connecting => LinkState::Connecting,
                LinkPhase::Up => LinkState::Up,
                LinkPhase::BackingOff => LinkState::BackingOff,
            },
            since: self.since,
            requests: self.requests,
            failed_dials: self.failures,
            trouble: self.trouble,
            heartbeat_acknowledged: false,
        }
    }
}
