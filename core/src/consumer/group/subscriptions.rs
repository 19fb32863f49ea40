//! What a group wants of which topic, and how brokers hear of it.

use core::mem;
use core::time::Duration;

use crate::config::StartAt;
use crate::consumer::cx::{Cx, Wish};
use crate::ids::Topic;
use crate::notice::NoticeKind;
use crate::time::WallTime;
use crate::wire::request::heartbeat::{
    ConsumeFrom, ConsumeType, ConsumerData, MessageModel, SubscriptionData,
};
use crate::wire::subscription::{ExpressionType, Subscription};

use super::Group;

/// What is under way with the subscription to a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    None,
    /// In force as soon as brokers know this revision; it has none before they are being told.
    Telling(Option<u64>),
    /// Its queues are being given back.
    Leaving,
}

/// One topic of the group.
#[derive(Clone, Debug)]
pub(super) struct Subscribed {
    pub(super) subscription: Subscription,
    /// Rises with every change of what we want or own of the topic; a broker ignores lower ones.
    pub(super) version: WallTime,
    /// Whether a share of its queues has been ours.
    shared: bool,
    pub(super) change: Change,
}

impl Group {
    /// What the group begins with. A later subscription to the same topic replaces the earlier one: silently
    /// widening it, or silently dropping half of it, would be worse than saying so.
    pub(super) fn subscribe(&mut self, cx: &mut Cx<'_>, subscription: Subscription) {
        let topic = subscription.topic.clone();
        let told = self.subscriptions.remove(&topic).map(|old| old.subscription);
        let old = self.filters.forget(&topic).or(told);
        if old.is_some_and(|old| old != subscription) {
            let topic = topic.clone();
            cx.notice(&self.name, NoticeKind::SubscriptionReplaced { topic });
        }
        if subscription.kind == ExpressionType::Tag {
            self.subscriptions
                .insert(topic, Subscribed::new(subscription, cx.wall, Change::None));
        } else {
            self.filters.look_into(subscription, true, false);
        }
    }

    /// The topics whose routes the group needs.
    pub(crate) fn topics(&self) -> impl Iterator<Item = &Topic> {
        self.subscriptions.keys().chain(self.filters.topics())
    }

    /// The topics whose queues the group shares.
    pub(super) fn wanted_topics(&self) -> impl Iterator<Item = &Topic> {
        let wanted = |(_, of): &(&Topic, &Subscribed)| of.change != Change::Leaving;
        self.subscriptions.iter().filter(wanted).map(|(topic, _)| topic)
    }

    pub(super) fn wants(&self, topic: &Topic) -> bool {
        self.subscriptions
            .get(topic)
            .is_some_and(|of| of.change != Change::Leaving)
    }

    /// Every broker will hear of our subscriptions at this revision; a pull waits until its broker has.
    pub(crate) fn set_revision(&mut self, revision: u64) {
        self.revision = revision;
        if self.introduced > revision {
            self.introduced = revision;
        }
        self.changes_are_told_by(revision);
    }

    /// The group's part of a heartbeat.
    pub(crate) fn consumer_data(&self) -> ConsumerData {
        ConsumerData {
            group: self.name.clone(),
            consume_type: Some(ConsumeType::Passively),
            message_model: Some(if self.broadcasts() {
                MessageModel::Broadcasting
            } else {
                MessageModel::Clustering
            }),
            consume_from_where: Some(match self.config.start_at {
                StartAt::Latest => ConsumeFrom::Last,
                StartAt::Earliest => ConsumeFrom::First,
                StartAt::Time(_) => ConsumeFrom::Timestamp,
            }),
            subscriptions: self.subscriptions.values().map(Subscribed::data).collect(),
            unit_mode: false,
        }
    }

    /// What we want or own of a topic has changed: brokers must hear of it before the next pull.
    pub(super) fn raise_version(&mut self, cx: &mut Cx<'_>, topic: &Topic) {
        if let Some(subscribed) = self.subscriptions.get_mut(topic) {
            subscribed.version = after(subscribed.version, cx);
            self.tell_brokers(cx);
        }
    }

    /// The version of what is about to be told of a topic: above all that brokers have heard of it.
    pub(super) fn next_version(&self, cx: &Cx<'_>, topic: &Topic) -> WallTime {
        let known = self.subscriptions.get(topic).map(|of| of.version);
        after(known.unwrap_or_default().max(self.retired), cx)
    }

    /// Brokers must hear of our subscriptions before the next pull.
    pub(super) fn tell_brokers(&mut self, cx: &mut Cx<'_>) {
        if self.begun {
            self.revision = u64::MAX;
            cx.wishes.push_back(Wish::Subscriptions(self.key));
        }
    }
}

/// A version is the time it is made at; a clock that stands or goes back does not keep it from rising.
fn after(version: WallTime, cx: &Cx<'_>) -> WallTime {
    version.plus(Duration::from_millis(1)).max(cx.wall)
}

impl Subscribed {
    pub(super) const fn new(subscription: Subscription, version: WallTime, change: Change) -> Self {
        Self {
            subscription,
            version,
            shared: false,
            change,
        }
    }

    /// A share is taken; true for the first one.
    pub(super) const fn first_share(&mut self) -> bool {
        !mem::replace(&mut self.shared, true)
    }

    pub(super) fn data(&self) -> SubscriptionData {
        SubscriptionData {
            topic: self.subscription.topic.clone(),
            expression: self.subscription.expression.clone(),
            expression_type: Some(self.subscription.kind.as_str().into()),
            tags: self.subscription.tags.clone(),
            codes: self.subscription.codes.clone(),
            sub_version: self.version,
            class_filter_mode: false,
        }
    }
}
