//! What the member learns of the cluster, and tells of itself.
//= rocketmq: MQClientInstance.updateTopicRouteInfoFromNameServer, MQClientInstance.sendHeartbeatToAllBroker

use rocketmq_consumer_core::ids::{PeerAddr, Topic};
use rocketmq_consumer_core::wire::frame::Frame;
use rocketmq_consumer_core::wire::request::decode_answer;
use rocketmq_consumer_core::wire::request::heartbeat::{
    ConsumeFrom, ConsumeType, ConsumerData, HeartbeatRequest, MessageModel, SubscriptionData,
};
use rocketmq_consumer_core::wire::request::route::RouteRequest;
use rocketmq_consumer_core::wire::subscription::Subscription;

use super::ground::Timer;
use super::links::Patience;
use super::{API_TIMEOUT, JavaMember, JavaStart, Life, Purpose, ROUTES, START_AGAIN};

impl JavaMember {
    pub(super) fn ask_routes(&mut self) {
        let again = if self.directory.is_empty() {
            START_AGAIN
        } else {
            ROUTES
        };
        self.ground.arm(again, Timer::Routes);
        let turn = self.name_server;
        let servers = &self.config.name_servers;
        let Some(server) = servers.get(turn % servers.len().max(1)).cloned() else {
            return;
        };
        for topic in self.topics() {
            let request = RouteRequest {
                topic: topic.clone(),
                standard_json: false,
            };
            let patience = Patience::Sync(API_TIMEOUT);
            self.links.ask(
                &mut self.ground,
                &server,
                &request,
                patience,
                Purpose::Route { topic, turn },
            );
        }
    }

    pub(super) fn on_route(&mut self, topic: &Topic, turn: usize, frame: Option<&Frame>) {
        let Some(frame) = frame else {
            // The next call asks the next server; several that fail together pass the turn once.
            self.name_server = turn + 1;
            return;
        };
        if let Ok(route) = decode_answer::<RouteRequest>(frame) {
            self.directory.learn(topic, &route);
        }
        if self.life == Life::Starting && !self.directory.is_empty() {
            self.life = Life::Running;
            self.heartbeat_all(true);
            self.wake_rebalance();
        }
    }

    pub(super) fn heartbeat_all(&mut self, wakes: bool) {
        for addr in self.directory.addresses() {
            self.heartbeat(&addr, wakes);
        }
    }

    pub(super) fn heartbeat(&mut self, addr: &PeerAddr, wakes: bool) {
        let data = |subscription: &Subscription| SubscriptionData {
            topic: subscription.topic.clone(),
            expression: subscription.expression.clone(),
            expression_type: Some(subscription.kind.as_str().into()),
            tags: subscription.tags.clone(),
            codes: subscription.codes.clone(),
            sub_version: self
                .versions
                .get(&subscription.topic)
                .copied()
                .unwrap_or_default(),
            class_filter_mode: false,
        };
        let consumer = ConsumerData {
            group: self.config.group.clone(),
            consume_type: Some(ConsumeType::Passively),
            message_model: Some(MessageModel::Clustering),
            consume_from_where: Some(match self.config.start {
                JavaStart::Last => ConsumeFrom::Last,
                JavaStart::First => ConsumeFrom::First,
            }),
            subscriptions: self.subscriptions.values().map(data).collect(),
            unit_mode: false,
        };
        let request = HeartbeatRequest {
            client_id: self.config.client_id.clone(),
            consumers: vec![consumer],
            producers: Vec::new(),
            fingerprint: 0,
            without_sub: false,
        };
        let patience = Patience::Sync(API_TIMEOUT);
        self.links.ask(
            &mut self.ground,
            addr,
            &request,
            patience,
            Purpose::Heartbeat { wakes },
        );
    }

    /// The brokers must hear of a newer version before the first pull of what was added.
    //= rocketmq: RebalancePushImpl.messageQueueChanged
    pub(super) fn assignment_changed(&mut self, topic: &Topic) {
        let now = self.ground.wall();
        self.versions.insert(topic.clone(), now);
        self.heartbeat_all(false);
    }
}
