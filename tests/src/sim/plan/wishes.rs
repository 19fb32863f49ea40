//! What the applications of members want while they run. Drawn apart, so that the rest of a world is as it was
//! without it.

use rocketmq_consumer_core::event::FlowScope;
use rocketmq_consumer_core::ids::{MessageQueue, QueueId};
use rocketmq_consumer_core::rate::Rate;
use rocketmq_consumer_core::time::Instant;

use super::{Painter, ms, secs};
use crate::sim::dice::Dice;
use crate::sim::fault::Fault;
use crate::sim::seen::{Kind, MemberId};
use crate::sim::trouble::Trouble;
use crate::sim::wishes::Wanted;

/// Of 100 worlds, in how many applications pause, slow down and change their minds; and in how many they seek.
const FLOW: u64 = 20;
const SEEK: u64 = 10;

impl Painter {
    pub(super) fn draw_wishes(&mut self) {
        let of_its_own = Dice::new(self.seed ^ 0xF10E_5EE4_F10E_5EE4);
        let of_the_rest = std::mem::replace(&mut self.dice, of_its_own);
        let (flow, seek) = (self.dice.chance(FLOW), self.dice.chance(SEEK));
        for _ in 0..self.dice.number(1..6) {
            if flow && self.troubles.has(Trouble::Flow) {
                self.draw_flow();
            }
        }
        for _ in 0..self.dice.number(1..4) {
            if seek && self.troubles.has(Trouble::Seek) {
                self.draw_seek();
            }
        }
        self.dice = of_the_rest;
    }

    /// A moment, and a member of ours.
    fn whose_wish(&mut self) -> Option<(Instant, MemberId)> {
        let at = self.moment();
        let index = self.dice.index(0..self.members.len());
        let is_ours = self.members[index].kind == Kind::Ours;
        is_ours.then(|| (at, MemberId(u32::try_from(index).unwrap_or(0))))
    }

    fn draw_flow(&mut self) {
        let lasts = self.dice.time(ms(100)..secs(40));
        let Some((at, member)) = self.whose_wish() else {
            return;
        };
        let (now, later) = match self.dice.number(0..4) {
            0 | 1 => {
                let scope = self.draw_scope();
                (Wanted::Pause(scope.clone()), Some(Wanted::Resume(scope)))
            }
            2 => {
                let permits = u32::try_from(self.dice.number(1..9)).unwrap_or(1);
                (Wanted::Permits(permits), None)
            }
            _ => {
                let topic = self.dice.chance(50).then(|| self.cluster.topics[0].name.clone());
                let number = |dice: &mut Dice, most| u32::try_from(dice.number(1..most)).unwrap_or(1);
                let rate = Rate::per_second(number(&mut self.dice, 60));
                let rate = rate.with_burst(number(&mut self.dice, 10));
                let none = Wanted::Rate(topic.clone(), None);
                (Wanted::Rate(topic, Some(rate)), Some(none))
            }
        };
        self.add(at, Fault::Want(member, now));
        if let Some(later) = later {
            self.add(at + lasts, Fault::Want(member, later));
        }
    }

    fn draw_scope(&mut self) -> FlowScope {
        let topic = self.dice.pick(&self.cluster.topics).clone();
        let broker = self.dice.pick(&self.cluster.brokers).name.clone();
        let id = self.dice.number(0..u64::from(topic.read_queues.max(1)));
        match self.dice.number(0..3) {
            0 => FlowScope::Group,
            1 => FlowScope::Topic(topic.name),
            _ => FlowScope::from(MessageQueue {
                topic: topic.name,
                broker,
                id: QueueId(i32::try_from(id).unwrap_or(0)),
            }),
        }
    }

    fn draw_seek(&mut self) {
        let per_mille = self.dice.number(0..1001);
        if let Some((at, member)) = self.whose_wish() {
            self.add(at, Fault::Want(member, Wanted::Seek(per_mille)));
        }
    }
}
