//! The offsets that a member keeps itself, as bytes: one form is written, three are read.
//!
//! | who wrote it | form |
//! |---|---|
//! | this crate | strict JSON with a version, a queue a line, in order: two files can be compared |
//! | the Java client | fastjson's dialect: a table named by objects |
//! | the Go client | the same table, whose names are those objects as text |
//!
//! Nothing is guessed: text that is cut off, filled with zeros or followed by something else is no table, and an
//! offset that is not there is none.
//= rocketmq: LocalFileOffsetStore.readLocalOffset, OffsetSerializeWrapper type=differs
//  reason: what is written is JSON that every parser reads, and says which form it has.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;

use bytes::Bytes;
use serde::Deserialize;

use super::fastjson::{SyntaxError, push_text, to_strict};
use crate::ids::{MessageQueue, QueueId, QueueOffset};

/// Positions by queue: the next offset to consume.
pub type KeptOffsets = BTreeMap<MessageQueue, QueueOffset>;

/// The form that is written.
const VERSION: u64 = 1;

/// Larger content is not read: a member of a hundred thousand queues has less.
pub const LEN_MAX: usize = 64 << 20;

/// Editors of some systems put it before everything; Java passes it over.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Why bytes are not a table of offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeptOffsetsError {
    /// It is neither JSON nor fastjson's dialect of it.
    #[error("it is not JSON: {0}")]
    Syntax(#[from] SyntaxError),
    /// It is JSON of another shape.
    #[error("it is not a table of offsets (noticed at line {line}, column {column})")]
    Shape {
        /// Line, from 1; of Java's form: of what it is in strict JSON.
        line: usize,
        /// Column in that line, from 1.
        column: usize,
    },
    /// It says that it was written by a later build.
    #[error("it has format {0}, which a later version wrote")]
    Version(u64),
    /// It is longer than [`LEN_MAX`].
    #[error("it has {0} bytes, more than are read")]
    TooLong(usize),
}

impl From<serde_json::Error> for KeptOffsetsError {
    fn from(error: serde_json::Error) -> Self {
        Self::Shape {
            line: error.line(),
            column: error.column(),
        }
    }
}

/// What tells the forms apart.
#[derive(Deserialize)]
struct Form {
    version: Option<u64>,
}

/// This crate's form.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Own {
    #[serde(rename = "version")]
    _version: u64,
    offsets: Vec<OwnEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnEntry {
    topic: String,
    broker: String,
    queue: u32,
    offset: u64,
}

/// The form of the Java and the Go client; what else is in it is theirs.
#[derive(Deserialize)]
struct Theirs {
    #[serde(rename = "offsetTable")]
    offsets: Option<Table>,
}

/// A map named by objects has become a list of pairs.
#[derive(Deserialize)]
#[serde(untagged)]
enum Table {
    Pairs(Vec<(Name, Option<Number>)>),
    Named(BTreeMap<String, Option<Number>>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Name {
    topic: String,
    broker_name: String,
    /// Java takes one that is not there for 0.
    #[serde(default)]
    queue_id: Number,
}

/// Java reads numbers out of text too, and Go writes them so in names.
#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Plain(i64),
    Text(String),
}

impl Default for Number {
    fn default() -> Self {
        Self::Plain(0)
    }
}

impl Number {
    fn value(&self) -> Option<i64> {
        match self {
            Self::Plain(value) => Some(*value),
            Self::Text(text) => text.parse().ok(),
        }
    }
}

/// Whether there is nothing to read: a first start, or a file that was made and never written.
#[must_use]
pub fn is_blank(content: &[u8]) -> bool {
    content.trim_ascii().is_empty()
}

/// Reads a table in any of its forms.
///
/// # Errors
/// Why it cannot be used. Blank content is no table; see [`is_blank`].
pub fn read(content: &[u8]) -> Result<KeptOffsets, KeptOffsetsError> {
    if content.len() > LEN_MAX {
        return Err(KeptOffsetsError::TooLong(content.len()));
    }
    let content = content.strip_prefix(BYTE_ORDER_MARK).unwrap_or(content);
    let strict = to_strict(content)?;
    // Java writes that for a table that is none.
    if strict == "null" {
        return Ok(KeptOffsets::new());
    }
    if !strict.starts_with('{') {
        // serde would fill a struct from a list as well.
        return Err(KeptOffsetsError::Shape { line: 1, column: 1 });
    }
    match serde_json::from_str::<Form>(&strict)?.version {
        // Read as it stands: this form is strict, and nobody else writes it.
        Some(VERSION) => own(content),
        Some(later) => Err(KeptOffsetsError::Version(later)),
        None => theirs(&strict),
    }
}

fn own(content: &[u8]) -> Result<KeptOffsets, KeptOffsetsError> {
    let mut table = KeptOffsets::new();
    for entry in serde_json::from_slice::<Own>(content)?.offsets {
        let numbers = (i32::try_from(entry.queue), i64::try_from(entry.offset));
        let (Ok(id), Ok(offset)) = numbers else {
            return Err(KeptOffsetsError::Shape { line: 1, column: 1 });
        };
        let queue = MessageQueue {
            topic: entry.topic.into(),
            broker: entry.broker.into(),
            id: QueueId(id),
        };
        table.insert(queue, QueueOffset(offset));
    }
    Ok(table)
}

fn theirs(strict: &str) -> Result<KeptOffsets, KeptOffsetsError> {
    let mut table = KeptOffsets::new();
    match serde_json::from_str::<Theirs>(strict)?.offsets {
        None => {}
        Some(Table::Pairs(pairs)) => {
            for (name, offset) in pairs {
                put(&mut table, name, offset.as_ref())?;
            }
        }
        Some(Table::Named(named)) => {
            for (text, offset) in named {
                put(&mut table, serde_json::from_str(&text)?, offset.as_ref())?;
            }
        }
    }
    Ok(table)
}

fn put(table: &mut KeptOffsets, name: Name, offset: Option<&Number>) -> Result<(), KeptOffsetsError> {
    let shape = KeptOffsetsError::Shape { line: 1, column: 1 };
    let id = name.queue_id.value().and_then(|id| i32::try_from(id).ok());
    let queue = MessageQueue {
        topic: name.topic.into(),
        broker: name.broker_name.into(),
        id: QueueId(id.filter(|id| *id >= 0).ok_or(shape)?),
    };
    let Some(offset) = offset else { return Ok(()) };
    // Below 0 stands for "not known", and that is not a position.
    match offset.value().ok_or(shape)? {
        offset @ 0.. => table.insert(queue, QueueOffset(offset)),
        _ => None,
    };
    Ok(())
}

/// Writes a table. What [`read`] gives for it is the same.
#[must_use]
pub fn write(table: &KeptOffsets) -> Bytes {
    let mut out = String::from("{\"version\":1,\"offsets\":[");
    for (index, (queue, offset)) in table.iter().enumerate() {
        out.push_str(if index == 0 { "\n" } else { ",\n" });
        out.push_str("{\"topic\":");
        push_text(&mut out, queue.topic.as_str());
        out.push_str(",\"broker\":");
        push_text(&mut out, queue.broker.as_str());
        let written = write!(out, ",\"queue\":{},\"offset\":{}}}", queue.id.0, offset.0);
        debug_assert!(written.is_ok(), "a string takes everything");
    }
    out.push_str("\n]}\n");
    Bytes::from(out)
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use proptest::prelude::*;

    use super::*;

    fn queue(topic: &str, broker: &str, id: i32) -> MessageQueue {
        MessageQueue {
            topic: topic.into(),
            broker: broker.into(),
            id: QueueId(id),
        }
    }

    #[test]
    fn what_is_written_is_in_order_a_queue_a_line() {
        let mut table = KeptOffsets::new();
        assert_eq!(&*write(&table), b"{\"version\":1,\"offsets\":[\n]}\n");
        table.insert(queue("T", "b", 10), QueueOffset(i64::MAX));
        table.insert(queue("T", "b", 2), QueueOffset(0));
        table.insert(queue("T", "a\"\n", 3), QueueOffset(7));
        let text = "{\"version\":1,\"offsets\":[\n\
                    {\"topic\":\"T\",\"broker\":\"a\\\"\\n\",\"queue\":3,\"offset\":7},\n\
                    {\"topic\":\"T\",\"broker\":\"b\",\"queue\":2,\"offset\":0},\n\
                    {\"topic\":\"T\",\"broker\":\"b\",\"queue\":10,\"offset\":9223372036854775807}\n]}\n";
        assert_eq!(write(&table), text.as_bytes());
        assert_eq!(read(text.as_bytes()), Ok(table));
    }

    #[test]
    fn each_form_is_read() {
        let one = KeptOffsets::from([(queue("T", "a", 1), QueueOffset(5))]);
        for text in [
            r#"{"version":1,"offsets":[{"topic":"T","broker":"a","queue":1,"offset":5}]}"#,
            r#"{"offsetTable":{{"brokerName":"a","queueId":1,"topic":"T"}:5}}"#,
            r#"{"offsetTable":{{"brokerName":"a","queueId":1,"topic":"T"}:5,{"brokerName":"a","queueId":2,"topic":"T"}:-1}}"#,
            r#"{"offsetTable":{"{\"brokerName\":\"a\",\"queueId\":\"1\",\"topic\":\"T\"}":5}}"#,
            r#"{"offsetTable":{"{\"topic\":\"T\",\"brokerName\":\"a\",\"queueId\":1}":"5"}}"#,
        ] {
            assert_eq!(read(text.as_bytes()), Ok(one.clone()), "{text}");
        }
        for text in ["null", "{}", r#"{"offsetTable":null}"#, r#"{"offsetTable":{}}"#] {
            assert_eq!(read(text.as_bytes()), Ok(KeptOffsets::new()), "{text}");
        }
    }

    #[test]
    fn what_is_no_table_is_refused() {
        use KeptOffsetsError as E;
        let entry = |queue: &str, offset: &str| {
            format!(
                r#"{{"version":1,"offsets":[{{"topic":"T","broker":"a","queue":{queue},"offset":{offset}}}]}}"#
            )
        };
        for text in [
            entry("-1", "5"),
            entry("1", "-5"),
            entry("2147483648", "5"),
            entry("1", "9223372036854775808"),
            entry("1", "\"5\""),
            entry("1", "5,\"more\":1"),
            entry("1", "5").replace("]}", "],\"more\":1}"),
            "[]".into(),
            "7".into(),
            r#"{"version":1}"#.into(),
            r#"{"version":"1","offsets":[]}"#.into(),
            r#"{"offsetTable":[]}x"#.into(),
            r#"{"offsetTable":{"T@a@0":7}}"#.into(),
            r#"{"offsetTable":{{"queueId":1,"topic":"T"}:5}}"#.into(),
            r#"{"offsetTable":{{"brokerName":"a","queueId":"one","topic":"T"}:5}}"#.into(),
            r#"{"offsetTable":{{"brokerName":"a","queueId":1,"topic":"T"}:"five"}}"#.into(),
        ] {
            assert!(
                matches!(read(text.as_bytes()), Err(E::Shape { .. } | E::Syntax(_))),
                "{text}"
            );
        }
        assert_eq!(read(br#"{"version":2,"anything":{}}"#), Err(E::Version(2)));
        // What a loss of power leaves behind.
        assert!(matches!(read(&[0; 4096]), Err(E::Syntax(_))));
        assert!(matches!(read(b"{\"offsetTable\":{"), Err(E::Syntax(_))));
    }

    #[test]
    fn blank_is_not_damaged() {
        for (content, blank) in [(&b""[..], true), (b" \r\n", true), (b"\0", false), (b"{}", false)] {
            assert_eq!(is_blank(content), blank, "{content:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_no_part_of_it_is(
            entries in prop::collection::btree_map(("\\PC{0,6}", "\\PC{0,6}", 0..9_i32), 0..=i64::MAX, 0..6),
            cut in 0.0..1.0_f64,
        ) {
            let entries = entries.into_iter();
            let table: KeptOffsets =
                entries.map(|((topic, broker, id), offset)| (queue(&topic, &broker, id), QueueOffset(offset))).collect();
            let written = write(&table);
            prop_assert_eq!(read(&written), Ok(table));
            // Without its end, whatever is missing of it.
            let whole = written.trim_ascii_end();
            let end = (whole.len() as f64 * cut) as usize;
            prop_assert!(read(&whole[..end]).is_err());
        }

        #[test]
        fn nothing_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _either = read(&bytes);
        }
    }
}
