//! Who belongs to which group, on which connection, and what the groups subscribe to.
//!
//! A member is a connection: a client that has come back while its old connection still stands is listed
//! twice. The subscriptions are the group's, and the latest heartbeat of any member decides which topics
//! there are.
//= rocketmq: ConsumerManager, ConsumerGroupInfo, ClientManageProcessor

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;

use crate::ids::{ClientId, ConnId, ConsumerGroup, Topic};
use crate::time::Instant;
use crate::wire::command::Language;
use crate::wire::request::heartbeat::{
    ConsumeFrom, ConsumeType, ConsumerData, MessageModel, SubscriptionData,
};

/// A connection and the client on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::broker) struct Member {
    pub(in crate::broker) client: ClientId,
    pub(in crate::broker) language: Option<Language>,
    pub(in crate::broker) version: i32,
    pub(in crate::broker) from: SocketAddr,
    /// When its last heartbeat came.
    pub(in crate::broker) heard: Instant,
}

/// The members of one group.
#[derive(Clone, Debug, Default)]
pub(in crate::broker) struct Membership {
    pub(in crate::broker) by_conn: BTreeMap<ConnId, Member>,
    pub(in crate::broker) subscriptions: BTreeMap<Topic, SubscriptionData>,
    pub(in crate::broker) consume_type: Option<ConsumeType>,
    pub(in crate::broker) model: Option<MessageModel>,
    pub(in crate::broker) from_where: Option<ConsumeFrom>,
}

impl Membership {
    /// Broadcasting groups are not told when they change.
    fn is_told(&self) -> bool {
        self.model != Some(MessageModel::Broadcasting)
    }

    /// Takes over the subscriptions of a heartbeat. Whether the set of topics has changed; a newer
    /// expression for a topic that was there is none.
    fn subscribe(&mut self, wanted: &[SubscriptionData]) -> bool {
        let mut changed = false;
        for new in wanted {
            match self.subscriptions.get_mut(&new.topic) {
                Some(old) if new.sub_version > old.sub_version => *old = new.clone(),
                Some(_) => {}
                None => {
                    self.subscriptions.insert(new.topic.clone(), new.clone());
                    changed = true;
                }
            }
        }
        let before = self.subscriptions.len();
        let topics: BTreeSet<&Topic> = wanted.iter().map(|new| &new.topic).collect();
        self.subscriptions.retain(|topic, _| topics.contains(topic));
        changed || self.subscriptions.len() < before
    }
}

/// A member that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::broker) struct Gone {
    pub(in crate::broker) group: ConsumerGroup,
    pub(in crate::broker) client: ClientId,
    pub(in crate::broker) conn: ConnId,
    /// Whether the others are told.
    pub(in crate::broker) told: bool,
}

/// What a heartbeat has done to one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::broker) struct Registered {
    /// A connection joined.
    pub(in crate::broker) joined: bool,
    /// Members or topics have changed, and the group is of a kind that is told.
    pub(in crate::broker) told: bool,
}

/// The groups of one replica that have members.
#[derive(Clone, Debug, Default)]
pub(in crate::broker) struct Members {
    groups: BTreeMap<ConsumerGroup, Membership>,
    /// The last fingerprint of each group's heartbeats of the second version.
    fingerprints: BTreeMap<ConsumerGroup, i32>,
}

impl Members {
    pub(in crate::broker) fn group(&self, group: &ConsumerGroup) -> Option<&Membership> {
        self.groups.get(group)
    }

    /// The groups that have members now.
    pub(in crate::broker) fn groups(&self) -> impl Iterator<Item = (&ConsumerGroup, &Membership)> {
        self.groups.iter()
    }

    /// The connections of a group's members.
    pub(in crate::broker) fn conns(&self, group: &ConsumerGroup) -> Vec<ConnId> {
        let group = self.groups.get(group);
        group.map_or_else(Vec::new, |group| group.by_conn.keys().copied().collect())
    }

    /// Takes over what a heartbeat says about one group. `with_topics` is false when the heartbeat leaves
    /// its subscriptions out.
    pub(in crate::broker) fn register(
        &mut self,
        conn: ConnId,
        member: Member,
        data: &ConsumerData,
        with_topics: bool,
    ) -> Registered {
        let group = self.groups.entry(data.group.clone()).or_default();
        group.consume_type = data.consume_type;
        group.model = data.message_model;
        group.from_where = data.consume_from_where;
        let joined = group.by_conn.insert(conn, member).is_none();
        let topics_changed = with_topics && group.subscribe(&data.subscriptions);
        Registered {
            joined,
            told: (joined || topics_changed) && group.is_told(),
        }
    }

    /// Notes the fingerprint of a group's heartbeat; whether it differs from the one before.
    pub(in crate::broker) fn fingerprint(&mut self, group: &ConsumerGroup, fingerprint: i32) -> bool {
        let before = self.fingerprints.insert(group.clone(), fingerprint);
        before.is_some_and(|before| before != fingerprint)
    }

    /// A member leaves a group.
    pub(in crate::broker) fn leave(&mut self, conn: ConnId, group: &ConsumerGroup) -> Option<Gone> {
        let of = self.groups.get_mut(group)?;
        let member = of.by_conn.remove(&conn)?;
        let told = of.is_told();
        if of.by_conn.is_empty() {
            self.groups.remove(group);
            self.fingerprints.remove(group);
        }
        Some(Gone {
            group: group.clone(),
            client: member.client,
            conn,
            told,
        })
    }

    /// A connection is gone, and the memberships that hung on it.
    pub(in crate::broker) fn hang_up(&mut self, conn: ConnId) -> Vec<Gone> {
        let of = self
            .groups
            .iter()
            .filter(|(_, of)| of.by_conn.contains_key(&conn));
        let of: Vec<ConsumerGroup> = of.map(|(group, _)| group.clone()).collect();
        of.iter().filter_map(|group| self.leave(conn, group)).collect()
    }

    /// Removes the members that were silent for longer than `expiry`. Nobody is told: the closing of their
    /// connections does that, for the groups in which they were not silent.
    pub(in crate::broker) fn expire(&mut self, now: Instant, expiry: Duration) -> Vec<Gone> {
        let silent = |(group, of): (&ConsumerGroup, &Membership)| {
            let silent = of.by_conn.iter();
            let silent = silent.filter(|(_, member)| now.saturating_since(member.heard) > expiry);
            silent.map(|(conn, _)| (*conn, group.clone())).collect::<Vec<_>>()
        };
        let silent: Vec<_> = self.groups.iter().flat_map(silent).collect();
        silent
            .iter()
            .filter_map(|(conn, group)| self.leave(*conn, group))
            .collect()
    }
}
