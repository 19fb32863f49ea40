//! Message ids as the producer gives them, in Java's form: the address, the process, a number of the
//! client, the milliseconds of this month, and a counter, as 32 hex digits.
//= rocketmq: MessageClientIDSetter.createUniqID

use std::fmt;
use std::net::IpAddr;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rocketmq_consumer_core::ids::ClientId;
use rocketmq_consumer_core::wire::subscription::java_hash;

/// Makes the ids of one process.
#[derive(Debug)]
pub(crate) struct UniqueKeys {
    address: [u8; 4],
    process: u16,
    client: i32,
    month_began: i64,
    drawn: u16,
}

impl UniqueKeys {
    /// Ids of this client, whose own id begins with its address. `now` is Unix time in milliseconds.
    pub(crate) fn new(client: &ClientId, process: u32, now: i64) -> Self {
        let host = client.as_str().split('@').next().unwrap_or_default();
        let address = match host.parse() {
            Ok(IpAddr::V4(address)) => address.octets(),
            // Nobody reads the address back; it only keeps machines apart.
            Ok(IpAddr::V6(_)) | Err(_) => java_hash(host).to_be_bytes(),
        };
        Self {
            address,
            // Java keeps the low half too.
            process: (process & 0xffff) as u16,
            client: java_hash(client.as_str()),
            month_began: month_began(now),
            drawn: 0,
        }
    }

    /// The next id, never the same twice within 65,536 of one millisecond.
    pub(crate) fn draw(&mut self, now: i64) -> String {
        // Four bytes hold 49 days; a longer run begins again, as it does in Java.
        let since = (now.wrapping_sub(self.month_began) & 0xffff_ffff) as u32;
        self.drawn = self.drawn.wrapping_add(1);
        let id = Id {
            address: u32::from_be_bytes(self.address),
            process: self.process,
            client: self.client,
            since,
            drawn: self.drawn,
        };
        id.to_string()
    }
}

struct Id {
    address: u32,
    process: u16,
    client: i32,
    since: u32,
    drawn: u16,
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            address,
            process,
            client,
            since,
            drawn,
        } = self;
        write!(f, "{address:08X}{process:04X}{client:08X}{since:08X}{drawn:04X}")
    }
}

/// The first moment of the month, in local time as in Java; the epoch for a time no calendar has.
fn month_began(now: i64) -> i64 {
    let first = Timestamp::from_millisecond(now)
        .and_then(|now| now.to_zoned_datetime(TimeZone::system()).first_of_month())
        .and_then(|first| first.start_of_day());
    first.map_or(0, |first| first.timestamp().as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_tells_where_and_when() {
        let now = 1_700_000_000_000;
        let mut keys = UniqueKeys::new(&"10.0.0.2@7#x".into(), 0x1_0203, now);
        let (first, second) = (keys.draw(now), keys.draw(now + 1));
        assert_eq!(
            (first.len(), &first[..12], &first[28..]),
            (32, "0A0000020203", "0001")
        );
        assert_eq!(first[12..20], second[12..20]);
        let since = |key: &str| i64::from_str_radix(&key[20..28], 16).unwrap();
        assert_eq!(since(&second) - since(&first), 1);
        // November 2023 was two weeks old.
        assert!(
            (13 * 86_400_000..15 * 86_400_000).contains(&since(&first)),
            "{first}"
        );
    }

    #[test]
    fn every_client_has_ids_of_its_own() {
        let id = |client: &str| UniqueKeys::new(&client.into(), 1, 0).draw(0);
        assert_ne!(id("10.0.0.2@7#x"), id("10.0.0.2@7#y"));
        assert_ne!(id("host-a@7#x")[..8], id("host-b@7#x")[..8]);
    }
}
