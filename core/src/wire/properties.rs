//! The properties of a stored message: `name 0x01 value 0x02`, repeated.
//!
//! Reading is lazy and allocates nothing: most handlers look at one or two properties, most
//! messages carry ten. The rules are those of the Java parser, so that both sides of a mixed group
//! see the same tags and keys:
//!
//! - the last separator may be missing (producers of 4.9.3 to 5.0.0 omit it);
//! - a pair without a name or without a value does not exist;
//! - a value runs to the next `0x02` and may contain further `0x01`;
//! - of several pairs with one name the last one counts.
//!
//! Text that is not UTF-8 is read with U+FFFD in place of each damaged sequence. Both separators
//! are ASCII and never part of a longer sequence, so splitting first and decoding afterwards gives
//! what Java gets in the opposite order.

use alloc::borrow::Cow;
use alloc::string::String;
use core::fmt;
use core::iter::FusedIterator;

/// Properties with a meaning of their own.
pub mod name {
    /// The tag of the message, the subject of tag subscriptions.
    pub const TAGS: &str = "TAGS";
    /// Business keys, separated by spaces.
    pub const KEYS: &str = "KEYS";
    /// What a producer chose the queue by, where all messages of one value are to be in order.
    pub const SHARDING_KEY: &str = "__SHARDINGKEY";
    /// The message id the producer gave.
    pub const UNIQUE_KEY: &str = "UNIQ_KEY";
    /// The topic a redelivered message was sent to before it came to the retry topic.
    pub const RETRY_TOPIC: &str = "RETRY_TOPIC";
    /// The id of the first copy of a redelivered message.
    pub const ORIGIN_MESSAGE_ID: &str = "ORIGIN_MESSAGE_ID";
    /// The delay level of a delayed or redelivered message.
    pub const DELAY_LEVEL: &str = "DELAY";
    /// How often the message was redelivered; carried by a retry that is produced, not sent back.
    pub const RECONSUME_TIME: &str = "RECONSUME_TIME";
    /// After how many redeliveries it becomes a dead letter; carried like `RECONSUME_TIME`.
    pub const MAX_RECONSUME_TIMES: &str = "MAX_RECONSUME_TIMES";
    /// Marks the first half of a transaction; not for copies.
    pub const TRANSACTION_PREPARED: &str = "TRAN_MSG";
    /// How many messages an inner batch holds.
    pub const INNER_NUM: &str = "INNER_NUM";
    /// The queue offset of the first message of an inner batch.
    pub const INNER_BASE: &str = "INNER_BASE";
}

/// Ends a name.
const NAME_END: u8 = 1;
/// Ends a pair.
const PAIR_END: u8 = 2;

/// The largest text a record can hold: its length is a signed 16-bit number.
pub const LENGTH_MAX: usize = i16::MAX as usize;

/// Properties as they lie in a record, unparsed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Properties<'a> {
    text: &'a [u8],
}

impl<'a> Properties<'a> {
    /// Properties over the bytes of a record. Any bytes are legal; what makes no pair is passed over.
    #[must_use]
    pub const fn new(text: &'a [u8]) -> Self {
        Self { text }
    }

    /// The bytes as stored.
    #[must_use]
    pub const fn as_bytes(self) -> &'a [u8] {
        self.text
    }

    /// The value of `name`; the last one if it occurs several times.
    #[must_use]
    pub fn get(self, name: &str) -> Option<Cow<'a, str>> {
        self.get_bytes(name).map(String::from_utf8_lossy)
    }

    /// Like [`Properties::get`], without looking at the encoding of the value.
    #[must_use]
    pub fn get_bytes(self, name: &str) -> Option<&'a [u8]> {
        // From the back, so that the first hit is the last pair of that name.
        self.text
            .rsplit(|&byte| byte == PAIR_END)
            .find_map(|pair| match split_pair(pair) {
                Some((found, value)) if found == name.as_bytes() => Some(value),
                Some(_) | None => None,
            })
    }

    /// All pairs in stored order. A name that occurs several times is yielded each time: collected
    /// into a map, the last value stays.
    #[must_use]
    pub const fn iter(self) -> Iter<'a> {
        Iter { rest: self.text }
    }
}

impl<'a> IntoIterator for Properties<'a> {
    type Item = (Cow<'a, str>, Cow<'a, str>);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl fmt::Debug for Properties<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// The pairs of [`Properties`].
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Iter<'a> {
    type Item = (Cow<'a, str>, Cow<'a, str>);

    fn next(&mut self) -> Option<Self::Item> {
        while !self.rest.is_empty() {
            let end = self.rest.iter().position(|&byte| byte == PAIR_END);
            let pair;
            (pair, self.rest) = match end {
                Some(end) => (&self.rest[..end], &self.rest[end + 1..]),
                None => (self.rest, &[][..]),
            };
            if let Some((name, value)) = split_pair(pair) {
                return Some((String::from_utf8_lossy(name), String::from_utf8_lossy(value)));
            }
        }
        None
    }
}

impl FusedIterator for Iter<'_> {}

/// Name and value of a pair, if it has both.
fn split_pair(pair: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = pair.iter().position(|&byte| byte == NAME_END)?;
    let (name, value) = (&pair[..end], &pair[end + 1..]);
    (!name.is_empty() && !value.is_empty()).then_some((name, value))
}

/// Writes properties, for a send back or any other send.
///
/// Every pair is ended, the last one too: brokers and agents append pairs of their own to the text,
/// and behind a missing separator they would merge with the last value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PropertiesWriter {
    text: String,
}

impl PropertiesWriter {
    /// An empty text.
    #[must_use]
    pub const fn new() -> Self {
        Self { text: String::new() }
    }

    /// Appends a pair that an application made up.
    ///
    /// # Errors
    ///
    /// As [`PropertiesWriter::push`], and for a value with `0x01` in it too: older Java clients drop such a pair.
    pub fn push_new(&mut self, name: &str, value: &str) -> Result<(), PropertyError> {
        if value.bytes().any(|byte| byte == NAME_END) {
            return Err(PropertyError::Separator);
        }
        self.push(name, value)
    }

    /// Appends a pair as it was read from another message.
    ///
    /// # Errors
    ///
    /// [`PropertyError`] when a reader would not get this pair back; nothing is written then.
    pub fn push(&mut self, name: &str, value: &str) -> Result<(), PropertyError> {
        if name.is_empty() || value.is_empty() {
            return Err(PropertyError::Empty);
        }
        if name.bytes().any(|byte| byte == NAME_END || byte == PAIR_END)
            || value.bytes().any(|byte| byte == PAIR_END)
        {
            return Err(PropertyError::Separator);
        }
        if self.text.len() + name.len() + value.len() + 2 > LENGTH_MAX {
            return Err(PropertyError::TooLong);
        }
        self.text.push_str(name);
        self.text.push(char::from(NAME_END));
        self.text.push_str(value);
        self.text.push(char::from(PAIR_END));
        Ok(())
    }

    /// The text, each pair ended.
    #[must_use]
    pub fn finish(self) -> String {
        self.text
    }
}

/// Why a pair cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PropertyError {
    /// A reader drops a pair whose name or value is empty.
    #[error("a property needs a name and a value")]
    Empty,
    /// The name contains `0x01` or `0x02`, or the value `0x02`.
    #[error("a property must not contain the separators of the format")]
    Separator,
    /// The text would pass [`LENGTH_MAX`].
    #[error("the properties are longer than {LENGTH_MAX} bytes")]
    TooLong,
}

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned;
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    fn pairs(text: &str) -> Vec<(Cow<'_, str>, Cow<'_, str>)> {
        Properties::new(text.as_bytes()).iter().collect()
    }

    #[test]
    fn java_rules() {
        let table: [(&str, &[(&str, &str)]); 13] = [
            ("", &[]),
            ("a\u{1}b\u{2}", &[("a", "b")]),
            ("a\u{1}b", &[("a", "b")]),
            ("a\u{1}b\u{2}c\u{1}d", &[("a", "b"), ("c", "d")]),
            ("\u{1}v\u{2}b\u{1}c\u{2}", &[("b", "c")]),
            ("a\u{1}\u{2}b\u{1}c\u{2}", &[("b", "c")]),
            ("ab\u{2}c\u{1}d\u{2}", &[("c", "d")]),
            ("a\u{1}b\u{1}c\u{2}", &[("a", "b\u{1}c")]),
            ("a\u{1}b\u{2}\u{2}c\u{1}d\u{2}", &[("a", "b"), ("c", "d")]),
            ("\u{2}\u{2}\u{1}\u{2}\u{1}\u{1}\u{2}", &[]),
            (" a \u{1} b \u{2}", &[(" a ", " b ")]),
            ("🚀\u{1}x\u{2}", &[("🚀", "x")]),
            ("a\u{1}b\nc\0d\u{2}", &[("a", "b\nc\0d")]),
        ];
        for (text, expected) in table {
            let found = pairs(text);
            let found: Vec<_> = found.iter().map(|(name, value)| (&**name, &**value)).collect();
            assert_eq!(found, expected, "{text:?}");
            for (name, value) in expected {
                assert_eq!(
                    Properties::new(text.as_bytes()).get(name).as_deref(),
                    Some(*value)
                );
            }
        }
    }

    #[test]
    fn of_several_the_last_with_a_value_counts() {
        let properties = Properties::new(b"a\x01first\x02a\x01last\x02a\x01\x02b\x01x");
        assert_eq!(properties.get("a").as_deref(), Some("last"));
        assert_eq!(properties.get("missing"), None);
        assert_eq!(properties.get(""), None);
    }

    #[test]
    fn damaged_text_is_replaced_and_separators_survive() {
        let properties = Properties::new(b"a\x01\xffx\xe2\x82\x02b\x01c");
        assert_eq!(properties.get("a").as_deref(), Some("\u{fffd}x\u{fffd}"));
        assert_eq!(properties.get("b").as_deref(), Some("c"));
    }

    #[test]
    fn what_a_reader_would_lose_is_not_written() {
        let mut writer = PropertiesWriter::new();
        assert_eq!(writer.push("", "v"), Err(PropertyError::Empty));
        assert_eq!(writer.push("k", ""), Err(PropertyError::Empty));
        assert_eq!(writer.push("k\u{1}", "v"), Err(PropertyError::Separator));
        assert_eq!(writer.push("k", "v\u{2}"), Err(PropertyError::Separator));
        let longest = "x".repeat(LENGTH_MAX - 3);
        assert_eq!(writer.clone().push("k", &longest), Ok(()));
        assert_eq!(writer.push("kk", &longest), Err(PropertyError::TooLong));
        assert_eq!(writer.push_new("k", "v\u{1}w"), Err(PropertyError::Separator));
        assert_eq!(writer.push("k", "v\u{1}w"), Ok(()));
        assert_eq!(writer.finish(), "k\u{1}v\u{1}w\u{2}");
    }

    #[test]
    fn appended_text_does_not_merge_with_the_last_pair() {
        let mut writer = PropertiesWriter::new();
        writer.push("TAGS", "TagA").expect("a legal pair");
        let text = writer.finish() + "Agent\u{1}1";
        assert_eq!(
            pairs(&text),
            [("TAGS".into(), "TagA".into()), ("Agent".into(), "1".into())]
        );
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(map in proptest::collection::btree_map("[^\u{1}\u{2}]{1,8}", "[^\u{2}]{1,8}", 0..8)) {
            let mut writer = PropertiesWriter::new();
            for (name, value) in &map {
                writer.push(name, value).expect("a legal pair");
            }
            let text = writer.finish();
            let read: BTreeMap<_, _> = Properties::new(text.as_bytes())
                .iter()
                .map(|(name, value)| (name.into_owned(), value.into_owned()))
                .collect();
            prop_assert_eq!(read, map);
        }

        #[test]
        fn get_agrees_with_the_iterator(text in proptest::collection::vec(prop_oneof![Just(1_u8), Just(2), Just(b'a'), Just(b'b')], 0..40)) {
            let properties = Properties::new(&text);
            let map: BTreeMap<_, _> = properties.iter().collect();
            for name in ["a", "b", "aa", "ab", "ba"] {
                prop_assert_eq!(properties.get(name), map.get(name).map(ToOwned::to_owned));
            }
        }
    }
}
