//! What one broker has stored: its topics, their consume queues and the commit log behind them.
//!
//! Each record is encoded once, when it is put, and lies in its queue as the bytes a pull answer carries.
//! The log knows every record's place by physical offset; it lists exactly the records that lie in queues,
//! so a record is gone from both or from neither. A slave has no store of its own: it reads its master's
//! as of some time ago ([`View`]).
//!
//! Not modelled: files and their ends (`MESSAGE_WAS_REMOVING`, `OFFSET_FOUND_NULL`), inner batches, the
//! smaller answers of records that are no longer in memory, and an index that lags behind the log.
//= rocketmq: DefaultMessageStore.getMessage

mod filter;
mod find;
mod queue;
mod read;
mod record;
#[cfg(test)]
mod tests;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use bytes::Bytes;

pub(crate) use self::filter::{TagCode, TagFilter};
use self::queue::{Item, Queue};
pub(crate) use self::read::{Read, ReadLimits, ReadStatus};
pub(crate) use self::record::{NewRecord, open};
use super::config::{Settings, TopicConfig};
use crate::ids::{PhysicalOffset, QueueId, QueueOffset, Topic};
use crate::time::{Instant, WallTime};
use crate::wire::stored::TooLong;

/// Queues of one store, of all topics together. [`Settings::topics_max`] times [`Settings::queues_max`]
/// would be ten million.
const QUEUES_MAX: usize = 262_144;

/// How much of a store is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// Everything: the master's own view.
    Newest,
    /// What was stored at this time or earlier: a slave that is so far behind. What was deleted or has
    /// expired is gone for slaves too.
    AsOf(Instant),
}

/// Which side of a time is meant where no message has exactly that time (`BoundaryType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Boundary {
    /// The first message that is not older.
    Lower,
    /// The last message that is not younger.
    Upper,
}

/// Where a record was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    /// Its place in the queue.
    pub(crate) queue_offset: QueueOffset,
    /// Its place in the commit log.
    pub(crate) physical_offset: PhysicalOffset,
    /// What filters compare.
    pub(crate) tag_code: TagCode,
}

/// Why nothing was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PutError {
    /// There is no such topic.
    UnknownTopic,
    /// The topic has no such queue, neither to read nor to write.
    UnknownQueue,
    /// A part is longer than the format of a record can say.
    TooLong(TooLong),
}

impl From<TooLong> for PutError {
    fn from(part: TooLong) -> Self {
        Self::TooLong(part)
    }
}

/// Why a topic was neither created nor changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TopicError {
    /// [`Settings::topics_max`] is reached.
    TooManyTopics,
    /// More queues than [`Settings::queues_max`], or than all topics of a broker may have.
    TooManyQueues,
}

/// Topics, queues and records of one broker.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    topics: BTreeMap<Topic, StoredTopic>,
    /// All queues, by slot. Slots of deleted topics are used again.
    queues: Vec<Queue>,
    free: Vec<usize>,
    /// Every record, in physical order.
    log: VecDeque<Place>,
    next_physical: i64,
    bytes: u64,
    bytes_max: u64,
    topics_max: usize,
    queues_max: u32,
}

/// A topic and the slots of its queues. Queues that were configured away keep what they have and show it
/// again when the topic grows.
#[derive(Clone, Debug)]
struct StoredTopic {
    config: TopicConfig,
    slots: Vec<usize>,
}

/// Where a record of the log lies.
#[derive(Clone, Copy, Debug)]
struct Place {
    physical: PhysicalOffset,
    slot: usize,
    offset: QueueOffset,
}

impl Store {
    /// An empty store with the limits of these settings.
    pub(crate) const fn new(settings: &Settings) -> Self {
        Self {
            topics: BTreeMap::new(),
            queues: Vec::new(),
            free: Vec::new(),
            log: VecDeque::new(),
            next_physical: 0,
            bytes: 0,
            bytes_max: settings.store_bytes_max,
            topics_max: settings.topics_max,
            queues_max: settings.queues_max,
        }
    }

    /// Creates a topic or changes it. Nothing is lost by shrinking it.
    ///
    /// # Errors
    ///
    /// [`TopicError`] when a limit is passed; nothing is changed then.
    pub(crate) fn put_topic(&mut self, config: TopicConfig) -> Result<(), TopicError> {
        let wanted = config.read_queues.max(config.write_queues);
        if wanted > self.queues_max {
            return Err(TopicError::TooManyQueues);
        }
        let known = self.topics.get(&config.name);
        if known.is_none() && self.topics.len() >= self.topics_max {
            return Err(TopicError::TooManyTopics);
        }
        let more = (wanted as usize).saturating_sub(known.map_or(0, |topic| topic.slots.len()));
        if more > QUEUES_MAX - (self.queues.len() - self.free.len()) {
            return Err(TopicError::TooManyQueues);
        }
        let new: Vec<usize> = (0..more).map(|_| self.add_queue()).collect();
        let name = config.name.clone();
        match self.topics.get_mut(&name) {
            Some(topic) => {
                topic.config = config;
                topic.slots.extend(new);
            }
            None => {
                self.topics.insert(name, StoredTopic { config, slots: new });
            }
        }
        Ok(())
    }

    fn add_queue(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.queues.push(Queue::default());
            self.queues.len() - 1
        })
    }

    /// Deletes a topic and all its records; whether there was one. A topic of that name created later
    /// begins at offset 0.
    pub(crate) fn remove_topic(&mut self, topic: &Topic) -> bool {
        let Some(removed) = self.topics.remove(topic) else {
            return false;
        };
        let gone: BTreeSet<usize> = removed.slots.iter().copied().collect();
        self.log.retain(|place| !gone.contains(&place.slot));
        for slot in &removed.slots {
            let queue = core::mem::take(&mut self.queues[*slot]);
            self.bytes -= queue.bytes();
        }
        self.free.extend(removed.slots);
        true
    }

    /// How a topic is configured.
    pub(crate) fn topic(&self, topic: &Topic) -> Option<&TopicConfig> {
        self.topics.get(topic).map(|topic| &topic.config)
    }

    /// All topics, by name.
    pub(crate) fn topics(&self) -> impl Iterator<Item = &TopicConfig> {
        self.topics.values().map(|topic| &topic.config)
    }

    fn slot(&self, topic: &Topic, queue: QueueId) -> Option<usize> {
        let slots = &self.topics.get(topic)?.slots;
        slots.get(usize::try_from(queue.0).ok()?).copied()
    }

    fn queue(&self, topic: &Topic, queue: QueueId) -> Option<&Queue> {
        self.slot(topic, queue).map(|slot| &self.queues[slot])
    }

    /// Stores a record at the end of its queue and of the log. The oldest records of the broker make room
    /// if [`Settings::store_bytes_max`] is passed; the newest always stays.
    ///
    /// # Errors
    ///
    /// [`PutError`]; nothing is stored then.
    pub(crate) fn put(&mut self, now: Instant, record: &NewRecord<'_>) -> Result<Stored, PutError> {
        let topic = self.topics.get(record.topic).ok_or(PutError::UnknownTopic)?;
        let queues = topic.config.read_queues.max(topic.config.write_queues);
        let id = u32::try_from(record.queue_id.0)
            .ok()
            .filter(|id| *id < queues)
            .ok_or(PutError::UnknownQueue)?;
        let slot = topic.slots[id as usize];
        let offset = self.queues[slot].max(View::Newest);
        let physical = PhysicalOffset(self.next_physical);
        let bytes = record.encode(offset, physical)?;
        let tag_code = record.tag_code();
        let size = bytes.len() as u64;
        self.next_physical = self.next_physical.saturating_add_unsigned(size);
        self.bytes += size;
        self.queues[slot].push(Item {
            bytes,
            physical,
            tag_code,
            at: now,
            store_at: record.store_at,
        });
        self.log.push_back(Place {
            physical,
            slot,
            offset,
        });
        while self.bytes > self.bytes_max && self.log.len() > 1 {
            self.drop_oldest();
        }
        Ok(Stored {
            queue_offset: offset,
            physical_offset: physical,
            tag_code,
        })
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.log.pop_front() {
            self.bytes -= self.queues[oldest.slot].expire(QueueOffset(oldest.offset.0 + 1));
        }
    }

    /// Reads what a pull answer carries: records from `offset` on, as far as the limits and the filter go.
    pub(crate) fn read(
        &self,
        view: View,
        (topic, queue): (&Topic, QueueId),
        offset: QueueOffset,
        limits: ReadLimits,
        filter: &TagFilter,
    ) -> Read<'_> {
        match self.queue(topic, queue) {
            Some(queue) => queue.read(view, offset, limits, filter),
            None => Read::nothing(ReadStatus::NoMatchedLogicQueue, QueueOffset(0)),
        }
    }

    /// The oldest offset of a queue; 0 if there is no such queue.
    pub(crate) fn min_offset(&self, topic: &Topic, queue: QueueId) -> QueueOffset {
        self.queue(topic, queue).map_or(QueueOffset(0), Queue::min)
    }

    /// The offset the next message of a queue gets; 0 if there is no such queue.
    pub(crate) fn max_offset(&self, view: View, topic: &Topic, queue: QueueId) -> QueueOffset {
        self.queue(topic, queue)
            .map_or(QueueOffset(0), |queue| queue.max(view))
    }

    /// The offset that belongs to a store time; of an empty queue its minimum, and 0 if there is no such
    /// queue. `Lower` gives the maximum when all messages are older, `Upper` the last one.
    pub(crate) fn search(
        &self,
        view: View,
        (topic, queue): (&Topic, QueueId),
        time: WallTime,
        boundary: Boundary,
    ) -> QueueOffset {
        self.queue(topic, queue)
            .map_or(QueueOffset(0), |queue| queue.search(view, time, boundary))
    }

    /// When the message at an offset was stored; `None` if it is not there.
    pub(crate) fn store_time(
        &self,
        view: View,
        (topic, queue): (&Topic, QueueId),
        offset: QueueOffset,
    ) -> Option<WallTime> {
        let item = self.queue(topic, queue)?.item(view, offset)?;
        Some(item.store_at)
    }

    /// When the oldest message of a queue was stored; `None` if it is empty.
    pub(crate) fn earliest_store_time(&self, view: View, topic: &Topic, queue: QueueId) -> Option<WallTime> {
        self.store_time(view, (topic, queue), self.min_offset(topic, queue))
    }

    /// The record at an offset of a queue.
    pub(crate) fn at(
        &self,
        view: View,
        (topic, queue): (&Topic, QueueId),
        offset: QueueOffset,
    ) -> Option<&Bytes> {
        let item = self.queue(topic, queue)?.item(view, offset)?;
        Some(&item.bytes)
    }

    /// The records of a queue, oldest first.
    pub(crate) fn records<'a>(
        &'a self,
        topic: &Topic,
        queue: QueueId,
    ) -> impl Iterator<Item = &'a Bytes> + use<'a> {
        let items = self.queue(topic, queue).into_iter().flat_map(Queue::items);
        items.map(|item| &item.bytes)
    }

    /// The record that begins at a physical offset; `None` also for an offset inside a record.
    pub(crate) fn by_physical(&self, view: View, physical: PhysicalOffset) -> Option<&Bytes> {
        let index = self.log.binary_search_by_key(&physical, |place| place.physical);
        let item = self.item_of(view, *self.log.get(index.ok()?)?)?;
        Some(&item.bytes)
    }

    fn item_of(&self, view: View, place: Place) -> Option<&Item> {
        self.queues[place.slot].item(view, place.offset)
    }

    /// The newest records of a topic with this key or unique key that were stored in a span of time, in
    /// physical order. At most `most`, and at most [`find::FOUND_MAX`]. There is no index: the newest
    /// [`find::SCANNED_MAX`] records of the broker are looked through.
    pub(crate) fn find(
        &self,
        view: View,
        topic: &Topic,
        key: &str,
        stored: &RangeInclusive<WallTime>,
        most: usize,
    ) -> Vec<&Bytes> {
        let Some(topic) = self.topics.get(topic) else {
            return Vec::new();
        };
        let slots: BTreeSet<usize> = topic.slots.iter().copied().collect();
        let places = self.log.iter().rev().take(find::SCANNED_MAX);
        let of_topic = places.filter(|place| slots.contains(&place.slot));
        let items = of_topic.filter_map(|place| self.item_of(view, *place));
        find::newest(items, key, stored, most)
    }

    /// Forgets the messages of a queue below an offset, as if they had expired. An offset beyond the end
    /// empties the queue and moves nothing else.
    pub(crate) fn expire(&mut self, topic: &Topic, queue: QueueId, min: QueueOffset) {
        let Some(slot) = self.slot(topic, queue) else {
            return;
        };
        self.bytes -= self.queues[slot].expire(min);
        let min = self.queues[slot].min();
        self.log.retain(|place| place.slot != slot || place.offset >= min);
    }

    /// Bytes of all records.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where the newest record begins in the log.
    pub(crate) fn last_physical(&self) -> Option<PhysicalOffset> {
        self.log.back().map(|place| place.physical)
    }

    /// Where the next record will begin in the log.
    pub(crate) const fn max_physical(&self) -> PhysicalOffset {
        PhysicalOffset(self.next_physical)
    }
}
