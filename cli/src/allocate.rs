//! `allocate`: what a member of a group would own.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::str::FromStr;

use rocketmq_consumer_core::allocate::{AllocateStrategy, sort_members, sort_queues};
use rocketmq_consumer_core::ids::{BrokerName, ClientId, MessageQueue, QueueId, Topic};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::args::AllocateArgs;
use crate::exit::{Exit, Failure};
use crate::output::Lines;
use crate::talk::{Level, Talk};

/// The most queues a broker of `--queues` may have; a typing error must not cost gigabytes.
const QUEUES_PER_BROKER_MAX: i32 = 65_536;

/// Runs the command.
///
/// # Errors
/// The strategy refuses the arguments, or a file cannot be read.
pub(crate) fn run(args: &AllocateArgs, talk: Talk) -> Result<Exit, Failure> {
    match &args.input {
        Some(path) => many(path, talk),
        None => one(args, talk),
    }
}

/// One share from flags, sorted first as a rebalance does.
fn one(args: &AllocateArgs, talk: Talk) -> Result<Exit, Failure> {
    let missing = || Failure::usage("give --strategy, --client, --members and --queues, or --in FILE.jsonl");
    let strategy = args.strategy.ok_or_else(missing)?;
    let own = ClientId::from(args.client.as_deref().ok_or_else(missing)?);
    let topic = Topic::from(args.topic.as_deref().unwrap_or("TOPIC"));
    let mut members: Vec<ClientId> = args.members.iter().map(|id| id.as_str().into()).collect();
    let mut queues: Vec<MessageQueue> = args
        .queues
        .iter()
        .flat_map(|broker| broker.queues(&topic))
        .collect();
    sort_members(&mut members);
    sort_queues(&mut queues);
    queues.dedup();
    let share = strategy
        .allocate_all(&queues, &members, &own)
        .map_err(|error| Failure::usage(format_args!("{error}; see --client, --members and --queues")))?;
    if !members.contains(&own) {
        talk.say(
            Level::Warn,
            format_args!("{own} is not among the members, so it owns nothing"),
        );
    }
    let queues = share
        .iter()
        .map(|queue| OwnedQueue {
            broker: queue.broker.as_str(),
            queue_id: queue.id.0,
        })
        .collect();
    let mut lines = Lines::stdout();
    lines.json(&Share { queues })?;
    lines.finish()?;
    Ok(Exit::Done)
}

/// The answer to flags.
#[derive(Serialize)]
struct Share<'a> {
    queues: Vec<OwnedQueue<'a>>,
}

#[derive(Serialize)]
struct OwnedQueue<'a> {
    broker: &'a str,
    queue_id: i32,
}

/// The queues of one broker: an item of `--queues`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BrokerQueues {
    broker: BrokerName,
    count: i32,
}

impl BrokerQueues {
    fn queues<'a>(&'a self, topic: &'a Topic) -> impl Iterator<Item = MessageQueue> + 'a {
        (0..self.count).map(|id| MessageQueue {
            topic: topic.clone(),
            broker: self.broker.clone(),
            id: QueueId(id),
        })
    }
}

impl FromStr for BrokerQueues {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.rsplit_once(':')
            .and_then(|(broker, count)| {
                let count = count.parse().ok()?;
                let fits = !broker.is_empty() && (0..=QUEUES_PER_BROKER_MAX).contains(&count);
                fits.then(|| Self {
                    broker: broker.into(),
                    count,
                })
            })
            .ok_or_else(|| format!("{text:?} is not BROKER:COUNT, for instance broker-a:4"))
    }
}

/// Many shares from a file, of the lists as they stand there.
fn many(path: &Path, talk: Talk) -> Result<Exit, Failure> {
    let unreadable =
        |error: io::Error| Failure::failed(format_args!("cannot read {}: {error}", path.display()));
    let input: Box<dyn BufRead> = if path.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        Box::new(BufReader::new(File::open(path).map_err(unreadable)?))
    };
    let mut lines = Lines::stdout();
    let mut errors = 0_u64;
    for line in input.lines() {
        let line = line.map_err(unreadable)?;
        if line.trim().is_empty() {
            continue;
        }
        let answer = Answer::to(&line);
        errors += u64::from(answer.result.is_err());
        lines.json(&answer)?;
    }
    lines.finish()?;
    if errors == 0 {
        return Ok(Exit::Done);
    }
    talk.error(format_args!("{errors} lines have no answer; each says why"));
    Ok(Exit::Failed)
}

/// One line of the file. Other keys, notes and expected results among them, are passed over.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Question {
    strategy: String,
    #[serde(default)]
    topic: Option<String>,
    #[serde(default)]
    current_cid: Option<String>,
    #[serde(default)]
    cid_all: Option<Vec<String>>,
    #[serde(default)]
    mq_all: Option<Vec<(String, i32)>>,
}

/// What is written for a line: a share, or why there is none.
struct Answer {
    id: Value,
    result: Result<Vec<(BrokerName, i32)>, String>,
}

impl Answer {
    fn to(line: &str) -> Self {
        let value: Value = match serde_json::from_str(line) {
            Ok(value) => value,
            Err(error) => {
                return Self {
                    id: Value::Null,
                    result: Err(format!("not JSON: {error}")),
                };
            }
        };
        let id = value.get("id").cloned().unwrap_or_default();
        let result = serde_json::from_value(value)
            .map_err(|error| error.to_string())
            .and_then(share);
        Self { id, result }
    }
}

impl Serialize for Answer {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap as _;

        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("id", &self.id)?;
        match &self.result {
            Ok(share) => map.serialize_entry("result", share)?,
            Err(why) => map.serialize_entry("error", why)?,
        }
        map.end()
    }
}

/// The bare strategy: nothing is sorted, a member that is listed twice has the share of its first
/// place, and a missing list counts as an empty one.
fn share(question: Question) -> Result<Vec<(BrokerName, i32)>, String> {
    let strategy: AllocateStrategy = question
        .strategy
        .parse()
        .map_err(|error| format!("{}: {error}", question.strategy))?;
    let topic = Topic::from(question.topic.unwrap_or_default());
    let queues: Vec<_> = question
        .mq_all
        .unwrap_or_default()
        .into_iter()
        .map(|(broker, id)| MessageQueue {
            topic: topic.clone(),
            broker: broker.into(),
            id: QueueId(id),
        })
        .collect();
    let members: Vec<ClientId> = question
        .cid_all
        .unwrap_or_default()
        .into_iter()
        .map(Into::into)
        .collect();
    let own = ClientId::from(question.current_cid.unwrap_or_default());
    let share = strategy
        .allocate(&queues, &members, &own)
        .map_err(|error| error.to_string())?;
    Ok(share
        .into_iter()
        .map(|queue| (queue.broker, queue.id.0))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(line: &str) -> String {
        serde_json::to_string(&Answer::to(line)).unwrap()
    }

    #[test]
    fn a_line_is_answered_with_the_bare_strategy() {
        let line = r#"{"id":"a","strategy":"AVG","params":{},"topic":"T","currentCid":"b","cidAll":["b","a"],"mqAll":[["y",1],["x",0],["x",1]]}"#;
        assert_eq!(answer(line), r#"{"id":"a","result":[["y",1],["x",0]]}"#);
    }

    #[test]
    fn what_has_no_answer_says_why_and_keeps_its_id() {
        let table = [
            ("nonsense", r#"{"id":null,"error":"not JSON"#),
            (r#"{"id":7}"#, r#"{"id":7,"error":"missing field `strategy`"}"#),
            (
                r#"{"id":"a","strategy":"MOON"}"#,
                r#"{"id":"a","error":"MOON: unknown allocation strategy"#,
            ),
            (
                r#"{"id":"a","strategy":"AVG","currentCid":null,"cidAll":["a"],"mqAll":[["x",0]]}"#,
                r#"{"id":"a","error":"the own client id is empty"}"#,
            ),
            (
                r#"{"id":"a","strategy":"AVG","currentCid":"a","cidAll":["a"],"mqAll":null}"#,
                r#"{"id":"a","error":"there is no queue"}"#,
            ),
        ];
        for (line, start) in table {
            let answer = answer(line);
            assert!(answer.starts_with(start), "{answer}");
        }
    }

    #[test]
    fn brokers_are_written_with_their_number_of_queues() {
        let broker: BrokerQueues = "a:b:2".parse().unwrap();
        let topic = Topic::from("T");
        let ids: Vec<_> = broker.queues(&topic).map(|queue| queue.to_string()).collect();
        assert_eq!(ids, ["T/a:b/0", "T/a:b/1"]);
        for text in ["", "a", "a:", ":4", "a:-1", "a:x", "a:65537"] {
            assert!(text.parse::<BrokerQueues>().is_err(), "{text}");
        }
    }
}
