//! One form for what two runs say differently without meaning anything else.
//!
//! Addresses get the name of who has them, times of the run become `<now>`, and a position in the commit log
//! becomes the how-manyth one the script met, so that it still shows which message is meant; a key that the broker
//! made up for a message without one is told the same way (and its length, which depends on whether the broker's host
//! has an IPv4 address, is taken off the size of the record), and a rate of the last minutes is `<rate>`. The order
//! of JSON arrays is that of Java's hash maps and is forgotten: no answer of the script has one that counts. A remark is
//! for people; only whether there is one is kept. A missing block of header fields is an empty one. Everything
//! else stays as it came.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::dialect;
use super::frame::Frame;
use super::record;

/// Longer bodies of messages are cut; their checksum is a field of its own.
const BODY_MAX: usize = 64;
/// Clocks of two processes on one machine agree to this, in milliseconds.
const CLOCK_SLACK: i64 = 2_000;
/// Digits of an offset message id with an IPv4 host: address, port, position.
const ID_DIGITS: usize = 32;
const POSITION_DIGITS: usize = 16;
/// Digits of a unique key that a broker or a Java client makes up, on a host with an IPv4 address and on one without.
const KEY_DIGITS: [usize; 2] = [32, 56];

/// What is known of one run.
#[derive(Clone, Debug)]
pub(crate) struct Canon {
    started: i64,
    /// Address and name, the longest address first: one may begin another.
    addresses: Vec<(String, String)>,
    positions: Vec<i64>,
    keys: Vec<String>,
}

impl Canon {
    /// A run that began at a time, Unix milliseconds.
    pub(crate) const fn new(started: i64) -> Self {
        Self {
            started,
            addresses: Vec::new(),
            positions: Vec::new(),
            keys: Vec::new(),
        }
    }

    /// From now on an address is called so.
    pub(crate) fn address(&mut self, address: String, name: &str) {
        self.addresses.push((address, format!("<{name}>")));
        self.addresses
            .sort_by_key(|(address, _)| std::cmp::Reverse(address.len()));
    }

    /// A frame as a value to be compared.
    pub(crate) fn frame(&mut self, frame: &Frame) -> Value {
        let ext: Map<String, Value> = frame
            .ext
            .iter()
            .flatten()
            .map(|(name, value)| (name.clone(), self.text(name, value)))
            .collect();
        json!({
            "form": frame.form, "code": frame.code, "flag": frame.flag, "language": frame.language,
            "version": frame.version, "remark": frame.remark.is_some(), "ext": ext, "body": self.body(&frame.body),
        })
    }

    fn body(&mut self, body: &[u8]) -> Value {
        if body.is_empty() {
            return Value::Null;
        }
        if record::is_record(body) {
            let records = record::decode_all(body).map(|all| -> Vec<Value> {
                let one = |record: Value| self.value("", &without_key(record), false);
                all.into_iter().map(one).collect()
            });
            return json!({ "records": records });
        }
        let text = String::from_utf8_lossy(body);
        match dialect::parse(&text) {
            Some(value) => json!({ "json": self.value("", &value, true) }),
            None => json!({ "text": self.text("", &text) }),
        }
    }

    fn value(&mut self, name: &str, value: &Value, is_sorted: bool) -> Value {
        match value {
            Value::Null | Value::Bool(_) => value.clone(),
            Value::Number(number) => match number.as_i64() {
                Some(position) if name == "physicalOffset" => self.position(position).into(),
                Some(time) if self.is_now(time) => "<now>".into(),
                None if name.ends_with("Tps") => "<rate>".into(),
                Some(_) | None => value.clone(),
            },
            Value::String(text) => self.text(name, text),
            Value::Array(items) => {
                let mut items: Vec<Value> = items
                    .iter()
                    .map(|item| self.value(name, item, is_sorted))
                    .collect();
                if is_sorted {
                    items.sort_by_key(Value::to_string);
                }
                items.into()
            }
            Value::Object(members) => members
                .iter()
                .map(|(key, member)| (self.named(key), self.value(key, member, is_sorted)))
                .collect::<Map<_, _>>()
                .into(),
        }
    }

    fn text(&mut self, name: &str, text: &str) -> Value {
        let is_time = text.parse().is_ok_and(|time| self.is_now(time));
        match name {
            _ if is_time => "<now>".into(),
            "msgId" | "ORIGIN_MESSAGE_ID" | "originMsgId" => {
                let ids: Vec<String> = text.split(',').map(|id| self.id(id)).collect();
                ids.join(",").into()
            }
            "UNIQ_KEY" | "transactionId" if is_made_up(text) => self.key(text).into(),
            // Zero stands for an index that was not looked into.
            "indexLastUpdatePhyoffset" if text != "0" => {
                let position = text.parse().map(|position| self.position(position));
                position.unwrap_or_else(|_| text.into()).into()
            }
            "body" if text.len() > BODY_MAX => {
                let start: String = text.chars().take(8).collect();
                format!("{start}… ({} bytes)", text.len()).into()
            }
            _ => self.named(text).into(),
        }
    }

    fn named(&self, text: &str) -> String {
        let mut out = text.to_owned();
        for (address, name) in &self.addresses {
            out = out.replace(address, name);
        }
        out
    }

    /// An offset message id by the position in it; the address in it is checked too.
    fn id(&mut self, id: &str) -> String {
        let Some((host, position)) = split_id(id) else {
            return id.into();
        };
        let position = self.position(position);
        format!("<id of {position} at {}>", self.named(&host))
    }

    fn position(&mut self, position: i64) -> String {
        let known = self.positions.iter().position(|one| *one == position);
        let index = known.unwrap_or_else(|| {
            self.positions.push(position);
            self.positions.len() - 1
        });
        format!("<position {index}>")
    }

    fn key(&mut self, key: &str) -> String {
        let known = self.keys.iter().position(|one| one == key);
        let index = known.unwrap_or_else(|| {
            self.keys.push(key.into());
            self.keys.len() - 1
        });
        format!("<key {index}>")
    }

    /// Whether a number is a time of this run and not one that the script made up.
    const fn is_now(&self, number: i64) -> bool {
        const LONGEST_RUN: i64 = 3_600_000;
        number >= self.started - CLOCK_SLACK && number < self.started + LONGEST_RUN
    }
}

/// A record whose size does not count a key that was made up for it.
fn without_key(mut record: Value) -> Value {
    let key = record["properties"]["UNIQ_KEY"]
        .as_str()
        .filter(|key| is_made_up(key));
    let digits = key.and_then(|key| u64::try_from(key.len()).ok());
    if let (Some(digits), Some(size)) = (digits, record["size"].as_u64()) {
        record["size"] = size.saturating_sub(digits).into();
    }
    record
}

fn is_made_up(key: &str) -> bool {
    KEY_DIGITS.contains(&key.len()) && key.bytes().all(|b| matches!(b, b'0'..=b'9' | b'A'..=b'F'))
}

/// Host and position of an offset message id.
pub(crate) fn split_id(id: &str) -> Option<(String, i64)> {
    if id.len() != ID_DIGITS || !id.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let (host, position) = id.split_at(ID_DIGITS - POSITION_DIGITS);
    let (ip, port) = host.split_at(8);
    let ip = std::net::Ipv4Addr::from(u32::from_str_radix(ip, 16).ok()?);
    let port = u32::from_str_radix(port, 16).ok()?;
    Some((format!("{ip}:{port}"), i64::from_str_radix(position, 16).ok()?))
}

/// The messages an answer speaks of: position, offset message id and store time of each. An answer to a send
/// names ids only.
pub(crate) fn messages(frame: &Frame) -> Vec<BTreeMap<&'static str, String>> {
    if let Some(ids) = frame.ext.as_ref().and_then(|ext| ext.get("msgId")) {
        let one = |id: &str| {
            let (_, position) = split_id(id)?;
            Some([("id", id.to_owned()), ("physical", position.to_string())].into())
        };
        return ids.split(',').filter_map(one).collect();
    }
    let records = record::decode_all(&frame.body).unwrap_or_default();
    let one = |record: &Value| {
        [
            ("physical", record["physicalOffset"].to_string()),
            ("stored", record["storeTimestamp"].to_string()),
        ]
        .into()
    };
    records.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STARTED: i64 = 1_795_000_000_000;

    fn canon() -> Canon {
        let mut canon = Canon::new(STARTED);
        canon.address("127.0.0.1:1091".into(), "b1");
        canon.address("127.0.0.1:10911".into(), "broker");
        canon
    }

    #[test]
    fn what_differs_by_run_gets_a_name_and_keeps_its_identity() {
        let mut canon = canon();
        let frame = Frame {
            ext: Some(
                [
                    (
                        "msgId",
                        "7F00000100002A9F0000000000000100,7F00000100002A9F0000000000000000",
                    ),
                    ("timestamp", "1795000000123"),
                    ("offset", "7"),
                    ("transactionId", "0A0000010000002A7F4E1234ABCD0001"),
                    ("UNIQ_KEY", "given"),
                    ("addr", "127.0.0.1:10911 and 127.0.0.1:1091"),
                ]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            ),
            body: br#"{"at":1795000000123,"putTps":0.25,"given":7,"ids":["b","a"],"t":{{"q":0}:1}}"#.to_vec(),
            ..Frame::default()
        };
        let value = canon.frame(&frame);
        assert_eq!(
            value["ext"],
            json!({
                "msgId": "<id of <position 0> at <broker>>,<id of <position 1> at <broker>>",
                "transactionId": "<key 0>", "UNIQ_KEY": "given", "timestamp": "<now>", "offset": "7", "addr": "<broker> and <b1>",
            })
        );
        let want =
            json!({"at": "<now>", "putTps": "<rate>", "given": 7, "ids": ["a", "b"], "t": {"#{\"q\":0}": 1}});
        assert_eq!(value["body"]["json"], want);
        assert_eq!(
            canon.value("physicalOffset", &json!(0), false),
            json!("<position 1>")
        );
    }

    #[test]
    fn what_is_no_time_of_the_run_stays() {
        let mut canon = canon();
        for number in [0, -1, 1_700_000_000_000, STARTED + 3_600_000] {
            assert_eq!(canon.value("x", &json!(number), true), json!(number));
        }
    }
}
