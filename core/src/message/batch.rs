use alloc::sync::Arc;
use core::fmt;

use bytes::Bytes;
use serde::ser::{Serialize, SerializeStruct, Serializer};
use smallvec::SmallVec;

use super::Message;
use crate::ids::{MessageQueue, QueueOffset};
use crate::wire::stored::{Entry, Record};

/// The messages of one pull answer that are to be delivered: its bytes, an index over them, and
/// where they came from.
#[derive(Clone, PartialEq, Eq)]
pub struct Batch {
    queue: MessageQueue,
    from_retry_topic: bool,
    frame: Bytes,
    /// The messages of inner batches, as records of their own. Their entries count on from the end of the frame.
    unwrapped: Bytes,
    entries: SmallVec<[Entry; 32]>,
    min_offset: QueueOffset,
    max_offset: QueueOffset,
}

impl Batch {
    /// A batch of the answer to a pull of `queue`.
    ///
    /// `frame` is the body of the answer, the bytes `entries` were scanned from; `entries` are those to
    /// deliver, by rising offset. `from_retry_topic` says that the queue belongs to the retry topic of
    /// the group itself, whose messages show the topic they were sent to. `min_offset` and
    /// `max_offset` are those of the queue, as the answer told them.
    ///
    /// # Panics
    ///
    /// If an entry points behind the frame: it was scanned from other bytes.
    #[must_use]
    pub fn new(
        queue: MessageQueue,
        from_retry_topic: bool,
        frame: Bytes,
        entries: SmallVec<[Entry; 32]>,
        min_offset: QueueOffset,
        max_offset: QueueOffset,
    ) -> Self {
        Self::with_unwrapped(
            queue,
            from_retry_topic,
            [frame, Bytes::new()],
            entries,
            min_offset,
            max_offset,
        )
    }

    /// The same with the messages of inner batches: the second of the buffers holds a record for each, and
    /// their entries count on from the end of the first.
    pub(crate) fn with_unwrapped(
        queue: MessageQueue,
        from_retry_topic: bool,
        [frame, unwrapped]: [Bytes; 2],
        entries: SmallVec<[Entry; 32]>,
        min_offset: QueueOffset,
        max_offset: QueueOffset,
    ) -> Self {
        let ends = [frame.len(), frame.len() + unwrapped.len()];
        assert!(
            entries.iter().all(|entry| {
                let range = entry.range();
                range.end <= ends[usize::from(range.start >= ends[0])]
            }),
            "an entry of {queue} points behind the frame"
        );
        debug_assert!(
            entries.is_sorted_by_key(Entry::queue_offset),
            "the entries of {queue} are not in order"
        );
        Self {
            queue,
            from_retry_topic,
            frame,
            unwrapped,
            entries,
            min_offset,
            max_offset,
        }
    }

    /// The queue the messages came from.
    #[must_use]
    pub const fn queue(&self) -> &MessageQueue {
        &self.queue
    }

    /// Whether that queue belongs to the retry topic of the consuming group.
    #[must_use]
    pub const fn is_from_retry_topic(&self) -> bool {
        self.from_retry_topic
    }

    /// The body of the pull answer, which every message shares.
    #[must_use]
    pub const fn frame(&self) -> &Bytes {
        &self.frame
    }

    /// What the batch costs in memory until the last message is gone, in bytes: the frame, and the messages of
    /// inner batches once more.
    #[must_use]
    pub const fn memory(&self) -> usize {
        self.frame.len() + self.unwrapped.len()
    }

    /// The index of the messages, by rising offset.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The index entry at a position.
    #[must_use]
    pub fn entry(&self, position: u32) -> Option<Entry> {
        self.entries.get(position as usize).copied()
    }

    /// The record at a position.
    #[must_use]
    pub fn record(&self, position: u32) -> Option<Record<'_>> {
        let (bytes, entry) = self.locate(position)?;
        Some(Record::new(bytes, entry))
    }

    /// The body at a position as it is stored: a slice.
    #[must_use]
    pub fn stored_body(&self, position: u32) -> Option<Bytes> {
        let (bytes, entry) = self.locate(position)?;
        Some(bytes.slice(entry.body_range()))
    }

    /// Whether the message at a position came as part of an inner batch: one record that holds several.
    #[must_use]
    pub fn is_inner(&self, position: u32) -> bool {
        self.entry(position)
            .is_some_and(|entry| entry.range().start >= self.frame.len())
    }

    /// The bytes a record lies in, and where it lies there.
    fn locate(&self, position: u32) -> Option<(&Bytes, Entry)> {
        let entry = self.entry(position)?;
        let inner = u32::try_from(self.frame.len())
            .ok()
            .and_then(|len| entry.seen_from(len));
        Some(match inner {
            Some(entry) => (&self.unwrapped, entry),
            None => (&self.frame, entry),
        })
    }

    /// How many messages there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The smallest offset of the queue when it was pulled.
    #[must_use]
    pub const fn min_offset(&self) -> QueueOffset {
        self.min_offset
    }

    /// The offset the next message of the queue was to get when it was pulled.
    #[must_use]
    pub const fn max_offset(&self) -> QueueOffset {
        self.max_offset
    }

    /// The messages, by rising offset.
    pub fn messages(self: &Arc<Self>) -> impl Iterator<Item = Message> + '_ {
        (0..).map_while(|position| Message::new(Arc::clone(self), position))
    }
}

impl fmt::Debug for Batch {
    /// Queue and offsets; frames are large and dumps are long.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Batch({}", self.queue)?;
        if let [first, .., last] = self.entries() {
            write!(f, " {}..={}", first.queue_offset(), last.queue_offset())?;
        } else if let [only] = self.entries() {
            write!(f, " {}", only.queue_offset())?;
        }
        f.write_str(")")
    }
}

impl Serialize for Batch {
    /// Writes the queue and the offsets: what a recording needs in order to compare, without bodies.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Offsets<'a>(&'a [Entry]);

        impl Serialize for Offsets<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_seq(self.0.iter().map(Entry::queue_offset))
            }
        }

        let mut fields = serializer.serialize_struct("Batch", 2)?;
        fields.serialize_field("queue", &self.queue)?;
        fields.serialize_field("offsets", &Offsets(&self.entries))?;
        fields.end()
    }
}
