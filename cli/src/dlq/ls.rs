use rocketmq_consumer_core::ids::{ConsumerGroup, QueueOffset};
use rocketmq_consumer_core::time::WallTime;
use rocketmq_consumer_core::wire::request::offsets::EarliestStoreTimeRequest;
use serde::Serialize;

use super::queues::{DeadQueue, dead_queues, requeued};
use super::{group, say_none};
use crate::admin::with_cluster;
use crate::args::{DlqLsArgs, TableOutput};
use crate::cluster::Cluster;
use crate::exit::{Exit, Failure};
use crate::offset::queue_ref;
use crate::output::{Lines, Table, shown_time};
use crate::settings::Settings;
use crate::talk::{Level, Talk};

/// Runs the command.
///
/// # Errors
/// What makes no sense, and whoever does not answer.
pub(crate) fn run(args: &DlqLsArgs, settings: Settings, talk: Talk) -> Result<Exit, Failure> {
    let group = group(&args.group)?;
    with_cluster(settings, async |cluster| {
        let mut rows = Vec::new();
        for dead in dead_queues(cluster, &group, None).await? {
            rows.push(Row::ask(cluster, dead).await?);
        }
        if rows.is_empty() {
            say_none(&group, talk);
        }
        for row in rows.iter().filter(|row| !row.dead.is_readable) {
            talk.say(Level::Warn, unreadable(&group, &row.dead));
        }
        write(args, &group, &rows)?;
        Ok(Exit::Done)
    })
}

/// What to do about dead letters that nobody may read.
pub(crate) fn unreadable(group: &ConsumerGroup, dead: &DeadQueue) -> String {
    let topic = &dead.queue.topic;
    format!(
        "the dead letters of {group} at {} can be written only, as old brokers make them; `rocketcat topics create \
         {topic} --queues 1 --perm rw --update` opens them",
        dead.queue.broker
    )
}

/// A queue of dead letters and what else is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    dead: DeadQueue,
    /// When the oldest was stored.
    first: Option<WallTime>,
    /// Where the last requeue ended.
    requeued: Option<QueueOffset>,
}

impl Row {
    async fn ask(cluster: &Cluster, dead: DeadQueue) -> Result<Self, Failure> {
        let request = EarliestStoreTimeRequest {
            queue: queue_ref(&dead.queue),
        };
        let first = if dead.messages() > 0 {
            cluster.demand(&dead.addr, &request).await?.0
        } else {
            None
        };
        let requeued = requeued(cluster, &dead).await?;
        Ok(Self {
            dead,
            first,
            requeued,
        })
    }

    fn line<'a>(&'a self, group: &'a str) -> Line<'a> {
        Line {
            group,
            topic: self.dead.queue.topic.as_str(),
            broker: self.dead.queue.broker.as_str(),
            queue_id: self.dead.queue.id.0,
            min_offset: self.dead.min.0,
            max_offset: self.dead.max.0,
            messages: self.dead.messages(),
            first_stored_at: self.first.map(WallTime::as_unix_millis),
            last_stored_at: self.dead.last.map(WallTime::as_unix_millis),
            requeued_to: self.requeued.map(|offset| offset.0),
        }
    }
}

/// A row for programs; the keys are stable.
#[derive(Serialize)]
struct Line<'a> {
    group: &'a str,
    topic: &'a str,
    broker: &'a str,
    queue_id: i32,
    min_offset: i64,
    max_offset: i64,
    messages: u64,
    first_stored_at: Option<i64>,
    last_stored_at: Option<i64>,
    requeued_to: Option<i64>,
}

fn write(args: &DlqLsArgs, group: &ConsumerGroup, rows: &[Row]) -> Result<(), Failure> {
    let mut lines = Lines::stdout();
    match args.output {
        TableOutput::Json => rows
            .iter()
            .try_for_each(|row| lines.json(&row.line(group.as_str())))?,
        TableOutput::Table => lines.text(&table(rows).to_string())?,
    }
    lines.finish()
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new()
        .text("BROKER")
        .number("QUEUE")
        .number("MESSAGES")
        .text("FIRST STORED")
        .text("LAST STORED")
        .number("REQUEUED TO");
    for row in rows {
        table.row([
            row.dead.queue.broker.to_string(),
            row.dead.queue.id.to_string(),
            row.dead.messages().to_string(),
            shown_time(row.first),
            shown_time(row.dead.last),
            row.requeued
                .map_or_else(|| "-".into(), |offset| offset.to_string()),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::queues::tests::dead;
    use super::*;

    #[test]
    fn every_key_is_there() {
        let row = Row {
            dead: dead(3, 10),
            first: Some(WallTime::from_unix_millis(4)),
            requeued: None,
        };
        let want = json!({"group": "G", "topic": "%DLQ%G", "broker": "broker-a", "queue_id": 0, "min_offset": 3,
                          "max_offset": 10, "messages": 7, "first_stored_at": 4, "last_stored_at": 5,
                          "requeued_to": null});
        assert_eq!(serde_json::to_value(row.line("G")).unwrap(), want);
        assert_eq!(
            table(&[row]).to_string(),
            "BROKER    QUEUE  MESSAGES  FIRST STORED              LAST STORED               REQUEUED TO\n\
             broker-a      0         7  1970-01-01T00:00:00.004Z  1970-01-01T00:00:00.005Z            -\n"
        );
    }
}
