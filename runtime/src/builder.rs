mod flow;
mod orderly;

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rocketmq_consumer_core::allocate::AllocateStrategy;
use rocketmq_consumer_core::config::{
    ClientConfig, ConfigError, ConsumeMode, DamagedStore, FilterExpression, GroupConfig, IllegalOffsetPolicy,
    MessageModel, OrderBy, SendBackFallback, StartAt, UndecodablePolicy,
};
use rocketmq_consumer_core::ids::{ClientId, ConsumerGroup, Topic};
use rocketmq_consumer_core::message::{Message, Outcome};

use crate::allocate::Allocate;
use crate::answer::{Answer, is_orderly};
use crate::blocking::Blocking;
use crate::client::{Client, ClientBuilder};
use crate::consumer::Consumer;
use crate::context::Context;
use crate::desk::Desk;
use crate::driver::{Command, StartGroup};
use crate::error::{Closed, StartError};
use crate::handler::{Handler, PerBatch, PerMessage, WithContext};
use crate::lanes::Lanes;
use crate::notices::NoticeHub;
use crate::opener::Opener;
use crate::outcome::{IntoBatchOutcome, IntoOutcome};
use crate::record::Recorder;
use crate::registry::Registration;
use crate::runtime::Runtime;
use crate::store::{FileStore, Store};
use crate::stream::{self, DeliveryStream, StreamDesk};

/// Settings of a [`Consumer`], and the ways to start it.
///
/// Handlers of one group share a few lanes, `min(concurrency, cores)` tasks: between two `.await`s a
/// handler must not block. One that has to says [`Self::blocking`].
///
/// `start` and its sisters resolve when the settings are valid and the machine runs, not when a
/// broker has answered: a cluster that is away is waited for, and so is a topic that nobody knows.
/// [`Consumer::ready`] tells when messages flow, and [`Self::connect_timeout`] turns an absent cluster
/// into an error. What is wrong meanwhile is in [`Consumer::notices`], [`Consumer::status`] and the log
/// (`tracing`, target `rocketmq`).
#[must_use = "a builder does nothing until it is started"]
pub struct ConsumerBuilder<R: Runtime> {
    own: ClientBuilder<R>,
    shared: Option<Client<R>>,
    config: GroupConfig,
    allocate: Option<(Box<str>, Arc<dyn Allocate>)>,
    store: Option<Arc<dyn Store>>,
    connect_timeout: Option<Duration>,
    blocking: bool,
}

impl<R: Runtime> ConsumerBuilder<R> {
    /// Defaults on a runtime.
    pub fn new(runtime: R, group: impl Into<ConsumerGroup>) -> Self {
        Self {
            own: ClientBuilder::new(runtime),
            shared: None,
            config: GroupConfig::new(group.into()),
            allocate: None,
            store: None,
            connect_timeout: None,
            blocking: false,
        }
    }

    /// Adds name servers; see [`ClientBuilder::name_server`].
    pub fn name_server(mut self, list: impl Into<String>) -> Self {
        self.own = self.own.name_server(list);
        self
    }

    /// Sets the whole client id; see [`ClientBuilder::client_id`].
    pub fn client_id(mut self, id: impl Into<ClientId>) -> Self {
        self.own = self.own.client_id(id);
        self
    }

    /// Sets the stable part of the client id; see [`ClientBuilder::instance_name`].
    pub fn instance_name(mut self, name: impl Into<String>) -> Self {
        self.own = self.own.instance_name(name);
        self
    }

    /// Reaches every setting of the client; see [`ClientBuilder::client_config`].
    pub fn client_config(
        mut self,
        set: impl FnOnce(&mut ClientConfig) -> &mut ClientConfig + Send + 'static,
    ) -> Self {
        self.own = self.own.client_config(set);
        self
    }

    /// Writes down everything that goes into and comes out of the machine.
    pub fn record(mut self, recorder: Box<dyn Recorder>) -> Self {
        self.own = self.own.record(recorder);
        self
    }

    /// Runs the group on a client that others use too. Settings of a client belong to it then and are
    /// refused here.
    pub fn client(mut self, client: &Client<R>) -> Self {
        self.shared = Some(client.clone());
        self
    }

    /// Reads a topic. An empty expression or `*` means every message, `a || b` those tagged `a` or `b`.
    /// A second one for the same topic replaces the first. Text is no SQL: `a > 3` is taken for a tag of
    /// that name, see [`Self::subscribe_sql`]. What no tag matches is passed over and committed, without a notice.
    pub fn subscribe(mut self, topic: impl Into<Topic>, filter: impl Into<FilterExpression>) -> Self {
        self.config.subscribe(topic.into(), filter);
        self
    }

    /// Reads the messages of a topic whose properties meet an SQL92 condition: `amount > 100 AND TAGS = 'paid'`.
    ///
    /// Only brokers look at it, those configured with `enablePropertyFilter`. One of them is asked before the group
    /// joins; when it refuses, [`Consumer::ready`] fails with its words.
    pub fn subscribe_sql(mut self, topic: impl Into<Topic>, condition: impl Into<String>) -> Self {
        self.config.subscribe_sql(topic.into(), condition);
        self
    }

    /// Where to start in a queue for which the group has stored no offset. Default: latest.
    pub fn start_at(self, start_at: StartAt) -> Self {
        self.group_config(|config| config.set_start_at(start_at))
    }

    /// Where to go on when a broker does not have the offset that was asked for. Default: where nothing is lost.
    pub fn illegal_offset(self, policy: IllegalOffsetPolicy) -> Self {
        self.group_config(|config| config.set_illegal_offset(policy))
    }

    /// How many handler calls, or deliveries of a stream, may be under way at once. Default 20, 1..=1000.
    pub fn concurrency(self, permits: u32) -> Self {
        self.group_config(|config| config.set_concurrency(permits))
    }

    /// Most messages in one call of a batch handler. Default 1, 1..=1024; all of one pull answer, so
    /// rarely more than 32. Errors name it as the core does, `handler_batch`.
    pub fn batch_size(self, most: u32) -> Self {
        self.group_config(|config| config.set_handler_batch(most))
    }

    /// How long one call may take before its context is cancelled. Default 15 min.
    pub fn delivery_deadline(self, deadline: Duration) -> Self {
        self.group_config(|config| config.set_delivery_deadline(deadline))
    }

    /// How often a message is tried again before it becomes a dead letter. Default 16, without end where messages are
    /// consumed in order.
    pub fn max_reconsume(self, times: u32) -> Self {
        self.group_config(|config| config.set_max_reconsume(times))
    }

    /// How long the running handler of a queue that is consumed in order and goes to another member may go on before
    /// its context is cancelled. Default 30 s.
    pub fn orderly_revoke_max(self, most: Duration) -> Self {
        self.group_config(|config| config.set_orderly_revoke_max(most))
    }

    /// What follows when a broker refuses to take a failed message back. Default: a copy is produced.
    pub fn send_back_fallback(self, fallback: SendBackFallback) -> Self {
        self.group_config(|config| config.set_send_back_fallback(fallback))
    }

    /// After how long without progress a queue that has messages is told of as stalled. Default 60 s, 1 s to
    /// one day.
    pub fn stalled_after(self, after: Duration) -> Self {
        self.group_config(|config| config.set_stalled_after(after))
    }

    /// How many messages operators may have this consumer handle at one time beside what it pulls, each within
    /// that time; 0 for none. They take part in `concurrency`. Default 2, 9 s.
    pub fn consume_directly(self, most: u32, deadline: Duration) -> Self {
        self.group_config(|config| {
            config
                .set_consume_directly_max(most)
                .set_consume_directly_deadline(deadline)
        })
    }

    /// Bytes of pull answers the group may hold in memory. Default 64 MiB.
    pub fn buffer_bytes_max(self, bytes: u64) -> Self {
        self.group_config(|config| config.set_buffer_bytes_max(bytes))
    }

    /// How the members share the queues; all of them must use the same. Default
    /// [`AllocateStrategy::Averagely`]. Strategies can be read from text: `"hash:20".parse()?`.
    pub fn strategy(self, strategy: AllocateStrategy) -> Self {
        self.group_config(|config| config.set_strategy(strategy))
    }

    /// Shares the queues by a function of the application, known under this name:
    /// `|topic, queues, members, own| -> Vec<MessageQueue>`; see [`Allocate`].
    ///
    /// It runs on a thread that may block, at every rebalance for every topic, the retry topic too. When it
    /// panics, or takes longer than [`set_allocate_timeout`](GroupConfig::set_allocate_timeout), the member
    /// keeps what it has and asks again after a second, but about no topic whose question it is still busy with;
    /// queues that the topic does not have are passed over.
    /// Both are told by a notice.
    pub fn allocate_with(mut self, name: impl Into<Box<str>>, function: impl Allocate) -> Self {
        let name = name.into();
        self.allocate = Some((name.clone(), Arc::new(function)));
        self.strategy(AllocateStrategy::Own(name))
    }

    /// What to do with messages that cannot be read. Default: dead letter topic.
    pub fn undecodable(self, policy: UndecodablePolicy) -> Self {
        self.group_config(|config| config.set_undecodable(policy))
    }

    /// Where a group that broadcasts keeps its offsets. Default: [`FileStore::in_home`].
    pub fn store(mut self, store: impl Store) -> Self {
        self.store = Some(Arc::new(store));
        self
    }

    /// Keeps them in files below this folder; see [`FileStore`].
    pub fn store_dir(self, dir: impl Into<PathBuf>) -> Self {
        self.store(FileStore::new(dir))
    }

    /// What follows when the offsets that a group which broadcasts has stored can be read neither where they are nor
    /// from their backup. Default: it does not start, and the error names the place.
    pub fn damaged_store(self, policy: DamagedStore) -> Self {
        self.group_config(|config| config.set_damaged_store(policy))
    }

    /// Whether members share the queues (default) or each reads all of them.
    ///
    /// A member of a group that broadcasts keeps its offsets itself, see [`Self::store`], under its
    /// [`Self::instance_name`]. Two processes that store in the same place need two names, and each its own after
    /// every restart; the second one of a name is refused. A message whose handler fails is dropped, with the notice
    /// [`NoticeKind::Dropped`](crate::NoticeKind::Dropped).
    pub fn model(self, model: MessageModel) -> Self {
        self.group_config(|config| config.set_model(model))
    }

    /// What keeps its order where messages are consumed in order: the queue (default), or by [`OrderBy::Key`] only
    /// messages of one key, so that different keys of a queue are handled side by side and one that fails stops no
    /// other. Then a handler is given one message at a time, whatever [`Self::batch_size`] says, and who has the queue
    /// next is given more of it again. For [`Self::start_orderly`] and its sisters only: other starts are refused.
    pub fn order(self, order: OrderBy) -> Self {
        self.group_config(|config| config.set_order(order))
    }

    /// How long a queue that is consumed in order, or a key of it, rests after
    /// [`OrderlyOutcome::Suspend`](crate::OrderlyOutcome::Suspend). Default 1 s, 10 ms..=30 s.
    pub fn suspend_time(self, pause: Duration) -> Self {
        self.group_config(|config| config.set_suspend_time(pause))
    }

    /// Reaches every setting of the group: `.group_config(|c| c.set_pull_batch(…).set_pull_hold(…))`.
    pub fn group_config(mut self, set: impl FnOnce(&mut GroupConfig) -> &mut GroupConfig) -> Self {
        set(&mut self.config);
        self
    }

    /// Makes the start fail when within this time no name server has answered and no broker has acknowledged
    /// a heartbeat. Default: it does not wait for them. A topic that is unknown is no failure: the name server
    /// has answered.
    pub const fn connect_timeout(mut self, within: Duration) -> Self {
        self.connect_timeout = Some(within);
        self
    }

    /// Runs each handler call on a thread that may block, instead of on a lane. Default false.
    ///
    /// Such a call cannot be given up while it runs synchronous code; it holds its permit until it ends
    /// or awaits.
    pub const fn blocking(mut self, blocking: bool) -> Self {
        self.blocking = blocking;
        self
    }

    /// Starts the consumer with a handler of single messages:
    /// `|message: Message| async move { …; Ok::<_, Error>(Outcome::Done) }`.
    ///
    /// # Errors
    /// A setting that cannot be used, a consumer that lives already under this name, or no cluster in
    /// time if [`Self::connect_timeout`] was set.
    pub async fn start<F, Fut>(self, handler: F) -> Result<Consumer<R>, StartError>
    where
        F: Fn(Message) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoOutcome> + Send + 'static,
    {
        self.launch_handler::<Outcome>(PerMessage::new(handler)).await
    }

    /// Like [`Self::start`]; the handler also gets a [`Context`] that tells it to stop and takes wishes for
    /// more time.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn start_with_context<F, Fut>(self, handler: F) -> Result<Consumer<R>, StartError>
    where
        F: Fn(Message, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoOutcome> + Send + 'static,
    {
        self.launch_handler::<Outcome>(WithContext::new(handler)).await
    }

    /// Starts the consumer with a handler of up to [`Self::batch_size`] neighbouring messages of one queue,
    /// which answers once for all, once for each, or with the number of those that are done: see
    /// [`IntoBatchOutcome`].
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn start_batch<F, Fut>(self, handler: F) -> Result<Consumer<R>, StartError>
    where
        F: Fn(Vec<Message>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoBatchOutcome> + Send + 'static,
    {
        self.start_batch_with_context(move |messages, _context| handler(messages))
            .await
    }

    /// Like [`Self::start_batch`], with a [`Context`] for the whole call.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn start_batch_with_context<F, Fut>(self, handler: F) -> Result<Consumer<R>, StartError>
    where
        F: Fn(Vec<Message>, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoBatchOutcome> + Send + 'static,
    {
        let size = *self.config.handler_batch();
        self.launch_handler::<Outcome>(PerBatch::new(handler, size)).await
    }

    /// Starts the consumer with a synchronous handler that may block:
    /// `|message: Message| { …; Ok::<_, Error>(Outcome::Done) }`. The same as [`Self::blocking`] and a
    /// future that is ready.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn start_blocking<F, T>(self, handler: F) -> Result<Consumer<R>, StartError>
    where
        F: Fn(Message) -> T + Send + Sync + 'static,
        T: IntoOutcome + Send + 'static,
    {
        self.blocking(true)
            .start(move |message| std::future::ready(handler(message)))
            .await
    }

    /// Starts the consumer without a handler: ask the stream for messages.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn stream(self) -> Result<DeliveryStream<R>, StartError> {
        self.launch_stream().await
    }

    async fn launch_stream<A: Answer>(mut self) -> Result<DeliveryStream<R, A>, StartError> {
        if is_orderly::<A>() {
            self.config.set_handler_batch(1);
        }
        let mut kept = None;
        let consumer = self
            .launch::<A>(|_, opener| {
                let shared = kept.insert(Arc::new(stream::Shared::new(opener)));
                Box::new(StreamDesk(Arc::clone(shared)))
            })
            .await?;
        Ok(DeliveryStream::new(
            consumer,
            kept.expect("a launch that worked has made the desk"),
        ))
    }

    async fn launch_handler<A: Answer>(
        mut self,
        handler: impl Handler<Answer = A>,
    ) -> Result<Consumer<R>, StartError> {
        if is_orderly::<A>() {
            // A run of an ordered queue is one call, so the machine has to know how much that takes.
            self.config.set_handler_batch(handler.size());
        }
        let (permits, blocking) = (*self.config.concurrency(), self.blocking);
        self.launch::<A>(move |runtime, opener| {
            if blocking {
                Box::new(Blocking::new(runtime, opener, handler, permits))
            } else {
                Box::new(Lanes::new(runtime, opener, handler, permits))
            }
        })
        .await
    }

    async fn launch<A: Answer>(
        self,
        desk: impl FnOnce(R, Opener) -> Box<dyn Desk>,
    ) -> Result<Consumer<R>, StartError> {
        let Self {
            own,
            shared,
            mut config,
            allocate,
            store,
            connect_timeout,
            ..
        } = self;
        adopt_mode::<A>(&mut config)?;
        config.check()?;
        let store = known_store(&config, store)?;
        let allocate = known_function(&config, allocate)?;
        let owns_client = shared.is_none();
        let client = match shared {
            Some(client) => refuse_client_settings(&own).map(|()| client)?,
            None => own.start().await?,
        };
        let group = config.group().clone();
        let registration = Registration::new(client.client_id().clone(), group.clone())?;
        let notices = Arc::<NoticeHub>::default();
        let desk = desk(
            client.runtime().clone(),
            Opener::new(&config, Arc::clone(client.inbox())),
        );
        // From here on whoever drops this future drops the consumer, which stops the group.
        let ticket = registration.ticket();
        let consumer = Consumer::new(client, group, Arc::clone(&notices), owns_client, ticket);
        let config = Arc::new(config);
        let start = |reply| {
            Command::Start(Box::new(StartGroup {
                config,
                allocate,
                store,
                desk,
                notices,
                registration,
                reply,
            }))
        };
        consumer
            .client()
            .command(start)
            .await
            .unwrap_or(Err(Closed.into()))?;
        if let Some(within) = connect_timeout {
            consumer.connected(within).await?;
        }
        Ok(consumer)
    }
}

/// The mode is that of the answers. Who has asked for order must not be given messages side by side.
fn adopt_mode<A: Answer>(config: &mut GroupConfig) -> Result<(), ConfigError> {
    if !is_orderly::<A>() && *config.mode() == ConsumeMode::Orderly {
        return Err(ConfigError {
            key: "mode",
            why: "orderly groups are started by start_orderly, one of its sisters, or stream_orderly".into(),
        });
    }
    config.set_mode(A::MODE);
    Ok(())
}

/// The function of an own strategy. Without it every share would fail, one by one.
fn known_function(
    config: &GroupConfig,
    given: Option<(Box<str>, Arc<dyn Allocate>)>,
) -> Result<Option<Arc<dyn Allocate>>, ConfigError> {
    match (config.strategy(), given) {
        (AllocateStrategy::Own(name), Some((known, function))) if *name == known => Ok(Some(function)),
        (AllocateStrategy::Own(name), _) => Err(ConfigError {
            key: "strategy",
            why: format!("{name:?} is an own strategy; give its function by allocate_with"),
        }),
        // A strategy that was chosen after the function replaces it.
        _ => Ok(None),
    }
}

/// Where the group keeps its offsets, if it keeps them itself.
fn known_store(
    config: &GroupConfig,
    given: Option<Arc<dyn Store>>,
) -> Result<Option<Arc<dyn Store>>, ConfigError> {
    if *config.model() != MessageModel::Broadcasting {
        return Ok(None);
    }
    let in_home = || FileStore::in_home().map(|store| -> Arc<dyn Store> { Arc::new(store) });
    match given.or_else(in_home) {
        Some(store) => Ok(Some(store)),
        None => Err(ConfigError {
            key: "store",
            why: "there is no home folder to keep offsets in; name one by store_dir".into(),
        }),
    }
}

/// Two places for one setting would mean that one of them is ignored.
fn refuse_client_settings<R: Runtime>(own: &ClientBuilder<R>) -> Result<(), ConfigError> {
    match own.first_setting() {
        Some(key) => Err(ConfigError {
            key,
            why: "belongs to the client that was given; set it there".into(),
        }),
        None => Ok(()),
    }
}

impl<R: Runtime> std::fmt::Debug for ConsumerBuilder<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConsumerBuilder")
            .field("client", &self.own)
            .field("group", &self.config)
            .field("connect_timeout", &self.connect_timeout)
            .field("blocking", &self.blocking)
            .finish_non_exhaustive()
    }
}
