//! Whether every queue belongs to exactly one member.

use std::collections::{BTreeMap, BTreeSet};

use rocketmq_consumer_core::ids::{ClientId, MessageQueue, Topic};

use super::evidence::Evidence;
use super::finding::{Finding, some};
use crate::admin::{Group, retry_topic};

/// Queues of nobody are not consumed; queues of two members are consumed twice. While queues change hands
/// both are ordinary, so what this watched has to be so at both ends. Members come to know a new retry topic up to
/// a minute late; as long as nothing waits in it, nothing is lost.
pub(crate) fn owners(evidence: &Evidence, findings: &mut Vec<Finding>) {
    let looks = || std::iter::once(&evidence.group).chain(&evidence.before);
    let can_tell = |group: &Group| !group.members.is_empty() && group.all_told();
    if !evidence.is_clustering() || !looks().all(can_tell) {
        return;
    }
    let mut nobodys: BTreeMap<&Topic, Vec<String>> = BTreeMap::new();
    for (queue, owners) in &evidence.group.queues {
        let before = evidence.before.as_ref().and_then(|group| group.queues.get(queue));
        match owners.len() {
            0 if before.is_none_or(BTreeSet::is_empty) && is_missed(evidence, queue) => {
                nobodys.entry(&queue.topic).or_default().push(place(queue));
            }
            2.. if before.is_none_or(|before| before.len() > 1) => findings.push(shared(queue, owners)),
            _ => {}
        }
    }
    for (topic, queues) in nobodys {
        findings.push(Finding::new(
            "owner",
            topic.as_str(),
            format!("has queues that belong to no member: {}", some(queues)),
            "look again in a minute; if it stays, the members share by different strategies or do not see each other",
        ));
    }
}

/// Whether somebody should have the queue.
fn is_missed(evidence: &Evidence, queue: &MessageQueue) -> bool {
    let mut rows = evidence.progress.iter().flat_map(|progress| &progress.after);
    queue.topic != retry_topic(&evidence.group_name().into())
        || rows.any(|row| row.queue == *queue && row.lag() > 0)
}

fn shared(queue: &MessageQueue, owners: &BTreeSet<ClientId>) -> Finding {
    Finding::new(
        "owner",
        format!("{} {}", queue.topic, place(queue)),
        format!("belongs to several members: {}", some(owners)),
        "look again in a minute; if it stays, the members share by different strategies or do not see each other",
    )
}

fn place(queue: &MessageQueue) -> String {
    format!("{}:{}", queue.broker, queue.id)
}

#[cfg(test)]
mod tests {
    use rocketmq_consumer_core::ids::QueueOffset;

    use super::super::evidence::Progress;
    use super::*;
    use crate::admin::group_tests::{member, queue};
    use crate::lag::Row;

    fn group(owners: &[&[&str]]) -> Group {
        let owners = owners.iter().enumerate();
        Group {
            members: [("x".into(), member("h:1", &[])), ("y".into(), member("h:2", &[]))].into(),
            queues: owners
                .map(|(id, owners)| {
                    let owners = owners.iter().map(|&owner| owner.into()).collect();
                    (queue("T", i32::try_from(id).unwrap()), owners)
                })
                .collect(),
            ..Group::default()
        }
    }

    fn found(before: Option<Group>, group: Group) -> Vec<String> {
        let evidence = Evidence {
            group,
            before,
            ..Evidence::default()
        };
        let mut findings = Vec::new();
        owners(&evidence, &mut findings);
        findings
            .iter()
            .map(|finding| format!("{} {}", finding.about, finding.finding))
            .collect()
    }

    #[test]
    fn a_queue_belongs_to_exactly_one_member() {
        assert_eq!(found(None, group(&[&["x"], &["y"]])), Vec::<String>::new());
        assert_eq!(
            found(None, group(&[&["x", "y"], &[], &[]])),
            [
                "T broker-a:0 belongs to several members: x, y",
                "T has queues that belong to no member: broker-a:1, broker-a:2",
            ]
        );
    }

    #[test]
    fn a_queue_on_its_way_from_one_member_to_the_next_is_no_finding() {
        let (free, held) = (|| group(&[&[]]), || group(&[&["x"]]));
        assert_eq!(found(Some(held()), free()), Vec::<String>::new());
        assert_eq!(found(Some(free()), held()), Vec::<String>::new());
        assert_eq!(found(Some(free()), free()).len(), 1);
        assert_eq!(found(Some(held()), group(&[&["x", "y"]])), Vec::<String>::new());
    }

    #[test]
    fn an_empty_retry_queue_may_belong_to_nobody() {
        let retry = queue("%RETRY%G", 0);
        let found = |waiting: i64| {
            let mut group = group(&[&["x"]]);
            group.queues.insert(retry.clone(), BTreeSet::new());
            let row = Row {
                queue: retry.clone(),
                min: QueueOffset(0),
                max: QueueOffset(waiting),
                committed: None,
                consumed_until: None,
                owners: BTreeSet::new(),
            };
            let evidence = Evidence {
                name: Some("G".into()),
                group,
                progress: Some(Progress {
                    after: vec![row],
                    before: None,
                }),
                ..Evidence::default()
            };
            let mut findings = Vec::new();
            owners(&evidence, &mut findings);
            findings.len()
        };
        assert_eq!((found(0), found(1)), (0, 1));
    }

    #[test]
    fn nothing_is_said_of_owners_when_a_member_is_silent_or_there_is_none() {
        let mut silent = group(&[&[]]);
        silent.members.get_mut(&ClientId::from("x")).unwrap().info = Err(String::new());
        assert_eq!(found(None, silent), Vec::<String>::new());
        let mut empty = group(&[&[]]);
        empty.members.clear();
        assert_eq!(found(None, empty), Vec::<String>::new());
    }
}
