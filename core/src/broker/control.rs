//! The hand of whoever runs the cluster.

use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;

use super::BrokerState;
use super::Timer;
use super::config::TopicConfig;
use super::event::{Control, NewMessage};
use super::node::{Draft, Node, NodeKey, Role, SCHEDULE_TOPIC, Serving};
use crate::ids::{BrokerName, MessageQueue, PeerAddr, Topic};
use crate::time::WallTime;
use crate::wire::stored::SysFlag;

/// Where messages come from that no producer has sent.
const NOWHERE: SocketAddr = SocketAddr::new(core::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Crash,
    InOrder,
}

impl BrokerState {
    pub(super) fn on_control(&mut self, control: Control) {
        match control {
            Control::PutTopic(topic) => {
                for broker in 0..self.disks.len() {
                    self.put_topic(broker, topic.clone());
                }
            }
            Control::PutTopicOn { broker, topic } => {
                if let Some(broker) = self.broker(&broker) {
                    self.put_topic(broker, topic);
                }
            }
            Control::DeleteTopic(topic) => self.delete_topic(&topic),
            Control::Append { queue, message } => self.append(&queue, &message),
            Control::Expire { queue, min } => {
                if let Some(broker) = self.broker(&queue.broker) {
                    self.disks[broker].store.expire(&queue.topic, queue.id, min);
                }
            }
            Control::AddRule(rule) => self.post.add_rule(rule, self.settings.rules_max),
            Control::ClearRules => self.post.clear_rules(),
            Control::Crash(addr) => self.take_down(&addr, End::Crash),
            Control::Stop(addr) => self.take_down(&addr, End::InOrder),
            Control::Start(addr) => self.start(&addr),
            Control::Move { from, to } => self.relocate(&from, to),
            Control::ReplicationLag { broker, lag } => self.set_lag(&broker, lag),
            Control::FreezeRoutes { name_server, frozen } => {
                let key = self.by_addr.get(&name_server).copied();
                if let Some(key) = key.filter(|key| matches!(self.nodes[key.0].role, Role::NameServer)) {
                    self.names.freeze(key, frozen);
                }
            }
            Control::Notify { broker, group } => {
                self.at_master(&broker, |master| master.notify(&group));
            }
            Control::ResetOffset { group, queue, offset } => {
                let broker = queue.broker.clone();
                // Without room for it nothing is reset.
                self.at_master(&broker, |master| {
                    let _done = master.reset_to(&group, &queue, offset);
                });
            }
            Control::RewindOffsets { broker, by } => {
                if let Some(broker) = self.broker(&broker) {
                    self.disks[broker].offsets.rewind(by);
                }
            }
            Control::ExpireLocks(broker) => {
                self.at_master(&broker, |master| master.replica.locks.expire_all());
            }
            Control::Disconnect(conn) => self.post.close(conn),
            Control::ClockJump(millis) => {
                let epoch = self.epoch.as_unix_millis().saturating_add(millis);
                self.epoch = WallTime::from_unix_millis(epoch);
            }
        }
    }

    /// A broker's place.
    pub(super) fn broker(&self, name: &BrokerName) -> Option<usize> {
        self.disks.iter().position(|disk| &disk.name == name)
    }

    fn put_topic(&mut self, broker: usize, topic: TopicConfig) {
        // A topic that the limits leave no room for is not there.
        let _full = self.with_disk(broker, |disk, cx| disk.put_topic(cx, topic));
    }

    fn delete_topic(&mut self, topic: &Topic) {
        if topic.as_str() == SCHEDULE_TOPIC {
            // No broker is without it.
            return;
        }
        for disk in &mut self.disks {
            disk.store.remove_topic(topic);
            disk.offsets.remove_topic(topic);
        }
        self.names.live.delete_topic(topic);
    }

    fn append(&mut self, queue: &MessageQueue, message: &NewMessage) {
        let Some(broker) = self.broker(&queue.broker) else {
            return;
        };
        // A queue that does not exist takes nothing.
        let _refused = self.with_disk(broker, |disk, cx| {
            let draft = Draft {
                topic: queue.topic.clone(),
                queue: queue.id,
                flag: message.flag,
                sys_flag: SysFlag(message.sys_flag),
                born_at: cx.wall,
                born_host: NOWHERE,
                reconsume_times: 0,
                body: &message.body,
                properties: message.properties.as_str().into(),
            };
            disk.take_in(cx, &draft)
        });
    }

    fn take_down(&mut self, addr: &PeerAddr, end: End) {
        let Some(key) = self.by_addr.get(addr).copied().filter(|key| self.nodes[key.0].up) else {
            return;
        };
        self.nodes[key.0].up = false;
        if let Some(mut replica) = self.at(key) {
            replica.end(end == End::Crash);
            let silent_for = self.settings.route_expiry;
            if silent_for.is_zero() {
                self.unregister(key);
            } else {
                self.timers.set(Timer::Unregister(key), self.now + silent_for);
            }
        }
        for conn in self.links.to(key) {
            self.post.close(conn);
        }
    }

    fn start(&mut self, addr: &PeerAddr) {
        let Some(key) = self
            .by_addr
            .get(addr)
            .copied()
            .filter(|key| !self.nodes[key.0].up)
        else {
            return;
        };
        self.nodes[key.0].up = true;
        self.timers.cancel(Timer::Unregister(key));
        self.register(key);
        if let Some(mut replica) = self.at(key) {
            replica.begin();
        }
    }

    fn relocate(&mut self, from: &PeerAddr, to: PeerAddr) {
        let down = |key: &NodeKey| !self.nodes[key.0].up;
        let Some(key) = self.by_addr.get(from).copied().filter(down) else {
            return;
        };
        if self.by_addr.contains_key(&to) {
            return;
        }
        self.by_addr.remove(from);
        if let Some(replica) = self.at(key)
            && replica.replica.is_master()
        {
            replica.disk.host_at(&to);
        }
        self.by_addr.insert(to.clone(), key);
        self.nodes[key.0].addr = to;
    }

    /// The name servers learn that a replica runs.
    pub(super) fn register(&mut self, key: NodeKey) {
        let node = &self.nodes[key.0];
        if let Role::Replica(replica) = &node.role {
            let broker = &self.disks[replica.broker].name;
            self.names.live.register(broker, replica.id, &node.addr);
        }
    }

    /// The name servers learn that it does not.
    pub(super) fn unregister(&mut self, key: NodeKey) {
        if let Role::Replica(replica) = &self.nodes[key.0].role {
            let broker = &self.disks[replica.broker].name;
            self.names.live.unregister(broker, replica.id);
        }
    }

    fn set_lag(&mut self, broker: &BrokerName, lag: Duration) {
        if let Some(broker) = self.broker(broker) {
            self.disks[broker].lag = lag;
        }
    }

    /// Lets the master of a broker do something, if it runs.
    fn at_master(&mut self, broker: &BrokerName, work: impl FnOnce(&mut Serving<'_>)) {
        let key = self.broker(broker).and_then(|broker| self.master(broker));
        if let Some(mut master) = key
            .filter(|key| self.nodes[key.0].up)
            .and_then(|key| self.at(key))
        {
            work(&mut master);
        }
    }

    /// Where the master of a broker is.
    pub(super) fn master(&self, broker: usize) -> Option<NodeKey> {
        let is_master = |node: &Node| match &node.role {
            Role::Replica(replica) => replica.broker == broker && replica.is_master(),
            Role::NameServer => false,
        };
        self.nodes.iter().position(is_master).map(NodeKey)
    }
}
