//! A group as it is now: its members, what they subscribe to, and which queues are whose.

use std::collections::{BTreeMap, BTreeSet};

use rocketmq_consumer_core::ids::{BrokerName, ClientId, ConsumerGroup, MessageQueue, QueueId, Topic};
use rocketmq_consumer_core::wire::request::heartbeat::{ConsumeType, MessageModel, SubscriptionData};
use rocketmq_consumer_core::wire::request::route::TopicRoute;
use rocketmq_consumer_core::wire::request::running_info::ConsumerRunningInfo;
use rocketmq_consumer_core::wire::request::stats::ConsumerConnections;

use super::brokers::Master;
use super::fan_out::fan_out;
use super::members::{connections, owned, running_infos};
use crate::cluster::Cluster;
use crate::exit::{Exit, Failure};
use crate::talk::{Level, Talk};

/// A group, over all brokers that answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Group {
    /// How it gets its messages, as the last heartbeat said.
    pub(crate) consume_type: Option<ConsumeType>,
    /// Whether the members share the work, as the last heartbeat said.
    pub(crate) message_model: Option<MessageModel>,
    /// The newest subscription to each topic.
    pub(crate) subscriptions: BTreeMap<Topic, SubscriptionData>,
    /// The members by id.
    pub(crate) members: BTreeMap<ClientId, Member>,
    /// All queues of the topics it subscribes to, with the members that say they have them.
    pub(crate) queues: BTreeMap<MessageQueue, BTreeSet<ClientId>>,
    /// The routes of these topics, of those that have one.
    pub(crate) routes: BTreeMap<Topic, TopicRoute>,
}

/// A member.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Member {
    /// Its connections: one to each broker, unless something is wrong.
    pub(crate) links: Vec<Link>,
    /// The language it states.
    pub(crate) language: String,
    /// The version it states.
    pub(crate) version: i32,
    /// What it tells about itself, or why it does not.
    pub(crate) info: Result<ConsumerRunningInfo, String>,
}

/// A connection of a member.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Link {
    /// The broker.
    pub(crate) broker: BrokerName,
    /// Where the member is, as the broker sees it.
    pub(crate) from: String,
}

impl Member {
    /// The queues it says it has; none when it says nothing.
    pub(crate) fn owned(&self) -> BTreeSet<MessageQueue> {
        self.info.as_ref().map(owned).unwrap_or_default()
    }
}

impl Group {
    /// Looks at a group.
    ///
    /// # Errors
    /// A broker refuses, or no name server answers. A broker that cannot be reached is told and left out.
    pub(crate) async fn look(
        cluster: &Cluster,
        masters: &[Master],
        group: &ConsumerGroup,
        talk: Talk,
    ) -> Result<Self, Failure> {
        let mut seen = Vec::new();
        for (master, members) in ask_all(cluster, masters, group).await {
            match members {
                Ok(members) => seen.extend(members.map(|members| (master, members))),
                Err(failure) if failure.exit == Exit::CannotConnect => {
                    let why = failure.message.unwrap_or_default();
                    talk.say(Level::Warn, format_args!("{} is left out: {why}", master.name));
                }
                Err(failure) => return Err(failure),
            }
        }
        let by_addr = seen
            .iter()
            .map(|(master, members)| (master.addr.clone(), members.clone()))
            .collect();
        let infos = running_infos(cluster, group, &by_addr).await;
        let mut look = Self::of(&seen, infos);
        for topic in look.subscriptions.keys() {
            if let Some(route) = cluster.route(topic).await? {
                look.routes.insert(topic.clone(), route);
            }
        }
        look.own();
        Ok(look)
    }

    /// Puts together what brokers and members have said.
    fn of(
        seen: &[(&Master, ConsumerConnections)],
        mut infos: BTreeMap<ClientId, Result<ConsumerRunningInfo, String>>,
    ) -> Self {
        let mut group = Self::default();
        for (master, said) in seen {
            group.consume_type = group.consume_type.or(said.consume_type);
            group.message_model = group.message_model.or(said.message_model);
            for (topic, data) in &said.subscriptions {
                let known = group.subscriptions.get(topic);
                if known.is_none_or(|known| known.sub_version < data.sub_version) {
                    group.subscriptions.insert(topic.clone(), data.clone());
                }
            }
            for connection in &said.connections {
                let member = group.members.entry(connection.client_id.clone());
                let member = member.or_insert_with(|| Member {
                    links: Vec::new(),
                    language: connection.language.clone(),
                    version: connection.version,
                    info: infos
                        .remove(&connection.client_id)
                        .unwrap_or_else(|| Err("it was not asked".into())),
                });
                member.links.push(Link {
                    broker: master.name.clone(),
                    from: connection.client_addr.clone(),
                });
            }
        }
        for member in group.members.values_mut() {
            member.links.sort();
        }
        group
    }

    /// Lists the queues of the routes and writes to each whose it is.
    fn own(&mut self) {
        for (topic, route) in &self.routes {
            for queue in readable(topic, route) {
                self.queues.entry(queue).or_default();
            }
        }
        for (id, member) in &self.members {
            for queue in member.owned() {
                self.queues.entry(queue).or_default().insert(id.clone());
            }
        }
    }

    /// Whether every member has told what it has.
    pub(crate) fn all_told(&self) -> bool {
        self.members.values().all(|member| member.info.is_ok())
    }
}

async fn ask_all<'a>(
    cluster: &Cluster,
    masters: &'a [Master],
    group: &ConsumerGroup,
) -> Vec<(&'a Master, Result<Option<ConsumerConnections>, Failure>)> {
    let answers = fan_out(masters, |master| {
        let (cluster, addr, group) = (cluster.clone(), master.addr.clone(), group.clone());
        async move { connections(&cluster, &addr, &group).await }
    })
    .await;
    masters.iter().zip(answers).collect()
}

/// The queues consumers read.
fn readable<'a>(topic: &'a Topic, route: &'a TopicRoute) -> impl Iterator<Item = MessageQueue> + 'a {
    let data = route.queues.iter().filter(|data| data.is_readable());
    data.flat_map(move |data| {
        let ids = (0..data.read_queues).filter_map(|id| i32::try_from(id).ok());
        ids.map(move |id| MessageQueue {
            topic: topic.clone(),
            broker: data.broker.clone(),
            id: QueueId(id),
        })
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use rocketmq_consumer_core::ids::PeerAddr;
    use rocketmq_consumer_core::time::WallTime;
    use rocketmq_consumer_core::wire::request::route::QueueData;
    use rocketmq_consumer_core::wire::request::running_info::QueueInfo;
    use rocketmq_consumer_core::wire::request::stats::Connection;

    use super::*;

    /// A queue of `broker-a`.
    pub(crate) fn queue(topic: &str, id: i32) -> MessageQueue {
        MessageQueue {
            topic: topic.into(),
            broker: "broker-a".into(),
            id: QueueId(id),
        }
    }

    /// A subscription to some tags.
    pub(crate) fn subscription(topic: &str, expression: &str, version: i64) -> SubscriptionData {
        let tags = expression.split("||").map(|tag| tag.trim().to_owned());
        SubscriptionData {
            topic: topic.into(),
            expression: expression.into(),
            expression_type: Some("TAG".into()),
            tags: tags.filter(|tag| tag != "*").collect(),
            codes: BTreeSet::new(),
            sub_version: WallTime::from_unix_millis(version),
            class_filter_mode: false,
        }
    }

    /// A member with one connection that has these queues.
    pub(crate) fn member(from: &str, queues: &[MessageQueue]) -> Member {
        let queues = queues.iter().map(|queue| (queue.clone(), QueueInfo::default()));
        Member {
            links: vec![Link {
                broker: "broker-a".into(),
                from: from.into(),
            }],
            language: "JAVA".into(),
            version: 513,
            info: Ok(ConsumerRunningInfo {
                queues: queues.collect(),
                ..ConsumerRunningInfo::default()
            }),
        }
    }

    /// The route of a topic with so many queues on `broker-a`.
    pub(crate) fn route(read_queues: u32) -> TopicRoute {
        TopicRoute {
            queues: vec![QueueData {
                broker: "broker-a".into(),
                perm: 6,
                read_queues,
                write_queues: read_queues,
                topic_sys_flag: 0,
            }],
            ..TopicRoute::default()
        }
    }

    fn said(ids: &[(&str, &str)], expression: &str, version: i64) -> ConsumerConnections {
        ConsumerConnections {
            connections: ids
                .iter()
                .map(|(id, from)| Connection {
                    client_addr: (*from).into(),
                    client_id: (*id).into(),
                    language: "JAVA".into(),
                    version: 513,
                })
                .collect(),
            subscriptions: [("T".into(), subscription("T", expression, version))].into(),
            message_model: Some(MessageModel::Clustering),
            ..ConsumerConnections::default()
        }
    }

    #[test]
    fn what_brokers_say_is_one_group_and_the_newest_subscription_counts() {
        let master = |name: &str| Master {
            name: name.into(),
            addr: PeerAddr::new(name, 1),
        };
        let (a, b) = (master("broker-a"), master("broker-b"));
        let seen = [
            (&a, said(&[("x", "1.1.1.1:1"), ("y", "1.1.1.2:1")], "new", 2)),
            (&b, said(&[("x", "1.1.1.1:2")], "old", 1)),
        ];
        let infos = [("x".into(), Ok(ConsumerRunningInfo::default()))].into();
        let group = Group::of(&seen, infos);
        assert_eq!(group.subscriptions[&Topic::from("T")].expression, "new");
        let links = |id: &str| group.members[&ClientId::from(id)].links.len();
        assert_eq!((links("x"), links("y")), (2, 1));
        assert!(!group.all_told(), "y was not asked");
        assert_eq!(group.message_model, Some(MessageModel::Clustering));
    }

    #[test]
    fn every_queue_of_a_route_is_listed_whoever_has_it() {
        let mut group = Group {
            members: [
                ("x".into(), member("h:1", &[queue("T", 0), queue("T", 1)])),
                ("y".into(), member("h:2", &[queue("T", 1), queue("T", 9)])),
            ]
            .into(),
            routes: [("T".into(), route(3))].into(),
            ..Group::default()
        };
        group.own();
        let owners: Vec<_> = group
            .queues
            .iter()
            .map(|(queue, owners)| (queue.id.0, owners.len()))
            .collect();
        assert_eq!(owners, [(0, 1), (1, 2), (2, 0), (9, 1)]);
    }
}
