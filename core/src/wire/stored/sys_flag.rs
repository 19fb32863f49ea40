use core::fmt;

/// The system flag of a stored message: how its body and its hosts are written, and where it stands
/// in a transaction.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct SysFlag(pub i32);

impl SysFlag {
    /// The body is compressed.
    pub const COMPRESSED: i32 = 0x1;
    /// The message may have several tags.
    pub const MULTI_TAGS: i32 = 0x2;
    /// The born host is an IPv6 address.
    pub const BORN_HOST_V6: i32 = 0x10;
    /// The store host is an IPv6 address.
    pub const STORE_HOST_V6: i32 = 0x20;
    /// The record wraps messages that a consumer has to unwrap.
    pub const NEED_UNWRAP: i32 = 0x40;
    /// The body is a list of messages.
    pub const INNER_BATCH: i32 = 0x80;

    const fn has(self, bit: i32) -> bool {
        self.0 & bit != 0
    }

    /// Whether the born host takes 20 bytes.
    #[must_use]
    pub const fn born_host_is_v6(self) -> bool {
        self.has(Self::BORN_HOST_V6)
    }

    /// Whether the store host takes 20 bytes.
    #[must_use]
    pub const fn store_host_is_v6(self) -> bool {
        self.has(Self::STORE_HOST_V6)
    }

    /// Whether the body is a list of messages to open. Both bits are needed: Java hands on a record
    /// with one of them as it is.
    #[must_use]
    pub const fn is_inner_batch(self) -> bool {
        self.has(Self::INNER_BATCH) && self.has(Self::NEED_UNWRAP)
    }

    /// Only what tells how the body is compressed: of the rest, each copy has its own.
    #[must_use]
    pub const fn compression_bits(self) -> Self {
        Self(if self.has(Self::COMPRESSED) {
            self.0 & 0x701
        } else {
            0
        })
    }

    /// How the body is compressed; `None` when it is not, whatever the type bits say.
    #[must_use]
    pub const fn compression(self) -> Option<Compression> {
        if !self.has(Self::COMPRESSED) {
            return None;
        }
        Some(match (self.0 >> 8) & 0x7 {
            // Producers from before the types leave the bits empty.
            0 | 3 => Compression::Zlib,
            1 => Compression::Lz4,
            2 => Compression::Zstd,
            other => Compression::Unknown(other as u8),
        })
    }

    /// Where the message stands in a transaction.
    #[must_use]
    pub const fn transaction(self) -> Transaction {
        match (self.0 >> 2) & 0x3 {
            0 => Transaction::None,
            1 => Transaction::Prepared,
            2 => Transaction::Committed,
            _ => Transaction::RolledBack,
        }
    }
}

impl fmt::Debug for SysFlag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// The container of a compressed body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Compression {
    /// A zlib stream (RFC 1950).
    Zlib,
    /// An LZ4 *frame*, not a block.
    Lz4,
    /// A zstd frame without content size.
    Zstd,
    /// A type nobody has defined yet: the number of its three bits, 4 to 7.
    Unknown(u8),
}

/// Where a message stands in a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transaction {
    /// Not part of one.
    None,
    /// A half message, not visible to consumers.
    Prepared,
    /// Committed: what consumers see.
    Committed,
    /// Rolled back.
    RolledBack,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_bits_mean_nothing_without_the_compressed_bit() {
        let table = [
            (0x000, None),
            (0x200, None),
            (0x001, Some(Compression::Zlib)),
            (0x101, Some(Compression::Lz4)),
            (0x201, Some(Compression::Zstd)),
            (0x301, Some(Compression::Zlib)),
            (0x501, Some(Compression::Unknown(5))),
            (0x701, Some(Compression::Unknown(7))),
        ];
        for (flag, expected) in table {
            assert_eq!(SysFlag(flag).compression(), expected, "{flag:#x}");
            let bits = SysFlag(flag | 0xFE).compression_bits();
            assert_eq!((bits.compression(), bits.0 & 0xFE), (expected, 0), "{flag:#x}");
        }
    }

    #[test]
    fn an_inner_batch_needs_both_bits() {
        assert!(SysFlag(0xC0).is_inner_batch());
        assert!(!SysFlag(0x80).is_inner_batch());
        assert!(!SysFlag(0x40).is_inner_batch());
    }

    #[test]
    fn transaction_states() {
        let table = [
            (0x0, Transaction::None),
            (0x4, Transaction::Prepared),
            (0x8, Transaction::Committed),
            (0xC, Transaction::RolledBack),
        ];
        for (flag, expected) in table {
            assert_eq!(SysFlag(flag).transaction(), expected);
        }
    }
}
