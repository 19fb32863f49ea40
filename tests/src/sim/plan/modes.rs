//! How groups consume. Drawn apart, so that the rest of a world is as it was without it.

use rocketmq_consumer_core::config::{ConsumeMode, MessageModel};
use rocketmq_consumer_core::time::Instant;

use super::{Painter, ms, secs};
use crate::sim::dice::Dice;
use crate::sim::fault::Fault;
use crate::sim::invariant::Allowances;
use crate::sim::keep::{Damage, Disk};
use crate::sim::seen::MemberId;
use crate::sim::trouble::Trouble;

/// Of 100 worlds, how many consume in order.
const ORDERLY: u64 = 20;

/// Of 100 others, how many have members that all get everything.
const BROADCASTING: u64 = 13;

impl Painter {
    pub(super) fn draw_modes(&mut self) {
        let of_its_own = Dice::new(self.seed ^ 0x0DE5_A11D_0DE5_A11D);
        let of_the_rest = std::mem::replace(&mut self.dice, of_its_own);
        if self.dice.chance(ORDERLY) && self.troubles.has(Trouble::Orderly) {
            self.draw_orderly();
        } else if self.dice.chance(BROADCASTING) && self.troubles.has(Trouble::Broadcasting) {
            self.draw_broadcasting();
        }
        self.dice = of_the_rest;
    }

    /// All groups of the world consume in order, and now and then a broker forgets its locks.
    fn draw_orderly(&mut self) {
        let suspend = self.dice.time(ms(10)..secs(3));
        for member in &mut self.members {
            member
                .group
                .set_mode(ConsumeMode::Orderly)
                .set_suspend_time(suspend);
        }
        for _ in 0..self.dice.number(0..3) {
            let at = Instant::ZERO + self.dice.time(secs(5)..self.safety);
            let broker = self.dice.index(0..self.cluster.brokers.len());
            let broker = self.cluster.brokers[broker].name.clone();
            self.add(at, Fault::ExpireLocks(broker));
        }
    }

    /// The groups of all clients broadcast; those that are guests there share, as before.
    fn draw_broadcasting(&mut self) {
        let Allowances {
            equal_client_ids,
            different_subscriptions,
            java_members,
            ..
        } = self.allowances;
        if equal_client_ids || different_subscriptions || java_members {
            return;
        }
        let hosts = (0_u32..).zip(&mut self.members);
        let mut broadcasting = Vec::new();
        for (place, member) in hosts.filter(|(_, member)| member.host.is_none()) {
            member.group.set_model(MessageModel::Broadcasting);
            broadcasting.push(MemberId(place));
        }
        for member in broadcasting {
            for _ in 0..self.dice.number(0..3) {
                self.draw_bad_disk(member);
            }
            if self.dice.chance(40) {
                self.draw_damage(member);
            }
        }
    }

    fn draw_bad_disk(&mut self, member: MemberId) {
        let at = self.moment();
        let disk = Disk {
            slow: self.dice.time(ms(1)..secs(4)),
            fails: if self.dice.chance(50) {
                self.dice.number(0..1001)
            } else {
                0
            },
        };
        let lasts = self.dice.time(secs(1)..secs(60));
        self.add(at, Fault::Disk(member, disk));
        self.add(at + lasts, Fault::Disk(member, Disk::GOOD));
    }

    /// A crash, and what it leaves behind.
    fn draw_damage(&mut self, member: MemberId) {
        let at = self.moment();
        let damage = *self.dice.pick(&[Damage::Half, Damage::Zeros, Damage::Gone]);
        self.add(at, Fault::Kill { member, told: true });
        self.add(at + ms(1), Fault::Damage(member, damage));
        let away = self.dice.time(ms(2)..secs(20));
        self.add(at + away, Fault::Start(member));
    }
}
