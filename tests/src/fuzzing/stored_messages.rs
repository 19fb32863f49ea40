//! Lists of stored messages, whole and broken.

use bytes::Bytes;
use rocketmq_consumer_core::wire::body::{Body, BodyError, BodyLimits, CrcPolicy};
use rocketmq_consumer_core::wire::properties::name;
use rocketmq_consumer_core::wire::stored::{Entry, InnerBatch, Record, SIZE_MIN, Scanned, Scanner};

/// The largest body after decompression here, in bytes: small enough to be reached.
const BODY_MAX: usize = 4_096;

/// Reads bytes as the body of a pull answer.
///
/// The pieces lie side by side from the beginning to the end, whatever they are. Of a message every
/// field can be read, and its body is opened within the limit or refused.
///
/// # Panics
///
/// When one of these does not hold.
pub fn stored_messages(data: &[u8]) {
    let list = Bytes::copy_from_slice(data);
    let mut scanner = Scanner::new(&list);
    let mut end = 0;
    for scanned in scanner.by_ref() {
        let range = match scanned {
            Scanned::Message(entry) => {
                let record = Record::new(&list, entry);
                look_at(&list, record);
                if record.sys_flag().is_inner_batch() {
                    look_into(&list, entry);
                }
                entry.range()
            }
            Scanned::Undecodable(bad) => {
                assert!(bad.len >= SIZE_MIN);
                assert!(bad.queue_offset.is_none_or(|offset| offset.0 >= 0));
                assert!(bad.physical_offset.is_none_or(|offset| offset.0 >= 0));
                bad.at as usize..bad.at as usize + bad.len as usize
            }
            Scanned::Broken { at, .. } => at as usize..list.len(),
        };
        assert_eq!(range.start, end, "pieces lie side by side");
        assert!(range.end > range.start && range.end <= list.len());
        end = range.end;
    }
    assert_eq!(end, list.len(), "nothing is left out");
    assert_eq!(scanner.next(), None, "an end is an end");
}

fn look_at(list: &Bytes, record: Record<'_>) {
    let entry = record.entry();
    let body = list.slice(entry.body_range());
    assert_eq!(record.stored_body(), body, "a record and its entry agree");
    assert_eq!(record.bytes(), &list[entry.range()]);
    assert_eq!(body.len(), entry.body_len() as usize);
    assert!(record.queue_offset().0 >= 0 && record.physical_offset().0 >= 0);
    let _ = (record.queue_id(), record.flag(), record.sys_flag().transaction());
    let _ = (record.born_at(), record.store_at(), record.reconsume_times());
    let _ = (
        record.prepared_transaction_offset(),
        record.topic(),
        format!("{record:?}"),
    );
    let id = record.offset_msg_id();
    let digits = if record.sys_flag().store_host_is_v6() && record.store_host().is_ipv6() {
        56
    } else {
        32
    };
    assert_eq!(id.len(), digits);
    assert!(!record.msg_id().is_empty() && !record.born_host().to_string().is_empty());
    properties(record);
    for policy in [CrcPolicy::Ignore, CrcPolicy::Report, CrcPolicy::Reject] {
        open(&body, record, policy);
    }
}

/// Whatever comes out of an inner batch is a record like any other, in its own place.
fn look_into(list: &Bytes, entry: Entry) {
    let limits = BodyLimits {
        decompressed_max: BODY_MAX,
    };
    let Ok(batch) = InnerBatch::open(list, entry, limits, CrcPolicy::Ignore) else {
        return;
    };
    let mut out = Vec::new();
    let mut entries = Vec::new();
    for message in batch.messages().map_while(Result::ok) {
        entries.push(message.append_to(&mut out, 0).expect("a short list"));
    }
    let out = Bytes::from(out);
    let found: Vec<_> = Scanner::new(&out).collect();
    let told: Vec<_> = entries.iter().copied().map(Scanned::Message).collect();
    assert_eq!(found, told, "its place is where it says");
    for entry in entries {
        let record = Record::new(&out, entry);
        assert_eq!(record.topic(), batch.outer().topic());
        assert!(record.queue_offset() >= batch.outer().queue_offset());
        look_at(&out, record);
    }
}

fn properties(record: Record<'_>) {
    let all: Vec<_> = record.properties().iter().collect();
    assert!(
        all.iter()
            .all(|(name, value)| !(name.is_empty() || value.is_empty()))
    );
    for name in [name::TAGS, name::KEYS, name::UNIQUE_KEY, name::RETRY_TOPIC] {
        let last = all
            .iter()
            .rfind(|(known, _)| known == name)
            .map(|(_, value)| value);
        assert_eq!(record.property(name).as_ref(), last, "the last of a name counts");
    }
    let _ = (record.tags(), record.keys(), record.unique_key());
}

fn open(body: &Bytes, record: Record<'_>, policy: CrcPolicy) {
    let limits = BodyLimits {
        decompressed_max: BODY_MAX,
    };
    match Body::decode(body, record.sys_flag(), record.body_crc(), limits, policy) {
        Ok(opened) if record.sys_flag().compression().is_some() => {
            assert!(opened.bytes.len() <= BODY_MAX, "the limit holds");
        }
        Ok(opened) => assert_eq!(opened.bytes, *body, "a plain body is as it is stored"),
        Err(BodyError::Crc) => assert_eq!(policy, CrcPolicy::Reject),
        Err(error) => {
            assert!(record.sys_flag().compression().is_some(), "{error}");
        }
    }
}
