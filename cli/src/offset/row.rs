use rocketmq_consumer_core::ids::{MessageQueue, PeerAddr, QueueOffset};
use serde::Serialize;

use crate::output::Table;

/// A queue, where the group is there, and where it is to continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// The queue.
    pub(crate) queue: MessageQueue,
    /// The master of its broker.
    pub(crate) addr: PeerAddr,
    /// The offset of its oldest message.
    pub(crate) min: QueueOffset,
    /// The offset the next message will get.
    pub(crate) max: QueueOffset,
    /// What is stored, if anything.
    pub(crate) from: Option<QueueOffset>,
    /// Where it is to continue; once the broker has answered, as the broker says.
    pub(crate) to: QueueOffset,
    /// What came of it.
    pub(crate) result: Option<Outcome>,
}

/// What came of a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// How it was done.
    pub(crate) way: Way,
    /// What was read afterwards.
    pub(crate) now: Option<QueueOffset>,
    /// Whether that is what was asked for.
    pub(crate) is_done: bool,
}

/// How an offset was reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Way {
    /// The broker has stored it and tells it with the next pull.
    Server,
    /// The broker has told the members, who commit it.
    Members,
    /// It was committed in the group's place, which has no member.
    Commit,
}

impl Way {
    const fn word(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Members => "members",
            Self::Commit => "commit",
        }
    }
}

impl Row {
    /// Whether the group is where it is to continue.
    pub(crate) fn is_done(&self) -> bool {
        self.result.is_some_and(|result| result.is_done)
    }

    /// Whether an offset that is read now shows that the reset took place. Members that run may have gone on
    /// from there already.
    pub(crate) fn is_reached(&self, now: Option<QueueOffset>, is_online: bool) -> bool {
        let Some(now) = now else { return false };
        let went_on = || {
            let is_ahead = now > self.to;
            // Of a way back only what lies before the start shows that somebody went it.
            let shows = self.from.is_none_or(|from| self.to >= from || now < from);
            is_online && is_ahead && shows
        };
        now == self.to || went_on()
    }

    /// The line of `-o json`. The keys are stable.
    pub(crate) fn line(&self) -> Line<'_> {
        Line {
            topic: self.queue.topic.as_str(),
            broker: self.queue.broker.as_str(),
            queue_id: self.queue.id.0,
            min_offset: self.min.0,
            max_offset: self.max.0,
            from: self.from.map(|offset| offset.0),
            to: self.to.0,
            result: self.result.map(|result| Result {
                now: result.now.map(|offset| offset.0),
                way: result.way,
                done: result.is_done,
            }),
        }
    }
}

/// A row for programs.
#[derive(Serialize)]
pub(crate) struct Line<'a> {
    topic: &'a str,
    broker: &'a str,
    queue_id: i32,
    min_offset: i64,
    max_offset: i64,
    from: Option<i64>,
    to: i64,
    #[serde(flatten)]
    result: Option<Result>,
}

#[derive(Serialize)]
struct Result {
    now: Option<i64>,
    way: Way,
    done: bool,
}

/// What would happen, for people.
pub(crate) fn plan_table(rows: &[Row]) -> Table {
    let mut table = Table::new()
        .text("BROKER")
        .number("QUEUE")
        .number("MIN")
        .number("MAX")
        .number("FROM")
        .number("TO");
    for row in rows {
        table.row([
            row.queue.broker.to_string(),
            row.queue.id.to_string(),
            row.min.to_string(),
            row.max.to_string(),
            shown(row.from),
            row.to.to_string(),
        ]);
    }
    table
}

/// What has happened, for people.
pub(crate) fn result_table(rows: &[Row]) -> Table {
    let mut table = Table::new()
        .text("BROKER")
        .number("QUEUE")
        .number("FROM")
        .number("TO")
        .number("NOW")
        .text("WAY");
    for row in rows {
        let way = row
            .result
            .map_or("not done", |result| match (result.is_done, result.way) {
                (true, way) => way.word(),
                (false, _) => "not done",
            });
        table.row([
            row.queue.broker.to_string(),
            row.queue.id.to_string(),
            shown(row.from),
            row.to.to_string(),
            shown(row.result.and_then(|result| result.now)),
            way.into(),
        ]);
    }
    table
}

fn shown(offset: Option<QueueOffset>) -> String {
    offset.map_or_else(|| "-".into(), |offset| offset.to_string())
}

#[cfg(test)]
pub(crate) mod tests {
    use rocketmq_consumer_core::ids::QueueId;
    use serde_json::json;

    use super::*;

    /// Queue `id` of `broker-a` with offsets 2 to 10.
    pub(crate) fn row(id: i32, from: Option<i64>, to: i64) -> Row {
        Row {
            queue: MessageQueue {
                topic: "T".into(),
                broker: "broker-a".into(),
                id: QueueId(id),
            },
            addr: PeerAddr::new("h", 1),
            min: QueueOffset(2),
            max: QueueOffset(10),
            from: from.map(QueueOffset),
            to: QueueOffset(to),
            result: None,
        }
    }

    #[test]
    fn members_that_run_may_have_gone_on_already() {
        // (from, to, now, online, reached)
        let table = [
            (Some(9), 2, Some(2), false, true),
            (Some(9), 2, Some(9), false, false),
            (Some(9), 2, Some(5), false, false),
            (Some(9), 2, Some(5), true, true),
            (Some(9), 2, Some(9), true, false),
            (Some(3), 10, Some(12), true, true),
            (Some(3), 10, Some(5), true, false),
            (None, 2, Some(4), true, true),
            (None, 2, None, true, false),
        ];
        for (from, to, now, online, reached) in table {
            let row = row(0, from, to);
            assert_eq!(
                row.is_reached(now.map(QueueOffset), online),
                reached,
                "{from:?} {to} {now:?}"
            );
        }
    }

    #[test]
    fn every_key_is_there_and_results_only_when_there_are_some() {
        let mut row = row(1, None, 5);
        let mut want = json!({"topic": "T", "broker": "broker-a", "queue_id": 1, "min_offset": 2, "max_offset": 10,
                              "from": null, "to": 5});
        assert_eq!(serde_json::to_value(row.line()).unwrap(), want);
        row.result = Some(Outcome {
            way: Way::Members,
            now: Some(QueueOffset(5)),
            is_done: true,
        });
        want["now"] = json!(5);
        want["way"] = json!("members");
        want["done"] = json!(true);
        assert_eq!(serde_json::to_value(row.line()).unwrap(), want);
    }

    #[test]
    fn people_see_what_would_happen_and_what_has() {
        let mut rows = [row(0, Some(9), 2), row(1, None, 2)];
        assert_eq!(
            plan_table(&rows).to_string(),
            "BROKER    QUEUE  MIN  MAX  FROM  TO\n\
             broker-a      0    2   10     9   2\n\
             broker-a      1    2   10     -   2\n"
        );
        rows[0].result = Some(Outcome {
            way: Way::Server,
            now: Some(QueueOffset(2)),
            is_done: true,
        });
        assert_eq!(
            result_table(&rows).to_string(),
            "BROKER    QUEUE  FROM  TO  NOW  WAY\n\
             broker-a      0     9   2    2  server\n\
             broker-a      1     -   2    -  not done\n"
        );
    }
}
