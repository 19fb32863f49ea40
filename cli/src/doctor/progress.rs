//! Whether the group gets on.

use rocketmq_consumer_core::ids::MessageQueue;

use super::evidence::Evidence;
use super::finding::{Finding, some};
use crate::admin::retry_topic;
use crate::lag::Row;

/// Messages that failed, offsets that lie beyond the end, and messages that wait for nobody.
pub(crate) fn backlog(evidence: &Evidence, findings: &mut Vec<Finding>) {
    let group = evidence.group_name();
    let retry = retry_topic(&group.into());
    let rows = evidence.progress.iter().flat_map(|progress| &progress.after);
    let (retries, others): (Vec<&Row>, Vec<&Row>) = rows.partition(|row| row.queue.topic == retry);
    let waiting: u64 = others.iter().map(|row| row.lag()).sum();
    if evidence.group.members.is_empty() && waiting > 0 {
        findings.push(Finding::new(
            "member",
            group,
            format!("has no member, and {waiting} messages wait for it"),
            "start one",
        ));
    }
    let failed: u64 = retries.iter().map(|row| row.lag()).sum();
    if failed > 0 {
        findings.push(Finding::new(
            "backlog",
            retry.as_str(),
            format!("holds {failed} messages that failed and are to be delivered again"),
            "see in the logs of the members why they fail",
        ));
    }
    for row in retries.iter().chain(&others).filter(|row| is_beyond(row)) {
        findings.push(Finding::new(
            "offset",
            name(&row.queue),
            "is consumed up to an offset behind its end: what comes next is not delivered",
            format!(
                "rocketcat offset reset -g {group} -t {} --to TIME",
                row.queue.topic
            ),
        ));
    }
    let dead: u64 = evidence.dead.values().sum();
    if dead > 0 {
        findings.push(Finding::new(
            "backlog",
            format!("%DLQ%{group}"),
            format!("holds {dead} messages that failed for good and were not sent again"),
            format!("rocketcat dlq peek -g {group}, then rocketcat dlq requeue -g {group}"),
        ));
    }
}

fn is_beyond(row: &Row) -> bool {
    row.committed.is_some_and(|committed| committed > row.max)
}

/// Queues with messages and members, and no progress while this watched.
pub(crate) fn stuck(evidence: &Evidence, findings: &mut Vec<Finding>) {
    let Some(progress) = evidence
        .progress
        .as_ref()
        .filter(|_| !evidence.group.members.is_empty())
    else {
        return;
    };
    let Some((before, time)) = &progress.before else {
        return;
    };
    let is_stuck = |row: &&Row| {
        let was = before.iter().find(|was| was.queue == row.queue);
        row.lag() > 0 && was.is_some_and(|was| was.lag() > 0 && was.committed == row.committed)
    };
    let stuck: Vec<&Row> = progress.after.iter().filter(is_stuck).collect();
    if stuck.is_empty() {
        return;
    }
    let places = stuck.iter().map(|row| {
        let owners = evidence
            .group
            .queues
            .get(&row.queue)
            .map(some)
            .unwrap_or_default();
        let owner = if owners.is_empty() {
            "nobody's".into()
        } else {
            format!("of {owners}")
        };
        format!("{} ({owner})", name(&row.queue))
    });
    findings.push(Finding::new(
        "stuck",
        some(places),
        format!("did not move for {} s with messages waiting", time.as_secs()),
        "see whether the handlers there hang, fail over and over, or just take long",
    ));
}

fn name(queue: &MessageQueue) -> String {
    format!("{} {}:{}", queue.topic, queue.broker, queue.id)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use rocketmq_consumer_core::ids::QueueOffset;

    use super::super::evidence::Progress;
    use super::super::finding::found;
    use super::*;
    use crate::admin::group_tests::{member, queue};

    fn row(topic: &str, id: i32, max: i64, committed: i64) -> Row {
        Row {
            queue: queue(topic, id),
            min: QueueOffset(0),
            max: QueueOffset(max),
            committed: Some(QueueOffset(committed)),
            consumed_until: None,
            owners: BTreeSet::new(),
        }
    }

    fn evidence(before: Option<Vec<Row>>, after: Vec<Row>, members: usize) -> Evidence {
        let mut evidence = Evidence {
            name: Some("G".into()),
            progress: Some(Progress {
                after,
                before: before.map(|rows| (rows, Duration::from_secs(12))),
            }),
            ..Evidence::default()
        };
        for place in 0..members {
            evidence
                .group
                .members
                .insert(format!("m{place}").as_str().into(), member("h:1", &[]));
        }
        evidence
    }

    #[test]
    fn what_failed_and_what_waits_for_nobody_is_counted() {
        let rows = vec![
            row("T", 0, 10, 4),
            row("T", 1, 10, 10),
            row("%RETRY%G", 0, 3, 1),
            row("T", 2, 5, 7),
        ];
        let mut evidence = evidence(None, rows, 0);
        evidence.dead = [("a".into(), 2), ("b".into(), 1)].into();
        assert_eq!(
            found(backlog, &evidence),
            [
                "member: G has no member, and 6 messages wait for it",
                "backlog: %RETRY%G holds 2 messages that failed and are to be delivered again",
                "offset: T broker-a:2 is consumed up to an offset behind its end: what comes next is not delivered",
                "backlog: %DLQ%G holds 3 messages that failed for good and were not sent again",
            ]
        );
    }

    #[test]
    fn only_queues_that_wait_and_do_not_move_are_stuck() {
        let before = || {
            vec![
                row("T", 0, 10, 4),
                row("T", 1, 10, 4),
                row("T", 2, 4, 4),
                row("T", 3, 4, 4),
            ]
        };
        let after = || {
            vec![
                row("T", 0, 10, 4),
                row("T", 1, 10, 5),
                row("T", 2, 9, 4),
                row("T", 3, 4, 4),
            ]
        };
        let mut seen = evidence(Some(before()), after(), 1);
        seen.group.queues = [(queue("T", 0), ["m0".into()].into())].into();
        assert_eq!(
            found(stuck, &seen),
            ["stuck: T broker-a:0 (of m0) did not move for 12 s with messages waiting"]
        );
        assert_eq!(
            found(stuck, &evidence(Some(before()), after(), 0)),
            Vec::<String>::new()
        );
        assert_eq!(found(stuck, &evidence(None, after(), 1)), Vec::<String>::new());
    }
}
