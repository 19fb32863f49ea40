//! Numbers in bodies to which Java gives a second meaning.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::ids::QueueOffset;
use crate::time::WallTime;

/// Reads an offset that has to be one.
pub(super) fn non_negative<'de, D: Deserializer<'de>>(from: D) -> Result<QueueOffset, D::Error> {
    match i64::deserialize(from)? {
        offset @ 0.. => Ok(QueueOffset(offset)),
        _ => Err(de::Error::custom("a negative offset")),
    }
}

/// An offset that may be unknown: −1 is written, anything below 0 is read.
pub(super) mod maybe_offset {
    use super::*;

    pub(in super::super) fn serialize<S: Serializer>(
        offset: &Option<QueueOffset>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        offset.map_or(-1, |offset| offset.0).serialize(to)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<QueueOffset>, D::Error> {
        let offset = i64::deserialize(from)?;
        Ok((offset >= 0).then_some(QueueOffset(offset)))
    }
}

/// A time that may not have come yet: 0 is written, anything below 1 is read.
pub(super) mod maybe_time {
    use super::*;

    pub(in super::super) fn serialize<S: Serializer>(
        time: &Option<WallTime>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        time.unwrap_or_default().serialize(to)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<WallTime>, D::Error> {
        Ok(Some(WallTime::deserialize(from)?).filter(|&time| time > WallTime::default()))
    }
}
