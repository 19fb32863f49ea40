use alloc::vec::Vec;
use core::ops::RangeInclusive;

use bytes::Bytes;

use super::queue::Item;
use super::record::open;
use crate::time::WallTime;
use crate::wire::properties::name;
use crate::wire::stored::Record;

/// Records one look-up gives at most (`maxMsgsNumBatch`).
pub(super) const FOUND_MAX: usize = 64;
/// Records of the whole broker one look-up goes through, newest first.
pub(super) const SCANNED_MAX: usize = 100_000;

/// Of items that come newest first, the newest that have the key, oldest first.
pub(super) fn newest<'a>(
    items: impl Iterator<Item = &'a Item>,
    key: &str,
    stored: &RangeInclusive<WallTime>,
    most: usize,
) -> Vec<&'a Bytes> {
    let matching = items.filter(|item| stored.contains(&item.store_at) && has_key(&open(&item.bytes), key));
    let newest = matching.take(most.min(FOUND_MAX));
    let mut found: Vec<&Bytes> = newest.map(|item| &item.bytes).collect();
    found.reverse();
    found
}

/// Whether the key is the record's unique key or one of the words of its keys.
//= rocketmq: IndexService.buildIndex
fn has_key(record: &Record<'_>, key: &str) -> bool {
    let properties = record.properties();
    let is = |name, found: &dyn Fn(&[u8]) -> bool| properties.get_bytes(name).is_some_and(found);
    is(name::UNIQUE_KEY, &|unique| unique == key.as_bytes())
        || is(name::KEYS, &|keys| {
            keys.split(|byte| *byte == b' ')
                .any(|word| !word.is_empty() && word == key.as_bytes())
        })
}
