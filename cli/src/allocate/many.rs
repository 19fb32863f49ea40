//! Many shares from a file, in the form of the allocation vectors.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use rocketmq_consumer_core::ids::{BrokerName, ClientId, MessageQueue, QueueId, Topic};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::params;
use crate::exit::{Exit, Failure};
use crate::output::Lines;
use crate::talk::Talk;

/// Many shares from a file, of the lists as they stand there.
///
/// # Errors
/// The file cannot be read.
pub(super) fn run(path: &Path, talk: Talk) -> Result<Exit, Failure> {
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
    /// What the strategy is made with.
    #[serde(default)]
    params: Value,
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
    /// `None` where Java answers null.
    result: Result<Option<Vec<(BrokerName, i32)>>, String>,
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
            Err(why) => map.serialize_entry("error", beginning(why))?,
        }
        map.end()
    }
}

/// As much of a reason as somebody reads: it may repeat what the line says.
fn beginning(why: &str) -> &str {
    const MOST: usize = 300;
    why.char_indices()
        .nth(MOST)
        .and_then(|(end, _)| why.get(..end))
        .unwrap_or(why)
}

/// The bare strategy: nothing is sorted, a member that is listed twice has the share of its first
/// place, and a missing list counts as an empty one.
fn share(question: Question) -> Result<Option<Vec<(BrokerName, i32)>>, String> {
    let topic = Topic::from(question.topic.unwrap_or_default());
    let Some(strategy) = params::strategy(&question.strategy, &question.params, &topic)? else {
        return Ok(None);
    };
    let queues = question.mq_all.unwrap_or_default().into_iter();
    let queues: Vec<_> = queues
        .map(|(broker, id)| MessageQueue {
            topic: topic.clone(),
            broker: broker.into(),
            id: QueueId(id),
        })
        .collect();
    let members = question.cid_all.unwrap_or_default().into_iter();
    let members: Vec<ClientId> = members.map(Into::into).collect();
    let own = ClientId::from(question.current_cid.unwrap_or_default());
    let share = strategy
        .allocate(&queues, &members, &own)
        .map_err(|error| error.to_string())?;
    let pairs = share.into_iter().map(|queue| (queue.broker, queue.id.0));
    Ok(Some(pairs.collect()))
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
    fn a_reason_does_not_repeat_all_of_a_line() {
        let long = "ö".repeat(100_000);
        for line in [format!("{long:?}"), format!(r#"{{"strategy":"{long}"}}"#)] {
            let answer = answer(&line);
            assert!((300..700).contains(&answer.len()), "{} bytes", answer.len());
        }
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
}
