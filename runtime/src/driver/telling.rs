use rocketmq_consumer_core::action::{Refusal, ShutdownReport};
use rocketmq_consumer_core::ids::ConsumerGroup;
use rocketmq_consumer_core::notice::{Notice, NoticeKind};

use super::Driver;
use super::groups::Group;
use crate::error::{FilterRefusal, StartError};
use crate::machine::Machine;
use crate::notices;
use crate::runtime::Runtime;

/// Tells those who wait what the machine says.
impl<R: Runtime, M: Machine> Driver<R, M> {
    pub(super) fn forget(&mut self, group: &ConsumerGroup, report: &ShutdownReport) {
        let Some(mut stopped) = self.groups.remove(group) else {
            return;
        };
        let waiting = std::mem::take(&mut stopped.awaiting_stop);
        // First its name and its lanes are given free: who is told may start it again at once.
        stopped.end();
        for reply in waiting {
            let _gone = reply.send(report.clone());
        }
    }

    pub(super) fn refused(&mut self, refusal: Refusal) {
        let Refusal { group, wish, why } = refusal;
        if let Some(taken) = &mut self.putting {
            *taken = Err(why);
            return;
        }
        tracing::warn!(target: "rocketmq", group = group.as_ref().map(tracing::field::display), wish, %why, "refused");
        let Some(name) = group else { return };
        let starting = self
            .groups
            .by_name(&name)
            .is_some_and(|group| group.is_starting());
        if starting && let Some(mut refused) = self.groups.remove(&name) {
            refused.started(Err(StartError::Refused(why)));
            refused.end();
        }
    }

    pub(super) fn notice(&mut self, notice: &Notice) {
        notices::log(notice);
        self.notices.publish(notice);
        match &notice.group {
            None => self.groups.iter().for_each(|group| group.notices.publish(notice)),
            Some(name) => {
                if let Some(group) = self.groups.by_name(name) {
                    group.notices.publish(notice);
                    follow(group, &notice.kind);
                }
            }
        }
    }
}

/// What a notice answers of what a group's users wait for.
#[expect(clippy::wildcard_enum_match_arm, reason = "nobody waits for most of them")]
fn follow(group: &mut Group, kind: &NoticeKind) {
    match kind {
        NoticeKind::Ready => group.set_ready(),
        NoticeKind::SubscriptionChanged { topic, filter } => {
            group.subscription_changed(topic, filter.as_ref())
        }
        NoticeKind::FilterRefused {
            topic,
            filter,
            by,
            code,
            remark,
        } => group.filter_refused(FilterRefusal {
            topic: topic.clone(),
            filter: filter.clone(),
            by: by.clone(),
            code: *code,
            remark: remark.clone(),
        }),
        _ => {}
    }
}
