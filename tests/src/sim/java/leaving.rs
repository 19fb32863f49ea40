//! Leaving in order, which is not Java's strength: listeners are interrupted, and their results are nobody's.
//= rocketmq: DefaultMQPushConsumerImpl.shutdown

use rocketmq_consumer_core::ids::MessageQueue;
use rocketmq_consumer_core::wire::request::heartbeat::UnregisterRequest;

use super::links::Patience;
use super::{API_TIMEOUT, JavaMember, JavaOutput, Life, Purpose};

impl JavaMember {
    pub(super) fn shut_down(&mut self) {
        if matches!(self.life, Life::Leaving { .. } | Life::Closed) {
            return;
        }
        self.pool.stop();
        self.ordered.stop();
        self.ground.clear_timers_but_links();
        if self.config.orderly {
            // Before anything is committed: whoever locks a queue in between reads an older offset.
            self.unlock_all();
        }
        let names: Vec<MessageQueue> = self.queues.keys().cloned().collect();
        for name in names {
            self.remove(&name);
        }
        let addresses = self.directory.addresses();
        self.life = Life::Leaving {
            unanswered: addresses.len(),
        };
        for addr in &addresses {
            let request = UnregisterRequest {
                client_id: self.config.client_id.clone(),
                consumer_group: Some(self.config.group.clone()),
                producer_group: None,
            };
            let patience = Patience::Sync(API_TIMEOUT);
            self.links
                .ask(&mut self.ground, addr, &request, patience, Purpose::Unregister);
        }
        self.close_if_told();
    }

    pub(super) fn close_if_told(&mut self) {
        if self.life == (Life::Leaving { unanswered: 0 }) {
            self.life = Life::Closed;
            self.links.close_all(&mut self.ground);
            self.ground.clear_timers();
            self.ground.out.push_back(JavaOutput::Closed);
        }
    }
}
