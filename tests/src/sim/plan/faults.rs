//! What is done to a world, and when.

use std::time::Duration;

use rocketmq_consumer_core::time::Instant;

use super::{Painter, ms, secs};
use crate::sim::fault::Fault;
use crate::sim::habits::Habits;
use crate::sim::network::Way;
use crate::sim::seen::MemberId;
use crate::sim::trouble::Trouble;

impl Painter {
    pub(super) fn draw_faults(&mut self) {
        let allowed: Vec<Trouble> = self.troubles.kinds().filter(|kind| kind.is_done()).collect();
        if allowed.is_empty() {
            return;
        }
        let mut on = allowed.clone();
        on.retain(|_| self.dice.chance(60));
        if on.is_empty() {
            on = allowed;
        }
        // One kind may be taken to its extreme.
        if self.dice.chance(30) {
            let favourite = *self.dice.pick(&on);
            on.extend([favourite; 8]);
        }
        for _ in 0..self.dice.number(4..15) {
            let trouble = *self.dice.pick(&on);
            self.draw_fault(trouble);
        }
    }

    pub(super) fn draw_fault(&mut self, trouble: Trouble) {
        let at = self.moment();
        let member = MemberId(u32::try_from(self.dice.index(0..self.members.len())).unwrap_or(0));
        let node = self.node(|_| true);
        let broker = {
            let index = self.dice.index(0..self.cluster.brokers.len());
            self.cluster.brokers[index].name.clone()
        };
        match trouble {
            Trouble::Disconnect if self.dice.chance(30) => self.add(at, Fault::DisconnectAll(node)),
            Trouble::Disconnect => self.add(at, Fault::Disconnect(member, node)),
            Trouble::Cut => {
                let lasts = self.dice.time(ms(100)..secs(60));
                let ways: &[Way] = match self.dice.number(0..3) {
                    0 => &[Way::ToNode],
                    1 => &[Way::ToMember],
                    _ => &[Way::ToNode, Way::ToMember],
                };
                for (index, way) in ways.iter().enumerate() {
                    self.add(at, Fault::Cut(member, node, *way));
                    self.add(at + lasts + ms(index as u64), Fault::Mend(member, node, *way));
                }
            }
            Trouble::Weather => {
                let (bad, good) = (self.draw_weather(true), self.draw_weather(false));
                let lasts = self.dice.time(secs(1)..secs(60));
                self.add(at, Fault::Weather(bad));
                self.add(at + lasts, Fault::Weather(good));
            }
            Trouble::Stall => {
                let most = if self.dice.chance(20) { secs(60) } else { secs(5) };
                let time = self.dice.time(ms(10)..most);
                self.add(at, Fault::Stall(member, time));
            }
            Trouble::Crash => {
                let told = self.dice.chance(70);
                self.add(at, Fault::Kill { member, told });
                let away = self.dice.time(ms(1)..secs(40));
                self.add(at + away, Fault::Start(member));
            }
            Trouble::Leave => {
                let drain = self.dice.time(Duration::ZERO..secs(5));
                self.add(at, Fault::Leave(member, drain));
                let away = self.dice.time(secs(1)..secs(40));
                self.add(at + away, Fault::Start(member));
                // It may not have left by the first attempt.
                self.add(at + secs(60), Fault::Start(member));
            }
            Trouble::BrokerCrash => self.draw_outage(at, false),
            Trouble::Failover => self.draw_outage(at, true),
            Trouble::NameServer => {
                let server = self.node(|node| node.is_none());
                let killed = true;
                let silent = self.dice.chance(20);
                self.add(
                    at,
                    Fault::Down {
                        node: server,
                        killed,
                        silent,
                    },
                );
                let away = self.dice.time(secs(1)..secs(60));
                self.add(at + away, Fault::Up(server));
            }
            Trouble::LostAnswer => {
                let effect = self.draw_loss();
                self.draw_rule(at, effect);
            }
            Trouble::LateAnswer => {
                let effect = self.draw_delay();
                self.draw_rule(at, effect);
            }
            Trouble::Refusal if self.dice.chance(25) => self.draw_refused_send_backs(at),
            Trouble::Refusal => {
                let effect = self.draw_refusal();
                self.draw_rule(at, effect);
            }
            Trouble::Notification => self.draw_notification(at),
            Trouble::Queues => {
                let topic = self.dice.pick(&self.cluster.topics).clone();
                let queues = self.dice.number(1..u64::from(topic.read_queues) + 4);
                let queues = u32::try_from(queues).unwrap_or(1);
                self.add(at, Fault::Queues(topic.name, broker, queues));
            }
            Trouble::StaleRoutes => {
                let server = self.node(|node| node.is_none());
                let lasts = self.dice.time(secs(5)..secs(90));
                self.add(at, Fault::Freeze(server, true));
                self.add(at + lasts, Fault::Freeze(server, false));
            }
            Trouble::Clocks => {
                let far = [-86_400_000, -5_000, 3_000, 3_600_000, 86_400_000_000];
                let off = *self.dice.pick(&far);
                if self.dice.chance(50) {
                    self.add(at, Fault::Clock(member, off));
                } else {
                    self.add(at, Fault::BrokerClock(off));
                }
            }
            Trouble::Handlers => {
                let (good, mut bad) = (self.draw_habits(), self.draw_bad_habits());
                if self.javas.contains(&(member.0 as usize)) {
                    bad.hangs = 0;
                }
                let lasts = self.dice.time(secs(1)..secs(60));
                self.add(at, Fault::Handlers(member, bad));
                self.add(at + lasts, Fault::Handlers(member, good));
            }
            Trouble::Reset => {
                let topic = self.dice.pick(&self.cluster.topics).name.clone();
                let group = self.members[member.0 as usize].group.group().clone();
                let per_mille = self.dice.number(0..1001);
                self.add(at, Fault::Reset(group, topic, per_mille));
            }
            Trouble::OldOffsets => {
                let master = self.node(|replica| replica == Some(0));
                let (name, by) = (self.broker_of(master), self.dice.number(1..200));
                let killed = self.dice.chance(50);
                let down = Fault::Down {
                    node: master,
                    killed,
                    silent: false,
                };
                self.allowances.offsets_lost = true;
                self.add(at, down);
                self.add(at + ms(50), Fault::Rewind(name, by));
                let away = self.dice.time(ms(100)..secs(60));
                self.add(at + away, Fault::Up(master));
            }
            Trouble::Permissions => {
                let topic = self.dice.pick(&self.cluster.topics).name.clone();
                let lasts = self.dice.time(secs(1)..secs(60));
                // Whether it may be written is nothing to a consumer.
                self.add(at, Fault::Permission(topic.clone(), broker.clone(), 2));
                self.add(at + lasts, Fault::Permission(topic, broker, 6));
            }
            Trouble::Joining => {
                // Nobody has seen it before.
                let at = at.min(Instant::ZERO + secs(60));
                for node in self.replicas_of(&broker) {
                    let (killed, silent) = (false, false);
                    self.add(Instant::ZERO + ms(1), Fault::Down { node, killed, silent });
                    self.add(at, Fault::Up(node));
                }
            }
            // They are drawn with the members.
            Trouble::Java
            | Trouble::Twins
            | Trouble::Subscriptions
            | Trouble::Groups
            | Trouble::Orderly
            | Trouble::Broadcasting
            | Trouble::Flow
            | Trouble::Seek => {}
        }
    }

    pub(super) fn draw_outage(&mut self, at: Instant, failover: bool) {
        let is_master = |replica: Option<i64>| replica == Some(0);
        let node = if failover {
            self.node(is_master)
        } else {
            self.node(|replica| replica.is_some())
        };
        let (killed, silent) = (self.dice.chance(70), self.dice.chance(20));
        if failover {
            let lag = self.dice.time(Duration::ZERO..secs(20));
            let name = self.broker_of(node);
            self.add(at - secs(1), Fault::Lag(name, lag));
        }
        self.add(at, Fault::Down { node, killed, silent });
        // Members that miss a broker ask for routes every second.
        let most = if self.dice.chance(15) { secs(90) } else { secs(20) };
        let away = self.dice.time(ms(100)..most);
        self.add(at + away, Fault::Up(node));
    }

    pub(super) fn draw_bad_habits(&mut self) -> Habits {
        let mut habits = self.draw_habits();
        match self.dice.number(0..5) {
            0 => habits.fails = 500,
            1 => habits.panics = 1000,
            2 => habits.hangs = self.dice.number(20..300),
            3 => {
                habits.slows = 800;
                habits.extends = 300;
                habits.slow = self.dice.time(secs(1)..secs(20));
            }
            _ => {
                habits.fails = 100;
                habits.hangs = 30;
                habits.slows = 300;
                habits.slow = secs(2);
                habits.lane = secs(1);
            }
        }
        habits
    }
}
