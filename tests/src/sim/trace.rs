//! What a run did, as one number: two runs that did the same have the same.

use rocketmq_consumer_core::time::Instant;

/// A hash over everything that happened, in order, with the time it happened at.
///
/// It takes eight bytes at a time, by multiplying and rotating: quick enough to be fed with every frame, and
/// the same on every machine. Not for adversaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace(u64);

/// Kinds of entries, so that a frame to one and from the other do not look the same.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Entry {
    Wakeup = 1,
    ToMember,
    ToNode,
    Dial,
    Close,
    Frame,
    Deliver,
    Settle,
    Notice,
    Fault,
    Produce,
    Life,
}

impl Trace {
    pub(crate) const fn new() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }

    /// The number.
    #[must_use]
    pub const fn hash(self) -> u64 {
        self.0
    }

    /// Begins an entry.
    pub(crate) const fn enter(&mut self, at: Instant, entry: Entry, about: u64) {
        self.word(at.as_micros());
        self.word((entry as u64) << 56 ^ about);
    }

    pub(crate) const fn word(&mut self, word: u64) {
        self.0 = (self.0 ^ word)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .rotate_left(29);
        self.0 ^= self.0 >> 32;
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.word(u64::from_le_bytes(last));
        self.word(bytes.len() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(parts: &[&[u8]]) -> u64 {
        let mut trace = Trace::new();
        for part in parts {
            trace.bytes(part);
        }
        trace.hash()
    }

    #[test]
    fn order_content_and_borders_count() {
        let all = [
            of(&[b"ab", b"c"]),
            of(&[b"a", b"bc"]),
            of(&[b"c", b"ab"]),
            of(&[b"abc"]),
            of(&[b"abc\0"]),
            of(&[b"12345678", b""]),
            of(&[b"12345678"]),
        ];
        for (index, one) in all.iter().enumerate() {
            assert!(all[index + 1..].iter().all(|other| other != one), "{index}");
        }
        assert_eq!(of(&[b"abc"]), of(&[b"abc"]));
    }

    #[test]
    fn time_and_kind_count() {
        let of = |at, entry, about| {
            let mut trace = Trace::new();
            trace.enter(Instant::from_micros(at), entry, about);
            trace.hash()
        };
        assert_ne!(of(1, Entry::Dial, 2), of(2, Entry::Dial, 2));
        assert_ne!(of(1, Entry::Dial, 2), of(1, Entry::Close, 2));
        assert_ne!(of(1, Entry::Dial, 2), of(1, Entry::Dial, 3));
    }
}
