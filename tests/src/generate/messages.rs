//! Stored messages: what a broker keeps, and what damage makes of it.
//!
//! The writer here shares nothing with the client's reader: what both agree on is the format.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use arbitrary::{Result, Unstructured};
use bytes::Bytes;
use rocketmq_consumer_core::ids::{PhysicalOffset, QueueId, QueueOffset};
use rocketmq_consumer_core::time::WallTime;
use rocketmq_consumer_core::wire::stored::{MAGIC_V1, MAGIC_V2, SysFlag};

use super::dice::{bytes, offset, pick, rarely, several};
use super::names::{text, topic, word};

/// Every field of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRecord {
    /// The topic it is stored under, up to 127 bytes in the first format.
    pub topic: String,
    /// Whether it is written in the second format, which has two bytes for the topic's length.
    pub wide_topic: bool,
    /// The queue.
    pub queue_id: QueueId,
    /// The application's number.
    pub flag: i32,
    /// Its place in the queue.
    pub queue_offset: QueueOffset,
    /// Its place in the commit log.
    pub physical_offset: PhysicalOffset,
    /// How body and hosts are written; the bits for IPv6 agree with the hosts.
    pub sys_flag: SysFlag,
    /// When it was sent.
    pub born_at: WallTime,
    /// From where.
    pub born_host: SocketAddr,
    /// When it was stored.
    pub store_at: WallTime,
    /// Where.
    pub store_host: SocketAddr,
    /// How often it was sent back.
    pub reconsume_times: i32,
    /// Where its half message lies.
    pub prepared_transaction_offset: i64,
    /// The checksum that is stored, right or wrong.
    pub body_crc: u32,
    /// The body as stored.
    pub body: Bytes,
    /// The properties as stored, up to 32,767 bytes.
    pub properties: Bytes,
}

impl StoredRecord {
    /// The record as pull answers carry it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; 4];
        out.extend(if self.wide_topic { MAGIC_V2 } else { MAGIC_V1 }.to_be_bytes());
        out.extend(self.body_crc.to_be_bytes());
        out.extend(self.queue_id.0.to_be_bytes());
        out.extend(self.flag.to_be_bytes());
        out.extend(self.queue_offset.0.to_be_bytes());
        out.extend(self.physical_offset.0.to_be_bytes());
        out.extend(self.sys_flag.0.to_be_bytes());
        out.extend(self.born_at.as_unix_millis().to_be_bytes());
        put_host(&mut out, self.born_host);
        out.extend(self.store_at.as_unix_millis().to_be_bytes());
        put_host(&mut out, self.store_host);
        out.extend(self.reconsume_times.to_be_bytes());
        out.extend(self.prepared_transaction_offset.to_be_bytes());
        out.extend(len32(self.body.len()));
        out.extend(&self.body);
        let topic_len = len16(self.topic.len());
        out.extend(if self.wide_topic {
            &topic_len[..]
        } else {
            &topic_len[1..]
        });
        out.extend(self.topic.as_bytes());
        out.extend(len16(self.properties.len()));
        out.extend(&self.properties);
        let size = len32(out.len());
        out[..4].copy_from_slice(&size);
        out
    }
}

/// One record of a list, and whether a reader gets it back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The bytes; their size word holds, whatever else is wrong.
    pub bytes: Vec<u8>,
    /// What they say, unless they are damaged.
    pub intact: Option<StoredRecord>,
}

/// A record that can be read, with a body that may be empty, compressed or wrongly summed.
pub fn stored_record(u: &mut Unstructured<'_>) -> Result<StoredRecord> {
    let (born_host, store_host) = (host(u)?, host(u)?);
    let plain = bytes(u, 48)?;
    let (body, kind) = match u.int_in_range(0..=7_u8)? {
        6 => (zlib(&plain), SysFlag::COMPRESSED | 0x300),
        7 => (plain, u.arbitrary::<i32>()?),
        _ => (plain, 0),
    };
    let v6 = |host: SocketAddr, bit| if host.is_ipv6() { bit } else { 0 };
    let hosts = SysFlag::BORN_HOST_V6 | SysFlag::STORE_HOST_V6;
    let sys_flag =
        (kind & !hosts) | v6(born_host, SysFlag::BORN_HOST_V6) | v6(store_host, SysFlag::STORE_HOST_V6);
    let topic = if rarely(u, 5)? {
        text(u)?
    } else {
        topic(u)?.as_str().to_owned()
    };
    Ok(StoredRecord {
        wide_topic: topic.len() > 127 || rarely(u, 6)?,
        topic,
        queue_id: QueueId(if rarely(u, 8)? {
            u.arbitrary()?
        } else {
            u.int_in_range(0..=15)?
        }),
        flag: u.arbitrary()?,
        queue_offset: QueueOffset(offset(u)?),
        physical_offset: PhysicalOffset(offset(u)?),
        sys_flag: SysFlag(sys_flag),
        born_at: WallTime::from_unix_millis(u.arbitrary()?),
        born_host,
        store_at: WallTime::from_unix_millis(u.arbitrary()?),
        store_host,
        reconsume_times: if rarely(u, 4)? { u.arbitrary()? } else { 0 },
        prepared_transaction_offset: if rarely(u, 4)? { u.arbitrary()? } else { 0 },
        body_crc: if rarely(u, 5)? {
            u.arbitrary()?
        } else {
            crc32(&body)
        },
        body: body.into(),
        properties: properties(u)?.into(),
    })
}

/// A record, damaged once in four times in a way that does not hide its neighbours.
pub fn stored(u: &mut Unstructured<'_>) -> Result<Stored> {
    let record = stored_record(u)?;
    let mut bytes = record.encode();
    if !rarely(u, 4)? {
        return Ok(Stored {
            bytes,
            intact: Some(record),
        });
    }
    damage(u, &record, &mut bytes)?;
    Ok(Stored { bytes, intact: None })
}

/// Up to six records, one behind the other.
pub fn stored_list(u: &mut Unstructured<'_>) -> Result<Vec<Stored>> {
    several(u, 6, stored)
}

/// A list whose bytes were cut and changed anywhere, size words too.
pub fn torn_list(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let mut list: Vec<u8> = stored_list(u)?
        .into_iter()
        .flat_map(|stored| stored.bytes)
        .collect();
    for _ in 0..u.int_in_range(0..=6_u8)? {
        if let Some(last) = list.len().checked_sub(1) {
            let place = u.int_in_range(0..=last)?;
            list[place] = u.arbitrary()?;
        }
    }
    if u.arbitrary()? {
        list.truncate(u.int_in_range(0..=list.len())?);
    }
    list.extend(bytes(u, 8)?);
    Ok(list)
}

/// Spoils one field, never the size word.
fn damage(u: &mut Unstructured<'_>, record: &StoredRecord, bytes: &mut Vec<u8>) -> Result<()> {
    let host_len = |host: SocketAddr| if host.is_ipv6() { 20 } else { 8 };
    let born_port = 48 + host_len(record.born_host) - 4;
    let store_port = born_port + 4 + 8 + host_len(record.store_host) - 4;
    let body_len = store_port + 4 + 4 + 8;
    let topic_len = body_len + 4 + record.body.len();
    let topic = topic_len + if record.wide_topic { 2 } else { 1 };
    let properties_len = topic + record.topic.len();
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    match u.int_in_range(0..=8_u8)? {
        0 => put(4, &[0xDA, 0xA3, 0x20, 0xFF]),
        1 => put(20, &(-1_i64 - u.int_in_range(0..=9_i64)?).to_be_bytes()),
        2 => put(28, &i64::MIN.to_be_bytes()),
        3 => put(
            pick(u, &[born_port, store_port])?,
            &pick(u, &[65_536, -1, i32::MAX])?.to_be_bytes(),
        ),
        4 => put(body_len, &pick(u, &[i32::MAX, -1, i32::MIN])?.to_be_bytes()),
        5 => put(properties_len, &pick(u, &[i16::MIN, -1])?.to_be_bytes()),
        6 if !record.topic.is_empty() => put(topic, &[0xFF]),
        7 if record.wide_topic => put(topic_len, &[0xFF, 0xFF]),
        _ => {
            let more = u.int_in_range(1..=9_u8)?;
            bytes.extend(std::iter::repeat_n(0, more.into()));
            let size = len32(bytes.len());
            bytes[..4].copy_from_slice(&size);
        }
    }
    Ok(())
}

/// Properties as brokers store them, or text with separators where they should not be.
fn properties(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    if rarely(u, 6)? {
        return bytes(u, 24);
    }
    let mut out = Vec::new();
    let names = ["TAGS", "KEYS", "UNIQ_KEY", "RETRY_TOPIC", "REAL_TOPIC", "DELAY"];
    for _ in 0..u.int_in_range(0..=4_u8)? {
        let value = match u.int_in_range(0..=4_u8)? {
            0 => pick(u, &["TagA", "Aa", "BB", "k1 k2"])?.to_owned(),
            _ => word(u)?,
        };
        out.extend(pick(u, &names)?.as_bytes());
        out.push(1);
        out.extend(value.as_bytes());
        out.push(2);
    }
    if rarely(u, 3)? {
        // Producers of 4.9.3 to 5.0.0 leave the last separator out.
        out.pop();
    }
    Ok(out)
}

/// An address; those of IPv6 are none that stand for one of IPv4.
fn host(u: &mut Unstructured<'_>) -> Result<SocketAddr> {
    let ip = if rarely(u, 4)? {
        IpAddr::V6(Ipv6Addr::from(u.arbitrary::<u128>()? | 1 << 127))
    } else {
        IpAddr::V4(Ipv4Addr::from(u.arbitrary::<u32>()?))
    };
    Ok(SocketAddr::new(ip, u.arbitrary()?))
}

fn put_host(out: &mut Vec<u8>, host: SocketAddr) {
    match host.ip() {
        IpAddr::V4(ip) => out.extend(ip.octets()),
        IpAddr::V6(ip) => out.extend(ip.octets()),
    }
    out.extend(u32::from(host.port()).to_be_bytes());
}

/// A zlib stream that stores instead of compressing: header, one last block, Adler-32.
fn zlib(plain: &[u8]) -> Vec<u8> {
    let [high, low] = len16(plain.len());
    let mut out = vec![0x78, 0x01, 0x01, low, high, !low, !high];
    out.extend(plain);
    let (a, b) = plain.iter().fold((1_u32, 0_u32), |(a, b), byte| {
        let a = (a + u32::from(*byte)) % 65_521;
        (a, (b + a) % 65_521)
    });
    out.extend((b << 16 | a).to_be_bytes());
    out
}

/// The checksum brokers store with a body: CRC-32 without its highest bit.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg());
    let crc = bytes
        .iter()
        .fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step));
    !crc & 0x7FFF_FFFF
}

fn len32(len: usize) -> [u8; 4] {
    u32::try_from(len)
        .expect("generated records are small")
        .to_be_bytes()
}

fn len16(len: usize) -> [u8; 2] {
    u16::try_from(len)
        .expect("generated texts are short")
        .to_be_bytes()
}

#[cfg(test)]
mod tests {
    use rocketmq_consumer_core::wire::body::{Body, BodyLimits, CrcPolicy};

    use super::*;

    #[test]
    fn what_is_packed_here_is_opened_by_the_client() {
        for plain in [&b""[..], b"a", &[7; 300]] {
            let stored = Bytes::from(zlib(plain));
            let flag = SysFlag(SysFlag::COMPRESSED);
            let opened = Body::decode(
                &stored,
                flag,
                crc32(&stored),
                BodyLimits::default(),
                CrcPolicy::Reject,
            );
            assert_eq!(opened.map(|body| body.bytes), Ok(Bytes::copy_from_slice(plain)));
        }
    }
}
