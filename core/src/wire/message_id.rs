//! The message id that tells where a message lies: the broker that stored it and the place in its
//! commit log. Upper case hex, 32 digits with an IPv4 address and 56 with an IPv6 address.
//!
//! ```text
//! address 4 or 16 | port 4 | physical offset 8
//! ```
//!
//! A producer's own id has the same two lengths and nothing to tell it apart, so an id that can be
//! read is not yet one that a broker knows. Whoever asks a broker for the message maps the address to
//! a broker of the route first: it may be one that nobody can reach, or that nobody should.
//= rocketmq: MessageDecoder.createMessageId, MessageDecoder.decodeMessageId

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::str::FromStr;

use crate::ids::PhysicalOffset;

/// Where a message lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OffsetMessageId {
    /// The broker that stored it, as that broker calls itself.
    pub store_host: SocketAddr,
    /// Its place in the commit log there.
    pub physical_offset: PhysicalOffset,
}

/// Writes the id as brokers do.
impl fmt::Display for OffsetMessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.store_host.ip() {
            IpAddr::V4(ip) => write_hex(f, &ip.octets())?,
            IpAddr::V6(ip) => write_hex(f, &ip.octets())?,
        }
        write_hex(f, &u32::from(self.store_host.port()).to_be_bytes())?;
        write_hex(f, &self.physical_offset.0.to_be_bytes())
    }
}

impl FromStr for OffsetMessageId {
    type Err = MessageIdError;

    /// Reads an id, in either case of letters as Java does.
    fn from_str(text: &str) -> Result<Self, MessageIdError> {
        let (ip, rest) = match text.len() {
            32 => {
                let (ip, rest) = bytes::<4>(text)?;
                (IpAddr::V4(Ipv4Addr::from(ip)), rest)
            }
            56 => {
                let (ip, rest) = bytes::<16>(text)?;
                (IpAddr::V6(Ipv6Addr::from(ip)), rest)
            }
            _ => return Err(MessageIdError::Length),
        };
        let (port, rest) = bytes::<4>(rest)?;
        let (offset, _) = bytes::<8>(rest)?;
        let port = u16::try_from(u32::from_be_bytes(port)).map_err(|_| MessageIdError::Port)?;
        let offset = i64::from_be_bytes(offset);
        if offset < 0 {
            return Err(MessageIdError::Offset);
        }
        Ok(Self {
            store_host: SocketAddr::new(ip, port),
            physical_offset: PhysicalOffset(offset),
        })
    }
}

/// Why a text does not tell where a message lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageIdError {
    /// Neither 32 nor 56 bytes.
    #[error("a message id has 32 or 56 digits")]
    Length,
    /// Something else than hex digits.
    #[error("a message id consists of hex digits")]
    Digit,
    /// A port above 65535.
    #[error("the port in the message id is out of range")]
    Port,
    /// A place before the beginning of the commit log.
    #[error("the offset in the message id is negative")]
    Offset,
}

fn write_hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02X}"))
}

/// The first `N` bytes of a hex text, and the text behind them.
fn bytes<const N: usize>(text: &str) -> Result<([u8; N], &str), MessageIdError> {
    let (digits, rest) = text.split_at_checked(2 * N).ok_or(MessageIdError::Digit)?;
    let mut out = [0; N];
    for (byte, pair) in out.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Ok((out, rest))
}

fn digit(digit: u8) -> Result<u8, MessageIdError> {
    let value = char::from(digit).to_digit(16).ok_or(MessageIdError::Digit)?;
    Ok(value as u8)
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ids_of_both_families() {
        for (text, host, offset) in [
            ("7F00000100002A9F000000000000A5B3", "127.0.0.1:10911", 0xA5B3),
            ("0A00000200002A9F00000000000003E8", "10.0.0.2:10911", 1_000),
            (
                "FE80000000000000000000000000000100002A9F0000000000000001",
                "[fe80::1]:10911",
                1,
            ),
        ] {
            let id = OffsetMessageId {
                store_host: host.parse().expect("an address"),
                physical_offset: PhysicalOffset(offset),
            };
            assert_eq!(text.parse(), Ok(id));
            assert_eq!(text.to_ascii_lowercase().parse(), Ok(id));
            assert_eq!(id.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_place_is_refused() {
        for (text, why) in [
            ("", MessageIdError::Length),
            ("7F00000100002A9F000000000000A5B", MessageIdError::Length),
            ("7F00000100002A9F000000000000A5BG", MessageIdError::Digit),
            ("+F00000100002A9F000000000000A5B3", MessageIdError::Digit),
            // The lengths are right in bytes, the pieces are not.
            ("€€7F00000100002A9F0000000000A5B3", MessageIdError::Length),
            ("7F0000€00002A9F000000000000A5B3", MessageIdError::Length),
            ("7F00000€002A9F000000000000A5B3", MessageIdError::Digit),
            ("7F00000100012A9F000000000000A5B3", MessageIdError::Port),
            ("7F000001FFFFFFFF000000000000A5B3", MessageIdError::Port),
            ("7F00000100002A9FFFFFFFFFFFFFFFFF", MessageIdError::Offset),
        ] {
            assert_eq!(text.parse::<OffsetMessageId>(), Err(why), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(ip in any::<IpAddr>(), port in any::<u16>(), offset in 0..=i64::MAX) {
            let id = OffsetMessageId {
                store_host: SocketAddr::new(ip, port),
                physical_offset: PhysicalOffset(offset),
            };
            prop_assert_eq!(id.to_string().parse(), Ok(id));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,60}") {
            let _ = text.parse::<OffsetMessageId>();
        }
    }
}
