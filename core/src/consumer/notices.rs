//! What people are told, and how often.
//!
//! The same kind about the same subject is told once and then at most every so often, with the count
//! of what was held back. Notices are edges: they are not a log of every failed attempt.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use core::mem;
use core::time::Duration;

use crate::action::AppAction;
use crate::consumer::cx::Cx;
use crate::ids::ConsumerGroup;
use crate::notice::{Notice, NoticeKind};
use crate::time::Instant;

/// Refusals that last are told this many times more rarely: once a minute by default.
const REFUSALS: u32 = 6;

/// More subjects than this at once, and the oldest are forgotten: telling twice is better than
/// growing.
const SUBJECTS_MAX: usize = 4096;

#[derive(Clone, Debug)]
pub(crate) struct Notices {
    interval: Duration,
    told: BTreeMap<(Option<ConsumerGroup>, String), Told>,
}

#[derive(Clone, Copy, Debug)]
struct Told {
    at: Instant,
    held_back: u64,
}

impl Notices {
    pub(crate) const fn new(interval: Duration) -> Self {
        Self {
            interval,
            told: BTreeMap::new(),
        }
    }

    pub(crate) fn tell(&mut self, cx: &mut Cx<'_>, group: Option<ConsumerGroup>, kind: NoticeKind) {
        let mut repeated = 0;
        let interval = self.interval_of(&kind);
        if let Some(subject) = subject(&kind) {
            if self.told.len() >= SUBJECTS_MAX {
                self.told
                    .retain(|_, told| cx.now.saturating_since(told.at) < interval);
                if self.told.len() >= SUBJECTS_MAX {
                    self.told.clear();
                }
            }
            let told = self.told.get_mut(&(group.clone(), subject.clone()));
            match told {
                Some(told) if cx.now.saturating_since(told.at) < interval => {
                    told.held_back += 1;
                    return;
                }
                Some(told) => {
                    told.at = cx.now;
                    repeated = mem::take(&mut told.held_back);
                }
                None => {
                    self.told.insert(
                        (group.clone(), subject),
                        Told {
                            at: cx.now,
                            held_back: 0,
                        },
                    );
                }
            }
        }
        cx.tell(AppAction::Notice(Box::new(Notice {
            at: cx.now,
            group,
            repeated,
            kind,
        })));
    }

    const fn interval_of(&self, kind: &NoticeKind) -> Duration {
        if matches!(kind, NoticeKind::RequestRefused { .. }) {
            self.interval.saturating_mul(REFUSALS)
        } else {
            self.interval
        }
    }
}

/// What a repeated notice is counted under; `None` for those that are told every time.
fn subject(kind: &NoticeKind) -> Option<String> {
    use NoticeKind as N;
    let subject = match kind {
        N::Ready
        | N::Assigned { .. }
        | N::Revoked { .. }
        | N::Committed { .. }
        | N::OwnIdRepeated { .. }
        | N::SubscriptionReplaced { .. }
        | N::SubscriptionChanged { .. }
        | N::FilterRefused { .. }
        | N::LinkUp { .. }
        | N::DeliveryDeadline { .. }
        | N::QueueStalled { .. }
        | N::QueueMoves { .. }
        | N::OutcomeOfOtherKind { .. }
        | N::ConsumedDirectly { .. }
        | N::Retry { .. } => return None,
        // Each undecodable message is told: it is a message.
        N::Undecodable { queue, offset, .. } => format!("undecodable {queue} {offset:?}"),
        N::CrcMismatch { queue, offset } => format!("crc {queue} {offset}"),
        N::Held { queue, reason } => format!("held {queue} {reason:?}"),
        N::NameServerUnreachable { addr, .. } => format!("name server {addr}"),
        N::TopicUnknown { topic, .. } => format!("topic {topic}"),
        N::TopicHasNoQueues { topic } => format!("no queues {topic}"),
        N::LinkDown { addr, .. } => format!("link {addr}"),
        N::PeerMisbehaved { addr, .. } => format!("misbehaved {addr}"),
        N::RequestRefused {
            by, request, code, ..
        } => format!("refused {by} {request} {code}"),
        N::NotInMemberList { broker } => format!("not a member {broker}"),
        N::AllocationFailed { topic, .. } => format!("allocation {topic}"),
        N::QueuesNotInTopic { topic, .. } => format!("not in topic {topic}"),
        N::OutsideOfAsked { queue, .. } => format!("outside {queue}"),
        N::SubscriptionsDiffer { member, .. } => format!("subscriptions {member:?}"),
        N::OffsetIllegal { queue, why, .. } => format!("illegal {queue} {why:?}"),
        N::OffsetReset { queue, .. } => format!("reset {queue}"),
        N::StartDecidedByBroker { queue, .. } => format!("start {queue}"),
        N::ProgressFellBack { queue, .. } => format!("fell back {queue}"),
        N::SendBackFailed { queue, .. } => format!("send back {queue}"),
        N::WrongOutcomes { queue, .. } => format!("outcomes {queue}"),
        N::LockLost { queue, .. } => format!("lock lost {queue}"),
        N::LockRefused { queue, .. } => format!("lock refused {queue}"),
        N::Dropped { queue, .. } => format!("dropped {queue}"),
        N::BackupUsed { place, .. } | N::StartedOver { place, .. } => format!("loaded {place}"),
        N::SaveFailed { place, .. } => format!("save {place}"),
        N::CommitFailed { queue, .. } => format!("commit {queue}"),
        N::ClockWentBack { .. } => String::from("clock"),
        N::RequestNotServed { addr, code, .. } => format!("not served {addr} {code}"),
        N::UnexpectedRequest { addr, code } => format!("request {addr} {code}"),
    };
    Some(subject)
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;
    use crate::consumer::bench::Bench;
    use crate::event::NetCause;
    use crate::ids::Topic;
    use crate::status::LinkTrouble;

    const INTERVAL_MS: u64 = 10_000;

    const fn gate() -> Notices {
        Notices::new(Duration::from_millis(INTERVAL_MS))
    }

    fn no_queues(topic: &str) -> NoticeKind {
        let topic = Topic::from(topic);
        NoticeKind::TopicHasNoQueues { topic }
    }

    fn link_down(port: u16, cause: NetCause) -> NoticeKind {
        NoticeKind::LinkDown {
            addr: crate::ids::PeerAddr::new("10.0.0.1", port),
            cause: LinkTrouble::Net(cause),
        }
    }

    /// Times and counts of what was told.
    fn told(bench: &mut Bench) -> Vec<(u64, u64)> {
        let notices = bench.notices();
        notices
            .iter()
            .map(|notice| (notice.at.as_millis(), notice.repeated))
            .collect()
    }

    #[test]
    fn the_same_is_told_at_once_and_then_once_an_interval_with_a_count() {
        let (mut gate, mut bench) = (gate(), Bench::new());
        for at in [0, 1, 5_000, 9_999, 10_000, 10_001, 30_000, 30_001] {
            gate.tell(&mut bench.at(at), None, no_queues("T"));
        }
        assert_eq!(told(&mut bench), [(0, 0), (10_000, 3), (30_000, 1)]);
    }

    #[test]
    fn another_kind_subject_or_group_is_another_matter() {
        let (mut gate, mut bench) = (gate(), Bench::new());
        let group = |name: &str| Some(ConsumerGroup::from(name));
        for (group, kind) in [
            (None, no_queues("T")),
            (None, no_queues("U")),
            (group("g"), no_queues("T")),
            (group("h"), no_queues("T")),
            (None, link_down(1, NetCause::Refused)),
            (None, link_down(2, NetCause::Refused)),
        ] {
            gate.tell(&mut bench.at(0), group, kind);
        }
        assert_eq!(told(&mut bench), [(0, 0); 6]);
        gate.tell(&mut bench.at(1), None, link_down(2, NetCause::Reset));
        assert_eq!(
            told(&mut bench),
            vec![],
            "a link that fails in another way is still the same link"
        );
    }

    #[test]
    fn edges_are_told_every_time() {
        let (mut gate, mut bench) = (gate(), Bench::new());
        for _ in 0..3 {
            gate.tell(&mut bench.at(0), None, NoticeKind::Ready);
        }
        assert_eq!(told(&mut bench), [(0, 0); 3]);
    }

    #[test]
    fn memory_for_subjects_is_bounded() {
        let (mut gate, mut bench) = (gate(), Bench::new());
        let fill = |gate: &mut Notices, bench: &mut Bench, at, prefix: &str| {
            for n in 0..SUBJECTS_MAX {
                let name = prefix.to_string() + &n.to_string();
                gate.tell(&mut bench.at(at), None, no_queues(&name));
            }
        };
        fill(&mut gate, &mut bench, 0, "a");
        assert_eq!(
            (told(&mut bench).len(), gate.told.len()),
            (SUBJECTS_MAX, SUBJECTS_MAX)
        );
        // All are old: they make room.
        gate.tell(&mut bench.at(INTERVAL_MS), None, no_queues("new"));
        assert_eq!((told(&mut bench), gate.told.len()), (vec![(INTERVAL_MS, 0)], 1));
        // None is old: rather told twice than remembered without end.
        fill(&mut gate, &mut bench, INTERVAL_MS, "b");
        assert!(gate.told.len() <= SUBJECTS_MAX);
        gate.tell(&mut bench.at(INTERVAL_MS + 1), None, no_queues("b0"));
        assert_eq!(told(&mut bench).last(), Some(&(INTERVAL_MS + 1, 0)));
    }
}
