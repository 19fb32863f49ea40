//! Names, with those among them that clients have stumbled over.

use arbitrary::{Result, Unstructured};
use rocketmq_consumer_core::ids::{BrokerName, ClientId, ConsumerGroup, Topic};

use super::dice::{pick, rarely, several};

const TOPICS: [&str; 6] = ["T", "orders", "orders-eu", "t_1|x", "TBW102", "%RETRY%billing"];
const GROUPS: [&str; 4] = ["billing", "g", "G-2", "a|b%c"];
const BROKERS: [&str; 6] = ["broker-a", "broker-b", "broker-10", "broker-2", "B", "größe"];

/// "0" sorts before "@", a surrogate before U+FF5E, upper case before lower.
const CLIENTS: [&str; 10] = [
    "10.0.0.1@7",
    "10.0.0.10@7",
    "10.0.0.1@70",
    "10.0.0.2@DEFAULT",
    "a",
    "A",
    "～@1",
    "😀@1",
    "\u{fffd}@1",
    "10.0.0.1@7#1#2#3",
];

const CHARS: [char; 20] = [
    'a', 'b', 'Z', '0', '9', ' ', '\t', '\n', '"', '\\', '\'', '/', ':', '{', ',', '\0', '\u{1}', '\u{2}',
    'ü', '😀',
];

/// A topic: one a user would choose, a system one, or any a broker takes.
pub fn topic(u: &mut Unstructured<'_>) -> Result<Topic> {
    if rarely(u, 4)? {
        return Ok(legal(u, 127)?.into());
    }
    Ok(pick(u, &TOPICS)?.into())
}

/// A consumer group.
pub fn consumer_group(u: &mut Unstructured<'_>) -> Result<ConsumerGroup> {
    if rarely(u, 4)? {
        return Ok(legal(u, 120)?.into());
    }
    Ok(pick(u, &GROUPS)?.into())
}

/// A broker's name.
pub fn broker_name(u: &mut Unstructured<'_>) -> Result<BrokerName> {
    if rarely(u, 8)? {
        return Ok(word(u)?.into());
    }
    Ok(pick(u, &BROKERS)?.into())
}

/// A member's id.
pub fn client_id(u: &mut Unstructured<'_>) -> Result<ClientId> {
    if rarely(u, 4)? {
        let (last, process): (u8, u16) = u.arbitrary()?;
        return Ok(format!("10.0.0.{last}@{process}").into());
    }
    Ok(pick(u, &CLIENTS)?.into())
}

/// Any text: quotes, control characters, separators of other formats, surrogates. Up to 12 characters,
/// often none.
pub fn text(u: &mut Unstructured<'_>) -> Result<String> {
    several(u, 12, char)
}

/// Any text of at least one character.
pub fn word(u: &mut Unstructured<'_>) -> Result<String> {
    let first = char(u)?;
    Ok(format!("{first}{}", text(u)?))
}

fn char(u: &mut Unstructured<'_>) -> Result<char> {
    if rarely(u, 6)? {
        u.arbitrary()
    } else {
        pick(u, &CHARS)
    }
}

/// A name of 1 to `most` characters that a broker takes.
fn legal(u: &mut Unstructured<'_>, most: usize) -> Result<String> {
    const LEGAL: &[u8] = b"abcxyzABCXYZ0189%|-_";
    let count = u.int_in_range(1..=most)?;
    (0..count).map(|_| pick(u, LEGAL).map(char::from)).collect()
}
