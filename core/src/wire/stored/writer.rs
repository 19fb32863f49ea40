use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use super::{MAGIC_V1, MAGIC_V2, SIZE_MIN, SysFlag};
use crate::ids::{PhysicalOffset, QueueId, QueueOffset};
use crate::time::WallTime;
use crate::wire::body::stored_crc;
use crate::wire::properties;

/// The longest topic the first format is used for, in bytes. Its length byte could say more, but Java
/// reads that byte signed.
const V1_TOPIC_MAX: usize = 127;

/// What a record consists of: the writing half of [`Record`](super::Record).
///
/// Offsets are written as they are, but a reader refuses negative ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordParts<'a> {
    /// The topic it is stored under.
    pub topic: &'a str,
    /// The queue it is stored in.
    pub queue_id: QueueId,
    /// A number for the applications.
    pub flag: i32,
    /// Its place in the queue.
    pub queue_offset: QueueOffset,
    /// Its place in the commit log.
    pub physical_offset: PhysicalOffset,
    /// The system flag. The bits that tell how hosts are written follow the hosts, whatever is here.
    pub sys_flag: SysFlag,
    /// When it was sent, by the producer's clock.
    pub born_at: WallTime,
    /// Where it was sent from.
    pub born_host: SocketAddr,
    /// When it was stored, by the broker's clock.
    pub store_at: WallTime,
    /// The broker that stored it.
    pub store_host: SocketAddr,
    /// How often it was sent back before.
    pub reconsume_times: i32,
    /// Where the half message of its transaction lies in the commit log; 0 without one.
    pub prepared_transaction_offset: i64,
    /// The body as stored, perhaps compressed.
    pub body: &'a [u8],
    /// The properties as stored, see [`PropertiesWriter`](crate::wire::properties::PropertiesWriter).
    pub properties: &'a str,
}

impl RecordParts<'_> {
    /// Appends the record, in the first format wherever it can carry the topic, as brokers do.
    ///
    /// # Errors
    ///
    /// [`TooLong`] when a length does not fit into its field; nothing is written then.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), TooLong> {
        let wide_topic = self.topic.len() > V1_TOPIC_MAX;
        let topic_len = u16::try_from(self.topic.len()).map_err(|_| TooLong::Topic)?;
        if self.properties.len() > properties::LENGTH_MAX {
            return Err(TooLong::Properties);
        }
        let size = self.size(wide_topic)?;

        out.reserve(size as usize);
        put(out, size.to_be_bytes());
        put(out, if wide_topic { MAGIC_V2 } else { MAGIC_V1 }.to_be_bytes());
        put(out, stored_crc(self.body).to_be_bytes());
        put(out, self.queue_id.0.to_be_bytes());
        put(out, self.flag.to_be_bytes());
        put(out, self.queue_offset.0.to_be_bytes());
        put(out, self.physical_offset.0.to_be_bytes());
        put(out, self.sys_flag().0.to_be_bytes());
        put(out, self.born_at.as_unix_millis().to_be_bytes());
        put_host(out, self.born_host);
        put(out, self.store_at.as_unix_millis().to_be_bytes());
        put_host(out, self.store_host);
        put(out, self.reconsume_times.to_be_bytes());
        put(out, self.prepared_transaction_offset.to_be_bytes());
        // Each part is no longer than the whole, whose size fits.
        put(out, (self.body.len() as u32).to_be_bytes());
        out.extend_from_slice(self.body);
        if wide_topic {
            put(out, topic_len.to_be_bytes());
        } else {
            out.push(topic_len as u8);
        }
        out.extend_from_slice(self.topic.as_bytes());
        put(out, (self.properties.len() as u16).to_be_bytes());
        out.extend_from_slice(self.properties.as_bytes());
        Ok(())
    }

    /// The flag as it is written.
    fn sys_flag(&self) -> SysFlag {
        let mut bits = self.sys_flag.0 & !(SysFlag::BORN_HOST_V6 | SysFlag::STORE_HOST_V6);
        for (host, bit) in [
            (self.born_host, SysFlag::BORN_HOST_V6),
            (self.store_host, SysFlag::STORE_HOST_V6),
        ] {
            if host.is_ipv6() {
                bits |= bit;
            }
        }
        SysFlag(bits)
    }

    /// The size of the record in bytes. Readers take it for a signed number.
    fn size(&self, wide_topic: bool) -> Result<i32, TooLong> {
        let fixed = SIZE_MIN as usize
            + usize::from(wide_topic)
            + [self.born_host, self.store_host]
                .iter()
                .map(|host| if host.is_ipv6() { 12 } else { 0 })
                .sum::<usize>();
        // Both are below 64 KiB by now.
        let fixed = fixed + self.topic.len() + self.properties.len();
        fixed
            .checked_add(self.body.len())
            .and_then(|size| i32::try_from(size).ok())
            .ok_or(TooLong::Body)
    }
}

/// Which part of a record is longer than its format can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooLong {
    /// The topic has more than 65,535 bytes.
    #[error("the topic is longer than a record can say")]
    Topic,
    /// The properties have more than 32,767 bytes.
    #[error("the properties are longer than a record can say")]
    Properties,
    /// The whole record has more than 2 GiB because of the body.
    #[error("the body is longer than a record can say")]
    Body,
}

fn put<const N: usize>(out: &mut Vec<u8>, bytes: [u8; N]) {
    out.extend_from_slice(&bytes);
}

fn put_host(out: &mut Vec<u8>, host: SocketAddr) {
    match host.ip() {
        IpAddr::V4(ip) => put(out, ip.octets()),
        IpAddr::V6(ip) => put(out, ip.octets()),
    }
    put(out, u32::from(host.port()).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use proptest::prelude::*;

    use super::*;
    use crate::wire::body::crc_matches;
    use crate::wire::stored::{Record, Scanned, Scanner};

    const PARTS: RecordParts<'static> = RecordParts {
        topic: "T",
        queue_id: QueueId(3),
        flag: 9,
        queue_offset: QueueOffset(42),
        physical_offset: PhysicalOffset(1_000),
        sys_flag: SysFlag(0),
        born_at: WallTime::from_unix_millis(1),
        born_host: SocketAddr::new(IpAddr::V4(core::net::Ipv4Addr::LOCALHOST), 53_516),
        store_at: WallTime::from_unix_millis(2),
        store_host: SocketAddr::new(IpAddr::V4(core::net::Ipv4Addr::LOCALHOST), 10_911),
        reconsume_times: 2,
        prepared_transaction_offset: 77,
        body: b"hello",
        properties: "TAGS\u{1}TagA\u{2}",
    };

    /// Checks that a reader finds exactly these parts.
    fn round_trip(parts: &RecordParts<'_>) {
        // Between two neighbours, so that the size word is put to use.
        let mut bytes = Vec::new();
        PARTS.encode(&mut bytes).expect("short parts");
        let at = bytes.len();
        parts.encode(&mut bytes).expect("parts that fit");
        PARTS.encode(&mut bytes).expect("short parts");
        let found: Vec<_> = Scanner::new(&bytes).collect();
        let [Scanned::Message(_), Scanned::Message(entry), Scanned::Message(_)] = found[..] else {
            panic!("{found:?}");
        };
        assert_eq!(entry.range().start, at);
        let record = Record::new(&bytes, entry);
        assert!(crc_matches(parts.body, record.body_crc()) && record.body_crc() < 1 << 31);
        let read = RecordParts {
            topic: record.topic(),
            queue_id: record.queue_id(),
            flag: record.flag(),
            queue_offset: record.queue_offset(),
            physical_offset: record.physical_offset(),
            sys_flag: record.sys_flag(),
            born_at: record.born_at(),
            born_host: record.born_host(),
            store_at: record.store_at(),
            store_host: record.store_host(),
            reconsume_times: record.reconsume_times(),
            prepared_transaction_offset: record.prepared_transaction_offset(),
            body: record.stored_body(),
            properties: core::str::from_utf8(record.properties().as_bytes()).expect("text"),
        };
        let flagged = RecordParts {
            sys_flag: parts.sys_flag(),
            ..*parts
        };
        assert_eq!(read, flagged);
    }

    /// A record a 5.5.0 broker stored, rebuilt from its parts.
    #[test]
    fn a_record_of_a_real_broker_comes_out_bit_by_bit() {
        let hex = "00000100daa320a7375337b900000000000000000000000000000000000000000000000000000000000001a227\
            9d641b7f0000010000d10c000001a2279d646d7f00000100002a9f000000000000000000000000000000026d30\
            07776972655f7431009c4d53475f524547494f4e0144656661756c74526567696f6e02554e49515f4b45590146\
            443030303030303030303030303030303030303030303030303030303030323041444533303934364530393933\
            3335374335353030303002434c55535445520144656661756c74436c757374657202544147530154616741024b\
            455953016b31025741495401747275650254524143455f4f4e017472756502";
        let golden: Vec<u8> = (0..hex.len() / 2)
            .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("hex"))
            .collect();
        let properties = "MSG_REGION\u{1}DefaultRegion\u{2}\
            UNIQ_KEY\u{1}FD0000000000000000000000000000020ADE30946E0993357C550000\u{2}\
            CLUSTER\u{1}DefaultCluster\u{2}TAGS\u{1}TagA\u{2}KEYS\u{1}k1\u{2}WAIT\u{1}true\u{2}TRACE_ON\u{1}true\u{2}";
        let parts = RecordParts {
            topic: "wire_t1",
            queue_id: QueueId(0),
            flag: 0,
            queue_offset: QueueOffset(0),
            physical_offset: PhysicalOffset(0),
            born_at: WallTime::from_unix_millis(0x01a2_279d_641b),
            store_at: WallTime::from_unix_millis(0x01a2_279d_646d),
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body: b"m0",
            properties,
            ..PARTS
        };
        let mut bytes = Vec::new();
        parts.encode(&mut bytes).expect("short parts");
        assert_eq!(bytes, golden);
    }

    #[test]
    fn host_bits_follow_the_hosts() {
        let v6: SocketAddr = "[fe80::1]:1".parse().expect("an address");
        for (born_host, store_host, bits) in [
            (PARTS.born_host, PARTS.store_host, 0x0F),
            (v6, PARTS.store_host, 0x1F),
            (PARTS.born_host, v6, 0x2F),
            (v6, v6, 0x3F),
        ] {
            for before in [0x0F, 0x3F] {
                let parts = RecordParts {
                    born_host,
                    store_host,
                    sys_flag: SysFlag(before),
                    ..PARTS
                };
                assert_eq!(parts.sys_flag(), SysFlag(bits));
                round_trip(&parts);
            }
        }
    }

    #[test]
    fn the_topic_chooses_the_format() {
        for (len, magic) in [
            (0, MAGIC_V1),
            (127, MAGIC_V1),
            (128, MAGIC_V2),
            (65_535, MAGIC_V2),
        ] {
            let topic = "t".repeat(len);
            let parts = RecordParts {
                topic: &topic,
                ..PARTS
            };
            let mut bytes = Vec::new();
            parts.encode(&mut bytes).expect("parts that fit");
            assert_eq!(bytes[4..8], magic.to_be_bytes());
            round_trip(&parts);
        }
    }

    #[test]
    fn what_does_not_fit_is_not_written() {
        let (topic, properties) = ("t".repeat(65_536), "p".repeat(32_768));
        for (parts, why) in [
            (
                RecordParts {
                    topic: &topic,
                    ..PARTS
                },
                TooLong::Topic,
            ),
            (
                RecordParts {
                    properties: &properties,
                    ..PARTS
                },
                TooLong::Properties,
            ),
        ] {
            let mut bytes = Vec::new();
            assert_eq!(parts.encode(&mut bytes), Err(why));
            assert!(bytes.is_empty());
        }
        round_trip(&RecordParts {
            properties: &properties[1..],
            ..PARTS
        });
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            topic in "\\PC{0,140}",
            numbers in any::<(i32, i32, i32, i32, i64, i64, i64)>(),
            offsets in (0..=i64::MAX, 0..=i64::MAX),
            born in any::<(IpAddr, u16)>(),
            store in any::<(IpAddr, u16)>(),
            body in proptest::collection::vec(any::<u8>(), 0..64),
            properties in "\\PC{0,40}",
        ) {
            let (queue_id, flag, sys_flag, reconsume_times, born_at, store_at, prepared) = numbers;
            let properties: String = properties;
            round_trip(&RecordParts {
                topic: &topic,
                queue_id: QueueId(queue_id),
                flag,
                queue_offset: QueueOffset(offsets.0),
                physical_offset: PhysicalOffset(offsets.1),
                sys_flag: SysFlag(sys_flag),
                born_at: WallTime::from_unix_millis(born_at),
                // A mapped IPv4 address is shown as IPv4.
                born_host: SocketAddr::new(born.0.to_canonical(), born.1),
                store_at: WallTime::from_unix_millis(store_at),
                store_host: SocketAddr::new(store.0.to_canonical(), store.1),
                reconsume_times,
                prepared_transaction_offset: prepared,
                body: &body,
                properties: &properties,
            });
        }
    }
}
