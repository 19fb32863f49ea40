//! One blocking connection that speaks the remoting protocol.
//!
//! Independent of the consumer's own codec on purpose: where two readings of the protocol agree with one real
//! broker, neither is likely to be wrong.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::AdminError;

/// The largest length word a Java peer accepts.
const FRAME_MAX: usize = 16_777_212;
/// The version ordinal of 5.5.0.
const VERSION: i32 = 513;
const RESPONSE: i64 = 1;

/// Header fields of a request: name and value.
pub(crate) type Fields<'a> = &'a [(&'a str, &'a dyn Display)];

/// The answer to a request, whatever its code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// Response code; 0 is success.
    pub code: i32,
    /// Words for people. Never decide by them: success can carry `not set any response code`.
    pub remark: String,
    /// Header fields of the answer.
    pub fields: BTreeMap<String, String>,
    /// The body, empty when absent.
    pub body: Vec<u8>,
}

impl Reply {
    /// A header field as a number; `None` when it is absent or not one.
    #[must_use]
    pub fn number(&self, field: &str) -> Option<i64> {
        self.fields.get(field)?.parse().ok()
    }
}

#[derive(Debug)]
pub(crate) struct Connection {
    address: String,
    stream: TcpStream,
    opaque: i32,
}

impl Connection {
    /// `limit` bounds connecting and each answer.
    pub(crate) fn open(address: &str, limit: Duration) -> Result<Self, AdminError> {
        let fail = |source| AdminError::Io {
            address: address.into(),
            source,
        };
        let socket = address
            .to_socket_addrs()
            .map_err(fail)?
            .next()
            .ok_or_else(|| fail(io::Error::new(io::ErrorKind::NotFound, "the name has no address")))?;
        let stream = TcpStream::connect_timeout(&socket, limit).map_err(fail)?;
        stream.set_nodelay(true).map_err(fail)?;
        stream.set_read_timeout(Some(limit)).map_err(fail)?;
        stream.set_write_timeout(Some(limit)).map_err(fail)?;
        Ok(Self {
            address: address.into(),
            stream,
            opaque: 0,
        })
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// One request and its answer.
    pub(crate) fn request(
        &mut self,
        code: i32,
        fields: Fields<'_>,
        body: &[u8],
    ) -> Result<Reply, AdminError> {
        let opaque = self.send(code, fields, body)?;
        self.receive(opaque)
    }

    /// Sends without waiting; the answer is asked for with [`Self::receive`].
    pub(crate) fn send(&mut self, code: i32, fields: Fields<'_>, body: &[u8]) -> Result<i32, AdminError> {
        self.opaque = self.opaque.wrapping_add(1);
        let frame = frame(code, self.opaque, fields, body);
        self.stream
            .write_all(&frame)
            .map_err(|source| self.broken(source))?;
        Ok(self.opaque)
    }

    /// The answer to `opaque`. Requests of the broker and answers nobody waits for any more are passed over.
    pub(crate) fn receive(&mut self, opaque: i32) -> Result<Reply, AdminError> {
        loop {
            let frame = self.read_frame()?;
            let (header, body) = split(&frame).map_err(|what| self.malformed(what))?;
            if header.flag & RESPONSE != 0 && header.opaque == i64::from(opaque) {
                return Ok(Reply {
                    code: header.code,
                    remark: header.remark,
                    fields: header.fields,
                    body: body.to_vec(),
                });
            }
        }
    }

    fn read_frame(&mut self) -> Result<Vec<u8>, AdminError> {
        let mut word = [0; 4];
        self.stream
            .read_exact(&mut word)
            .map_err(|source| self.broken(source))?;
        let length = usize::try_from(i32::from_be_bytes(word)).unwrap_or(0);
        if !(4..=FRAME_MAX).contains(&length) {
            return Err(self.malformed(format!("a frame of length {}", i32::from_be_bytes(word))));
        }
        let mut frame = vec![0; length];
        self.stream
            .read_exact(&mut frame)
            .map_err(|source| self.broken(source))?;
        Ok(frame)
    }

    fn broken(&self, source: io::Error) -> AdminError {
        AdminError::Io {
            address: self.address.clone(),
            source,
        }
    }

    pub(crate) fn malformed(&self, what: impl Into<String>) -> AdminError {
        AdminError::Malformed {
            address: self.address.clone(),
            what: what.into(),
        }
    }
}

fn frame(code: i32, opaque: i32, fields: Fields<'_>, body: &[u8]) -> Vec<u8> {
    let fields: Map<String, Value> = fields
        .iter()
        .map(|(name, value)| ((*name).to_owned(), Value::String(value.to_string())))
        .collect();
    let header = json!({
        "code": code, "language": "OTHER", "version": VERSION, "opaque": opaque, "flag": 0, "extFields": fields,
    })
    .to_string();
    let header_length = u32::try_from(header.len()).expect("a header of ours is small");
    let length = 4 + header_length + u32::try_from(body.len()).expect("a body of ours is below 4 MiB");
    let mut out = Vec::with_capacity(4 + length as usize);
    out.extend(length.to_be_bytes());
    // The upper byte of this word, 0, says that the header is JSON.
    out.extend(header_length.to_be_bytes());
    out.extend(header.as_bytes());
    out.extend(body);
    out
}

#[derive(Debug, PartialEq)]
struct Header {
    code: i32,
    flag: i64,
    opaque: i64,
    remark: String,
    fields: BTreeMap<String, String>,
}

/// Header and body of a frame without its length word.
fn split(frame: &[u8]) -> Result<(Header, &[u8]), String> {
    let (word, rest) = frame
        .split_first_chunk::<4>()
        .ok_or("a frame without header length")?;
    let word = u32::from_be_bytes(*word);
    let length = usize::try_from(word & 0xff_ffff).unwrap_or(usize::MAX);
    let (header, body) = rest
        .split_at_checked(length)
        .ok_or("a header longer than its frame")?;
    let header = match word >> 24 {
        0 => json_header(header)?,
        1 => binary_header(header).ok_or("a binary header that ends early")?,
        other => return Err(format!("a header of unknown type {other}")),
    };
    Ok((header, body))
}

fn json_header(bytes: &[u8]) -> Result<Header, String> {
    let value: Value =
        serde_json::from_slice(bytes).map_err(|e| format!("a header that is not JSON: {e}"))?;
    let number = |name: &str| value[name].as_i64().unwrap_or_default();
    let fields = value["extFields"].as_object().into_iter().flatten();
    Ok(Header {
        code: i32::try_from(number("code")).map_err(|e| e.to_string())?,
        flag: number("flag"),
        opaque: number("opaque"),
        remark: value["remark"].as_str().unwrap_or_default().into(),
        fields: fields
            .map(|(name, value)| {
                (
                    name.clone(),
                    value.as_str().map_or_else(|| value.to_string(), str::to_owned),
                )
            })
            .collect(),
    })
}

/// What a server answers that was started with `rocketmq.serialize.type=ROCKETMQ`.
fn binary_header(mut bytes: &[u8]) -> Option<Header> {
    let code = i32::from(i16::from_be_bytes(take(&mut bytes)?));
    let _language_and_version: [u8; 3] = take(&mut bytes)?;
    let opaque = i64::from(i32::from_be_bytes(take(&mut bytes)?));
    let flag = i64::from(i32::from_be_bytes(take(&mut bytes)?));
    let length = u32::from_be_bytes(take(&mut bytes)?);
    let remark = text(&mut bytes, length)?;
    let length = u32::from_be_bytes(take(&mut bytes)?);
    let mut block = bytes.get(..usize::try_from(length).ok()?)?;
    let mut fields = BTreeMap::new();
    while !block.is_empty() {
        let length = u32::from(u16::from_be_bytes(take(&mut block)?));
        let name = text(&mut block, length)?;
        let length = u32::from_be_bytes(take(&mut block)?);
        fields.insert(name, text(&mut block, length)?);
    }
    Some(Header {
        code,
        flag,
        opaque,
        remark,
        fields,
    })
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*head)
}

fn text(bytes: &mut &[u8], length: u32) -> Option<String> {
    let (head, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
    *bytes = rest;
    Some(String::from_utf8_lossy(head).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_of_ours_reads_back() {
        let frame = frame(17, 3, &[("topic", &"t"), ("perm", &6)], b"body");
        let (header, body) = split(frame.get(4..).unwrap()).unwrap();
        assert_eq!(
            (header.code, header.opaque, header.flag, body),
            (17, 3, 0, &b"body"[..])
        );
        assert_eq!(header.fields["perm"], "6");
    }

    #[test]
    fn a_binary_header_reads_to_the_same() {
        let mut header = vec![0, 17, 12, 2, 1, 0, 0, 0, 3, 0, 0, 0, 1];
        header.extend([0, 0, 0, 2, b'o', b'k']);
        header.extend([0, 0, 0, 12, 0, 5]);
        header.extend(b"topic");
        header.extend([0, 0, 0, 1, b't']);
        let mut frame = vec![1, 0, 0, u8::try_from(header.len()).unwrap()];
        frame.extend(&header);
        let (read, body) = split(&frame).unwrap();
        assert_eq!(
            (read.code, read.opaque, read.flag, read.remark.as_str(), body),
            (17, 3, 1, "ok", &[][..])
        );
        assert_eq!(read.fields["topic"], "t");
        for cut in 0..header.len() {
            assert_eq!(binary_header(&header[..cut]), None, "cut at {cut}");
        }
    }

    #[test]
    fn lengths_of_a_peer_are_checked() {
        for bad in [
            &b""[..],
            &[0, 0, 0],
            &[0, 0, 0, 9, b'{', b'}'],
            &[7, 0, 0, 0],
            &[0, 0, 0, 1, b'['],
        ] {
            assert!(split(bad).is_err(), "{bad:?}");
        }
    }
}
