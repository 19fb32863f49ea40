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
        if let Some(subject) = subject(&kind) {
            if self.told.len() >= SUBJECTS_MAX {
                let interval = self.interval;
                self.told
                    .retain(|_, told| cx.now.saturating_since(told.at) < interval);
                if self.told.len() >= SUBJECTS_MAX {
                    self.told.clear();
                }
            }
            let told = self.told.get_mut(&(group.clone(), subject.clone()));
            match told {
                Some(told) if cx.now.saturating_since(told.at) < self.interval => {
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
        | N::LinkUp { .. }
        | N::DeliveryDeadline { .. } => return None,
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
        N::OutsideOfAsked { queue, .. } => format!("outside {queue}"),
        N::OffsetMoved { queue, .. } => format!("moved {queue}"),
        N::SendBackFailed { queue, .. } => format!("send back {queue}"),
        N::CommitFailed { queue, .. } => format!("commit {queue}"),
        N::ClockWentBack { .. } => String::from("clock"),
        N::UnexpectedRequest { addr, code } => format!("request {addr} {code}"),
    };
    Some(subject)
}
