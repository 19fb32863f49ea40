//! Subscriptions that change while the group runs.
//!
//! ```text
//!  subscribe ──(an SQL92 condition: a broker approves)──► told with the next heartbeats ─┐
//!                └─ queues of the topic: given back and acquired anew ───────────────────┴─► in force
//!  unsubscribe ──► queues given back ──► heartbeats without the topic ──► in force
//! ```
//!
//! A new filter is a new ownership of each queue: what was fetched by the former one and no handler has begun is
//! withdrawn, running handlers have the usual grace, and the new ownership begins where the former one has come to,
//! with a pull that waits until its broker has acknowledged the new filter. A change is in force, and told to be,
//! when every broker that knows us has acknowledged it and nothing of the former ownerships is left.
//!
//! A topic is given back before brokers hear of it: the last commits come first. What is stored there stays.
//= rocketmq: DefaultMQPushConsumerImpl.subscribe type=differs
//  reason: the route is asked and the queues are shared at once; what was fetched by the former expression is not
//  delivered any more.
//= rocketmq: DefaultMQPushConsumerImpl.unsubscribe type=differs
//  reason: handlers drain and offsets are committed before the queues go.

use alloc::vec::Vec;

use crate::action::RefusalReason;
use crate::config::{self, ConfigError, FilterExpression, SUBSCRIPTIONS_MAX};
use crate::consumer::cx::{Cx, Wish};
use crate::consumer::peers::Peers;
use crate::ids::{MessageQueue, QueueKey, Topic};
use crate::notice::NoticeKind;
use crate::status::{GroupPhase, SubscriptionState, SubscriptionStatus};
use crate::wire::subscription::{ExpressionType, Subscription};

use super::Group;
use super::queue::Queue;
use super::rebalance::Why;
use super::subscriptions::{Change, Subscribed};

impl Group {
    /// The application wants a topic, or others of its messages.
    ///
    /// # Errors
    /// Why that cannot be; nothing has changed then.
    pub(crate) fn change_subscription(
        &mut self,
        cx: &mut Cx<'_>,
        peers: Peers<'_>,
        topic: &Topic,
        filter: &FilterExpression,
    ) -> Result<(), RefusalReason> {
        self.check_running()?;
        config::check_subscription(&self.name, topic, filter)?;
        let subscription = filter
            .subscription(topic.clone())
            .expect("`check_subscription` has parsed it");
        if self.filters.of(topic) == Some(&subscription) {
            return Ok(());
        }
        let is_first = self.filters.is_first(topic);
        if self.filters.forget(topic).is_none()
            && !self.wants(topic)
            && self.own_topics() >= SUBSCRIPTIONS_MAX
        {
            return Err(RefusalReason::TooManyTopics {
                most: SUBSCRIPTIONS_MAX,
            });
        }
        self.departed.remove(topic);
        let current = self.subscriptions.get(topic).filter(|_| self.wants(topic));
        if let Some(current) = current.filter(|current| current.subscription == subscription) {
            if current.change == Change::None {
                self.tell_changed(cx, topic, Some(filter.clone().normalized()));
            }
        } else if subscription.kind == ExpressionType::Tag {
            self.put_in_force(cx, peers, subscription);
        } else {
            self.filters.look_into(subscription, is_first, true);
            self.ask_about_filters(cx, peers);
        }
        self.begin_if_approved(cx);
        Ok(())
    }

    /// The application does not want a topic any more.
    ///
    /// # Errors
    /// Why that cannot be; nothing has changed then.
    pub(crate) fn unsubscribe(&mut self, cx: &mut Cx<'_>, topic: &Topic) -> Result<(), RefusalReason> {
        self.check_running()?;
        if *topic == self.retry_topic {
            let why = alloc::format!("{topic} is the group's own retry topic, which it always reads");
            return Err(RefusalReason::BadConfig("unsubscribe", why));
        }
        let (is_pending, is_wanted) = (self.filters.of(topic).is_some(), self.wants(topic));
        if (is_pending || is_wanted) && self.own_topics() <= 1 {
            return Err(RefusalReason::LastTopic);
        }
        self.filters.forget(topic);
        if is_wanted {
            self.give_topic_back(cx, topic);
        } else if !self.subscriptions.contains_key(topic) && !self.departed.contains_key(topic) {
            // Brokers have heard nothing of it, or nothing any more.
            self.tell_changed(cx, topic, None);
            cx.wishes.push_back(Wish::Unwatch);
        }
        self.begin_if_approved(cx);
        Ok(())
    }

    fn check_running(&self) -> Result<(), RefusalReason> {
        if self.phase == GroupPhase::Running {
            Ok(())
        } else {
            Err(RefusalReason::GroupLeaving)
        }
    }

    /// Topics of the application's that are wanted, or will be when their filters are approved of.
    fn own_topics(&self) -> usize {
        let wanted = self.wanted_topics().filter(|topic| **topic != self.retry_topic);
        let new = self.filters.topics().filter(|topic| !self.wants(topic));
        wanted.count() + new.count()
    }

    /// From now on this is what is wanted of the topic.
    pub(super) fn put_in_force(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>, subscription: Subscription) {
        let topic = subscription.topic.clone();
        let version = self.next_version(cx, &topic);
        let change = Change::Telling(None);
        match self.subscriptions.get_mut(&topic) {
            Some(subscribed) => {
                subscribed.subscription = subscription;
                subscribed.version = version;
                subscribed.change = change;
            }
            None => {
                let subscribed = Subscribed::new(subscription, version, change);
                self.subscriptions.insert(topic.clone(), subscribed);
            }
        }
        self.tell_brokers(cx);
        self.renew(cx, &topic);
        // Queues that are not ours yet, or not any more because the topic was about to go.
        if peers.routes.queues(&topic).is_some() {
            self.rebalance
                .wanted(cx, Why::Learned, self.config.notify_debounce);
        }
    }

    /// Every queue of a topic that may hold what was fetched by a former filter begins anew.
    fn renew(&mut self, cx: &mut Cx<'_>, topic: &Topic) {
        let owned = |key: &QueueKey| self.queues.get(*key).is_some_and(Queue::is_owned);
        let of_topic = self.by_name.iter().filter(|(name, _)| &name.topic == topic);
        let owned: Vec<(MessageQueue, QueueKey)> = of_topic
            .filter(|(_, key)| owned(key))
            .map(|(name, key)| (name.clone(), *key))
            .collect();
        for (name, key) in owned {
            self.acquire_after_giving_back(cx, name);
            self.revoke(cx, key);
        }
    }

    fn give_topic_back(&mut self, cx: &mut Cx<'_>, topic: &Topic) {
        if let Some(subscribed) = self.subscriptions.get_mut(topic) {
            subscribed.change = Change::Leaving;
        }
        let of_topic = self.by_name.iter().filter(|(name, _)| &name.topic == topic);
        let queues: Vec<(MessageQueue, QueueKey)> =
            of_topic.map(|(name, key)| (name.clone(), *key)).collect();
        for (name, key) in queues {
            self.by_name.remove(&name);
            self.revoke(cx, key);
        }
        cx.wishes.push_back(Wish::Changes(self.key));
    }

    /// Brokers are told at this revision.
    pub(super) fn changes_are_told_by(&mut self, revision: u64) {
        let changes = self.subscriptions.values_mut().map(|of| &mut of.change);
        for change in changes.filter(|change| **change == Change::Telling(None)) {
            *change = Change::Telling(Some(revision));
        }
        for told in self.departed.values_mut() {
            told.get_or_insert(revision);
        }
    }

    pub(super) fn is_changing(&self) -> bool {
        let is_changing = |of: &Subscribed| of.change != Change::None;
        !self.departed.is_empty() || self.subscriptions.values().any(is_changing)
    }

    /// An ownership has ended.
    pub(super) fn ended(&self, cx: &mut Cx<'_>, name: &MessageQueue) {
        let successor = self.by_name.get(name).and_then(|key| self.queues.get(*key));
        if successor.is_some_and(Queue::waits_for_former_self) || self.is_changing() {
            cx.wishes.push_back(Wish::Changes(self.key));
        }
    }

    /// Takes every step that changes wait for.
    pub(crate) fn settle_changes(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>) {
        if self.phase != GroupPhase::Running {
            return;
        }
        self.succeed(cx, peers);
        self.depart(cx);
        self.tell_what_is_in_force(cx, peers);
    }

    /// Ownerships begin whose former ones have ended.
    fn succeed(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>) {
        for key in self.queues.keys() {
            let waiting = self.queues.get(key).filter(|queue| queue.waits_for_former_self());
            if let Some(name) = waiting.map(|queue| queue.name.clone())
                && !self.is_giving_back(&name)
            {
                self.ask_stored(cx, peers, key);
            }
        }
    }

    /// Topics go whose queues are gone.
    fn depart(&mut self, cx: &mut Cx<'_>) {
        let leaving = self.subscriptions.iter();
        let leaving = leaving.filter(|(topic, of)| of.change == Change::Leaving && !self.has_queue_of(topic));
        let gone: Vec<Topic> = leaving.map(|(topic, _)| topic.clone()).collect();
        for topic in gone {
            if let Some(former) = self.subscriptions.remove(&topic) {
                self.retired = self.retired.max(former.version);
            }
            self.left.forget(&topic);
            self.departed.insert(topic, None);
            self.tell_brokers(cx);
            cx.wishes.push_back(Wish::Unwatch);
        }
    }

    fn has_queue_of(&self, topic: &Topic) -> bool {
        self.queues.iter().any(|(_, queue)| &queue.name.topic == topic)
    }

    fn tell_what_is_in_force(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>) {
        let told = |revision: Option<u64>| revision.is_some_and(|told| peers.beats.is_known_to_all(told));
        let changed = self.subscriptions.iter().filter(|(topic, of)| {
            // Who is known to nobody consumes nothing.
            peers.beats.is_known()
                && matches!(of.change, Change::Telling(revision) if told(revision))
                && !self.is_giving_back_any_of(topic)
        });
        let changed: Vec<Topic> = changed.map(|(topic, _)| topic.clone()).collect();
        for topic in changed {
            if let Some(subscribed) = self.subscriptions.get_mut(&topic) {
                subscribed.change = Change::None;
                let filter = FilterExpression::of(&subscribed.subscription);
                self.tell_changed(cx, &topic, Some(filter));
            }
        }
        let departed = self.departed.iter().filter(|(_, revision)| told(**revision));
        let departed: Vec<Topic> = departed.map(|(topic, _)| topic.clone()).collect();
        for topic in departed {
            self.departed.remove(&topic);
            self.tell_changed(cx, &topic, None);
        }
    }

    fn is_giving_back_any_of(&self, topic: &Topic) -> bool {
        self.queues
            .iter()
            .any(|(_, queue)| queue.is_revoking() && &queue.name.topic == topic)
    }

    fn tell_changed(&self, cx: &mut Cx<'_>, topic: &Topic, filter: Option<FilterExpression>) {
        let topic = topic.clone();
        cx.notice(&self.name, NoticeKind::SubscriptionChanged { topic, filter });
    }

    pub(super) fn subscription_status(&self) -> Vec<SubscriptionStatus> {
        let told = self.subscriptions.iter().map(|(topic, of)| SubscriptionStatus {
            topic: topic.clone(),
            filter: FilterExpression::of(&of.subscription),
            state: match of.change {
                Change::None => SubscriptionState::InForce,
                Change::Telling(_) => SubscriptionState::Changing,
                Change::Leaving => SubscriptionState::Leaving,
            },
        });
        told.chain(self.filters.status()).collect()
    }
}

impl From<ConfigError> for RefusalReason {
    fn from(ConfigError { key, why }: ConfigError) -> Self {
        Self::BadConfig(key, why)
    }
}
