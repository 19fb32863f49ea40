//! A blocking producer that tells exactly what the brokers acknowledged.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use super::clock::{self, Deadline};
use super::remoting::{Connection, Fields, Reply};
use super::{AdminClient, AdminError, TopicRoute};

const SEND_MESSAGE_V2: i32 = 310;
const SEND_BATCH_MESSAGE: i32 = 320;

/// How long connecting and each answer may take.
const LIMIT: Duration = Duration::from_secs(3);
/// How long a message is tried again by default.
const RETRY_LIMIT: Duration = Duration::from_secs(15);
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// Codes of a stored message: success, and three doubts about its durability.
const STORED: [i32; 4] = [0, 10, 11, 12];
/// Codes that say the same at every try: message too large, illegal parameter, illegal operation.
const PERMANENT: [i32; 3] = [13, 29, 604];

/// Messages in one batch of [`Producer::fill`], and the bytes it stays below (a broker takes 4 MiB).
const BATCH_MESSAGES: u64 = 1_000;
const BATCH_BYTES: usize = 1 << 20;

/// Sends to one topic, round-robin over its queues or to one of them.
///
/// Messages are numbered from 0. A failed send is tried again, on the next queue unless one was chosen; so a
/// message whose answer was lost may be stored twice. What is returned as acknowledged is stored.
#[derive(Debug)]
pub struct Producer {
    name_server: String,
    topic: String,
    tags: Vec<String>,
    key_prefix: Option<String>,
    properties: Vec<(String, String)>,
    only: Option<(String, u32)>,
    rate: Option<f64>,
    body_size: usize,
    retry_limit: Duration,
    /// The next message's number.
    number: u64,
    /// The next queue's place in the ring.
    turn: usize,
    ring: Vec<Queue>,
    links: BTreeMap<String, Connection>,
}

/// A queue that can be written to.
#[derive(Clone, Debug)]
struct Queue {
    broker: String,
    address: String,
    id: u32,
}

/// A stored message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// Its number in this producer's count.
    pub number: u64,
    /// Name of the broker that stored it.
    pub broker: String,
    /// Its queue.
    pub queue_id: u32,
    /// Its offset in the queue (without meaning for a delayed message).
    pub queue_offset: i64,
    /// Offset message id, as the broker gave it.
    pub msg_id: String,
    /// Its body.
    pub body: Vec<u8>,
}

/// Neighbouring messages stored by one batch of [`Producer::fill`]. Message `first_number + i` is at
/// `first_offset + i`, and its body begins with its number and `:`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Name of the broker that stored them.
    pub broker: String,
    /// Their queue.
    pub queue_id: u32,
    /// Offset of the first.
    pub first_offset: i64,
    /// Number of the first in this producer's count.
    pub first_number: u64,
    /// How many.
    pub count: u64,
}

impl Producer {
    /// A producer for an existing topic.
    ///
    /// # Errors
    /// When the name server (`host:port`) does not answer, or knows no queue that can be written to.
    pub fn new(name_server: &str, topic: &str) -> Result<Self, AdminError> {
        let mut producer = Self {
            name_server: name_server.into(),
            topic: topic.into(),
            tags: Vec::new(),
            key_prefix: None,
            properties: Vec::new(),
            only: None,
            rate: None,
            body_size: 0,
            retry_limit: RETRY_LIMIT,
            number: 0,
            turn: 0,
            ring: Vec::new(),
            links: BTreeMap::new(),
        };
        producer.refresh()?;
        Ok(producer)
    }

    /// Gives message `n` the tag `tags[n % len]`; none for an empty list.
    #[must_use]
    pub fn tags(mut self, tags: &[&str]) -> Self {
        self.tags = tags.iter().map(|&tag| tag.to_owned()).collect();
        self
    }

    /// Gives message `n` the key `<prefix><n>`.
    #[must_use]
    pub fn keys(mut self, prefix: impl Into<String>) -> Self {
        self.key_prefix = Some(prefix.into());
        self
    }

    /// A further property of every message, for example `DELAY`.
    #[must_use]
    pub fn property(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties.push((name.into(), value.into()));
        self
    }

    /// Sends to this queue only.
    #[must_use]
    pub fn only(mut self, broker: impl Into<String>, queue_id: u32) -> Self {
        self.only = Some((broker.into(), queue_id));
        self
    }

    /// At most so many messages a second, evenly spaced.
    #[must_use]
    pub fn rate(mut self, per_second: f64) -> Self {
        self.rate = (per_second > 0.0).then_some(per_second);
        self
    }

    /// Pads the bodies of [`Self::send_many`] and [`Self::fill`] to so many bytes.
    #[must_use]
    pub fn body_size(mut self, bytes: usize) -> Self {
        self.body_size = bytes;
        self
    }

    /// How long one message is tried again; 15 seconds by default, zero for a single try.
    #[must_use]
    pub fn retry_limit(mut self, limit: Duration) -> Self {
        self.retry_limit = limit;
        self
    }

    /// Sends one message with this body.
    ///
    /// # Errors
    /// When it could not be stored within the retry limit, or never can be.
    pub fn send(&mut self, body: impl Into<Vec<u8>>) -> Result<Acknowledged, AdminError> {
        let body = body.into();
        let number = self.number;
        self.number += 1;
        let properties = self.properties_of(number);
        let (queue, reply) = self.store(SEND_MESSAGE_V2, &properties, &body)?;
        let (queue_id, queue_offset) = self.place(&queue, &reply)?;
        let msg_id = reply.fields.get("msgId").cloned().unwrap_or_default();
        Ok(Acknowledged {
            number,
            broker: queue.broker,
            queue_id,
            queue_offset,
            msg_id,
            body,
        })
    }

    /// Sends `count` messages one by one, at the rate that was set, with bodies `<number>:` and padding.
    ///
    /// # Errors
    /// At the first message that could not be stored; those before it are stored.
    pub fn send_many(&mut self, count: u64) -> Result<Vec<Acknowledged>, AdminError> {
        let start = clock::now();
        let mut out = Vec::new();
        for sent in 0..count {
            if let Some(rate) = self.rate {
                #[allow(clippy::cast_precision_loss, reason = "exact up to 2^53 messages")]
                let due = start + Duration::from_secs_f64(sent as f64 / rate);
                thread::sleep(due.saturating_duration_since(clock::now()));
            }
            out.push(self.send(numbered_body(self.number, self.body_size))?);
        }
        Ok(out)
    }

    /// Stores `count` messages as quickly as batches can, each batch into the next queue. The rate does not
    /// apply. Stored from a batch, messages lack the properties that brokers add to single ones (`UNIQ_KEY`).
    ///
    /// # Errors
    /// At the first batch that could not be stored; those before it are stored.
    pub fn fill(&mut self, count: u64) -> Result<Vec<Run>, AdminError> {
        let end = self.number + count;
        let mut runs = Vec::new();
        let mut batch = Vec::with_capacity(BATCH_BYTES);
        while self.number < end {
            let first_number = self.number;
            batch.clear();
            while self.number < end && self.number - first_number < BATCH_MESSAGES {
                let before = batch.len();
                self.append_entry(&mut batch, self.number);
                if before > 0 && batch.len() > BATCH_BYTES {
                    batch.truncate(before);
                    break;
                }
                self.number += 1;
            }
            let count = self.number - first_number;
            let (queue, reply) = self.store(SEND_BATCH_MESSAGE, "", &batch)?;
            let (queue_id, first_offset) = self.place(&queue, &reply)?;
            runs.push(Run {
                broker: queue.broker,
                queue_id,
                first_offset,
                first_number,
                count,
            });
        }
        Ok(runs)
    }

    fn append_entry(&self, batch: &mut Vec<u8>, number: u64) {
        const FIXED: usize = 22;
        let body = numbered_body(number, self.body_size);
        let properties = self.properties_of(number);
        let word = |length: usize| {
            i32::try_from(length)
                .expect("an entry is below 4 MiB")
                .to_be_bytes()
        };
        batch.extend(word(FIXED + body.len() + properties.len()));
        // Magic and checksum, which the broker does not read, and the user's flag.
        batch.extend([0; 12]);
        batch.extend(word(body.len()));
        batch.extend(&body);
        batch.extend(
            i16::try_from(properties.len())
                .expect("properties are below 32 KiB")
                .to_be_bytes(),
        );
        batch.extend(properties.as_bytes());
    }

    fn properties_of(&self, number: u64) -> String {
        let mut out = String::new();
        let mut add = |name: &str, value: &str| {
            out.push_str(name);
            out.push('\u{1}');
            out.push_str(value);
            out.push('\u{2}');
        };
        let place = usize::try_from(number).unwrap_or(0).checked_rem(self.tags.len());
        if let Some(tag) = place.and_then(|place| self.tags.get(place)) {
            add("TAGS", tag);
        }
        if let Some(prefix) = &self.key_prefix {
            add("KEYS", &format!("{prefix}{number}"));
        }
        for (name, value) in &self.properties {
            add(name, value);
        }
        out
    }

    /// Stores one message or batch in the next queue that takes it.
    fn store(&mut self, code: i32, properties: &str, body: &[u8]) -> Result<(Queue, Reply), AdminError> {
        let deadline = Deadline::after(self.retry_limit);
        loop {
            let error = match self.try_next(code, properties, body) {
                Ok(stored) => return Ok(stored),
                Err(error) => error,
            };
            let permanent = matches!(&error, AdminError::Refused { code, .. } if PERMANENT.contains(code));
            if permanent || deadline.is_over() {
                return Err(error);
            }
            thread::sleep(RETRY_PAUSE);
            // A name server that is down leaves the route as it was.
            let _ = self.refresh();
        }
    }

    fn try_next(&mut self, code: i32, properties: &str, body: &[u8]) -> Result<(Queue, Reply), AdminError> {
        let no_queue = || AdminError::NoQueue {
            topic: self.topic.clone(),
        };
        let queue = match &self.only {
            Some((broker, id)) => {
                let known = self
                    .ring
                    .iter()
                    .find(|queue| queue.broker == *broker && queue.id == *id);
                known.ok_or_else(no_queue)?.clone()
            }
            None => {
                let place = self.turn.checked_rem(self.ring.len()).ok_or_else(no_queue)?;
                self.turn = self.turn.wrapping_add(1);
                self.ring.get(place).ok_or_else(no_queue)?.clone()
            }
        };
        let mut link = match self.links.remove(&queue.address) {
            Some(link) => link,
            None => Connection::open(&queue.address, LIMIT)?,
        };
        let fields: Fields<'_> = &[
            ("a", &"rocketmq-testing"),
            ("b", &self.topic),
            ("c", &"TBW102"),
            ("d", &4),
            ("e", &queue.id),
            ("f", &0),
            ("g", &clock::unix_millis()),
            ("h", &0),
            ("i", &properties),
            ("j", &0),
            ("k", &false),
            ("m", &(code == SEND_BATCH_MESSAGE)),
            ("n", &queue.broker),
        ];
        // A link that failed is not put back.
        let reply = link.request(code, fields, body)?;
        self.links.insert(queue.address.clone(), link);
        if STORED.contains(&reply.code) {
            return Ok((queue, reply));
        }
        Err(AdminError::Refused {
            address: queue.address,
            request: code,
            code: reply.code,
            remark: reply.remark.chars().take(200).collect(),
        })
    }

    fn place(&self, queue: &Queue, reply: &Reply) -> Result<(u32, i64), AdminError> {
        let id = reply.number("queueId").and_then(|id| u32::try_from(id).ok());
        id.zip(reply.number("queueOffset"))
            .ok_or_else(|| AdminError::Malformed {
                address: queue.address.clone(),
                what: "an acknowledgement without queue or offset".into(),
            })
    }

    fn refresh(&mut self) -> Result<(), AdminError> {
        let route = AdminClient::connect(&self.name_server)?
            .route(&self.topic)?
            .unwrap_or_default();
        let ring = ring(&route);
        if ring.is_empty() {
            return Err(AdminError::NoQueue {
                topic: self.topic.clone(),
            });
        }
        self.ring = ring;
        Ok(())
    }
}

/// Writable queues, the first of each broker, then the second of each, …: neighbours in time spread over brokers.
fn ring(route: &TopicRoute) -> Vec<Queue> {
    const WRITE: u32 = 2;
    let mut out: Vec<Queue> = Vec::new();
    for entry in route.queues.iter().filter(|entry| entry.perm & WRITE != 0) {
        if let Some(address) = route.master(&entry.broker) {
            out.extend((0..entry.write_queues).map(|id| Queue {
                broker: entry.broker.clone(),
                address: address.to_owned(),
                id,
            }));
        }
    }
    out.sort_by(|a, b| (a.id, &a.broker).cmp(&(b.id, &b.broker)));
    out
}

/// `<number>:`, padded with `x` to `size` bytes.
fn numbered_body(number: u64, size: usize) -> Vec<u8> {
    let mut body = format!("{number}:").into_bytes();
    if body.len() < size {
        body.resize(size, b'x');
    }
    body
}
