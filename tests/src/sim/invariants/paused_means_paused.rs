//! What is paused is neither pulled nor handed out.
//!
//! Source: issue "Modes", 4; OF-28 and FC-08. The group, each topic and each queue have a switch of their own; what is
//! handed out flows only while none of its three is off. A new life of a member begins with all of them on.
//!
//! Legal all the same: what handlers have goes on, a pull under way is answered, and one that waited for its link is
//! written.

use std::collections::{BTreeMap, BTreeSet};

use rocketmq_consumer_core::event::{AppEvent, FlowScope};
use rocketmq_consumer_core::ids::{MessageQueue, Topic};

use crate::sim::invariant::{Broken, Invariant, View};
use crate::sim::seen::{Ask, Deed, Life, QueueNo, Seen, Sight, Sights, What};

/// The switches of one life that are off.
#[derive(Debug, Default)]
struct Off {
    group: bool,
    topics: BTreeSet<Topic>,
    queues: BTreeSet<MessageQueue>,
}

impl Off {
    fn set(&mut self, scope: &FlowScope, off: bool) {
        match scope {
            FlowScope::Group => self.group = off,
            FlowScope::Topic(topic) if off => _ = self.topics.insert(topic.clone()),
            FlowScope::Topic(topic) => _ = self.topics.remove(topic),
            FlowScope::Queue(queue) if off => _ = self.queues.insert((**queue).clone()),
            FlowScope::Queue(queue) => _ = self.queues.remove(queue),
            _ => {}
        }
    }

    fn stops(&self, queue: &MessageQueue) -> bool {
        self.group || self.topics.contains(&queue.topic) || self.queues.contains(queue)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct PausedMeansPaused {
    off: BTreeMap<Life, Off>,
}

impl PausedMeansPaused {
    fn check(&self, life: Life, queue: QueueNo, what: &str, view: &dyn View) -> Result<(), Broken> {
        let name = view.queue(queue);
        let off = self.off.get(&life).filter(|off| off.stops(name));
        off.map_or(Ok(()), |off| {
            Err(Broken(format!("{life:?} {what} {name}, paused is {off:?}")))
        })
    }
}

impl Invariant for PausedMeansPaused {
    fn name(&self) -> &'static str {
        "paused_means_paused"
    }

    fn looks_at(&self) -> Sights {
        Sights::of(&[Sight::Wished, Sight::Delivered, Sight::AskedPull, Sight::Over])
    }

    fn see(&mut self, seen: &Seen<'_>, view: &dyn View) -> Result<(), Broken> {
        let What::Member { life, deed } = seen.what else {
            return Ok(());
        };
        if let Deed::Wished(AppEvent::Pause { scope, .. }) = deed {
            self.off.entry(life).or_default().set(scope, true);
        }
        if self.off.is_empty() {
            return Ok(());
        }
        match deed {
            Deed::Wished(AppEvent::Resume { scope, .. }) => {
                self.off.entry(life).or_default().set(scope, false);
            }
            Deed::Delivered { queue, .. } => return self.check(life, queue, "delivers from", view),
            Deed::Asked {
                conn,
                ask: Ask::Pull { queue, .. },
                ..
            } if !view.tenures().may_have_waited(life, conn) => {
                return self.check(life, queue, "pulls", view);
            }
            Deed::Killed | Deed::Closed => _ = self.off.remove(&life),
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::bench::Bench;
    use super::*;

    fn queue() -> FlowScope {
        FlowScope::Queue(Box::new(MessageQueue {
            topic: "T".into(),
            broker: "a".into(),
            id: rocketmq_consumer_core::ids::QueueId(0),
        }))
    }

    fn scopes() -> [FlowScope; 3] {
        [FlowScope::Group, FlowScope::Topic("T".into()), queue()]
    }

    fn wish(bench: &mut Bench<PausedMeansPaused>, scope: FlowScope, pause: bool) {
        let group = "G".into();
        let event = if pause {
            AppEvent::Pause { group, scope }
        } else {
            AppEvent::Resume { group, scope }
        };
        bench.deed(Deed::Wished(&event));
    }

    fn paused(scope: FlowScope) -> Bench<PausedMeansPaused> {
        let mut bench = Bench::new(PausedMeansPaused::default());
        bench.ours().assign(1, 100);
        wish(&mut bench, scope, true);
        bench
    }

    #[test]
    fn each_switch_stops_what_is_behind_it() {
        for scope in scopes() {
            paused(scope.clone()).deliver(1, 100..101).breaks("delivers from");
            paused(scope.clone()).pull(100, None).breaks("pulls");
            let mut resumed = paused(scope.clone());
            wish(&mut resumed, scope, false);
            resumed.pull(100, None).deliver(1, 100..101).legal();
        }
        paused(FlowScope::Topic("U".into()))
            .pull(100, None)
            .deliver(1, 100..101)
            .legal();
    }

    #[test]
    fn a_switch_does_not_turn_another_one_on() {
        for (off, on) in [(0, 1), (1, 2), (2, 0)] {
            let mut bench = paused(scopes()[off].clone());
            wish(&mut bench, scopes()[on].clone(), false);
            bench.deliver(1, 100..101).breaks("delivers from");
        }
    }

    #[test]
    fn another_life_is_not_paused_and_a_pull_may_have_waited() {
        let mut other = paused(FlowScope::Group);
        other.as_life(1).ours().deliver(1, 100..101).legal();
        paused(FlowScope::Group).connected().pull(100, None).legal();
        let mut ended = paused(FlowScope::Group);
        ended.deed(Deed::Killed).ours().deliver(1, 100..101).legal();
    }
}
