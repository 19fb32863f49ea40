//! Stored messages as values: every field of a record, under Java's names.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::frame::{take, text};

const MAGIC_V1: u32 = 0xdaa3_20a7;
const MAGIC_V2: u32 = 0xdaa3_20ab;
const BORN_HOST_V6: i32 = 0x10;
const STORE_HOST_V6: i32 = 0x20;

/// Whether a body begins like a list of records.
pub(crate) fn is_record(body: &[u8]) -> bool {
    let magic = body.get(4..8).and_then(|word| word.try_into().ok());
    magic.is_some_and(|word| [MAGIC_V1, MAGIC_V2].contains(&u32::from_be_bytes(word)))
}

/// All records of a body, as JSON objects; `None` when one ends early or has bytes left over.
pub(crate) fn decode_all(mut body: &[u8]) -> Option<Vec<Value>> {
    let mut out = Vec::new();
    while !body.is_empty() {
        let size = usize::try_from(u32::from_be_bytes(*body.first_chunk()?)).ok()?;
        let (one, rest) = body.split_at_checked(size)?;
        out.push(decode(one)?);
        // A size word below its own length would never end this.
        body = if size == 0 { return None } else { rest };
    }
    Some(out)
}

fn decode(mut bytes: &[u8]) -> Option<Value> {
    let b = &mut bytes;
    let size = u32::from_be_bytes(take(b)?);
    let magic = u32::from_be_bytes(take(b)?);
    let crc = u32::from_be_bytes(take(b)?);
    let queue_id = i32::from_be_bytes(take(b)?);
    let flag = i32::from_be_bytes(take(b)?);
    let queue_offset = i64::from_be_bytes(take(b)?);
    let physical_offset = i64::from_be_bytes(take(b)?);
    let sys_flag = i32::from_be_bytes(take(b)?);
    let born_timestamp = i64::from_be_bytes(take(b)?);
    let born_host = host(b, sys_flag & BORN_HOST_V6 != 0)?;
    let store_timestamp = i64::from_be_bytes(take(b)?);
    let store_host = host(b, sys_flag & STORE_HOST_V6 != 0)?;
    let reconsume_times = i32::from_be_bytes(take(b)?);
    let prepared = i64::from_be_bytes(take(b)?);
    let length = u32::from_be_bytes(take(b)?);
    let body = text(b, length)?;
    let length = match magic {
        MAGIC_V1 => u32::from(u8::from_be_bytes(take(b)?)),
        MAGIC_V2 => u32::from(u16::from_be_bytes(take(b)?)),
        _ => return None,
    };
    let topic = text(b, length)?;
    let length = u32::from(u16::from_be_bytes(take(b)?));
    let properties = text(b, length)?;
    b.is_empty().then(|| {
        json!({
            "size": size, "magic": format!("{magic:08x}"), "bodyCrc": crc, "queueId": queue_id, "flag": flag,
            "queueOffset": queue_offset, "physicalOffset": physical_offset, "sysFlag": sys_flag,
            "bornTimestamp": born_timestamp, "bornHost": born_host, "storeTimestamp": store_timestamp,
            "storeHost": store_host, "reconsumeTimes": reconsume_times, "preparedTransactionOffset": prepared,
            "body": body, "topic": topic, "properties": pairs(&properties),
        })
    })
}

fn host(bytes: &mut &[u8], is_v6: bool) -> Option<String> {
    let ip = if is_v6 {
        std::net::IpAddr::from(take::<16>(bytes)?)
    } else {
        std::net::IpAddr::from(take::<4>(bytes)?)
    };
    let port = u16::try_from(u32::from_be_bytes(take(bytes)?)).ok()?;
    Some(std::net::SocketAddr::new(ip, port).to_string())
}

/// Names and values. Their order is a hash map's in Java and means nothing; a lost separator shows in `size`.
fn pairs(text: &str) -> BTreeMap<&str, &str> {
    text.split('\u{2}')
        .filter_map(|pair| pair.split_once('\u{1}'))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record that a real broker stored.
    const STORED: &str = "00000100daa320a7375337b900000000000000000000000000000000000000000000000000000000\
        000001a2279d641b7f0000010000d10c000001a2279d646d7f00000100002a9f000000000000000000000000000000026d30\
        07776972655f7431009c4d53475f524547494f4e0144656661756c74526567696f6e02554e49515f4b45590146443030303030\
        3030303030303030303030303030303030303030303030303230414445333039343645303939333335374335353030303002\
        434c55535445520144656661756c74436c757374657202544147530154616741024b455953016b3102574149540174727565\
        0254524143455f4f4e017472756502";

    fn stored() -> Vec<u8> {
        let digits: Vec<u8> = STORED.bytes().filter(u8::is_ascii_hexdigit).collect();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(byte).collect()
    }

    #[test]
    fn a_stored_record_reads_field_by_field() {
        let twice = [stored(), stored()].concat();
        assert!(is_record(&twice));
        let records = decode_all(&twice).unwrap();
        assert_eq!(records.len(), 2);
        let one = &records[1];
        assert_eq!(
            (&one["size"], &one["body"], &one["topic"]),
            (&json!(256), &json!("m0"), &json!("wire_t1"))
        );
        assert_eq!(one["bornHost"], "127.0.0.1:53516");
        assert_eq!(one["properties"]["TAGS"], "TagA");
        assert_eq!(one["properties"].as_object().unwrap().len(), 7);
    }

    #[test]
    fn a_record_that_is_cut_is_none() {
        let whole = stored();
        for cut in 1..whole.len() {
            assert_eq!(decode_all(&whole[..cut]), None, "cut at {cut}");
        }
    }
}
