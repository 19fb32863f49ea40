use std::collections::BTreeMap;

use bytes::Bytes;
use rocketmq_consumer_core::ids::{PhysicalOffset, QueueOffset};
use rocketmq_consumer_core::wire::stored::{Record, Scanned, Scanner};
use rocketmq_consumer_core::wire::subscription::Subscription;

/// What is known of a message that was fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Waiting,
    Out,
    Failing,
    /// Sent back and accepted, but so late that the machine may have given up; or it may be another one that was.
    Unsure,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) state: State,
    pub(super) bytes: u32,
    pub(super) physical: PhysicalOffset,
    /// How often it was given to a handler here, less one.
    pub(super) attempt: u32,
    /// Which answer brought it.
    pub(super) answer: u64,
}

/// One ownership.
#[derive(Debug)]
pub(in crate::sim) struct Book {
    pub(super) next: QueueOffset,
    /// Where `next` stood before an answer of which the machine has not shown yet, by pulling on, that it was still
    /// its own: it may have given the queue up earlier in the same step.
    doubted: Option<QueueOffset>,
    highest: QueueOffset,
    pub(super) unfinished: BTreeMap<QueueOffset, Slot>,
    held: Held,
    /// Answers that are held: how many messages of each, and its bytes.
    answers: BTreeMap<u64, (u32, u64)>,
    pub(super) committed: Option<QueueOffset>,
    pub(super) serial: u64,
    pub(super) gave_up: bool,
}

/// What an ownership holds, at least: messages that may be finished do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::sim) struct Held {
    /// Messages.
    pub(in crate::sim) count: u32,
    /// Their body bytes as stored.
    pub(in crate::sim) bytes: u64,
    /// Bytes of the answers they came with.
    pub(in crate::sim) buffer: u64,
}

impl Default for Book {
    fn default() -> Self {
        Self {
            next: QueueOffset(0),
            doubted: None,
            highest: QueueOffset(0),
            unfinished: BTreeMap::new(),
            held: Held::default(),
            answers: BTreeMap::new(),
            committed: None,
            serial: 0,
            gave_up: false,
        }
    }
}

impl Book {
    /// What it holds.
    pub(in crate::sim) const fn held(&self) -> Held {
        self.held
    }

    /// How far the highest fetched offset lies above the lowest unfinished one, at least.
    pub(in crate::sim) fn span(&self) -> u64 {
        let first = self.sure().next();
        first.map_or(0, |first| u64::try_from(self.highest.0 - first.0).unwrap_or(0))
    }

    /// Whether the model still knows this ownership.
    pub(in crate::sim) const fn is_known(&self) -> bool {
        !self.gave_up
    }

    fn sure(&self) -> impl Iterator<Item = QueueOffset> {
        let slots = self.unfinished.iter();
        slots
            .filter(|(_, slot)| slot.state != State::Unsure)
            .map(|(offset, _)| *offset)
    }

    /// The lowest unfinished offset: the least and the most it can be.
    pub(super) fn lowest(&self) -> (QueueOffset, QueueOffset) {
        let least = self.unfinished.keys().next().copied().unwrap_or(self.next);
        let least = self.doubted.map_or(least, |before| before.min(least));
        (least, self.sure().next().unwrap_or(self.next))
    }

    /// An answer has come: perhaps too late.
    pub(super) fn doubt(&mut self) {
        self.doubted.get_or_insert(self.next);
    }

    /// The machine pulls on, so it took the last answer for its own.
    pub(super) const fn pulls_on(&mut self) {
        self.serial += 1;
        self.doubted = None;
    }

    /// Where it begins, and what is stored as its progress then.
    pub(super) const fn start(&mut self, from: QueueOffset) {
        self.next = from;
        self.highest = from;
        self.committed = Some(from);
    }

    pub(super) fn take_in(
        &mut self,
        asked: QueueOffset,
        next: QueueOffset,
        records: &Bytes,
        wanted: Option<&Subscription>,
    ) {
        let answer = self.serial;
        self.answers.insert(answer, (0, records.len() as u64));
        for scanned in Scanner::new(records) {
            let Scanned::Message(entry) = scanned else {
                self.gave_up = true;
                return;
            };
            let offset = entry.queue_offset();
            let record = Record::new(records, entry);
            let is_wanted = wanted.is_none_or(|wanted| wanted.matches(record.tags().as_deref()));
            if offset < asked || offset >= next || !is_wanted || self.unfinished.contains_key(&offset) {
                continue;
            }
            let slot = Slot {
                state: State::Waiting,
                bytes: entry.body_len(),
                physical: record.physical_offset(),
                attempt: 0,
                answer,
            };
            self.unfinished.insert(offset, slot);
            self.count(slot, true);
            self.highest = self.highest.max(offset);
        }
        self.next = next;
    }

    /// A message is in another state now.
    pub(super) fn set(&mut self, offset: QueueOffset, state: State) {
        let Some(slot) = self.unfinished.get_mut(&offset) else {
            return;
        };
        let (was, is) = (slot.state != State::Unsure, state != State::Unsure);
        slot.state = state;
        let slot = *slot;
        if was != is {
            self.count(slot, is);
        }
    }

    pub(super) fn finish(&mut self, offset: QueueOffset) {
        if let Some(slot) = self.unfinished.remove(&offset)
            && slot.state != State::Unsure
        {
            self.count(slot, false);
        }
    }

    /// Counts a message in or out, and with the last one of an answer its bytes.
    fn count(&mut self, slot: Slot, comes: bool) {
        let Some((left, bytes)) = self.answers.get_mut(&slot.answer) else {
            return;
        };
        let held = &mut self.held;
        if comes {
            held.buffer += if *left == 0 { *bytes } else { 0 };
            *left += 1;
            held.count += 1;
            held.bytes += u64::from(slot.bytes);
        } else {
            *left -= 1;
            held.buffer -= if *left == 0 { *bytes } else { 0 };
            held.count -= 1;
            held.bytes -= u64::from(slot.bytes);
        }
    }
}
