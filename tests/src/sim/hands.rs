//! The hands of whoever runs a world: everything that can be done to it.

use std::time::Duration;

use bytes::Bytes;
use rocketmq_consumer_core::broker::config::TopicConfig;
use rocketmq_consumer_core::broker::event::{BrokerEvent, Control, NewMessage, ServerEvent};
use rocketmq_consumer_core::config::{ClientConfig, ConsumeMode, GroupConfig, MessageModel, StartAt};
use rocketmq_consumer_core::consumer::ConsumerState;
use rocketmq_consumer_core::event::{AppEvent, NetCause, NetEvent};
use rocketmq_consumer_core::ids::{BrokerName, ConsumerGroup, MessageQueue, QueueOffset, Topic};
use rocketmq_consumer_core::step::Seed;
use rocketmq_consumer_core::time::{Instant, WallTime};

use super::agenda::Due;
use super::engine::{ORIGIN, World};
use super::habits::Habits;
use super::handler::Handler;
use super::invariant::Broken;
use super::java::{JavaConfig, JavaMember, JavaStart};
use super::keep::Keep;
use super::machine::Machine;
use super::network::{End, LinkNo, Way};
use super::process::{Place, Process, Tenancy};
use super::seen::{Deed, GroupNo, Kind, Life, MemberId, NodeNo, Upheaval, What};
use super::trace::Entry;

impl World {
    // ---- members --------------------------------------------------------------------------------

    /// A place for processes of a member; none runs yet.
    pub(crate) fn place(
        &mut self,
        kind: Kind,
        client: ClientConfig,
        group: GroupConfig,
        handler: Handler,
    ) -> MemberId {
        let group_no = self.names.group(group.group().as_str());
        let broadcasts = *group.model() == MessageModel::Broadcasting;
        let own_book = broadcasts.then(|| {
            let name = format!("{} at member {}", group.group(), self.places.len());
            self.names.group(&name)
        });
        for (topic, filter) in group.subscriptions() {
            if let Ok(subscription) = filter.subscription(topic.clone()) {
                for book in [Some(group_no), own_book].into_iter().flatten() {
                    self.ledger.subscribe(book, subscription.clone());
                }
            }
        }
        self.places.push(Place {
            kind,
            host: None,
            wanted: false,
            client,
            group,
            group_no,
            handler,
            timer_lag: Duration::ZERO,
            timers_first: false,
            process: None,
            keep: Keep::new(),
            own_book,
            calls: None,
        });
        self.member_at(self.places.len() - 1)
    }

    /// A place for another group on the client of a member of ours.
    pub(crate) fn place_on(&mut self, host: MemberId, group: GroupConfig, handler: Handler) -> MemberId {
        let client = self.places[host.0 as usize].client.clone();
        let member = self.place(Kind::Ours, client, group, handler);
        self.places[member.0 as usize].host = Some(host);
        member
    }

    /// Whose process a member lives in.
    fn host(&self, member: MemberId) -> MemberId {
        self.places[member.0 as usize].host.unwrap_or(member)
    }

    /// A group begins on a client that runs and does not leave, unless it is there. It finds connections that
    /// stand.
    fn move_in(&mut self, member: MemberId, host: MemberId) {
        self.places[member.0 as usize].wanted = true;
        let (kind, group) = (Kind::Ours, self.places[member.0 as usize].group_no);
        let life = Life(self.lives);
        let process = self.places[host.0 as usize].process.as_mut();
        let free = |process: &&mut Process| !process.leaving && process.by_group(group).is_none();
        let Some(process) = process.filter(free) else {
            return;
        };
        process.tenancies.push(Tenancy::new(member, life, group));
        let conns = process.conns.clone();
        self.lives += 1;
        self.members.push(member);
        self.alive.push(life);
        self.trace.enter(self.now, Entry::Life, life.0.into());
        self.deed(life, Deed::Begun { member, kind, group });
        for (conn, link) in conns {
            let link = self.network.link(link);
            if link.at_member == End::Open {
                let node = link.node;
                self.deed(life, Deed::Connected { conn, node });
            }
        }
        let config = self.places[member.0 as usize].group.clone();
        self.feed(host, AppEvent::StartGroup(config.into()).into());
    }

    /// A new process begins, unless one runs; and the groups begin with it that live on its client.
    pub(crate) fn start(&mut self, member: MemberId) {
        if let Some(host) = self.places[member.0 as usize].host {
            return self.move_in(member, host);
        }
        self.start_process(member);
        for index in 0..self.places.len() {
            let place = &self.places[index];
            if place.host == Some(member) && place.wanted {
                self.move_in(self.member_at(index), member);
            }
        }
    }

    fn start_process(&mut self, member: MemberId) {
        let seed = Seed(self.dice.word());
        let wall = ORIGIN + self.now.saturating_since(Instant::ZERO);
        let place = &mut self.places[member.0 as usize];
        if place.process.is_some() {
            return;
        }
        let machine = match place.kind {
            Kind::Ours => match ConsumerState::new(place.client.clone(), seed, self.now, wall) {
                Ok(machine) => Machine::Ours(Box::new(machine)),
                Err(error) => {
                    let words = format!("{member:?}: {error}");
                    return self.broken("settings_are_good", Broken(words));
                }
            },
            Kind::Java => {
                self.allowances.java_members = true;
                let config = java_config(&place.client, &place.group);
                Machine::Java(Box::new(JavaMember::new(config, self.now, wall)))
            }
        };
        let life = Life(self.lives);
        self.lives += 1;
        self.members.push(member);
        self.alive.push(life);
        let (kind, group) = (place.kind, place.group_no);
        place.process = Some(Process::new(Tenancy::new(member, life, group), machine));
        let start = AppEvent::StartGroup(place.group.clone().into());
        self.trace.enter(self.now, Entry::Life, life.0.into());
        self.deed(life, Deed::Begun { member, kind, group });
        self.feed(member, start.into());
    }

    fn life(&self, member: MemberId) -> Option<Life> {
        let process = self.places[member.0 as usize].process.as_ref();
        process.map(|process| process.life)
    }

    /// The process is asked to leave in order, unless it was before. It goes on from a stop first.
    pub(crate) fn leave(&mut self, member: MemberId, drain: Duration) {
        let host = self.host(member);
        if let Some(life) = self.life(host) {
            self.go_on(host, life);
        }
        if host != member {
            return self.move_out(member, host, drain);
        }
        let process = self.places[member.0 as usize].process.as_mut();
        let Some(process) = process.filter(|process| !process.leaving) else {
            return;
        };
        process.leaving = true;
        let lives: Vec<Life> = process
            .tenancies
            .iter_mut()
            .filter(|tenancy| !tenancy.leaving)
            .map(|tenancy| {
                tenancy.leaving = true;
                tenancy.life
            })
            .collect();
        for life in lives {
            self.deed(life, Deed::AskedToLeave { drain });
        }
        self.feed(member, AppEvent::Shutdown { drain }.into());
    }

    /// A group leaves a client that goes on for its other groups.
    fn move_out(&mut self, member: MemberId, host: MemberId, drain: Duration) {
        self.places[member.0 as usize].wanted = false;
        let group = self.places[member.0 as usize].group_no;
        let process = self.places[host.0 as usize].process.as_mut();
        let tenancy = process.and_then(|process| process.tenancy_mut(group));
        let Some(tenancy) = tenancy.filter(|tenancy| !tenancy.leaving) else {
            return;
        };
        tenancy.leaving = true;
        let life = tenancy.life;
        self.deed(life, Deed::AskedToLeave { drain });
        let group = self.names.group_name(group).clone();
        self.feed(host, AppEvent::StopGroup { group, drain }.into());
    }

    /// The process is killed. `told`: its system lives on and closes the connections.
    pub(crate) fn kill(&mut self, member: MemberId, told: bool) {
        let member = self.host(member);
        let Some(life) = self.life(member) else {
            return;
        };
        self.trace.enter(self.now, Entry::Life, life.0.into());
        self.client_deed(member, Deed::Killed);
        self.bury(member, told);
    }

    /// The process stands still for a while; what comes for it waits.
    pub(crate) fn stop(&mut self, member: MemberId, time: Duration) {
        let member = self.host(member);
        if let Some(process) = &mut self.places[member.0 as usize].process {
            process.stalled = true;
            self.agenda.put(self.now + time, Due::GoOn(member, process.life));
        }
    }

    pub(crate) fn go_on(&mut self, member: MemberId, life: Life) {
        let process = self.places[member.0 as usize].process.as_mut();
        let Some(process) = process.filter(|process| process.life == life && process.stalled) else {
            return;
        };
        process.stalled = false;
        for due in std::mem::take(&mut process.waiting) {
            self.agenda.put(self.now, due);
        }
    }

    /// The wall clock of the member's machine is set this far from the truth.
    pub(crate) fn set_clock(&mut self, member: MemberId, off_millis: i64) {
        let member = self.host(member);
        let since = self.now.saturating_since(Instant::ZERO);
        let wall = (ORIGIN + since).as_unix_millis().saturating_add(off_millis);
        let wall = WallTime::from_unix_millis(wall);
        if self.life(member).is_some() {
            self.feed(member, AppEvent::Clock(wall).into());
        }
    }

    pub(crate) fn set_habits(&mut self, member: MemberId, habits: Habits) {
        self.places[member.0 as usize].handler.set_habits(habits);
    }

    // ---- links ----------------------------------------------------------------------------------

    /// Breaks all links between a member and a node; both sides notice.
    pub(crate) fn disconnect(&mut self, member: Option<MemberId>, node: Option<NodeNo>) {
        let member = member.map(|member| self.host(member));
        let links: Vec<LinkNo> = self.network.live(member, node).collect();
        for link in links {
            self.break_link(link);
        }
    }

    pub(crate) fn break_link(&mut self, link: LinkNo) {
        let state = self.network.link(link);
        let (member, life, conn) = (state.member, state.life, state.conn);
        let (at_member, at_node) = (state.at_member, state.at_node);
        state.at_node = End::Gone;
        self.trace.enter(self.now, Entry::Close, link.0.into());
        if at_node == End::Open {
            let conn = link.at_node();
            self.feed_cluster(BrokerEvent::Net(ServerEvent::Closed { conn }));
        }
        if at_member == End::Gone || self.life(member) != Some(life) {
            return;
        }
        self.lose(member, link);
        let cause = NetCause::Reset;
        let event = if at_member == End::Open {
            let by_itself = false;
            self.client_deed(member, Deed::Disconnected { conn, by_itself });
            NetEvent::Closed { conn, cause }
        } else {
            self.client_deed(member, Deed::DialFailed { conn });
            NetEvent::ConnectFailed { conn, cause }
        };
        self.feed(member, event.into());
    }

    pub(crate) fn cut(&mut self, member: MemberId, node: NodeNo, way: Way) {
        self.network.cut(self.host(member), node, way);
    }

    pub(crate) fn mend(&mut self, member: MemberId, node: NodeNo, way: Way) {
        let arrivals = self.network.mend(self.now, self.host(member), node, way);
        self.expect(arrivals);
    }

    // ---- the cluster ----------------------------------------------------------------------------

    pub(crate) fn control(&mut self, control: Control) {
        self.trace.enter(self.now, Entry::Fault, 0);
        self.feed_cluster(BrokerEvent::Control(control));
    }

    /// Creates a topic or changes it, on one broker or on all.
    /// An operator resets a group in every queue of a topic. What lies below is nobody's any more.
    pub(crate) fn reset(&mut self, group: &ConsumerGroup, topic: &Topic, per_mille: u64) {
        let queues = self.topics.queues().filter(|queue| &queue.topic == topic);
        let queues: Vec<MessageQueue> = queues.collect();
        let number = self.names.group(group.as_str());
        for queue in queues {
            let end = u64::try_from(self.cluster.max_offset(&queue).0).unwrap_or(0);
            let offset = QueueOffset(i64::try_from(end * per_mille / 1000).unwrap_or(i64::MAX));
            let own_books = self.places.iter().filter(|place| place.group_no == number);
            let own_books: Vec<GroupNo> = own_books.filter_map(|place| place.own_book).collect();
            for book in own_books.into_iter().chain([number]) {
                self.ledger.skip(book, self.names.of_queue(&queue), offset.0);
            }
            self.control(Control::ResetOffset {
                group: group.clone(),
                queue,
                offset,
            });
        }
    }

    /// A topic is deleted, with its messages and all groups' progress in it.
    pub(crate) fn delete_topic(&mut self, topic: &Topic) {
        let queues = self.topics.queues().filter(|queue| &queue.topic == topic);
        let queues: Vec<MessageQueue> = queues.collect();
        for queue in queues {
            self.ledger.forget_queue(self.names.of_queue(&queue));
        }
        self.ledger.forget_topic(topic.as_str());
        self.topics.remove(topic);
        self.show(What::Fault(Upheaval::QueuesChanged));
        self.control(Control::DeleteTopic(topic.clone()));
    }

    pub(crate) fn put_topic(&mut self, on: Option<&BrokerName>, topic: TopicConfig) {
        self.topics.put(on, &topic);
        let queues: Vec<MessageQueue> = self.topics.queues().collect();
        for queue in queues {
            self.names.of_queue(&queue);
        }
        self.show(What::Fault(Upheaval::QueuesChanged));
        self.control(match on {
            Some(broker) => Control::PutTopicOn {
                broker: broker.clone(),
                topic,
            },
            None => Control::PutTopic(topic),
        });
    }

    /// Stores a message. One for a broker whose master is down is lost before it was ever stored.
    pub(crate) fn append(&mut self, queue: MessageQueue, body: Bytes, tag: Option<&str>) {
        let master = self.nodes.master(queue.broker.as_str());
        if !master.is_some_and(|node| self.nodes.get(node).is_up) {
            return;
        }
        self.trace.enter(self.now, Entry::Produce, 0);
        self.trace.bytes(&body);
        let mut message = NewMessage::new(body);
        if let Some(tag) = tag {
            message.properties = format!("TAGS\u{1}{tag}\u{2}");
        }
        self.feed_cluster(BrokerEvent::Control(Control::Append { queue, message }));
    }

    /// A node goes down: killed, or in order. A silent one closes no connection: its machine is gone too.
    pub(crate) fn take_down(&mut self, node: NodeNo, killed: bool, silent: bool) {
        let state = self.nodes.get_mut(node);
        if !state.is_up {
            return;
        }
        state.is_up = false;
        state.is_silent = silent;
        let addr = state.addr.clone();
        if killed {
            self.allowances.offsets_lost = true;
            self.show(What::Fault(Upheaval::NodeDied(node)));
            self.control(Control::Crash(addr));
        } else {
            self.show(What::Fault(Upheaval::NodeStopped(node)));
            self.control(Control::Stop(addr));
        }
    }

    /// A node runs again. Who still believes in a connection to it learns better.
    pub(crate) fn bring_up(&mut self, node: NodeNo) {
        let state = self.nodes.get_mut(node);
        if state.is_up {
            return;
        }
        state.is_up = true;
        let was_silent = std::mem::take(&mut state.is_silent);
        let addr = state.addr.clone();
        self.show(What::Fault(Upheaval::NodeStarted(node)));
        self.control(Control::Start(addr));
        if was_silent {
            self.disconnect(None, Some(node));
        }
    }

    // ---- the end --------------------------------------------------------------------------------

    /// Mends everything that is broken, except what a cluster was told by rules.
    pub(crate) fn mend_all(&mut self) {
        let (arrivals, stuck) = self.network.mend_all(self.now);
        self.expect(arrivals);
        for link in stuck {
            self.break_link(link);
        }
        let down: Vec<NodeNo> = self
            .nodes
            .all()
            .filter(|(_, node)| !node.is_up)
            .map(|(no, _)| no)
            .collect();
        for node in down {
            self.bring_up(node);
        }
        for index in 0..self.places.len() {
            let member = self.member_at(index);
            if let Some(life) = self.life(member) {
                self.go_on(member, life);
            }
        }
    }
}

/// What a Java-like member makes of our settings.
fn java_config(client: &ClientConfig, group: &GroupConfig) -> JavaConfig {
    let subscriptions = group.subscriptions().iter();
    let subscriptions = subscriptions.filter_map(|(topic, filter)| filter.subscription(topic.clone()).ok());
    JavaConfig {
        client_id: client.client_id().clone(),
        group: group.group().clone(),
        subscriptions: subscriptions.collect(),
        name_servers: client.name_servers().to_vec(),
        start: match group.start_at() {
            StartAt::Earliest => JavaStart::First,
            StartAt::Latest | StartAt::Time(_) | _ => JavaStart::Last,
        },
        strategy: group.strategy().clone(),
        threads: *group.concurrency() as usize,
        orderly: *group.mode() == ConsumeMode::Orderly,
        suspend: *group.suspend_time(),
    }
}
