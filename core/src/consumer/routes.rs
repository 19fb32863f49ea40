//! Where topics live: which name server is asked, what it last said, and which address a broker has.
//!
//! A topic whose route is fine is asked every 30 s. One that is unknown, has lost a broker, or whose
//! broker's link failed is *urgent*: asked every second for two minutes, then every five. The name
//! servers take turns whenever one fails or does not know a topic; a topic one of them knows is known.
//= rocketmq: MQClientInstance.updateTopicRouteInfoFromNameServer type=differs
//  reason: topics are asked apart from each other, urgently where something is wrong.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::action::CallError;
use crate::config::ClientConfig;
use crate::consumer::cx::{Cx, Destination, Purpose, QuestionBody, Replica, TimerKey, Wish};
use crate::ids::{BrokerName, MessageQueue, PeerAddr, QueueId, Topic};
use crate::notice::NoticeKind;
use crate::status::TopicStatus;
use crate::time::Instant;
use crate::wire::request::route::{MASTER_ID, RouteRequest, TopicRoute};

/// How long an urgent topic is asked at the short interval.
const URGENT_FOR: Duration = Duration::from_secs(120);

/// Afterwards the interval is this many times as long.
const URGENT_LATER: u32 = 5;

#[derive(Clone, Debug)]
pub(crate) struct Routes {
    servers: Vec<PeerAddr>,
    turn: usize,
    topics: BTreeMap<Topic, Entry>,
    /// Where each broker's replicas are; the newest route that names a broker is right.
    brokers: BTreeMap<BrokerName, BTreeMap<i64, PeerAddr>>,
    /// Broker addresses whose link failed and does not stand again.
    broken: BTreeSet<PeerAddr>,
    interval: Duration,
    urgent_interval: Duration,
    /// Pause after the only name server could not be reached; its link has a back-off of its own.
    redial: Duration,
    timeout: Duration,
}

#[derive(Clone, Debug, Default)]
struct Entry {
    queues: Option<Arc<[MessageQueue]>>,
    brokers: BTreeMap<BrokerName, BTreeMap<i64, PeerAddr>>,
    /// The name server that has been asked and has not answered.
    asked: Option<PeerAddr>,
    /// How many were asked in a row, at once one after the other, because none could be reached.
    unreachable: usize,
    urgent_since: Option<Instant>,
    /// Brokers that an earlier route named and the current one does not.
    lost: BTreeSet<BrokerName>,
    /// What each name server said that did not know the topic.
    refusals: BTreeMap<PeerAddr, String>,
    /// Name servers that gave no answer when they were asked last.
    silent: BTreeSet<PeerAddr>,
}

impl Routes {
    pub(crate) fn new(config: &ClientConfig) -> Self {
        Self {
            servers: config.name_servers.clone(),
            turn: 0,
            topics: BTreeMap::new(),
            brokers: BTreeMap::new(),
            broken: BTreeSet::new(),
            interval: config.route_interval,
            urgent_interval: config.route_retry,
            redial: config.dial_backoff,
            timeout: config.request_timeout,
        }
    }

    /// The name server whose turn it is, and whether another one could be asked instead.
    pub(crate) fn server(&self) -> Option<(&PeerAddr, bool)> {
        let server = self.servers.get(self.turn % self.servers.len().max(1))?;
        Some((server, self.servers.len() > 1))
    }

    pub(crate) fn servers(&self) -> &[PeerAddr] {
        &self.servers
    }

    pub(crate) fn is_name_server(&self, addr: &PeerAddr) -> bool {
        self.servers.contains(addr)
    }

    /// Replaces the name servers; returns those that are no longer used.
    pub(crate) fn set_servers(&mut self, servers: &[PeerAddr]) -> Vec<PeerAddr> {
        let old = core::mem::replace(&mut self.servers, servers.to_vec());
        self.turn = 0;
        old.into_iter()
            .filter(|server| !self.servers.contains(server))
            .collect()
    }

    /// Somebody uses the topic from now on.
    pub(crate) fn watch(&mut self, cx: &mut Cx<'_>, topic: &Topic) {
        if !self.topics.contains_key(topic) {
            let entry = Entry {
                urgent_since: Some(cx.now),
                ..Entry::default()
            };
            self.topics.insert(topic.clone(), entry);
            self.ask(cx, topic);
        }
    }

    /// Only these topics are still used.
    pub(crate) fn keep_only(&mut self, cx: &mut Cx<'_>, used: &BTreeSet<Topic>) {
        self.topics.retain(|topic, _| {
            let keep = used.contains(topic);
            if !keep {
                cx.timers.cancel(TimerKey::Route(topic.clone()));
            }
            keep
        });
        self.forget_unnamed_brokers();
    }

    pub(crate) fn on_timer(&mut self, cx: &mut Cx<'_>, topic: &Topic) {
        self.ask(cx, topic);
    }

    fn ask(&mut self, cx: &mut Cx<'_>, topic: &Topic) {
        let server = self.server().map(|(addr, _)| addr.clone());
        let Some(entry) = self.topics.get_mut(topic).filter(|entry| entry.asked.is_none()) else {
            return;
        };
        entry.asked = server;
        let body = QuestionBody::Route(RouteRequest {
            topic: topic.clone(),
            standard_json: true,
        });
        cx.ask(
            Destination::NameServer,
            body,
            self.timeout,
            Purpose::Route(topic.clone()),
        );
    }

    /// A name server knows the topic.
    pub(crate) fn on_route(&mut self, cx: &mut Cx<'_>, topic: &Topic, route: &TopicRoute) {
        let Some(entry) = self.topics.get_mut(topic) else {
            return;
        };
        entry.asked = None;
        entry.unreachable = 0;
        entry.refusals.clear();
        entry.silent.clear();
        let brokers: BTreeMap<BrokerName, BTreeMap<i64, PeerAddr>> = route
            .brokers
            .iter()
            .map(|b| (b.name.clone(), addresses(&b.addresses)))
            .collect();
        let queues = readable_queues(topic, route);
        // The route of another topic may have said something else of a broker since this one was heard: then the
        // addresses change although this route has not.
        let moved = brokers
            .iter()
            .any(|(name, ids)| self.brokers.get(name) != Some(ids));
        let changed = moved || entry.queues.as_deref() != Some(&queues) || entry.brokers != brokers;
        let gone = entry
            .brokers
            .keys()
            .filter(|name| !brokers.contains_key(*name))
            .cloned();
        let lost: BTreeSet<BrokerName> = gone.chain(core::mem::take(&mut entry.lost)).collect();
        entry.lost = lost
            .into_iter()
            .filter(|name| !brokers.contains_key(name))
            .collect();
        let broken = brokers
            .values()
            .flat_map(BTreeMap::values)
            .any(|addr| self.broken.contains(addr));
        let headless = brokers.values().any(|ids| !ids.contains_key(&MASTER_ID));
        if entry.lost.is_empty() && !queues.is_empty() && !broken && !headless {
            entry.urgent_since = None;
        } else {
            entry.urgent_since.get_or_insert(cx.now);
        }
        if queues.is_empty() {
            cx.client_notice(NoticeKind::TopicHasNoQueues { topic: topic.clone() });
        }
        self.brokers.extend(brokers.clone());
        entry.brokers = brokers;
        entry.queues = Some(queues.into());
        self.forget_unnamed_brokers();
        self.arm(cx, topic);
        if changed {
            cx.wishes.push_back(Wish::Route(topic.clone()));
        }
    }

    /// A name server answered that it has no route: it stays as it was, and another one is asked.
    pub(crate) fn on_unknown(&mut self, cx: &mut Cx<'_>, topic: &Topic, said: String, expected: bool) {
        let Some(entry) = self.topics.get_mut(topic) else {
            return;
        };
        entry.urgent_since.get_or_insert(cx.now);
        entry.unreachable = 0;
        let asked = entry.asked.take();
        if let Some(server) = &asked {
            entry.refusals.insert(server.clone(), said);
            entry.silent.remove(server);
            // What a server said that is not asked any more counts for nothing.
            entry.refusals.retain(|server, _| self.servers.contains(server));
        }
        // Said once everybody was asked, whether they answered or not; the retry topic of a new group
        // is made by its first heartbeat.
        let is_settled = |server| entry.refusals.contains_key(server) || entry.silent.contains(server);
        if self.servers.iter().all(is_settled) && !expected {
            let answers = entry
                .refusals
                .iter()
                .map(|(addr, said)| (addr.clone(), said.clone()))
                .collect();
            cx.client_notice(NoticeKind::TopicUnknown {
                topic: topic.clone(),
                answers,
            });
        }
        self.next_turn(asked.as_ref());
        self.arm(cx, topic);
    }

    /// No answer: the next name server is asked, at once as long as there is one that was not.
    pub(crate) fn on_failed(&mut self, cx: &mut Cx<'_>, topic: &Topic, error: &CallError) {
        let Some(entry) = self.topics.get_mut(topic) else {
            return;
        };
        entry.urgent_since.get_or_insert(cx.now);
        entry.unreachable += 1;
        let asked = entry.asked.take();
        entry.silent.extend(asked.clone());
        entry.silent.retain(|server| self.servers.contains(server));
        let another = entry.unreachable < self.servers.len();
        if !another || !matches!(error, CallError::Connect(_)) {
            entry.unreachable = 0;
            self.next_turn(asked.as_ref());
            self.arm(cx, topic);
            if self.servers.len() == 1 && matches!(error, CallError::Connect(_)) {
                // Its link is dialled only while somebody waits for it.
                cx.timers
                    .set(TimerKey::Route(topic.clone()), cx.now + self.redial);
            }
            return;
        }
        self.next_turn(asked.as_ref());
        self.ask(cx, topic);
    }

    /// The turn passes from the server that has failed. Several topics may have asked the same one: if
    /// each of their failures passed the turn, an even number of them would come back to it for ever.
    fn next_turn(&mut self, failed: Option<&PeerAddr>) {
        if failed.is_some() && self.server().map(|(addr, _)| addr) == failed {
            self.turn = self.turn.wrapping_add(1);
        }
    }

    /// Whether a route is known of any topic.
    pub(crate) fn knows_any(&self) -> bool {
        self.topics.values().any(|entry| entry.queues.is_some())
    }

    /// The name server that has been asked for a topic.
    pub(crate) fn asked(&self, topic: &Topic) -> Option<&PeerAddr> {
        self.topics.get(topic)?.asked.as_ref()
    }

    /// The link to a broker broke: its address may be another one by now.
    pub(crate) fn link_failed(&mut self, cx: &mut Cx<'_>, addr: &PeerAddr) {
        let mut concerned: Vec<Topic> = Vec::new();
        for (topic, entry) in &mut self.topics {
            if entry
                .brokers
                .values()
                .flat_map(BTreeMap::values)
                .any(|a| a == addr)
            {
                entry.urgent_since.get_or_insert(cx.now);
                concerned.push(topic.clone());
            }
        }
        if !concerned.is_empty() && self.broken.insert(addr.clone()) {
            for topic in concerned {
                self.arm(cx, &topic);
            }
        }
    }

    /// The link to a broker stands.
    pub(crate) fn link_works(&mut self, addr: &PeerAddr) {
        self.broken.remove(addr);
    }

    /// A broker's answer contradicts the route: ask soon.
    pub(crate) fn suspect(&mut self, cx: &mut Cx<'_>, topic: &Topic) {
        if let Some(entry) = self.topics.get_mut(topic) {
            entry.urgent_since.get_or_insert(cx.now);
            cx.timers
                .set_no_later(TimerKey::Route(topic.clone()), cx.now + self.urgent_interval);
        }
    }

    fn forget_unnamed_brokers(&mut self) {
        let topics = &self.topics;
        self.brokers
            .retain(|name, _| topics.values().any(|entry| entry.brokers.contains_key(name)));
    }

    fn arm(&self, cx: &mut Cx<'_>, topic: &Topic) {
        let Some(entry) = self.topics.get(topic) else {
            return;
        };
        let pause = match entry.urgent_since {
            None => self.interval,
            Some(since) if cx.now.saturating_since(since) < URGENT_FOR => self.urgent_interval,
            Some(_) => self.urgent_interval * URGENT_LATER,
        };
        cx.timers.set(TimerKey::Route(topic.clone()), cx.now + pause);
    }

    /// The readable queues of a topic, sorted, if a route is known.
    pub(crate) fn queues(&self, topic: &Topic) -> Option<&Arc<[MessageQueue]>> {
        self.topics.get(topic)?.queues.as_ref()
    }

    /// The brokers of a topic, in the order of their names.
    pub(crate) fn brokers_of(&self, topic: &Topic) -> impl Iterator<Item = &BrokerName> {
        self.topics
            .get(topic)
            .into_iter()
            .flat_map(|entry| entry.brokers.keys())
    }

    /// The address of a replica.
    pub(crate) fn address(&self, broker: &BrokerName, replica: Replica) -> Option<&PeerAddr> {
        let id = match replica {
            Replica::Master => MASTER_ID,
            Replica::Exactly(id) => id,
        };
        self.brokers.get(broker)?.get(&id)
    }

    /// Where the replicas of a broker are, by their ids; the master is 0.
    pub(crate) fn replicas(&self, broker: &BrokerName) -> Option<&BTreeMap<i64, PeerAddr>> {
        self.brokers.get(broker)
    }

    /// Every address of every broker of a watched topic.
    pub(crate) fn addresses(&self) -> BTreeMap<PeerAddr, BrokerName> {
        self.brokers
            .iter()
            .flat_map(|(name, ids)| ids.values().map(move |addr| (addr.clone(), name.clone())))
            .collect()
    }

    pub(crate) fn status(&self) -> Vec<TopicStatus> {
        self.topics
            .iter()
            .map(|(topic, entry)| TopicStatus {
                topic: topic.clone(),
                queues: entry.queues.as_ref().map(|queues| queues.len()),
                refusals: entry
                    .refusals
                    .iter()
                    .map(|(addr, said)| (addr.clone(), said.clone()))
                    .collect(),
                lost_brokers: entry.lost.iter().cloned().collect(),
            })
            .collect()
    }
}

fn addresses(ids: &BTreeMap<i64, String>) -> BTreeMap<i64, PeerAddr> {
    // An address that is none is as good as absent: nobody can be reached there.
    ids.iter()
        .filter_map(|(id, addr)| Some((*id, addr.parse().ok()?)))
        .collect()
}

fn readable_queues(topic: &Topic, route: &TopicRoute) -> Vec<MessageQueue> {
    let mut queues: Vec<MessageQueue> = route
        .queues
        .iter()
        .filter(|data| data.is_readable())
        .flat_map(|data| {
            let name = |id| MessageQueue {
                topic: topic.clone(),
                broker: data.broker.clone(),
                id: QueueId(id),
            };
            (0..i32::try_from(data.read_queues).unwrap_or(i32::MAX)).map(name)
        })
        .collect();
    queues.sort();
    queues.dedup();
    queues
}

#[cfg(test)]
mod tests;
