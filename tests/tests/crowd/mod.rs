//! A client with several groups, and what each of them has seen: for the embedded and the real broker alike.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rocketmq_consumer_core::action::{Action, CallError, NetAction};
use rocketmq_consumer_core::config::ClientConfig;
use rocketmq_consumer_core::event::{Event, Target};
use rocketmq_consumer_core::ids::PeerAddr;
use rocketmq_consumer_core::step::Seed;
use rocketmq_consumer_core::time::{Instant, WallTime};
use rocketmq_consumer_core::wire::code::RequestCode;
use rocketmq_consumer_core::wire::command::Header;
use rocketmq_consumer_core::wire::frame::{FRAME_LEN_MAX, Frame};
use rocketmq_consumer_core::wire::request::Request as _;
use rocketmq_consumer_core::wire::request::heartbeat::HeartbeatRequest;
use rocketmq_consumer_core::wire::request::stats::{Connection, ConnectionsRequest};
use rocketmq_consumer_tokio::{Client, Consumer, ConsumerBuilder, Message, Recorder, StartAt};

/// How long anything may take that is waited for.
const LIMIT: Duration = Duration::from_secs(60);

/// A client, and the bodies each group has seen.
pub(crate) struct Crowd {
    pub(crate) client: Client,
    wire: Arc<Mutex<Wire>>,
    topic: String,
    seen: Arc<Mutex<BTreeMap<String, BTreeSet<Bytes>>>>,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Crowd {
    pub(crate) async fn new(name_server: &str, topic: &str) -> Self {
        let wire = Arc::<Mutex<Wire>>::default();
        let client = Client::builder()
            .name_server(name_server)
            .record(Box::new(Tap(Arc::clone(&wire))))
            .start();
        Self {
            client: client.await.expect("good settings"),
            wire,
            topic: topic.to_owned(),
            seen: Arc::default(),
        }
    }

    pub(crate) fn builder(&self, group: &str) -> ConsumerBuilder {
        let builder = Consumer::builder(group).client(&self.client);
        builder
            .subscribe(self.topic.as_str(), "*")
            .start_at(StartAt::Earliest)
    }

    /// Starts a group that notes what it sees.
    pub(crate) async fn start(&self, group: &str) -> Consumer {
        let note = self.note(group);
        let consumer = self.builder(group).start(move |message: Message| {
            note(&message);
            async {}
        });
        consumer.await.expect("a group can be started")
    }

    /// Notes a message as seen by a group.
    pub(crate) fn note(&self, group: &str) -> impl Fn(&Message) + Send + Sync + 'static {
        let (seen, group) = (Arc::clone(&self.seen), group.to_owned());
        move |message| {
            let body = message.body().unwrap_or_default();
            lock(&seen).entry(group.clone()).or_default().insert(body);
        }
    }

    /// Different bodies that a group has seen.
    pub(crate) fn seen(&self, group: &str) -> usize {
        lock(&self.seen).get(group).map_or(0, BTreeSet::len)
    }

    /// Waits until each of these groups has seen so many different messages.
    pub(crate) async fn all_see(&self, groups: &[&str], count: usize) {
        let have = async {
            while groups.iter().any(|group| self.seen(group) < count) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        if tokio::time::timeout(LIMIT, have).await.is_err() {
            let counts: Vec<_> = groups.iter().map(|group| (group, self.seen(group))).collect();
            panic!("{counts:?} of {count}: {:#?}", self.client.status().await);
        }
    }

    /// What went over the wire so far.
    pub(crate) fn wire(&self) -> Wire {
        lock(&self.wire).clone()
    }

    /// The connections of a group's members, as an operator's tool sees them.
    pub(crate) async fn connections(&self, broker: &PeerAddr, group: &str) -> Vec<Connection> {
        let group = group.into();
        let asked = ConnectionsRequest { group };
        let to = Target::Address(broker.clone());
        match self.client.ask(to, &asked, Duration::from_secs(5)).await {
            Ok(answer) => answer.connections,
            // "Not online": the group has no members.
            Err(CallError::Broker { code: 206, .. }) => Vec::new(),
            Err(error) => panic!("{error}"),
        }
    }

    /// Waits until a broker knows no member of a group.
    pub(crate) async fn gone(&self, broker: &PeerAddr, group: &str) {
        let gone = async {
            while !self.connections(broker, group).await.is_empty() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(LIMIT, gone).await.expect("it leaves");
    }
}

/// What went over the wire, as far as it matters here.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wire {
    pub(crate) dials: usize,
    /// The groups each heartbeat named.
    pub(crate) beats: Vec<Vec<String>>,
}

/// Looks at what a client does.
struct Tap(Arc<Mutex<Wire>>);

impl Recorder for Tap {
    fn start(&mut self, _: &ClientConfig, _: Seed, _: Instant, _: WallTime) {}
    fn event(&mut self, _: Instant, _: &Event) {}

    fn action(&mut self, action: &Action) {
        match action {
            Action::Net(NetAction::Connect { .. }) => lock(&self.0).dials += 1,
            Action::Net(NetAction::Send { frame, .. }) => {
                let frame = Frame::parse(frame.clone(), FRAME_LEN_MAX).expect("our own frame");
                let header = Header::of(&frame).expect("our own header");
                if header.code == RequestCode::HEART_BEAT.0 {
                    let beat = HeartbeatRequest::decode(&header.ext, &frame.body).expect("our own body");
                    let groups = beat.consumers.iter().map(|data| data.group.to_string());
                    lock(&self.0).beats.push(groups.collect());
                }
            }
            Action::Net(_) | Action::App(_) | Action::Store(_) | _ => {}
        }
    }
}
