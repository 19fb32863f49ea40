//! The hand of whoever runs the cluster, and of whoever asks it without being a member of this world.

use rocketmq_consumer_core::broker::config::TopicConfig;
use rocketmq_consumer_core::broker::event::{BrokerEvent, Control, NewMessage, ServerEvent};
use rocketmq_consumer_core::ids::{ConnId, MessageQueue, PeerAddr, QueueOffset, Topic};
use rocketmq_consumer_core::time::Instant;
use rocketmq_consumer_core::wire::frame::HeaderForm;
use rocketmq_consumer_core::wire::properties::PropertiesWriter;
use rocketmq_consumer_core::wire::request::{Request, encode_request};

use super::{Cluster, NAME_SERVERS};

impl Cluster {
    /// Members that start from now on are told of one more name server.
    ///
    /// # Panics
    /// When there is no other.
    pub(in crate::world) fn add_name_server(&mut self) {
        let known = self.name_servers.len();
        assert!(known < NAME_SERVERS, "a world has {NAME_SERVERS} name servers");
        let addr = PeerAddr::new(format!("10.0.1.{}", known + 1), 9876);
        self.name_servers.push(addr);
    }

    pub(in crate::world) fn add_topic(&mut self, now: Instant, topic: &Topic, queues: &[(&str, u32)]) {
        for (broker, count) in queues {
            assert!(self.brokers.contains_key(*broker), "no broker {broker:?}");
            let control = Control::PutTopicOn {
                broker: (*broker).into(),
                topic: TopicConfig::new(topic.clone(), *count),
            };
            self.control(now, control);
        }
    }

    /// Takes a topic off the name servers, or puts it back.
    pub fn hide(&mut self, topic: &str, hidden: bool) {
        let topic = Topic::from(topic);
        if hidden {
            self.hidden.insert(topic);
        } else {
            self.hidden.remove(&topic);
        }
    }

    /// Stores a message with, unless it is empty, a tag.
    pub(in crate::world) fn append(
        &mut self,
        now: Instant,
        queue: MessageQueue,
        body: String,
        properties: &[(&str, &str)],
    ) {
        let mut writer = PropertiesWriter::new();
        for (name, value) in properties {
            writer.push(name, value).expect("a property of a test is legal");
        }
        let message = NewMessage {
            properties: writer.finish(),
            ..NewMessage::new(body)
        };
        self.control(now, Control::Append { queue, message });
    }

    /// The messages of a queue below this offset expire.
    pub(in crate::world) fn expire(&mut self, now: Instant, queue: MessageQueue, below: i64) {
        let min = QueueOffset(below);
        self.control(now, Control::Expire { queue, min });
    }

    /// All offsets of a broker are this much lower: an older file of them was restored.
    pub(in crate::world) fn rewind_offsets(&mut self, now: Instant, broker: &str, by: u64) {
        let broker = broker.into();
        self.control(now, Control::RewindOffsets { broker, by });
    }

    /// Deletes a topic everywhere.
    pub(in crate::world) fn delete_topic(&mut self, now: Instant, topic: &str) {
        self.control(now, Control::DeleteTopic(topic.into()));
    }

    /// Ends the process behind a name: its connections break, what it had not written is lost.
    pub(in crate::world) fn kill(&mut self, now: Instant, name: &str) {
        let addr = self.addr(name);
        self.control(now, Control::Crash(addr));
    }

    /// Starts it again.
    pub(in crate::world) fn revive(&mut self, now: Instant, name: &str) {
        let addr = self.addr(name);
        self.control(now, Control::Start(addr));
    }

    /// A broker that is down will listen elsewhere. What was arranged for its old address stays there.
    pub(in crate::world) fn relocate(&mut self, now: Instant, broker: &str, to: PeerAddr) {
        let from = self.addr(broker);
        self.brokers.insert(broker.into(), to.clone());
        self.control(now, Control::Move { from, to });
    }

    /// Sends a request as somebody who is no member; nobody reads the answer. The connection stands until
    /// [`Self::hang_up`].
    pub(in crate::world) fn ask<R: Request>(&mut self, now: Instant, name: &str, request: &R) -> ConnId {
        let addr = self.addr(name);
        let conn = self.accept(now, &addr);
        let bytes = encode_request(HeaderForm::Json, 1, false, request).expect("a small request");
        self.handle(now, BrokerEvent::Net(ServerEvent::Received { conn, bytes }));
        conn
    }

    /// Closes a connection that [`Self::ask`] has made.
    pub(in crate::world) fn hang_up(&mut self, now: Instant, conn: ConnId) {
        self.handle(now, BrokerEvent::Net(ServerEvent::Closed { conn }));
    }
}
