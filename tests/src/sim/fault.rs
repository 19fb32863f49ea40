//! Faults as data: what is done to a world, and what mends it.

use std::time::Duration;

use rocketmq_consumer_core::broker::config::TopicConfig;
use rocketmq_consumer_core::broker::event::Control;
use rocketmq_consumer_core::broker::rule::Rule;
use rocketmq_consumer_core::ids::{BrokerName, ConsumerGroup, Topic};

use super::engine::World;
use super::habits::Habits;
use super::keep::{Damage, Disk};
use super::network::{Way, Weather};
use super::seen::{MemberId, NodeNo, Upheaval, What};
use super::wishes::Wanted;

/// One thing that is done to a world.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Fault {
    /// The connections between a member and a node break.
    Disconnect(MemberId, NodeNo),
    /// All connections to a node break.
    DisconnectAll(NodeNo),
    /// Nothing passes one way between a member and a node.
    Cut(MemberId, NodeNo, Way),
    /// It passes again, and what was held back with it.
    Mend(MemberId, NodeNo, Way),
    /// The network is like this from now on.
    Weather(Weather),
    /// A process stands still for a while.
    Stall(MemberId, Duration),
    /// A process is killed. `told`: its connections are closed; otherwise its machine died with it.
    Kill {
        /// Whose.
        member: MemberId,
        /// Whether nodes learn of it.
        told: bool,
    },
    /// A process leaves in order.
    Leave(MemberId, Duration),
    /// A new process begins, unless one runs.
    Start(MemberId),
    /// A node goes down.
    Down {
        /// Which.
        node: NodeNo,
        /// Whether it loses the offsets it has not flushed.
        killed: bool,
        /// Whether it closes no connection.
        silent: bool,
    },
    /// It runs again.
    Up(NodeNo),
    /// Requests are treated so from now on.
    Rule(Rule),
    /// No rule counts any more.
    NoRules,
    /// A topic has so many queues on a broker.
    Queues(Topic, BrokerName, u32),
    /// A topic may be read (4), written (2) or both on a broker.
    Permission(Topic, BrokerName, i32),
    /// A name server goes on telling what it knows now, or tells the truth again.
    Freeze(NodeNo, bool),
    /// A broker says that a group changed, although it did not.
    Notify(BrokerName, ConsumerGroup),
    /// Slaves of a broker are this far behind.
    Lag(BrokerName, Duration),
    /// A topic is deleted everywhere; [`Fault::Queues`] makes it again.
    Delete(Topic),
    /// An operator resets a group in every queue of a topic, to so many thousandths of what is there.
    Reset(ConsumerGroup, Topic, u64),
    /// A broker's offsets of all groups are those of an older file: so many messages lower.
    Rewind(BrokerName, u64),
    /// All queue locks of a broker expire.
    ExpireLocks(BrokerName),
    /// The brokers' wall clock jumps.
    BrokerClock(i64),
    /// A member's wall clock is this many milliseconds off.
    Clock(MemberId, i64),
    /// Handlers behave like this from now on.
    Handlers(MemberId, Habits),
    /// The disk that a member keeps its offsets on behaves like this from now on.
    Disk(MemberId, Disk),
    /// What a member keeps is damaged, unless it has nothing else to begin with. It notices at its next start.
    Damage(MemberId, Damage),
    /// The application of a member wants something of it.
    Want(MemberId, Wanted),
}

impl Fault {
    /// Whether it takes back what another one did; such are not counted.
    #[must_use]
    pub const fn is_repair(&self) -> bool {
        match self {
            Self::Want(_, Wanted::Resume(_) | Wanted::Rate(_, None)) => true,
            Self::Mend(..) | Self::Start(_) | Self::Up(_) | Self::NoRules | Self::Freeze(_, false) => true,
            Self::Disconnect(..)
            | Self::DisconnectAll(_)
            | Self::Cut(..)
            | Self::Weather(_)
            | Self::Stall(..)
            | Self::Kill { .. }
            | Self::Leave(..)
            | Self::Down { .. }
            | Self::Rule(_)
            | Self::Queues(..)
            | Self::Permission(..)
            | Self::Freeze(_, true)
            | Self::Notify(..)
            | Self::Lag(..)
            | Self::Delete(_)
            | Self::Reset(..)
            | Self::Rewind(..)
            | Self::ExpireLocks(_)
            | Self::BrokerClock(_)
            | Self::Clock(..)
            | Self::Handlers(..)
            | Self::Disk(..)
            | Self::Damage(..)
            | Self::Want(..) => false,
        }
    }

    pub(crate) fn apply(&self, world: &mut World) {
        match self {
            Self::Disconnect(member, node) => world.disconnect(Some(*member), Some(*node)),
            Self::DisconnectAll(node) => world.disconnect(None, Some(*node)),
            Self::Cut(member, node, way) => world.cut(*member, *node, *way),
            Self::Mend(member, node, way) => world.mend(*member, *node, *way),
            Self::Weather(weather) => world.network.set_weather(*weather),
            Self::Stall(member, time) => world.stop(*member, *time),
            Self::Kill { member, told } => world.kill(*member, *told),
            Self::Leave(member, drain) => world.leave(*member, *drain),
            Self::Start(member) => world.start(*member),
            Self::Down { node, killed, silent } => world.take_down(*node, *killed, *silent),
            Self::Up(node) => world.bring_up(*node),
            Self::Rule(rule) => world.control(Control::AddRule(rule.clone())),
            Self::NoRules => world.control(Control::ClearRules),
            Self::Queues(topic, broker, queues) => {
                world.put_topic(Some(broker), TopicConfig::new(topic.clone(), *queues));
            }
            Self::Permission(topic, broker, perm) => {
                let mut config = TopicConfig::new(topic.clone(), world.topics.count(topic, broker));
                config.perm = *perm;
                world.put_topic(Some(broker), config);
            }
            Self::Freeze(node, frozen) => {
                let name_server = world.nodes.get(*node).addr.clone();
                let frozen = *frozen;
                world.control(Control::FreezeRoutes { name_server, frozen });
            }
            Self::Notify(broker, group) => world.control(Control::Notify {
                broker: broker.clone(),
                group: group.clone(),
            }),
            Self::Lag(broker, lag) => world.control(Control::ReplicationLag {
                broker: broker.clone(),
                lag: *lag,
            }),
            Self::Delete(topic) => world.delete_topic(topic),
            Self::Reset(group, topic, per_mille) => world.reset(group, topic, *per_mille),
            Self::Rewind(broker, by) => world.control(Control::RewindOffsets {
                broker: broker.clone(),
                by: *by,
            }),
            Self::ExpireLocks(broker) => {
                world.show(What::Fault(Upheaval::LocksLost));
                world.control(Control::ExpireLocks(broker.clone()));
            }
            Self::BrokerClock(millis) => world.control(Control::ClockJump(*millis)),
            Self::Clock(member, millis) => world.set_clock(*member, *millis),
            Self::Handlers(member, habits) => world.set_habits(*member, *habits),
            Self::Disk(member, disk) => world.set_disk(*member, *disk),
            Self::Damage(member, damage) => world.damage(*member, *damage),
            Self::Want(member, wanted) => world.want(*member, wanted),
        }
    }
}
