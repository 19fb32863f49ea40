//! The share of one topic: computed here, or by the application when the strategy is its own.
//!
//! No code of the application runs inside of the machine. It is asked by an action, answers by an event,
//! and what it says is compared with the route of that moment. Without a share a topic stays as it is.
//= rocketmq: AllocateMessageQueueStrategy.allocate type=differs
//  reason: an own strategy is asked, not called; queues that no route names are told and not owned.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::action::{AllocateQuestion, AppAction};
use crate::allocate::AllocateStrategy;
use crate::consumer::cx::Cx;
use crate::consumer::peers::Peers;
use crate::ids::{AllocateId, ClientId, MessageQueue, Topic};
use crate::notice::NoticeKind;

use super::Group;
use super::rebalance::Deciding;

impl Group {
    /// Finds the share of a topic among sorted members, and takes it.
    pub(super) fn allocate(
        &mut self,
        cx: &mut Cx<'_>,
        peers: Peers<'_>,
        topic: &Topic,
        members: &[ClientId],
        others: bool,
    ) {
        let Some(queues) = peers.routes.queues(topic).filter(|queues| !queues.is_empty()) else {
            return;
        };
        let config = Arc::clone(&self.config);
        let strategy = if *topic == self.retry_topic {
            config.strategy.for_retries()
        } else {
            Cow::Borrowed(&config.strategy)
        };
        if let AllocateStrategy::Own(name) = &*strategy {
            if members.contains(&self.client_id) {
                self.ask_application(cx, name, topic, queues, members, others);
            } else {
                // Who is not listed has no share; an own strategy need not know that case.
                self.apply_share(cx, peers, topic, Vec::new(), others);
            }
            return;
        }
        match strategy.allocate_all(queues, members, &self.client_id) {
            Ok(share) => {
                self.tell_if_not_there(cx, topic, strategy.not_there(topic, queues));
                self.apply_share(cx, peers, topic, share, others);
            }
            Err(error) => self.allocation_failed(cx, topic, error.to_string()),
        }
    }

    fn ask_application(
        &mut self,
        cx: &mut Cx<'_>,
        strategy: &str,
        topic: &Topic,
        queues: &[MessageQueue],
        members: &[ClientId],
        others: bool,
    ) {
        let deciding = Deciding {
            topic: topic.clone(),
            others,
        };
        let serial = self.rebalance.ask(cx, deciding, self.config.allocate_timeout);
        cx.tell(AppAction::Allocate(Box::new(AllocateQuestion {
            id: AllocateId {
                group: self.key,
                serial,
            },
            strategy: strategy.into(),
            topic: topic.clone(),
            queues: queues.into(),
            members: members.into(),
            own: self.client_id.clone(),
        })));
    }

    /// The application has told its share of a topic, or that it cannot.
    pub(crate) fn on_allocated(
        &mut self,
        cx: &mut Cx<'_>,
        peers: Peers<'_>,
        serial: u64,
        share: Result<Box<[MessageQueue]>, Box<str>>,
    ) {
        let Some(Deciding { topic, others }) = self.rebalance.decided(cx, serial) else {
            cx.counters.stale_answers += 1;
            return;
        };
        match (share, peers.routes.queues(&topic)) {
            (Ok(share), Some(queues)) => {
                let (share, foreign) = share.into_iter().partition(|queue| queues.contains(queue));
                self.tell_if_not_there(cx, &topic, foreign);
                self.apply_share(cx, peers, &topic, share, others);
            }
            // The route has gone meanwhile: what we have we keep.
            (Ok(_), None) => {}
            (Err(why), _) => self.allocation_failed(cx, &topic, why.into()),
        }
        self.settle_rebalance(cx);
        self.tell_if_ready(cx, peers);
    }

    /// The application has had its time.
    pub(super) fn on_allocate_timer(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>) {
        for Deciding { topic, .. } in self.rebalance.undecided() {
            let why = format!("no answer within {:?}", self.config.allocate_timeout);
            self.allocation_failed(cx, &topic, why);
        }
        self.settle_rebalance(cx);
        self.tell_if_ready(cx, peers);
    }

    fn allocation_failed(&mut self, cx: &mut Cx<'_>, topic: &Topic, why: String) {
        self.rebalance.incomplete();
        let kind = NoticeKind::AllocationFailed {
            topic: topic.clone(),
            strategy: self.config.strategy.name().into_owned(),
            why,
        };
        cx.notice(&self.name, kind);
    }

    fn tell_if_not_there(&self, cx: &mut Cx<'_>, topic: &Topic, queues: Vec<MessageQueue>) {
        if queues.is_empty() {
            return;
        }
        let kind = NoticeKind::QueuesNotInTopic {
            topic: topic.clone(),
            strategy: self.config.strategy.name().into_owned(),
            queues,
        };
        cx.notice(&self.name, kind);
    }
}
