//! Who takes part: members, their groups, and second groups on their clients.

use std::time::Duration;

use rocketmq_consumer_core::allocate::AllocateStrategy;
use rocketmq_consumer_core::config::{ClientConfig, GroupConfig, IllegalOffsetPolicy, StartAt};
use rocketmq_consumer_core::ids::{ConsumerGroup, PeerAddr, Topic};
use rocketmq_consumer_core::time::Instant;

use super::{MemberPlan, Painter, ms, secs};
use crate::sim::dice::Dice;
use crate::sim::fault::Fault;
use crate::sim::habits::Habits;
use crate::sim::seen::{Kind, MemberId};
use crate::sim::trouble::Trouble;

/// The longest that any handler's delivery may take in a drawn world.
pub(super) const DELIVERY_DEADLINE_MAX: Duration = secs(40);

/// The number in the name of a second group of clients; the others count from 0.
const TENANT_GROUP: usize = 7;

impl Painter {
    pub(super) fn draw_members(&mut self) {
        let groups = if self.dice.chance(15) { 2 } else { 1 };
        let members = *self.dice.pick(&[2, 2, 2, 2, 3, 3, 3, 3, 3, 4]);
        let settings: Vec<GroupConfig> = (0..groups).map(|group| self.draw_group(group)).collect();
        let equal_ids = members > groups + 1 && self.dice.chance(4) && self.troubles.has(Trouble::Twins);
        let different =
            members > groups + 1 && self.dice.chance(4) && self.troubles.has(Trouble::Subscriptions);
        let habits = self.draw_habits();
        let mixed = !equal_ids && self.dice.chance(30) && self.troubles.has(Trouble::Java);
        if mixed {
            for strategy in &mut self.strategies {
                if matches!(strategy, AllocateStrategy::Own(_)) {
                    *strategy = AllocateStrategy::Averagely;
                }
            }
        }
        if mixed && self.dice.chance(92) {
            // A slave whose master is back says "again, at once, from the master", and a Java client that has not
            // heard of the master's return asks the slave again, a few hundred times a second for up to 30 s.
            // That is so in life, and too dear for every world.
            for broker in &mut self.cluster.brokers {
                broker.replicas.retain(|id, _| *id == 0);
            }
        }
        for index in 0..members {
            let mut group = settings[index % groups].clone();
            // A place in the list that is not that of the age: the order of ids is that of text.
            let mut id = format!("10.0.2.{}@{}", self.dice.number(1..250), 1000 + index);
            if equal_ids && index == groups {
                self.allowances.equal_client_ids = true;
                id = self.members[0].client.client_id().to_string();
            }
            if different && index == groups {
                self.allowances.different_subscriptions = true;
                let mut other = GroupConfig::new(group.group().clone());
                other.set_start_at(StartAt::Earliest);
                other.subscribe(self.cluster.topics[0].name.clone(), "a");
                group = other;
            }
            group.set_strategy(self.strategies[index % groups].clone());
            let servers: Vec<PeerAddr> = self.cluster.name_servers.clone();
            let late = self.dice.chance(30);
            let begins = if late {
                self.moment()
            } else {
                Instant::ZERO + self.dice.time(Duration::ZERO..secs(5))
            };
            let is_java = mixed && self.dice.chance(50);
            if is_java {
                self.allowances.java_members = true;
                // A Java client has no deadline for its listeners but one of 15 minutes.
                self.javas.push(index);
            }
            let mut client = ClientConfig::new(id.as_str().into(), servers);
            client.set_route_retry(self.dice.time(secs(1)..secs(6)));
            let member = MemberPlan {
                kind: if is_java { Kind::Java } else { Kind::Ours },
                host: None,
                client,
                group,
                habits,
                begins,
                timer_lag: if self.dice.chance(20) {
                    self.dice.time(Duration::ZERO..ms(10))
                } else {
                    Duration::ZERO
                },
                timers_first: self.dice.chance(20),
            };
            let place = MemberId(u32::try_from(self.members.len()).unwrap_or(u32::MAX));
            self.members.push(member);
            self.add(begins, Fault::Start(place));
        }
    }

    /// One world in six has clients that hold a second group, which may leave and come back while the client goes
    /// on. They are drawn apart, so that the rest of a world is as it was without them.
    pub(super) fn draw_tenants(&mut self) {
        let of_its_own = Dice::new(self.seed ^ 0x7E4A_4755_7E4A_4755);
        let of_the_rest = std::mem::replace(&mut self.dice, of_its_own);
        if self.troubles.has(Trouble::Groups) && self.dice.chance(17) {
            let group = self.draw_group(TENANT_GROUP);
            let hosts: Vec<usize> = (0..self.members.len())
                .filter(|host| !self.javas.contains(host))
                .collect();
            for (place, host) in hosts.into_iter().enumerate() {
                if place == 0 || self.dice.chance(60) {
                    self.draw_tenant(host, group.clone());
                }
            }
        }
        self.dice = of_the_rest;
    }

    pub(super) fn draw_tenant(&mut self, host: usize, group: GroupConfig) {
        let begins = if self.dice.chance(50) {
            self.members[host].begins
        } else {
            self.members[host].begins.max(self.moment())
        };
        let member = MemberPlan {
            host: Some(MemberId(u32::try_from(host).unwrap_or(u32::MAX))),
            group,
            begins,
            habits: self.draw_habits(),
            ..self.members[host].clone()
        };
        let place = MemberId(u32::try_from(self.members.len()).unwrap_or(u32::MAX));
        self.members.push(member);
        self.add(begins, Fault::Start(place));
        for _ in 0..self.dice.number(0..3) {
            let at = self.moment();
            let drain = self.dice.time(Duration::ZERO..secs(5));
            self.add(at, Fault::Leave(place, drain));
            let away = self.dice.time(ms(1)..secs(40));
            self.add(at + away, Fault::Start(place));
            // It may not have left by the first attempt.
            self.add(at + secs(60), Fault::Start(place));
        }
    }

    pub(super) fn draw_group(&mut self, number: usize) -> GroupConfig {
        let mut group = GroupConfig::new(ConsumerGroup::from(format!("G{number}")));
        group.set_start_at(StartAt::Earliest);
        let topics: Vec<Topic> = self
            .cluster
            .topics
            .iter()
            .map(|topic| topic.name.clone())
            .collect();
        for topic in topics {
            let expression = if self.dice.chance(75) { "*" } else { "a || b" };
            group.subscribe(topic, expression);
        }
        group.set_delivery_deadline(self.dice.time(secs(15)..DELIVERY_DEADLINE_MAX));
        if self.dice.chance(30) {
            let count = u32::try_from(self.dice.number(1..40)).unwrap_or(1);
            group.set_queue_count_max(count);
        }
        if self.dice.chance(20) {
            let span = u32::try_from(self.dice.number(1..60)).unwrap_or(1);
            group.set_queue_span_max(span);
        }
        if self.dice.chance(20) {
            group.set_queue_bytes_max(self.dice.number(1..200));
        }
        if self.dice.chance(30) {
            let batch = u32::try_from(self.dice.number(1..33)).unwrap_or(1);
            group.set_pull_batch(batch);
        }
        if self.dice.chance(40) {
            let permits = u32::try_from(self.dice.number(1..8)).unwrap_or(1);
            group.set_concurrency(permits);
        }
        if self.dice.chance(25) {
            let times = u32::try_from(self.dice.number(0..3)).unwrap_or(0);
            group.set_max_reconsume(times);
        }
        let policies = [
            IllegalOffsetPolicy::Resume,
            IllegalOffsetPolicy::Follow,
            IllegalOffsetPolicy::Earliest,
            IllegalOffsetPolicy::Latest,
            IllegalOffsetPolicy::Hold,
        ];
        group.set_illegal_offset(*self.dice.pick(&policies));
        group
    }

    pub(super) fn draw_habits(&mut self) -> Habits {
        let mut habits = Habits {
            quick: self.dice.time(Duration::ZERO..ms(50)),
            lane: self.dice.time(Duration::ZERO..ms(20)),
            ..Habits::GOOD
        };
        if self.dice.chance(50) && self.troubles.has(Trouble::Handlers) {
            habits.fails = self.dice.number(0..50);
            habits.panics = self.dice.number(0..10);
            habits.fails_with_delay = self.dice.number(0..20);
            habits.buries = self.dice.number(0..10);
        }
        habits
    }
}
