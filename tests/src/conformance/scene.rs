use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use rocketmq_consumer::core::wire::request::offsets::{QueryOffsetRequest, QueueRef};
use rocketmq_consumer::{
    Client, ClientBuilder, ClientConfig, Consumer, ConsumerBuilder, ConsumerGroup, GroupConfig, Message,
    MessageQueue, PeerAddr, QueueId, StartAt, Target,
};

use super::cluster::Cluster;
use super::gauge::{Counts, Gauge};
use super::host::Host;
use super::proxy::Proxy;
use super::seen::Seen;
use super::time;

/// Queues of the topic of a scene.
pub(super) const QUEUES: u32 = 4;

/// Bytes of a body, where its size does not matter.
const SIZE: usize = 100;

/// The runtime of a scene.
pub(super) type Examined<H> = Gauge<<H as Host>::Runtime>;

/// What a case plays on: a runtime, a cluster, proxies in between, and a topic and a group of its own.
pub(super) struct Scene<H: Host, C> {
    pub(super) runtime: Examined<H>,
    /// Before the name server.
    pub(super) name_server: Proxy,
    /// Before the broker.
    pub(super) broker: Proxy,
    pub(super) topic: String,
    pub(super) group: String,
    /// What the handlers of [`Self::noting`] have seen.
    pub(super) seen: Seen,
    cluster: C,
    /// The number of the next message.
    next: AtomicU64,
}

impl<H: Host, C: Cluster> Scene<H, C> {
    /// Plays a case; after it, nothing may be left of what it has started.
    pub(super) fn play(case: impl AsyncFnOnce(&Self)) {
        let host = H::start();
        let scene = Self::set(host.runtime());
        host.block_on(async {
            case(&scene).await;
            scene.nothing_is_left().await;
        });
    }

    fn set(runtime: H::Runtime) -> Self {
        /// Cases of one process may share a cluster.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "conformance-{}-{}",
            std::process::id(),
            NUMBER.fetch_add(1, Ordering::Relaxed)
        );
        let cluster = C::start();
        cluster.create_topic(&name, QUEUES);
        let broker = cluster.broker().to_string();
        let broker: SocketAddr = broker.parse().expect("brokers register IP addresses here");
        Self {
            runtime: Gauge::new(runtime),
            name_server: Proxy::start(cluster.name_server()).expect("ports are free"),
            broker: Proxy::start(broker).expect("ports are free"),
            topic: name.clone(),
            group: name,
            seen: Seen::default(),
            cluster,
            next: AtomicU64::new(0),
        }
    }

    async fn nothing_is_left(&self) {
        let runtime = &self.runtime;
        let counts = || {
            // The timer of this very wait.
            let Counts { timers, .. } = runtime.counts();
            Counts {
                timers: timers.saturating_sub(1),
                ..runtime.counts()
            }
        };
        let is_left = async {
            while counts() != Counts::default() {
                time::pause(&self.runtime, Duration::from_millis(5)).await;
            }
        };
        let ended = time::at_most(&self.runtime, time::LIMIT, is_left).await;
        assert!(ended.is_some(), "left after the end: {:?}", runtime.counts());
    }

    /// A client that reaches the cluster through the proxies.
    pub(super) fn client(&self) -> ClientBuilder<Examined<H>> {
        let builder =
            ClientBuilder::new(self.runtime.clone()).name_server(self.name_server.addr().to_string());
        builder.client_config(self.quick())
    }

    /// A consumer of the topic that reaches the cluster through the proxies.
    pub(super) fn consumer(&self) -> ConsumerBuilder<Examined<H>> {
        self.of_topic(ConsumerBuilder::new(self.runtime.clone(), self.group.as_str()))
            .name_server(self.name_server.addr().to_string())
            .client_config(self.quick())
    }

    /// A group of the topic on a client.
    pub(super) fn on(&self, client: &Client<Examined<H>>) -> ConsumerBuilder<Examined<H>> {
        self.of_topic(ConsumerBuilder::new(self.runtime.clone(), self.group.as_str()))
            .client(client)
    }

    fn of_topic(&self, builder: ConsumerBuilder<Examined<H>>) -> ConsumerBuilder<Examined<H>> {
        let builder = builder
            .subscribe(self.topic.as_str(), "*")
            .start_at(StartAt::Earliest);
        builder.group_config(quick_group)
    }

    /// Settings of a client that does not wait long.
    fn quick(&self) -> impl FnOnce(&mut ClientConfig) -> &mut ClientConfig + Send + use<H, C> {
        let proxy = self.broker.addr();
        let proxy = PeerAddr::new(proxy.ip().to_string(), proxy.port());
        let map = vec![(self.cluster.broker(), proxy)];
        let ms = Duration::from_millis;
        move |config| {
            config
                .set_address_map(map)
                .set_route_retry(ms(50))
                .set_dial_backoff(ms(20))
                .set_dial_backoff_max(ms(100))
                .set_request_timeout(ms(1_000))
                .set_offset_timeout(ms(1_000))
                .set_silence_min(ms(1_000))
                .set_heartbeat_interval(ms(500))
        }
    }

    /// Starts a consumer that notes what it sees and is done with it.
    pub(super) async fn noting(&self) -> Consumer<Examined<H>> {
        self.note_with(self.consumer()).await
    }

    /// The same with other settings.
    pub(super) async fn note_with(&self, builder: ConsumerBuilder<Examined<H>>) -> Consumer<Examined<H>> {
        let seen = self.seen.clone();
        let started = builder.start(move |message: Message| {
            seen.note(&message);
            async {}
        });
        time::ends(&self.runtime, "the start", started)
            .await
            .expect("good settings")
    }

    /// Creates one more topic.
    pub(super) fn create_topic(&self, name: &str) {
        self.cluster.create_topic(name, QUEUES);
    }

    /// Stores so many messages more; blocks until it is done.
    pub(super) fn send(&self, count: u64) {
        self.send_sized(count, SIZE);
    }

    /// The same with bodies of this size.
    pub(super) fn send_sized(&self, count: u64, size: usize) {
        let first = self.next.fetch_add(count, Ordering::Relaxed);
        self.cluster.send(&self.topic, QUEUES, first..first + count, size);
    }

    /// How many messages were stored.
    pub(super) fn sent(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// Waits until everything that was stored has been seen.
    pub(super) async fn all_seen(&self) {
        let all = async {
            while !self.seen.missing(0..self.sent()).is_empty() {
                time::pause(&self.runtime, Duration::from_millis(5)).await;
            }
        };
        if time::at_most(&self.runtime, time::LIMIT, all).await.is_none() {
            panic!("of {}: lost {:?}", self.sent(), self.seen.missing(0..self.sent()));
        }
    }

    /// Waits for an end in order, and asserts that there was time enough for it.
    pub(super) async fn leave(&self, consumer: Consumer<Examined<H>>) {
        let left = consumer.shutdown(time::LIMIT);
        let report = time::ends(&self.runtime, "the shutdown", left).await;
        assert!(!report.timed_out, "{report:?}");
    }

    /// What the broker has stored for the group, by queue; asked without proxies.
    pub(super) async fn committed(&self) -> Vec<i64> {
        let client =
            ClientBuilder::new(self.runtime.clone()).name_server(self.cluster.name_server().to_string());
        let client = client.start().await.expect("good settings");
        let mut offsets = Vec::new();
        for queue in 0..QUEUES {
            let asked = QueryOffsetRequest {
                group: ConsumerGroup::from(self.group.as_str()),
                queue: QueueRef {
                    topic: self.topic.as_str().into(),
                    queue: QueueId(i32::try_from(queue).expect("queues are few")),
                    broker: Some(self.cluster.broker_name()),
                },
                set_zero_if_not_found: Some(false),
            };
            let to = Target::Address(self.cluster.broker());
            let stored = client
                .ask(to, &asked, time::LIMIT)
                .await
                .expect("the broker runs");
            offsets.push(stored.0.map_or(-1, |offset| offset.0));
        }
        time::ends(&self.runtime, "the client", client.shutdown(Duration::ZERO)).await;
        offsets
    }

    /// A queue of the topic.
    pub(super) fn queue(&self, id: i32) -> MessageQueue {
        MessageQueue {
            topic: self.topic.as_str().into(),
            broker: self.cluster.broker_name(),
            id: QueueId(id),
        }
    }

    /// The broker's address as the name server tells it.
    pub(super) fn broker_addr(&self) -> PeerAddr {
        self.cluster.broker()
    }
}

/// Settings of a group that does not wait long.
fn quick_group(config: &mut GroupConfig) -> &mut GroupConfig {
    let ms = Duration::from_millis;
    config
        .set_commit_interval(ms(100))
        .set_takeover_delay(ms(20))
        .set_revoke_grace(ms(100))
        .set_rebalance_interval(ms(500))
        .set_pull_retry(ms(50))
}
