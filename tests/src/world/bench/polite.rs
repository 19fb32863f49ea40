//! Both ends of the connections of a bench: what the driver does, and what polite peers answer.

use bytes::Bytes;
use rocketmq_consumer_core::action::{Action, AppAction, NetAction};
use rocketmq_consumer_core::event::{Event, NetCause, NetEvent};
use rocketmq_consumer_core::ids::{ClientId, QueueOffset, Topic};
use rocketmq_consumer_core::wire::code::{RequestCode, ResponseCode};
use rocketmq_consumer_core::wire::request::Done;
use rocketmq_consumer_core::wire::request::heartbeat::HeartbeatAnswer;
use rocketmq_consumer_core::wire::request::locks::{LockAnswer, LockRequest};
use rocketmq_consumer_core::wire::request::members::MemberList;
use rocketmq_consumer_core::wire::request::offsets::{
    CommitOffsetRequest, OffsetAnswer, QueryOffsetRequest, StoredOffset,
};
use rocketmq_consumer_core::wire::request::route::{BrokerData, QueueData, RouteRequest, TopicRoute};

use super::{Bench, Run, address};
use crate::world::asked::{Asked, Link};
use crate::world::cluster::queue;
use crate::world::peer::Dial;

impl Bench {
    /// Which queues a topic has. Broker `a` is 10.0.0.1, `b` 10.0.0.2 and so on, until
    /// [`Self::set_addresses`] says otherwise.
    pub fn set_queues(&mut self, topic: &str, queues: &[(&str, u32)]) {
        let data = |(name, count): &(&str, u32)| QueueData {
            broker: (*name).into(),
            read_queues: *count,
            write_queues: *count,
            perm: 6,
            topic_sys_flag: 0,
        };
        let broker = |(name, _): &(&str, u32)| BrokerData {
            cluster: "C".into(),
            name: (*name).into(),
            addresses: [(0, address(name).to_string())].into(),
            zone_name: None,
            enable_acting_master: false,
        };
        let route = TopicRoute {
            queues: queues.iter().map(data).collect(),
            brokers: queues.iter().map(broker).collect(),
            ..TopicRoute::default()
        };
        self.routes.insert(topic.into(), route);
    }

    /// Which addresses a broker has, by replica.
    pub fn set_addresses(&mut self, broker: &str, addresses: &[(i64, &str)]) {
        let brokers = self.routes.values_mut().flat_map(|route| &mut route.brokers);
        for data in brokers.filter(|data| data.name.as_str() == broker) {
            data.addresses = addresses
                .iter()
                .map(|(id, addr)| (*id, (*addr).to_owned()))
                .collect();
        }
    }

    /// Whether the queues of a topic may be read (4) and written (2).
    pub fn set_permission(&mut self, topic: &str, perm: i32) {
        let route = self.routes.get_mut(&Topic::from(topic));
        for queues in route.into_iter().flat_map(|route| &mut route.queues) {
            queues.perm = perm;
        }
    }

    /// What a member list will say.
    pub fn set_members(&mut self, members: &[&str]) {
        self.members = members.iter().map(|id| ClientId::from(*id)).collect();
    }

    /// What an offset query will say, until a commit that is served says otherwise. Queues nothing is
    /// stored for answer 22, and begin at 0.
    pub fn store(&mut self, topic: &str, id: i32, offset: i64) {
        self.stored.insert((topic.into(), id), offset);
    }

    /// Another member has the lock on a queue of topic `T` on broker `a`, or gives it back.
    pub fn set_locked_elsewhere(&mut self, id: i32, locked: bool) {
        let queue = queue("T", "a", id);
        if locked {
            self.locked.insert(queue);
        } else {
            self.locked.remove(&queue);
        }
    }

    /// Nothing is stored for a queue any more.
    pub fn forget_stored(&mut self, topic: &str, id: i32) {
        self.stored.remove(&(topic.into(), id));
    }

    /// From now on requests of this kind are answered at once.
    pub fn serve(&mut self, code: RequestCode) {
        self.refusing.remove(&code);
        self.serving.insert(code);
        self.settle();
    }

    /// From now on requests of this kind are refused at once.
    pub fn refuse_all(&mut self, code: RequestCode, why: ResponseCode) {
        self.refusing.insert(code, why);
        self.settle();
    }

    /// From now on requests of this kind wait for the test.
    pub fn withhold(&mut self, code: RequestCode) {
        self.refusing.remove(&code);
        self.serving.remove(&code);
    }

    /// What becomes of attempts to connect from the next event on.
    pub const fn dials(&mut self, dial: Dial) {
        self.dial = dial;
    }

    pub(super) fn feed_alone(&mut self, event: Event) {
        for action in self.machine.handle(self.now, event) {
            match action {
                Action::Net(action) => self.on_net(action),
                Action::App(AppAction::Consume {
                    id,
                    batch,
                    range,
                    attempt,
                }) => self.runs.push(Run {
                    id,
                    batch,
                    range,
                    attempt,
                }),
                Action::App(AppAction::Notice(notice)) => self.notices.push(*notice),
                Action::App(other) => self.told.push(other),
                Action::Store(action) => self.ask_store(action),
                other => panic!("an action nobody knows: {other:?}"),
            }
        }
    }

    fn on_net(&mut self, action: NetAction) {
        match action {
            NetAction::Connect { conn, addr, .. } => {
                self.dialled.push((self.now, conn, addr.clone()));
                self.links.insert(conn, addr);
            }
            NetAction::Send { conn, frame } => {
                assert!(self.standing.contains(&conn), "sent on a dead {conn:?}");
                let link = Link {
                    member: self.id.clone(),
                    life: 0,
                    conn,
                };
                match Asked::read(self.now, &link, &self.links[&conn], frame.clone()) {
                    Some(asked) => {
                        self.sent.push(asked.clone());
                        self.waiting.push(asked);
                    }
                    None => self.note_answer(frame),
                }
            }
            NetAction::Close { conn } => {
                self.links.remove(&conn);
                self.standing.remove(&conn);
                self.waiting.retain(|asked| asked.link.conn != conn);
            }
            NetAction::Lookup { .. } => {}
            other => panic!("a network action nobody knows: {other:?}"),
        }
    }

    /// Lets connects and polite requests come to rest.
    ///
    /// # Panics
    /// When they never do.
    pub fn settle(&mut self) {
        for _ in 0..100_000 {
            if !self.connect_one() && !self.serve_one() && !self.store_one() && !self.wake_one() {
                return;
            }
        }
        panic!("never at rest: {:?}", self.waiting.first());
    }

    fn connect_one(&mut self) -> bool {
        let standing = &self.standing;
        let Some(conn) = self.links.keys().find(|conn| !standing.contains(conn)).copied() else {
            return false;
        };
        let dial = if self.deserted.contains(&self.links[&conn]) {
            Dial::Refuse
        } else {
            self.dial
        };
        match dial {
            Dial::Accept => {
                self.standing.insert(conn);
                self.feed_alone(NetEvent::Connected { conn }.into());
            }
            Dial::Refuse => {
                self.links.remove(&conn);
                let cause = NetCause::Refused;
                self.feed_alone(NetEvent::ConnectFailed { conn, cause }.into());
            }
            Dial::Hang => return false,
        }
        true
    }

    /// A timer that is due now belongs to what happens now.
    fn wake_one(&mut self) -> bool {
        let due = self.wakeup().is_some_and(|wakeup| wakeup.at <= self.now);
        if due {
            self.feed_alone(Event::Wakeup);
        }
        due
    }

    fn serve_one(&mut self) -> bool {
        let at_once =
            |asked: &Asked| self.serving.contains(&asked.code) || self.refusing.contains_key(&asked.code);
        let Some(index) = self.waiting.iter().position(at_once) else {
            return false;
        };
        let asked = self.waiting.remove(index);
        let bytes = match self.refusing.get(&asked.code) {
            Some(why) => asked.refused(*why, "refused by the test"),
            None => self.politely(&asked),
        };
        let conn = asked.link.conn;
        self.feed_alone(NetEvent::Received { conn, bytes }.into());
        true
    }

    /// The answer of a peer that does what it is asked.
    fn politely(&mut self, asked: &Asked) -> Bytes {
        match asked.code {
            RequestCode::GET_ROUTEINFO_BY_TOPIC => {
                match self.routes.get(&asked.request::<RouteRequest>().topic) {
                    Some(route) => asked.answered(route),
                    None => asked.refused(ResponseCode::TOPIC_NOT_EXIST, "no topic route info"),
                }
            }
            RequestCode::HEART_BEAT => asked.answered(&HeartbeatAnswer::default()),
            RequestCode::GET_CONSUMER_LIST_BY_GROUP => {
                let client_ids = self.members.clone();
                asked.answered(&MemberList { client_ids })
            }
            RequestCode::QUERY_CONSUMER_OFFSET => {
                let place = asked.request::<QueryOffsetRequest>().queue;
                match self.stored.get(&(place.topic, place.queue.0)) {
                    Some(offset) => asked.answered(&StoredOffset(Some(QueueOffset(*offset)))),
                    None => asked.refused(ResponseCode::QUERY_NOT_FOUND, "not found"),
                }
            }
            RequestCode::GET_MIN_OFFSET => {
                let offset = QueueOffset(0);
                asked.answered(&OffsetAnswer { offset })
            }
            RequestCode::LOCK_BATCH_MQ => {
                let LockRequest(wanted) = asked.request();
                let locked = &wanted.queues - &self.locked;
                asked.answered(&LockAnswer { locked })
            }
            RequestCode::UPDATE_CONSUMER_OFFSET => {
                let CommitOffsetRequest { queue, offset, .. } = asked.request();
                self.stored.insert((queue.topic, queue.queue.0), offset.0);
                asked.answered(&Done)
            }
            _ => asked.answered(&Done),
        }
    }
}
