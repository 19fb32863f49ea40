use std::collections::BTreeMap;
use std::time::Duration;

use rocketmq_consumer_core::notice::NoticeKind;
use rocketmq_consumer_core::time::Instant;

use crate::sim::seen::{Answer, Deed, Life, Sight, Sights};

/// How long an obstacle may still be one: a broker that is down is dialled again after ten seconds at most, and a
/// commit waits five for its link.
pub(in crate::sim) const OBSTACLE_LASTS: Duration = Duration::from_secs(15);

/// When members last met what may keep them from committing all they want to.
#[derive(Debug, Default)]
pub(in crate::sim) struct Obstacles(BTreeMap<Life, Instant>);

impl Obstacles {
    /// What [`see`](Self::see) has to be shown.
    pub(in crate::sim) const SIGHTS: Sights = Sights::ANSWERED.and(Sights::of(&[
        Sight::Disconnected,
        Sight::Dialled,
        Sight::DialFailed,
        Sight::Told,
    ]));

    /// Takes what was seen.
    pub(in crate::sim) fn see(&mut self, at: Instant, life: Life, deed: &Deed<'_>) {
        if is_obstacle(deed) {
            self.0.insert(life, at);
        }
    }

    /// Whether there was one shortly before.
    pub(in crate::sim) fn met(&self, at: Instant, life: Life) -> bool {
        let met = self.0.get(&life);
        met.is_some_and(|met| at.saturating_since(*met) < OBSTACLE_LASTS)
    }
}

fn is_obstacle(deed: &Deed<'_>) -> bool {
    match deed {
        Deed::Disconnected { .. } | Deed::DialFailed { .. } | Deed::Dialled { .. } => true,
        Deed::Answered {
            answer: Answer::Refused(_),
            ..
        } => true,
        Deed::Told(notice) => matches!(notice.kind, NoticeKind::CommitFailed { .. }),
        _ => false,
    }
}
