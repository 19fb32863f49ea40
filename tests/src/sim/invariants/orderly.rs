use std::collections::BTreeSet;

use rocketmq_consumer_core::config::{ConsumeMode, MessageModel};

use crate::sim::invariant::View;
use crate::sim::seen::{Deed, Kind, Life, Sight, Sights};

/// Which living members of ours consume in order under locks. In most worlds none does, and rules about them
/// cost one look.
#[derive(Debug, Default)]
pub(super) struct Orderly(BTreeSet<Life>);

impl Orderly {
    /// What [`see`](Self::see) has to be shown, to know.
    pub(super) const LIVES: Sights = Sights::of(&[Sight::Begun, Sight::Over]);

    /// Takes what was seen. Whether it is of such a member.
    #[inline]
    pub(super) fn see(&mut self, life: Life, deed: &Deed<'_>, view: &dyn View) -> bool {
        if let Deed::Begun { kind: Kind::Ours, .. } = deed {
            let config = view.config(life);
            if *config.mode() == ConsumeMode::Orderly && *config.model() == MessageModel::Clustering {
                self.0.insert(life);
            }
        }
        if self.0.is_empty() {
            return false;
        }
        if matches!(deed, Deed::Killed | Deed::Closed) {
            return self.0.remove(&life);
        }
        self.0.contains(&life)
    }
}
