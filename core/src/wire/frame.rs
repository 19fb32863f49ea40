//! One frame of the remoting protocol: a length word, the form of the header, header and body.
//!
//! ```text
//! i32 length of all that follows | u8 header form | u24 header length | header | body
//! ```
//!
//! A frame carries no magic number and no checksum, so the length word is all there is to tell a
//! peer from a stranger. It is compared with the limit before anything is stored or waited for.
//= rocketmq: NettyDecoder, RemotingCommand.decode

use core::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The largest value of a frame's length word that a Java peer accepts, in bytes: its decoder allows
/// 16 MiB including the word itself.
pub const FRAME_LEN_MAX: u32 = 16_777_212;

/// Bytes of the length word.
pub(crate) const LEN_WORD: usize = 4;

/// Bytes in front of the header: the length word, the form and the header's length.
pub(crate) const PREAMBLE: usize = 8;

/// How the header of one frame is written. Each side chooses for every frame it sends; an answer
/// does not echo the form of its question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum HeaderForm {
    /// A JSON object, type byte 0. Every peer reads it and it can carry everything.
    #[default]
    Json,
    /// The compact binary form, type byte 1. Its codes and versions have 16 bits.
    Rocketmq,
}

impl HeaderForm {
    /// The type byte of this form.
    #[must_use]
    pub const fn to_byte(self) -> u8 {
        match self {
            Self::Json => 0,
            Self::Rocketmq => 1,
        }
    }

    /// The form a type byte stands for; `None` for bytes nobody has defined.
    #[must_use]
    pub const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Json),
            1 => Some(Self::Rocketmq),
            _ => None,
        }
    }
}

/// A complete frame whose outer lengths agree with each other; its header has not been read yet.
///
/// Both parts are slices of the buffer the frame arrived in: they cost nothing and pin it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// How [`Frame::header`] is written.
    pub form: HeaderForm,
    /// The header's bytes, for [`Header::decode`](super::command::Header::decode).
    pub header: Bytes,
    /// The body's bytes; an absent body is an empty one.
    pub body: Bytes,
}

impl Frame {
    /// Takes a whole frame, length word included, apart.
    ///
    /// # Errors
    ///
    /// [`FrameError::Length`] when the length word is out of bounds, [`FrameError::NotWhole`] when it
    /// says anything but the number of bytes given, [`FrameError::Form`] and [`FrameError::HeaderLength`] when the second word
    /// makes no sense. The connection is then of no further use.
    pub fn parse(whole: Bytes, frame_len_max: u32) -> Result<Self, FrameError> {
        let given = whole.len();
        let size = frame_size(&whole, frame_len_max)?.filter(|&size| size == given);
        let (Some(size), Some(word)) = (size, word_at(&whole, LEN_WORD)) else {
            return Err(FrameError::NotWhole { given });
        };
        let [form, high, middle, low] = word;
        let header_len = u32::from_be_bytes([0, high, middle, low]);
        let form = HeaderForm::from_byte(form).ok_or(FrameError::Form { byte: form })?;
        let room = size - PREAMBLE;
        let header_end = usize::try_from(header_len)
            .ok()
            .filter(|&len| len <= room)
            .map(|len| PREAMBLE + len)
            .ok_or(FrameError::HeaderLength {
                header_len,
                room: u32::try_from(room).unwrap_or(u32::MAX),
            })?;
        Ok(Self {
            form,
            header: whole.slice(PREAMBLE..header_end),
            body: whole.slice(header_end..),
        })
    }
}

/// How many bytes the frame that begins with `unread` has, its length word included; `None` while
/// the length word itself is incomplete.
///
/// A driver asks this about the unread part of its read buffer, to cut frames out of it or to read
/// the rest of a large one straight into a buffer of the right size.
///
/// # Errors
///
/// [`FrameError::Length`] when the word is negative, shorter than a frame can be, or above
/// `frame_len_max`.
pub fn frame_size(unread: &[u8], frame_len_max: u32) -> Result<Option<usize>, FrameError> {
    let Some(word) = word_at(unread, 0) else {
        return Ok(None);
    };
    let len = i32::from_be_bytes(word);
    match u32::try_from(len) {
        // The header's form and length, 4 bytes, are always there.
        Ok(in_bounds) if (4..=frame_len_max).contains(&in_bounds) => Ok(usize::try_from(in_bounds)
            .ok()
            .and_then(|len| len.checked_add(LEN_WORD))),
        _ => Err(FrameError::length(len, frame_len_max, unread)),
    }
}

fn word_at(bytes: &[u8], at: usize) -> Option<[u8; 4]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// Why bytes are not a frame. The stream cannot be read on after it: a peer that writes one is not
/// one we understand, so the connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The length word is negative, less than the 4 bytes every frame has, or above the limit.
    #[error("frame length {len} is not within 4 to {limit} bytes{}", Hint(*.looks_like))]
    Length {
        /// The length word, in bytes.
        len: i32,
        /// The largest length allowed, in bytes.
        limit: u32,
        /// What the first bytes look like, when they look like another protocol.
        looks_like: Option<Stranger>,
    },
    /// The header does not fit into its frame.
    #[error("header length {header_len} exceeds the {room} bytes the frame has for it")]
    HeaderLength {
        /// What the frame says about its header, in bytes.
        header_len: u32,
        /// How many bytes follow in the frame.
        room: u32,
    },
    /// The bytes given are less or more than one frame: the caller has cut them wrongly.
    #[error("{given} bytes are not exactly one frame")]
    NotWhole {
        /// How many bytes there were.
        given: usize,
    },
    /// A header form nobody has defined.
    #[error("unknown header form {byte}")]
    Form {
        /// The type byte.
        byte: u8,
    },
}

impl FrameError {
    fn length(len: i32, limit: u32, first: &[u8]) -> Self {
        Self::Length {
            len,
            limit,
            looks_like: Stranger::recognise(first),
        }
    }
}

/// Another protocol on the port, recognised by what it took for a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stranger {
    /// A request or an answer of HTTP, version 2 included.
    Http,
    /// A TLS record: the peer wants encryption and we do not, or the reverse.
    Tls,
    /// Readable text of some other kind.
    Text,
}

impl Stranger {
    fn recognise(first: &[u8]) -> Option<Self> {
        const HTTP: [&[u8; 4]; 10] = [
            b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN", b"PRI ", b"HTTP",
        ];
        let word: &[u8; 4] = first.first_chunk()?;
        if HTTP.contains(&word) {
            return Some(Self::Http);
        }
        match word {
            // Record type (alert or handshake), then the protocol version 3.0 to 3.4.
            [0x15 | 0x16, 3, 0..=4, _] => Some(Self::Tls),
            text if text
                .iter()
                .all(|b| b.is_ascii_graphic() || b.is_ascii_whitespace()) =>
            {
                Some(Self::Text)
            }
            _ => None,
        }
    }
}

struct Hint(Option<Stranger>);

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            None => "",
            Some(Stranger::Http) => "; the peer speaks HTTP",
            Some(Stranger::Tls) => "; the peer speaks TLS",
            Some(Stranger::Text) => "; the peer sends plain text",
        })
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn length_is_checked_before_anything_is_waited_for() {
        let size = |word: [u8; 4]| frame_size(&word, FRAME_LEN_MAX);
        let refused = |len, looks_like| {
            Err(FrameError::Length {
                len,
                limit: FRAME_LEN_MAX,
                looks_like,
            })
        };
        for (word, want) in [
            (*b"PRI ", refused(1_347_569_952, Some(Stranger::Http))),
            (*b"HTTP", refused(1_213_486_160, Some(Stranger::Http))),
            (*b"SSH-", refused(1_397_966_893, Some(Stranger::Text))),
            ([0x16, 3, 1, 2], refused(0x1603_0102, Some(Stranger::Tls))),
            ([0xff; 4], refused(-1, None)),
            ([0, 0, 0, 3], refused(3, None)),
            ([0, 0, 0, 0], refused(0, None)),
            ([0, 0, 0, 4], Ok(Some(8))),
            ([0, 0xff, 0xff, 0xfc], Ok(Some(16_777_216))),
            ([0, 0xff, 0xff, 0xfd], refused(16_777_213, None)),
        ] {
            assert_eq!(size(word), want, "{word:?}");
        }
        assert_eq!(frame_size(&[0, 0, 0], FRAME_LEN_MAX), Ok(None));
    }

    #[test]
    fn a_stranger_is_named_with_length_and_limit() {
        let error = frame_size(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", FRAME_LEN_MAX).unwrap_err();
        assert_eq!(
            error.to_string(),
            "frame length 1347569952 is not within 4 to 16777212 bytes; the peer speaks HTTP"
        );
    }

    #[test]
    fn parts_are_cut_where_the_lengths_say() {
        let frame = |bytes: &[u8]| Frame::parse(Bytes::copy_from_slice(bytes), FRAME_LEN_MAX);
        assert_eq!(
            frame(&[0, 0, 0, 7, 1, 0, 0, 2, b'h', b'h', b'b']),
            Ok(Frame {
                form: HeaderForm::Rocketmq,
                header: Bytes::from_static(b"hh"),
                body: Bytes::from_static(b"b")
            })
        );
        assert_eq!(
            frame(&[0, 0, 0, 5, 0, 0, 0, 2, b'h']),
            Err(FrameError::HeaderLength {
                header_len: 2,
                room: 1
            })
        );
        assert_eq!(
            frame(&[0, 0, 0, 4, 0, 0xff, 0xff, 0xff]),
            Err(FrameError::HeaderLength {
                header_len: 0x00ff_ffff,
                room: 0
            })
        );
        assert_eq!(
            frame(&[0, 0, 0, 4, 9, 0, 0, 0]),
            Err(FrameError::Form { byte: 9 })
        );
        // The whole of a frame, no more and no less.
        for bytes in [
            &[0, 0, 0, 5, 0, 0, 0, 0][..],
            &[0, 0, 0, 4, 0, 0, 0, 0, 0],
            &[0, 0],
            &[],
        ] {
            let given = bytes.len();
            assert_eq!(frame(bytes), Err(FrameError::NotWhole { given }));
        }
    }

    #[test]
    fn damaged_frames_of_other_clients_reports_are_refused() {
        // A length of 2 cannot hold the second word; header form 9 is nobody's.
        assert!(frame_size(&[0, 0, 0, 2, 0, 0], FRAME_LEN_MAX).is_err());
        let mut odd_form: Vec<u8> = [0, 0, 0, 0x22, 9, 0, 0, 0x1e].to_vec();
        odd_form.extend_from_slice(br#"{"code":0,"opaque":7,"flag":1}"#);
        assert_eq!(
            Frame::parse(odd_form.into(), FRAME_LEN_MAX),
            Err(FrameError::Form { byte: 9 })
        );
    }
}
