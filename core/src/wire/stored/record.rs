use alloc::borrow::Cow;
use alloc::string::{String, ToString as _};
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::Entry;
use super::entry::{self, Layout, place};
use super::sys_flag::SysFlag;
use crate::ids::{PhysicalOffset, QueueId, QueueOffset};
use crate::time::WallTime;
use crate::wire::message_id::OffsetMessageId;
use crate::wire::properties::{Properties, name};

/// One stored message, read in place.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    bytes: &'a [u8],
    entry: Entry,
}

impl<'a> Record<'a> {
    /// The record of `entry` in the bytes it was scanned from.
    ///
    /// # Panics
    ///
    /// May panic, here or in an accessor, if `entry` was scanned from other bytes.
    #[must_use]
    pub fn new(scanned: &'a [u8], entry: Entry) -> Self {
        Self {
            bytes: &scanned[entry.range()],
            entry,
        }
    }

    /// The whole record, size word included.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Its index entry.
    #[must_use]
    pub const fn entry(&self) -> Entry {
        self.entry
    }

    /// The topic it is stored under; of a redelivered message the retry topic.
    #[must_use]
    pub fn topic(&self) -> &'a str {
        core::str::from_utf8(&self.bytes[self.entry.topic_range()])
            .expect("the scanner has checked that the topic is UTF-8")
    }

    /// The queue it is stored in.
    #[must_use]
    pub fn queue_id(&self) -> QueueId {
        QueueId(self.word(place::QUEUE_ID))
    }

    /// Its place in the queue.
    #[must_use]
    pub const fn queue_offset(&self) -> QueueOffset {
        self.entry.queue_offset()
    }

    /// Its place in the broker's commit log.
    #[must_use]
    pub fn physical_offset(&self) -> PhysicalOffset {
        PhysicalOffset(self.double(place::PHYSICAL_OFFSET))
    }

    /// A number for the applications; RocketMQ gives it no meaning.
    #[must_use]
    pub fn flag(&self) -> i32 {
        self.word(place::FLAG)
    }

    /// The system flag.
    #[must_use]
    pub fn sys_flag(&self) -> SysFlag {
        SysFlag(self.word(place::SYS_FLAG))
    }

    /// When it was sent, by the producer's clock.
    #[must_use]
    pub fn born_at(&self) -> WallTime {
        WallTime::from_unix_millis(self.double(place::BORN_AT))
    }

    /// Where it was sent from, as the broker saw it. A mapped IPv4 address is shown as IPv4.
    #[must_use]
    pub fn born_host(&self) -> SocketAddr {
        self.host(place::BORN_HOST, self.sys_flag().born_host_is_v6())
    }

    /// When it was stored, by the broker's clock.
    #[must_use]
    pub fn store_at(&self) -> WallTime {
        WallTime::from_unix_millis(self.double(self.layout().store_at))
    }

    /// The broker that stored it. A mapped IPv4 address is shown as IPv4.
    #[must_use]
    pub fn store_host(&self) -> SocketAddr {
        self.host(self.layout().store_host, self.sys_flag().store_host_is_v6())
    }

    /// How often it was sent back before, as stored. A producer may have written any number.
    #[must_use]
    pub fn reconsume_times(&self) -> i32 {
        self.word(self.layout().reconsume_times)
    }

    /// Where the half message of its transaction lies in the commit log; 0 without one.
    #[must_use]
    pub fn prepared_transaction_offset(&self) -> i64 {
        self.double(self.layout().prepared_transaction_offset())
    }

    /// CRC-32 of the stored body, without its highest bit. Not every path of a broker fills it in;
    /// see [`crc_matches`](crate::wire::body::crc_matches).
    #[must_use]
    pub fn body_crc(&self) -> u32 {
        self.word(place::BODY_CRC) as u32
    }

    /// The body as stored, perhaps compressed.
    #[must_use]
    pub fn stored_body(&self) -> &'a [u8] {
        let (whole, body) = (self.entry.range(), self.entry.body_range());
        &self.bytes[body.start - whole.start..body.end - whole.start]
    }

    /// The properties, unparsed.
    #[must_use]
    pub fn properties(&self) -> Properties<'a> {
        Properties::new(&self.bytes[self.entry.properties_range()])
    }

    /// The value of one property.
    #[must_use]
    pub fn property(&self, name: &str) -> Option<Cow<'a, str>> {
        self.properties().get(name)
    }

    /// The tag.
    #[must_use]
    pub fn tags(&self) -> Option<Cow<'a, str>> {
        self.property(name::TAGS)
    }

    /// The business keys, separated by spaces.
    #[must_use]
    pub fn keys(&self) -> Option<Cow<'a, str>> {
        self.property(name::KEYS)
    }

    /// The id the producer gave.
    #[must_use]
    pub fn unique_key(&self) -> Option<Cow<'a, str>> {
        self.property(name::UNIQUE_KEY)
    }

    /// The id that names the place of storage: broker address, port and physical offset as 32 hex
    /// digits, or 56 with an IPv6 address.
    #[must_use]
    pub fn offset_msg_id(&self) -> String {
        let id = OffsetMessageId {
            store_host: self.store_host(),
            physical_offset: self.physical_offset(),
        };
        id.to_string()
    }

    /// The id to show: the producer's, or where there is none the place of storage.
    #[must_use]
    pub fn msg_id(&self) -> Cow<'a, str> {
        self.unique_key()
            .unwrap_or_else(|| Cow::Owned(self.offset_msg_id()))
    }

    fn layout(&self) -> Layout {
        Layout::of(self.sys_flag())
    }

    fn word(&self, at: usize) -> i32 {
        entry::word(self.bytes, at).expect(FIXED)
    }

    fn double(&self, at: usize) -> i64 {
        entry::double(self.bytes, at).expect(FIXED)
    }

    fn host(&self, at: usize, v6: bool) -> SocketAddr {
        let bytes = &self.bytes[at..at + entry::host_len(v6)];
        let (ip, port) = if v6 {
            let octets = bytes.first_chunk::<16>().expect(FIXED);
            (Ipv6Addr::from(*octets).to_canonical(), &bytes[16..])
        } else {
            let octets = bytes.first_chunk::<4>().expect(FIXED);
            (IpAddr::V4(Ipv4Addr::from(*octets)), &bytes[4..])
        };
        let port = entry::word(port, 0).and_then(|port| u16::try_from(port).ok());
        SocketAddr::new(ip, port.expect("the scanner has checked the ports"))
    }
}

impl fmt::Debug for Record<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("topic", &self.topic())
            .field("queue_id", &self.queue_id())
            .field("queue_offset", &self.queue_offset())
            .field("body_len", &self.entry.body_len())
            .finish_non_exhaustive()
    }
}

/// Why a field in front of the body is there.
const FIXED: &str = "the scanner has found the body behind this field";
