//! The floor: how fast a broker hands out messages to a client that does nothing with them.
//!
//! `floor <name server> <topic> <group>` registers the group, pulls every queue from its first offset to where
//! it ends now, one pull per queue in flight over one socket, counts the messages by their size words, and
//! prints `{"messages":n,"seconds":s,"rate":r}`, timed from the first answer with messages to the last.
//!
//! Std only, one thread, no codec: what a consumer needs above this is its own.

#![allow(clippy::disallowed_methods, reason = "it measures time")]

use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const HEART_BEAT: i32 = 34;
const PULL_MESSAGE: i32 = 11;
const GET_MAX_OFFSET: i32 = 30;
const GET_MIN_OFFSET: i32 = 31;
const GET_ROUTE: i32 = 105;
/// Any number will do that heartbeat and pulls agree on.
const SUB_VERSION: u64 = 1;
/// The smallest stored message, and the largest frame a Java peer accepts.
const MESSAGE_MIN: usize = 91;
const FRAME_MAX: usize = 16_777_212;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name_server, topic, group] = arguments.as_slice() else {
        return Err("usage: floor <name server> <topic> <group>".into());
    };
    let (address, queues) = route(name_server, topic)?;
    let mut link = Link::open(&address)?;
    let heartbeat = format!(
        r#"{{"clientID":"127.0.0.1@floor","producerDataSet":[],"consumerDataSet":[{{"groupName":"{group}","consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET","unitMode":false,"subscriptionDataSet":[{{"classFilterMode":false,"topic":"{topic}","subString":"*","tagsSet":[],"codeSet":[],"subVersion":{SUB_VERSION},"expressionType":"TAG"}}]}}]}}"#
    );
    link.call(HEART_BEAT, "", heartbeat.as_bytes())?;
    let mut next = Vec::new();
    let mut end = Vec::new();
    for queue in 0..queues {
        let fields = format!(r#""topic":"{topic}","queueId":"{queue}""#);
        next.push(link.call(GET_MIN_OFFSET, &fields, &[])?.number("offset")?);
        end.push(link.call(GET_MAX_OFFSET, &fields, &[])?.number("offset")?);
    }

    let pull = |queue: usize, offset: u64| {
        format!(
            r#""consumerGroup":"{group}","topic":"{topic}","queueId":"{queue}","queueOffset":"{offset}","maxMsgNums":"32","sysFlag":"2","commitOffset":"0","suspendTimeoutMillis":"15000","subVersion":"{SUB_VERSION}","expressionType":"TAG","maxMsgBytes":"262144""#
        )
    };
    let mut in_flight = 0_usize;
    for (queue, (&from, &to)) in next.iter().zip(&end).enumerate() {
        if from < to {
            link.queue(PULL_MESSAGE, i32::try_from(queue)?, &pull(queue, from), &[])?;
            in_flight += 1;
        }
    }
    let mut messages = 0_u64;
    let mut first = None;
    let mut last = Instant::now();
    while in_flight > 0 {
        let reply = link.receive()?;
        if !reply.is_response {
            continue;
        }
        let queue = usize::try_from(reply.opaque)?;
        let (Some(at), Some(&to)) = (next.get_mut(queue), end.get(queue)) else {
            return Err(format!("an answer to nothing: {}", reply.header).into());
        };
        // Only these carry an offset; anything else is an error and would repeat for ever.
        if !matches!(reply.code, 0 | 19 | 20 | 21) {
            return Err(format!("a pull failed: {}", reply.header).into());
        }
        *at = reply.number("nextBeginOffset")?;
        let count = count(reply.body)?;
        if count > 0 {
            messages += count;
            last = Instant::now();
            first.get_or_insert(last);
        }
        if *at < to {
            let fields = pull(queue, *at);
            link.queue(PULL_MESSAGE, i32::try_from(queue)?, &fields, &[])?;
        } else {
            in_flight -= 1;
        }
    }
    let seconds = first.map_or(0.0, |first| (last - first).as_secs_f64());
    #[allow(clippy::cast_precision_loss, reason = "exact up to 2^53 messages")]
    let rate = if seconds > 0.0 {
        messages as f64 / seconds
    } else {
        0.0
    };
    println!(r#"{{"messages":{messages},"seconds":{seconds:.6},"rate":{rate:.0}}}"#);
    Ok(())
}

/// Messages in a body, by their size words.
fn count(mut body: &[u8]) -> Result<u64> {
    let mut count = 0;
    while let Some((word, _)) = body.split_first_chunk::<4>() {
        let size = usize::try_from(u32::from_be_bytes(*word))?;
        if size < MESSAGE_MIN {
            return Err(format!("a message of {size} bytes").into());
        }
        body = body.get(size..).ok_or("a message longer than its answer")?;
        count += 1;
    }
    Ok(count)
}

/// Address of the one broker that has the topic, and its queues.
fn route(name_server: &str, topic: &str) -> Result<(String, usize)> {
    let mut link = Link::open(name_server)?;
    let reply = link.call(GET_ROUTE, &format!(r#""topic":"{topic}""#), &[])?;
    let body = String::from_utf8_lossy(reply.body);
    let queues = body.matches(r#""readQueueNums""#).count();
    if queues != 1 {
        return Err(format!("{queues} brokers have {topic}; one socket needs exactly one").into());
    }
    Ok((
        value(&body, "0")?.to_owned(),
        value(&body, "readQueueNums")?.parse()?,
    ))
}

/// The value of the first member of this name in a flat piece of JSON, without quotes.
fn value<'a>(json: &'a str, name: &str) -> Result<&'a str> {
    let missing = || format!("no {name} in {json}");
    let (_, rest) = json.split_once(&format!("\"{name}\":")).ok_or_else(missing)?;
    let rest = rest.trim_start_matches('"');
    Ok(rest.split(['"', ',', '}']).next().ok_or_else(missing)?)
}

/// A socket with one buffer each way.
struct Link {
    stream: TcpStream,
    out: Vec<u8>,
    read: Vec<u8>,
    /// The bytes of `read` that are filled and not yet taken.
    start: usize,
    end: usize,
}

/// A frame that was received.
struct Reply<'a> {
    code: i32,
    opaque: i32,
    is_response: bool,
    header: &'a str,
    body: &'a [u8],
}

impl Reply<'_> {
    fn number(&self, field: &str) -> Result<u64> {
        Ok(value(self.header, field)?.parse()?)
    }
}

impl Link {
    fn open(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        Ok(Self {
            stream,
            out: Vec::new(),
            read: vec![0; 1 << 20],
            start: 0,
            end: 0,
        })
    }

    /// One request and its answer.
    fn call(&mut self, code: i32, fields: &str, body: &[u8]) -> Result<Reply<'_>> {
        const OPAQUE: i32 = -7;
        self.queue(code, OPAQUE, fields, body)?;
        loop {
            let length = self.fill()?;
            let reply = parse(
                self.read
                    .get(self.start + 4..self.start + 4 + length)
                    .unwrap_or_default(),
            )?;
            let (is_ours, code) = (reply.is_response && reply.opaque == OPAQUE, reply.code);
            let from = self.start;
            self.start += 4 + length;
            if is_ours {
                let reply = parse(self.read.get(from + 4..from + 4 + length).unwrap_or_default())?;
                return if code == 0 {
                    Ok(reply)
                } else {
                    Err(reply.header.to_owned().into())
                };
            }
        }
    }

    /// Adds a request to what goes out with the next wait.
    fn queue(&mut self, code: i32, opaque: i32, fields: &str, body: &[u8]) -> Result<()> {
        let header = format!(
            r#"{{"code":{code},"language":"OTHER","version":513,"opaque":{opaque},"flag":0,"extFields":{{{fields}}}}}"#
        );
        self.out
            .extend(u32::try_from(4 + header.len() + body.len())?.to_be_bytes());
        self.out.extend(u32::try_from(header.len())?.to_be_bytes());
        self.out.extend(header.as_bytes());
        self.out.extend(body);
        Ok(())
    }

    /// The next frame.
    fn receive(&mut self) -> Result<Reply<'_>> {
        let length = self.fill()?;
        let from = self.start + 4;
        self.start = from + length;
        parse(self.read.get(from..self.start).unwrap_or_default())
    }

    /// Makes the next frame complete in the buffer; its length without the length word. Requests are sent when
    /// nothing is left to work on.
    fn fill(&mut self) -> Result<usize> {
        loop {
            let have = self.read.get(self.start..self.end).unwrap_or_default();
            let mut need = 4;
            if let Some((word, rest)) = have.split_first_chunk::<4>() {
                let length = usize::try_from(u32::from_be_bytes(*word))?;
                if length > FRAME_MAX {
                    return Err(format!("a frame of {length} bytes").into());
                }
                if rest.len() >= length {
                    return Ok(length);
                }
                need += length;
            }
            if !self.out.is_empty() {
                self.stream.write_all(&self.out)?;
                self.out.clear();
            }
            self.read.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            if self.read.len() < need {
                self.read.resize(need, 0);
            }
            let got = self
                .stream
                .read(self.read.get_mut(self.end..).unwrap_or_default())?;
            if got == 0 {
                return Err("the broker closed the connection".into());
            }
            self.end += got;
        }
    }
}

fn parse(frame: &[u8]) -> Result<Reply<'_>> {
    let (word, rest) = frame.split_first_chunk::<4>().ok_or("a frame without header")?;
    let length = usize::try_from(u32::from_be_bytes(*word))?;
    let (header, body) = rest
        .split_at_checked(length)
        .ok_or("a header that is not JSON, or too long")?;
    let header = std::str::from_utf8(header)?;
    let number = |name| -> Result<i32> { Ok(value(header, name)?.parse()?) };
    Ok(Reply {
        code: number("code")?,
        opaque: number("opaque")?,
        is_response: number("flag")? & 1 == 1,
        header,
        body,
    })
}
