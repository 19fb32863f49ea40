//! Asks every broker of a group what it has stored for it.

use std::collections::{BTreeMap, BTreeSet};

use rocketmq_consumer_core::ids::{BrokerName, ConsumerGroup, MessageQueue, PeerAddr, Topic};
use rocketmq_consumer_core::wire::request::cluster::ClusterInfoRequest;
use rocketmq_consumer_core::wire::request::heartbeat::MessageModel;
use rocketmq_consumer_core::wire::request::offsets::{MinOffsetRequest, QueryOffsetRequest, QueueRef};
use rocketmq_consumer_core::wire::request::route::BrokerData;
use rocketmq_consumer_core::wire::request::stats::{ConsumeStatsRequest, ConsumerConnections, QueueProgress};

use super::owners;
use super::row::Row;
use crate::admin::connections;
use crate::cluster::{Cluster, master};
use crate::exit::{Exit, Failure};
use crate::talk::{Level, Talk};

/// A look at one group.
pub(crate) struct Survey<'a> {
    cluster: &'a Cluster,
    group: &'a ConsumerGroup,
    /// The topics that were named; none stands for all.
    topics: &'a [Topic],
    talk: Talk,
}

/// A broker that may know the group.
struct Broker {
    name: BrokerName,
    /// Where its master listens.
    addr: PeerAddr,
    /// It has the group's retry topic or a topic that was named, so it must answer.
    is_needed: bool,
}

/// What one broker says about the members; nothing when none is connected there.
type Members = Option<ConsumerConnections>;

impl<'a> Survey<'a> {
    /// A look at these topics of a group; at all of them if none is named.
    pub(crate) const fn new(
        cluster: &'a Cluster,
        group: &'a ConsumerGroup,
        topics: &'a [Topic],
        talk: Talk,
    ) -> Self {
        Self {
            cluster,
            group,
            topics,
            talk,
        }
    }

    /// Takes the look. Rows are in the order of their queues.
    ///
    /// # Errors
    /// Somebody does not answer, a topic or the group is unknown, or the group stores no offsets at brokers.
    pub(crate) async fn take(&self) -> Result<Vec<Row>, Failure> {
        let (members, mut rows) = self.progress_of_all().await?;
        owners::fill_in(self.cluster, self.group, &members, &mut rows).await;
        Ok(rows)
    }

    /// The same without asking the members whose the queues are.
    ///
    /// # Errors
    /// As [`Survey::take`].
    pub(crate) async fn take_without_owners(&self) -> Result<Vec<Row>, Failure> {
        Ok(self.progress_of_all().await?.1)
    }

    async fn progress_of_all(&self) -> Result<(BTreeMap<PeerAddr, ConsumerConnections>, Vec<Row>), Failure> {
        let mut members = BTreeMap::new();
        let mut rows = Vec::new();
        let mut answered = Vec::new();
        for broker in self.brokers().await? {
            match self.at(&broker).await {
                Ok((here, there)) => {
                    rows.extend(there);
                    members.extend(here.map(|here| (broker.addr.clone(), here)));
                    answered.push(broker);
                }
                Err(failure) if broker.is_needed || failure.exit != Exit::CannotConnect => {
                    return Err(failure);
                }
                Err(failure) => {
                    let why = failure.message.unwrap_or_default();
                    self.talk
                        .say(Level::Warn, format_args!("{} is left out: {why}", broker.name));
                }
            }
        }
        if rows.is_empty() && members.is_empty() {
            return Err(Failure::failed(format_args!(
                "group {} has no member and no stored offset",
                self.group
            )));
        }
        if self.topics.is_empty() {
            let hidden = self.hidden(&answered, &rows).await?;
            rows.extend(hidden);
        }
        rows.sort_by(|a, b| a.queue.cmp(&b.queue));
        Ok((members, rows))
    }

    /// The queues of topics that show at other brokers only: one in which the group has committed nothing does not
    /// show its topics by itself, and what waits there would be missing in the sum.
    async fn hidden(&self, brokers: &[Broker], shown: &[Row]) -> Result<Vec<Row>, Failure> {
        let topics: BTreeSet<&Topic> = shown.iter().map(|row| &row.queue.topic).collect();
        let places: BTreeSet<_> = shown
            .iter()
            .map(|row| (&row.queue.broker, &row.queue.topic))
            .collect();
        let mut rows = Vec::new();
        for broker in brokers {
            for topic in topics
                .iter()
                .filter(|topic| !places.contains(&(&broker.name, **topic)))
            {
                let there = self.ask(&broker.addr, self.request(Some(topic))).await?;
                for (queue, progress) in there.into_iter().filter(|(queue, _)| queue.topic == **topic) {
                    rows.push(self.row(&broker.addr, queue, progress).await?);
                }
            }
        }
        Ok(rows)
    }

    /// The members and queues of the group at one broker.
    async fn at(&self, broker: &Broker) -> Result<(Members, Vec<Row>), Failure> {
        let members = self.members(&broker.addr).await?;
        let mut rows = Vec::new();
        for (queue, progress) in self.progress(&broker.addr, members.as_ref()).await? {
            rows.push(self.row(&broker.addr, queue, progress).await?);
        }
        Ok((members, rows))
    }

    /// The masters that may know the group: those of the topics that were named; otherwise all there are,
    /// for the retry topic, which a member's first heartbeat makes, may show at some brokers only.
    async fn brokers(&self) -> Result<Vec<Broker>, Failure> {
        let mut needed: BTreeMap<BrokerName, PeerAddr> = BTreeMap::new();
        let retry = Topic::from(format!("%RETRY%{}", self.group));
        if let Some(route) = self.cluster.route(&retry).await? {
            needed.extend(route.brokers.iter().filter_map(named_master));
        }
        for topic in self.topics {
            let route = self.cluster.route(topic).await?;
            let route = route.ok_or_else(|| Failure::failed(format_args!("topic {topic} is unknown")))?;
            needed.extend(route.brokers.iter().filter_map(named_master));
        }
        let mut brokers: BTreeMap<BrokerName, PeerAddr> = BTreeMap::new();
        if self.topics.is_empty()
            && let Some(info) = self.cluster.ask_name_servers(&ClusterInfoRequest).await?
        {
            brokers.extend(info.brokers.values().filter_map(named_master));
        }
        brokers.retain(|name, _| !needed.contains_key(name));
        let named = |is_needed| {
            move |(name, addr)| Broker {
                name,
                addr,
                is_needed,
            }
        };
        let brokers = brokers.into_iter().map(named(false));
        let brokers: Vec<_> = needed.into_iter().map(named(true)).chain(brokers).collect();
        if brokers.is_empty() {
            return Err(Failure::failed("the name server knows no broker with a master"));
        }
        Ok(brokers)
    }

    async fn members(&self, addr: &PeerAddr) -> Result<Members, Failure> {
        let members = connections(self.cluster, addr, self.group).await?;
        let model = members.as_ref().and_then(|members| members.message_model);
        if model == Some(MessageModel::Broadcasting) {
            return Err(Failure::failed(format_args!(
                "group {} is broadcasting: each member keeps offsets of its own, no broker knows them",
                self.group
            )));
        }
        Ok(members)
    }

    /// The queues one broker shows.
    async fn progress(
        &self,
        addr: &PeerAddr,
        members: Option<&ConsumerConnections>,
    ) -> Result<BTreeMap<MessageQueue, QueueProgress>, Failure> {
        let subscribed: BTreeSet<&Topic> = members
            .iter()
            .flat_map(|members| members.subscriptions.keys())
            .collect();
        let mut queues = BTreeMap::new();
        if self.topics.is_empty() {
            queues.extend(self.ask(addr, self.request(None)).await?);
            // What nothing was committed in yet does not show by itself.
            for topic in subscribed {
                if !queues.keys().any(|queue: &MessageQueue| queue.topic == *topic) {
                    queues.extend(self.ask(addr, self.request(Some(topic))).await?);
                }
            }
            return Ok(queues);
        }
        for topic in self.topics {
            let mut request = self.request(Some(topic));
            if members.is_some() && !subscribed.contains(topic) {
                // A broker hides what an online group does not subscribe to, unless it is told exactly.
                (request.topic, request.topics) = (None, vec![topic.clone()]);
            }
            let shown = self.ask(addr, request).await?;
            // Brokers that do not know the field show everything.
            queues.extend(shown.into_iter().filter(|(queue, _)| queue.topic == *topic));
        }
        Ok(queues)
    }

    fn request(&self, topic: Option<&Topic>) -> ConsumeStatsRequest {
        ConsumeStatsRequest {
            group: self.group.clone(),
            topic: topic.cloned(),
            topics: Vec::new(),
        }
    }

    async fn ask(
        &self,
        addr: &PeerAddr,
        request: ConsumeStatsRequest,
    ) -> Result<BTreeMap<MessageQueue, QueueProgress>, Failure> {
        Ok(self.cluster.demand(addr, &request).await?.queues)
    }

    /// A row of the answer. It shows 0 for what was never committed, so 0 is asked about again.
    async fn row(
        &self,
        addr: &PeerAddr,
        queue: MessageQueue,
        progress: QueueProgress,
    ) -> Result<Row, Failure> {
        let mut row = Row {
            min: progress.consumer_offset,
            max: progress.broker_offset,
            committed: Some(progress.consumer_offset),
            consumed_until: progress.last_timestamp,
            owners: BTreeSet::new(),
            queue,
        };
        if progress.consumer_offset.0 > 0 {
            return Ok(row);
        }
        let place = || QueueRef {
            topic: row.queue.topic.clone(),
            queue: row.queue.id,
            broker: Some(row.queue.broker.clone()),
        };
        let stored = QueryOffsetRequest {
            group: self.group.clone(),
            queue: place(),
            set_zero_if_not_found: Some(false),
        };
        let oldest = MinOffsetRequest { queue: place() };
        let asked = async {
            Ok((
                self.cluster.ask(addr, &stored).await?,
                self.cluster.ask(addr, &oldest).await?,
            ))
        };
        match asked.await {
            Ok((stored, oldest)) => {
                (row.committed, row.min) = (stored.0, oldest.offset);
                Ok(row)
            }
            Err(error) => Err(self.cluster.failure(addr, &error).await),
        }
    }
}

fn named_master(broker: &BrokerData) -> Option<(BrokerName, PeerAddr)> {
    Some((broker.name.clone(), master(broker)?))
}
