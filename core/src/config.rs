//! What a user can set. Every limit of the machine is here, with Java's name where Java has one.
//!
//! Values are checked once, when the machine or the group is created; afterwards they change only
//! by events.

mod filter;

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::RangeInclusive;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::allocate::AllocateStrategy;
use crate::ids::{ClientId, ConsumerGroup, PeerAddr, Topic};
use crate::rate::Rate;
use crate::time::WallTime;
use crate::wire::frame::HeaderForm;

pub use filter::{EXPRESSION_LEN_MAX, FilterExpression, SUBSCRIPTIONS_MAX};

/// A setting that cannot be used: which one, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {why}")]
pub struct ConfigError {
    /// The setter's name.
    pub key: &'static str,
    /// What is wrong and what would be right.
    pub why: String,
}

impl ConfigError {
    fn new(key: &'static str, why: impl Into<String>) -> Self {
        Self { key, why: why.into() }
    }
}

/// Declares a config struct: private fields with defaults, a chained setter and a reader for each.
macro_rules! settings {
    (
        $(#[$doc:meta])* $name:ident { $($req:ident: $reqty:ty),* }
        $( $(#[$fdoc:meta])* $field:ident / $set:ident: $ty:ty = $default:expr; )*
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub struct $name {
            $(pub(crate) $req: $reqty,)*
            $(pub(crate) $field: $ty,)*
        }

        impl $name {
            fn with_defaults($($req: $reqty),*) -> Self {
                Self { $($req,)* $($field: $default,)* }
            }

            $(
                $(#[$fdoc])*
                pub fn $set(&mut self, value: $ty) -> &mut Self {
                    self.$field = value;
                    self
                }

                #[doc = concat!("What [`Self::", stringify!($set), "`] set, or the default.")]
                #[must_use]
                pub fn $field(&self) -> &$ty {
                    &self.$field
                }
            )*
        }
    };
}

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const MIB: u64 = 1 << 20;

/// How many handler calls of a group may run at once, whether set before the start or while it runs.
pub const CONCURRENCY: RangeInclusive<u32> = 1..=1000;

/// How long a queue that is consumed in order may rest after a failure. What a handler asks for beyond is cut.
pub const SUSPEND_TIME: RangeInclusive<Duration> = millis(10)..=secs(30);

/// As many retries as brokers can count: without end.
const FOR_EVER: u32 = i32::MAX.unsigned_abs();
/// Messages a second of a rate, and messages that may come at once.
pub const RATE: RangeInclusive<u32> = 1..=1_000_000;

settings! {
    /// One client instance: its identity, its name servers, and the clocks of everything its groups
    /// share.
    ClientConfig { client_id: ClientId, name_servers: Vec<PeerAddr> }

    /// Rewrites addresses that a name server hands out but this machine cannot reach:
    /// `(registered, reachable)`. Default: none.
    address_map / set_address_map: Vec<(PeerAddr, PeerAddr)> = Vec::new();
    /// How often the route of a known topic is asked again. Default 30 s (`pollNameServerInterval`).
    route_interval / set_route_interval: Duration = secs(30);
    /// How often the route of a topic is asked that is unknown, has lost a broker or whose broker's
    /// link failed, during the first two minutes. Default 1 s; afterwards five times as long.
    route_retry / set_route_retry: Duration = secs(1);
    /// Gap between heartbeats to a broker. Default 30 s (`heartbeatBrokerInterval`); a broker forgets
    /// a member after 120 s.
    heartbeat_interval / set_heartbeat_interval: Duration = secs(30);
    /// How long a request may take unless it has a time of its own. Default 3 s (`mqClientApiTimeout`).
    request_timeout / set_request_timeout: Duration = secs(3);
    /// How long an offset query, an offset commit and a send back may take. Default 5 s.
    offset_timeout / set_offset_timeout: Duration = secs(5);
    /// How long one attempt to connect may take. Default 3 s.
    dial_timeout / set_dial_timeout: Duration = secs(3);
    /// First pause between two attempts to connect; doubles up to [`Self::set_dial_backoff_max`].
    /// Default 100 ms, ± 20 %.
    dial_backoff / set_dial_backoff: Duration = millis(100);
    /// Longest pause between attempts during the first five minutes of an outage. Default 1 s.
    dial_backoff_max / set_dial_backoff_max: Duration = secs(1);
    /// Longest pause between attempts after five minutes of outage. Default 10 s.
    dial_backoff_long / set_dial_backoff_long: Duration = secs(10);
    /// A link is closed when a request of it is past its deadline and no byte came since it was sent,
    /// at the earliest this long after sending. Default 10 s.
    silence_min / set_silence_min: Duration = secs(10);
    /// How long a master is out of reach before a slave is read in its place, and within reach again before it
    /// is read again, unless the slave sends us back. Default 3 s. Java reads a slave only when the name servers
    /// miss the master; 1 h comes close to that.
    slave_read_after / set_slave_read_after: Duration = secs(3);
    /// Largest value of a frame's length word, in bytes. Default and largest: 16,777,212, what a
    /// Java peer accepts.
    frame_len_max / set_frame_len_max: u32 = 16_777_212;
    /// How the headers of what we send are written, answers to a broker's requests among it
    /// (`rocketmq.serialize.type`). Default JSON. What the binary form cannot carry, such as a code of more than
    /// 16 bits, is written in JSON all the same: every peer looks at each frame. What peers send is read in
    /// either form.
    header_form / set_header_form: HeaderForm = HeaderForm::Json;
    /// Requests that may wait for answers on one link. Default 4,096; one more fails at once.
    requests_per_link_max / set_requests_per_link_max: u32 = 4_096;
    /// Bytes that may wait to be written to one slow peer. Default 16 MiB; a request beyond it fails
    /// at once.
    send_queue_bytes_max / set_send_queue_bytes_max: u64 = 16 * MIB;
    /// Groups the client may hold at once, those that are leaving included. Default 64, 1..=1024: every
    /// heartbeat names all of them, and one task carries them.
    groups_max / set_groups_max: u32 = 64;
    /// Names what this member stores for itself; has to be the same after a restart, and another one for each
    /// process that stores in the same place (`instanceName`). Default `DEFAULT`; 1 to 128 bytes. Only groups that
    /// broadcast store anything.
    instance / set_instance: String = String::from("DEFAULT");
    /// The same notice about the same subject is repeated no more often than this, that a request is refused six
    /// times more rarely. Default 10 s.
    notice_interval / set_notice_interval: Duration = secs(10);
}

impl ClientConfig {
    /// A client with its id, unique among all members of its groups, and the name servers to ask.
    #[must_use]
    pub fn new(client_id: ClientId, name_servers: Vec<PeerAddr>) -> Self {
        Self::with_defaults(client_id, name_servers)
    }

    /// This member's id.
    #[must_use]
    pub const fn client_id(&self) -> &ClientId {
        &self.client_id
    }

    /// The name servers.
    #[must_use]
    pub fn name_servers(&self) -> &[PeerAddr] {
        &self.name_servers
    }

    /// # Errors
    /// The first setting that cannot work, and why.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.client_id.as_str().trim().is_empty() {
            return Err(ConfigError::new("client_id", "must not be blank"));
        }
        if self.client_id.as_str().len() > 1024 {
            return Err(ConfigError::new("client_id", "must be at most 1024 bytes long"));
        }
        if self.name_servers.is_empty() {
            return Err(ConfigError::new("name_servers", "give at least one as host:port"));
        }
        for (key, value) in [
            ("route_interval", self.route_interval),
            ("route_retry", self.route_retry),
            ("heartbeat_interval", self.heartbeat_interval),
            ("request_timeout", self.request_timeout),
            ("offset_timeout", self.offset_timeout),
            ("dial_timeout", self.dial_timeout),
            ("dial_backoff", self.dial_backoff),
            ("silence_min", self.silence_min),
            ("slave_read_after", self.slave_read_after),
        ] {
            if value < millis(1) || value > secs(3600) {
                return Err(ConfigError::new(key, "must lie between 1 ms and 1 h"));
            }
        }
        if self.heartbeat_interval > secs(60) {
            return Err(ConfigError::new(
                "heartbeat_interval",
                "must be at most 60 s: a broker forgets a member after 120 s of silence",
            ));
        }
        if self.dial_backoff > self.dial_backoff_max || self.dial_backoff_max > self.dial_backoff_long {
            return Err(ConfigError::new(
                "dial_backoff",
                "dial_backoff, dial_backoff_max and dial_backoff_long must not decrease",
            ));
        }
        if !(1024..=16_777_212).contains(&self.frame_len_max) {
            return Err(ConfigError::new(
                "frame_len_max",
                "must lie between 1024 and 16777212",
            ));
        }
        if self.requests_per_link_max == 0 || self.send_queue_bytes_max < 64 * 1024 {
            return Err(ConfigError::new(
                "requests_per_link_max",
                "must be at least 1, and send_queue_bytes_max at least 65536",
            ));
        }
        if self.instance.trim().is_empty() || self.instance.len() > 128 {
            return Err(ConfigError::new(
                "instance",
                "must not be blank, and have at most 128 bytes",
            ));
        }
        check_range("groups_max", self.groups_max, 1, 1024)
    }
}

/// Where a group starts in a queue for which no offset is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum StartAt {
    /// Behind the newest message (`CONSUME_FROM_LAST_OFFSET`). Unlike Java this holds on young topics
    /// too, see [`GroupConfig::set_latest_like_java`].
    #[default]
    Latest,
    /// At the oldest message (`CONSUME_FROM_FIRST_OFFSET`).
    Earliest,
    /// At the first message stored at or after this time (`CONSUME_FROM_TIMESTAMP`).
    Time(WallTime),
}

/// What happens to a message that this client cannot read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum UndecodablePolicy {
    /// It is sent to the dead letter topic by its physical offset, then counts as settled.
    #[default]
    DeadLetter,
    /// It is delivered; asking for its body gives the error.
    Deliver,
    /// It stays; progress does not pass it until somebody decides.
    Hold,
    /// It is dropped, with a notice.
    Skip,
}

/// Where a queue goes on when its broker says that it does not have the offset that was asked for
/// (`PULL_OFFSET_MOVED`), because what is below has expired, a crash cost the queue its end, or the topic was deleted
/// and made again.
///
/// It is never asked for what a slave says, which may be behind, and never for an operator's reset, which is always
/// followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum IllegalOffsetPolicy {
    /// Nothing that the queue has and this member has not seen is skipped, and nothing else is read again: the oldest
    /// message if ours have expired; where the queue ends below our position, the first message that was stored after
    /// the newest one we have seen. A member that has seen nothing of the queue yet goes where the broker says.
    #[default]
    Resume,
    /// Where the broker says, as the Java client does: the oldest message if ours have expired, else the end of the
    /// queue. What was written to it before the member noticed is skipped.
    Follow,
    /// At the oldest message.
    Earliest,
    /// Behind the newest message.
    Latest,
    /// Nowhere: the queue is held, visible in the status, until an operator resets the group, the offset is legal
    /// again, or the member starts anew with another policy.
    Hold,
}

/// What happens to a failed message whose send back is refused for good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum SendBackFallback {
    /// A copy is produced to the group's retry topic, on another broker first, with the delay that was asked
    /// for; a dead letter is produced so that the broker buries it at once. If that is refused too, the
    /// message is delivered again here.
    ///
    /// A broker that holds an unexpired queue lock of the group buries every produced copy: a group that is
    /// also consumed in order should choose [`Self::Local`].
    #[default]
    Produce,
    /// The message is delivered again here, without a copy.
    Local,
}

/// Who gets a message: one member of the group, or all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum MessageModel {
    /// The members share the queues; offsets live on the brokers.
    #[default]
    Clustering,
    /// Every member gets every queue. Offsets live with the member, in a store; the broker is told none. A message
    /// that fails is reported and dropped: to send it back would bring it to every member again.
    Broadcasting,
}

/// How deliveries of one queue relate to each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ConsumeMode {
    /// Messages of a queue are handled side by side.
    #[default]
    Concurrently,
    /// One after another: a queue is consumed under a lock of its broker, which no other member can have at the
    /// same time, and what fails comes again before anything behind it. While all is well each message is delivered
    /// once and in the order of the queue; after a member died its successor begins where it had committed.
    Orderly,
}

/// What follows when the offsets that are stored with a member can be read neither where they are nor from their
/// backup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum DamagedStore {
    /// The group does not start, and the error names the place: somebody decides what is read twice or skipped.
    #[default]
    Refuse,
    /// Every queue begins by the start policy; what cannot be read is kept aside.
    StartOver,
}

settings! {
    /// One consumer group of a client: what it reads, from where, and how much it may hold.
    GroupConfig { group: ConsumerGroup, subscriptions: Vec<(Topic, FilterExpression)>, max_reconsume: Option<u32> }

    /// Clustering (default) or broadcasting (`messageModel`).
    model / set_model: MessageModel = MessageModel::Clustering;
    /// What follows when stored offsets of a group that broadcasts cannot be read. Default: it does not start.
    damaged_store / set_damaged_store: DamagedStore = DamagedStore::Refuse;
    /// Concurrently (default) or orderly.
    mode / set_mode: ConsumeMode = ConsumeMode::Concurrently;
    /// Where to start when nothing is stored (`consumeFromWhere`). Default latest.
    start_at / set_start_at: StartAt = StartAt::Latest;
    /// Lets [`StartAt::Latest`] start at 0 on a young topic, as the Java client does. Default false.
    latest_like_java / set_latest_like_java: bool = false;
    /// Where to go on when a broker does not have the offset that was asked for. Default: where nothing is lost.
    illegal_offset / set_illegal_offset: IllegalOffsetPolicy = IllegalOffsetPolicy::Resume;
    /// How queues are shared (`allocateMessageQueueStrategy`). All members must use the same one. Default
    /// averagely.
    strategy / set_strategy: AllocateStrategy = AllocateStrategy::Averagely;
    /// How long the application may compute a share with an own strategy; then the topic stays as it is and
    /// is asked for again. Default 5 s.
    allocate_timeout / set_allocate_timeout: Duration = secs(5);
    /// Handler calls that may run at once (`consumeThreadMax`). Default 20, 1..=1000.
    concurrency / set_concurrency: u32 = 20;
    /// Most messages in one handler call (`consumeMessageBatchMaxSize`). Default 1, 1..=1024.
    handler_batch / set_handler_batch: u32 = 1;
    /// Messages asked for in one pull (`pullBatchSize`). Default 32, 1..=1024; brokers cap it at 32.
    pull_batch / set_pull_batch: u32 = 32;
    /// No pull for a queue that holds this many unfinished messages (`pullThresholdForQueue`).
    /// Default 1000, 1..=65535.
    queue_count_max / set_queue_count_max: u32 = 1000;
    /// No pull for a queue that holds this many body bytes as stored (`pullThresholdSizeForQueue`).
    /// Default 100 MiB.
    queue_bytes_max / set_queue_bytes_max: u64 = 100 * MIB;
    /// No pull for a queue whose highest fetched offset lies more than this above its lowest
    /// unfinished one (`consumeConcurrentlyMaxSpan`). Default 2000, 1..=65535. It bounds what is
    /// delivered again after a member died.
    queue_span_max / set_queue_span_max: u32 = 2000;
    /// Bytes of pull answers the whole group may hold; an empty queue may always take one answer.
    /// Default 64 MiB.
    buffer_bytes_max / set_buffer_bytes_max: u64 = 64 * MIB;
    /// How long a broker holds a pull when there is no message (`brokerSuspendMaxTimeMillis`).
    /// Default 15 s.
    pull_hold / set_pull_hold: Duration = secs(15);
    /// When an unanswered pull is given up (`consumerTimeoutMillisWhenSuspend`); must exceed
    /// `pull_hold`, since a broker looks at held pulls every 5 s. Default 23 s.
    pull_deadline / set_pull_deadline: Duration = secs(23);
    /// First pause after a failed pull; doubles to [`Self::set_pull_retry_max`] while the failure is
    /// of a permanent kind (`pullTimeDelayMillsWhenException`). Default 1 s.
    pull_retry / set_pull_retry: Duration = secs(1);
    /// Longest pause after failed pulls. Default 30 s.
    pull_retry_max / set_pull_retry_max: Duration = secs(30);
    /// Pause after a broker's flow control answer. Default 20 ms.
    flow_control_pause / set_flow_control_pause: Duration = millis(20);
    /// How often changed offsets are committed (`persistConsumerOffsetInterval`). Default 5 s.
    commit_interval / set_commit_interval: Duration = secs(5);
    /// The safety net under notifications: at the latest this long after the last one the group
    /// rebalances. Default 20 s (`rocketmq.client.rebalance.waitInterval`).
    rebalance_interval / set_rebalance_interval: Duration = secs(20);
    /// How long notifications are collected before the group rebalances. Default and most: 50 ms.
    notify_debounce / set_notify_debounce: Duration = millis(50);
    /// How long running handlers of a revoked queue may finish with a commit. Default 250 ms, at most
    /// 450 ms: a Java member asks for the offset when it acquires the queue and pulls 500 ms later.
    revoke_grace / set_revoke_grace: Duration = millis(250);
    /// How long to wait before asking for the offset of a queue that another member may still hold.
    /// Default 500 ms; alone in the group there is no wait.
    takeover_delay / set_takeover_delay: Duration = millis(500);
    /// How long one delivery may take before its token is cancelled (`consumeTimeout`). Default 15 min.
    delivery_deadline / set_delivery_deadline: Duration = secs(15 * 60);
    /// How long a cancelled handler may still run before its future is dropped. Default 5 s.
    cancel_grace / set_cancel_grace: Duration = secs(5);
    /// How often a refused send back is tried again before the fallback, after 1 s, 2 s, 4 s … 32 s. One
    /// whose answer is missing is not tried again: the broker may have stored the copy. Default 2, 0..=64.
    send_back_retries / set_send_back_retries: u32 = 2;
    /// What follows when a send back is refused for good. Default: a copy is produced.
    send_back_fallback / set_send_back_fallback: SendBackFallback = SendBackFallback::Produce;
    /// How long a queue that is consumed in order rests after [`OrderlyOutcome::Suspend`](
    /// crate::message::OrderlyOutcome::Suspend) (`suspendCurrentQueueTimeMillis`). Default 1 s, 10 ms..=30 s.
    suspend_time / set_suspend_time: Duration = secs(1);
    /// How long the running handler of a queue that is consumed in order and goes to another member may go on before
    /// its token is cancelled. The lock is kept until the handler has ended, however long that takes: the next owner
    /// must not overtake it. Default 30 s, 0..=1 h; Java waits 20 s and then unlocks all the same.
    orderly_revoke_max / set_orderly_revoke_max: Duration = secs(30);
    /// Pause before a message that could neither be sent back nor produced is delivered again here.
    /// Default 5 s.
    local_retry / set_local_retry: Duration = secs(5);
    /// A queue that has messages and has finished none for this long is told of as stalled, and once more
    /// each time it has passed again. Default 60 s, 1 s..=1 day.
    stalled_after / set_stalled_after: Duration = secs(60);
    /// Messages that operators may have this member consume directly at one time (`CONSUME_MESSAGE_DIRECTLY`); one
    /// more is refused. Default 2, 0..=64: with 0 it is never done.
    consume_directly_max / set_consume_directly_max: u32 = 2;
    /// How long such a message may take, its wait for a free handler included; then its token is cancelled and the
    /// operator told. Default 9 s: a broker gives up after 10 s and knows no reason. 1 ms..=1 h.
    consume_directly_deadline / set_consume_directly_deadline: Duration = secs(9);
    /// What to do with messages that cannot be read. A compression this build does not know is
    /// always held.
    undecodable / set_undecodable: UndecodablePolicy = UndecodablePolicy::DeadLetter;
    /// Largest body after decompression, in bytes; a larger one is undecodable. Default 16 MiB.
    body_bytes_max / set_body_bytes_max: u64 = 16 * MIB;
    /// Messages of inner batches (topics with `queue.type=BatchCQ`) that one pull answer may bring; what is
    /// behind them is pulled again. Default 1024, 1..=65535.
    inner_batch_messages_max / set_inner_batch_messages_max: u32 = 1024;
    /// Bytes that messages of inner batches may take beside one pull answer; the first one always may, what is
    /// behind them is pulled again. Default 16 MiB. `body_bytes_max` holds for a batch as a whole.
    inner_batch_bytes_max / set_inner_batch_bytes_max: u64 = 16 * MIB;
    /// Whether a body whose checksum does not match is undecodable. Default false: it is delivered,
    /// with a notice, because brokers do not guarantee the field on every path.
    crc_reject / set_crc_reject: bool = false;
    /// How fast messages are handed to handlers, over the whole group. It holds back deliveries and trips no
    /// deadline. Default: no limit. Changed at run time by [`AppEvent::RateLimit`](crate::event::AppEvent::RateLimit).
    rate_limit / set_rate_limit: Option<Rate> = None;
    /// The same for single topics, beside the limit of the group. Default: none.
    topic_rate_limits / set_topic_rate_limits: Vec<(Topic, Rate)> = Vec::new();
    /// Topics and queues that may be named by pauses and rates at one time. Default 1024, 1..=65535.
    flow_names_max / set_flow_names_max: u32 = 1024;
    /// Unfinished messages of one topic (`pullThresholdForTopic`), shared evenly by the queues of it that this
    /// member owns; a queue has one at least, and never more than `queue_count_max`. Default none, 1..=6553500.
    topic_count_max / set_topic_count_max: Option<u32> = None;
    /// Body bytes as stored of one topic (`pullThresholdSizeForTopic`), shared likewise. Default none.
    topic_bytes_max / set_topic_bytes_max: Option<u64> = None;
}

impl GroupConfig {
    /// A group without subscriptions yet.
    #[must_use]
    pub fn new(group: ConsumerGroup) -> Self {
        Self::with_defaults(group, Vec::new(), None)
    }

    /// How often a message is tried again before it becomes a dead letter (`maxReconsumeTimes`), 0..=2147483647.
    /// Default: 16 times where messages are handled side by side, without end where they are consumed in order, for
    /// what is buried there is missing in the order.
    pub const fn set_max_reconsume(&mut self, times: u32) -> &mut Self {
        self.max_reconsume = Some(times);
        self
    }

    /// What [`Self::set_max_reconsume`] set, or the default of the mode.
    #[must_use]
    pub const fn max_reconsume(&self) -> u32 {
        match (self.max_reconsume, self.mode) {
            (Some(times), _) => times,
            (None, ConsumeMode::Concurrently) => 16,
            (None, ConsumeMode::Orderly) => FOR_EVER,
        }
    }

    /// Whether queues are consumed in order.
    #[must_use]
    pub const fn is_orderly(&self) -> bool {
        matches!(self.mode, ConsumeMode::Orderly)
    }

    /// The group's name.
    #[must_use]
    pub const fn group(&self) -> &ConsumerGroup {
        &self.group
    }

    /// Subscribes to a topic. Text means tags: an empty expression or `*` every message, `a || b` messages
    /// tagged so. Subscribing again to the same topic *replaces* its expression.
    ///
    /// All members of a group must subscribe alike, or messages are filtered away and queues lie idle: see
    /// [`NoticeKind::SubscriptionsDiffer`](crate::notice::NoticeKind::SubscriptionsDiffer).
    pub fn subscribe(&mut self, topic: Topic, filter: impl Into<FilterExpression>) -> &mut Self {
        self.subscriptions.push((topic, filter.into()));
        self
    }

    /// Subscribes to the messages of a topic whose properties meet an SQL92 condition, see
    /// [`FilterExpression::Sql92`]. Brokers hear nothing of the group before one of them has approved of it; one
    /// that is refused is told by [`NoticeKind::FilterRefused`](crate::notice::NoticeKind::FilterRefused).
    pub fn subscribe_sql(&mut self, topic: Topic, condition: impl Into<String>) -> &mut Self {
        self.subscribe(topic, FilterExpression::sql92(condition.into()))
    }

    /// The subscriptions in the order they were made.
    #[must_use]
    pub fn subscriptions(&self) -> &[(Topic, FilterExpression)] {
        &self.subscriptions
    }

    /// # Errors
    /// The first setting that cannot work, and why.
    pub fn check(&self) -> Result<(), ConfigError> {
        check_group_name(self.group.as_str())?;
        if self.subscriptions.is_empty() {
            return Err(ConfigError::new("subscribe", "subscribe to at least one topic"));
        }
        if self.subscriptions.len() > SUBSCRIPTIONS_MAX {
            let why = alloc::format!("subscribe to at most {SUBSCRIPTIONS_MAX} topics");
            return Err(ConfigError::new("subscribe", why));
        }
        for (topic, filter) in &self.subscriptions {
            check_subscription(&self.group, topic, filter)?;
        }
        if self.model == MessageModel::Broadcasting && self.mode == ConsumeMode::Orderly {
            return Err(ConfigError::new(
                "mode",
                "orderly consumption locks queues against other members, and a group that broadcasts has every \
                 queue at every member; use a concurrency of 1",
            ));
        }
        self.strategy
            .check()
            .map_err(|why| ConfigError::new("strategy", why))?;
        check_range(
            "concurrency",
            self.concurrency,
            *CONCURRENCY.start(),
            *CONCURRENCY.end(),
        )?;
        check_range("handler_batch", self.handler_batch, 1, 1024)?;
        check_range("pull_batch", self.pull_batch, 1, 1024)?;
        check_range("queue_count_max", self.queue_count_max, 1, 65_535)?;
        check_range("queue_span_max", self.queue_span_max, 1, 65_535)?;
        let messages = self.inner_batch_messages_max;
        check_range("inner_batch_messages_max", messages, 1, 65_535)?;
        for (key, bytes) in [
            ("queue_bytes_max", self.queue_bytes_max),
            ("buffer_bytes_max", self.buffer_bytes_max),
            ("body_bytes_max", self.body_bytes_max),
            ("inner_batch_bytes_max", self.inner_batch_bytes_max),
        ] {
            if bytes == 0 {
                return Err(ConfigError::new(key, "must be above 0"));
            }
        }
        check_range("max_reconsume", self.max_reconsume(), 0, FOR_EVER)?;
        check_range("send_back_retries", self.send_back_retries, 0, 64)?;
        check_range("consume_directly_max", self.consume_directly_max, 0, 64)?;
        self.check_flow()?;
        self.check_times()
    }

    fn check_flow(&self) -> Result<(), ConfigError> {
        check_range("flow_names_max", self.flow_names_max, 1, 65_535)?;
        if let Some(rate) = self.rate_limit {
            check_rate("rate_limit", rate)?;
        }
        if self.topic_rate_limits.len() > self.flow_names_max as usize {
            let why = "names more topics than flow_names_max allows";
            return Err(ConfigError::new("topic_rate_limits", why));
        }
        for (_, rate) in &self.topic_rate_limits {
            check_rate("topic_rate_limits", *rate)?;
        }
        if let Some(count) = self.topic_count_max {
            check_range("topic_count_max", count, 1, 6_553_500)?;
        }
        if self.topic_bytes_max == Some(0) {
            return Err(ConfigError::new("topic_bytes_max", "must be above 0"));
        }
        Ok(())
    }

    fn check_times(&self) -> Result<(), ConfigError> {
        if self.pull_deadline <= self.pull_hold {
            return Err(ConfigError::new(
                "pull_deadline",
                "pull_deadline must be longer than pull_hold: a broker answers a held pull at the end of \
                 the hold and up to 5 s later",
            ));
        }
        if self.notify_debounce > millis(50) {
            return Err(ConfigError::new("notify_debounce", "must be at most 50 ms"));
        }
        if self.revoke_grace > millis(450) {
            return Err(ConfigError::new(
                "revoke_grace",
                "must be at most 450 ms: a Java member pulls 500 ms after it asked for the offset",
            ));
        }
        for (key, value, least, most) in [
            ("pull_hold", self.pull_hold, millis(1), secs(3600)),
            ("pull_deadline", self.pull_deadline, millis(2), secs(7200)),
            ("pull_retry", self.pull_retry, millis(1), self.pull_retry_max),
            ("pull_retry_max", self.pull_retry_max, millis(1), secs(3600)),
            ("flow_control_pause", self.flow_control_pause, millis(1), secs(60)),
            ("commit_interval", self.commit_interval, millis(10), secs(3600)),
            (
                "rebalance_interval",
                self.rebalance_interval,
                millis(100),
                secs(3600),
            ),
            ("allocate_timeout", self.allocate_timeout, millis(1), secs(3600)),
            ("takeover_delay", self.takeover_delay, Duration::ZERO, secs(60)),
            (
                "suspend_time",
                self.suspend_time,
                *SUSPEND_TIME.start(),
                *SUSPEND_TIME.end(),
            ),
            (
                "orderly_revoke_max",
                self.orderly_revoke_max,
                Duration::ZERO,
                secs(3600),
            ),
            (
                "delivery_deadline",
                self.delivery_deadline,
                millis(1),
                secs(30 * 24 * 3600),
            ),
            ("cancel_grace", self.cancel_grace, millis(1), secs(3600)),
            ("local_retry", self.local_retry, millis(1), secs(3600)),
            ("stalled_after", self.stalled_after, secs(1), secs(24 * 3600)),
            (
                "consume_directly_deadline",
                self.consume_directly_deadline,
                millis(1),
                secs(3600),
            ),
        ] {
            if value < least || value > most {
                let why = alloc::format!("must lie between {least:?} and {most:?}");
                return Err(ConfigError::new(key, why));
            }
        }
        Ok(())
    }
}

/// Longest name of a user's topic, in bytes.
pub const TOPIC_LEN_MAX: usize = 127;

/// Longest name of a consumer group, in bytes: `%RETRY%` and the name make a topic.
pub const GROUP_LEN_MAX: usize = 120;

/// # Errors
/// Why a broker would not take the name.
pub fn check_group_name(name: &str) -> Result<(), ConfigError> {
    check_name("group", "group", name, GROUP_LEN_MAX)?;
    if name == "DEFAULT_CONSUMER" {
        return Err(ConfigError::new(
            "group",
            "DEFAULT_CONSUMER is reserved; choose a name of your own",
        ));
    }
    Ok(())
}

/// # Errors
/// Why a broker would not take the name of a topic.
pub fn check_topic_name(name: &str) -> Result<(), ConfigError> {
    check_name("topic", "topic", name, TOPIC_LEN_MAX)
}

fn check_name(key: &'static str, what: &str, name: &str, len_max: usize) -> Result<(), ConfigError> {
    if name.trim().is_empty() {
        return Err(ConfigError::new(
            key,
            alloc::format!("the {what} must not be blank"),
        ));
    }
    if name.len() > len_max {
        let why = alloc::format!(
            "the {what} {name:?} has {} bytes, at most {len_max} are allowed",
            name.len()
        );
        return Err(ConfigError::new(key, why));
    }
    let legal = |c: char| c.is_ascii_alphanumeric() || "%|-_".contains(c);
    if let Some(bad) = name.chars().find(|c| !legal(*c)) {
        let why = alloc::format!(
            "the {what} {name:?} contains {bad:?}; letters, digits, %, |, - and _ are allowed"
        );
        return Err(ConfigError::new(key, why));
    }
    Ok(())
}

/// # Errors
/// Why a group cannot subscribe to that.
pub(crate) fn check_subscription(
    group: &ConsumerGroup,
    topic: &Topic,
    filter: &FilterExpression,
) -> Result<(), ConfigError> {
    check_name("subscribe", "topic", topic.as_str(), TOPIC_LEN_MAX)?;
    if topic.as_str().strip_prefix("%RETRY%") == Some(group.as_str()) {
        let why = alloc::format!("{topic} is the group's own retry topic, which it always reads");
        return Err(ConfigError::new("subscribe", why));
    }
    filter.check(topic)
}

/// # Errors
/// Why messages cannot be handed out at this rate.
pub fn check_rate(key: &'static str, rate: Rate) -> Result<(), ConfigError> {
    for value in [rate.messages_per_second(), rate.burst()] {
        check_range(key, value, *RATE.start(), *RATE.end())?;
    }
    Ok(())
}

fn check_range(key: &'static str, value: u32, least: u32, most: u32) -> Result<(), ConfigError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(ConfigError::new(
        key,
        alloc::format!("{value} is out of range, use {least} to {most}"),
    ))
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;
    use alloc::vec;

    use super::*;

    fn client() -> ClientConfig {
        ClientConfig::new("10.0.0.1@7".into(), vec![PeerAddr::new("ns.local", 9876)])
    }

    fn group() -> GroupConfig {
        let mut group = GroupConfig::new("orders".into());
        group.subscribe("T".into(), "*");
        group
    }

    /// The setting that is refused, if one is.
    fn client_key(change: impl FnOnce(&mut ClientConfig)) -> Option<&'static str> {
        let mut config = client();
        change(&mut config);
        config.check().err().map(|error| error.key)
    }

    fn group_key(change: impl FnOnce(&mut GroupConfig)) -> Option<&'static str> {
        let mut config = group();
        change(&mut config);
        config.check().err().map(|error| error.key)
    }

    #[test]
    fn defaults_are_good() {
        assert_eq!((client().check(), group().check()), (Ok(()), Ok(())));
    }

    /// A range and the values on both sides of both of its ends.
    macro_rules! ends {
        ($key:ident, $($set:ident: $good:expr, $bad:expr;)*) => {$(
            for value in $good {
                assert_eq!($key(|c| { c.$set(value); }), None, "{} {value:?}", stringify!($set));
            }
            for value in $bad {
                let key = $key(|c| { c.$set(value); }).expect(stringify!($set));
                assert_eq!(["set_", key].concat(), stringify!($set), "{value:?}");
            }
        )*};
    }

    #[test]
    fn times_of_a_client_have_ends() {
        const ZERO: Duration = Duration::ZERO;
        let hour = secs(3600);
        let more = hour + millis(1);
        ends! { client_key,
            set_route_interval: [millis(1), hour], [ZERO, more];
            set_route_retry: [millis(1), hour], [ZERO, more];
            set_heartbeat_interval: [millis(1), secs(60)], [ZERO, secs(61), more];
            set_request_timeout: [millis(1), hour], [ZERO, more];
            set_offset_timeout: [millis(1), hour], [ZERO, more];
            set_dial_timeout: [millis(1), hour], [ZERO, more];
            set_silence_min: [millis(1), hour], [ZERO, more];
            set_slave_read_after: [millis(1), hour], [ZERO, more];
            set_dial_backoff: [millis(1), secs(1)], [ZERO, millis(1_001)];
            set_frame_len_max: [1024, 16_777_212], [0, 1023, 16_777_213];
            set_requests_per_link_max: [1, u32::MAX], [0];
            set_groups_max: [1, 1024], [0, 1025];
        }
        assert_eq!(
            client_key(|c| {
                c.set_send_queue_bytes_max(65_535);
            }),
            Some("requests_per_link_max")
        );
        assert_eq!(
            client_key(|c| {
                c.set_dial_backoff_max(secs(11));
            }),
            Some("dial_backoff")
        );
        assert_eq!(
            client_key(|c| {
                c.set_dial_backoff_long(millis(999));
            }),
            Some("dial_backoff")
        );
    }

    #[test]
    fn what_a_member_stores_has_a_name() {
        for (name, good) in [("a", true), ("", false), (" ", false)] {
            let key = client_key(|c| {
                c.set_instance(name.into());
            });
            assert_eq!(key, (!good).then_some("instance"), "{name:?}");
        }
        for (bytes, key) in [(128, None), (129, Some("instance"))] {
            let refused = client_key(|c| {
                c.set_instance("x".repeat(bytes));
            });
            assert_eq!(refused, key, "{bytes}");
        }
    }

    #[test]
    fn a_client_has_an_id_and_a_name_server() {
        let servers = || vec![PeerAddr::new("ns.local", 9876)];
        for (config, key) in [
            (ClientConfig::new(" ".into(), servers()), "client_id"),
            (ClientConfig::new("x".repeat(1025).into(), servers()), "client_id"),
            (ClientConfig::new("me".into(), vec![]), "name_servers"),
        ] {
            assert_eq!(config.check().map_err(|error| error.key), Err(key));
        }
        assert_eq!(
            ClientConfig::new("x".repeat(1024).into(), servers()).check(),
            Ok(())
        );
    }

    #[test]
    fn settings_of_a_group_have_ends() {
        const ZERO: Duration = Duration::ZERO;
        let hour = secs(3600);
        let more = hour + millis(1);
        ends! { group_key,
            set_concurrency: [1, 1000], [0, 1001];
            set_handler_batch: [1, 1024], [0, 1025];
            set_pull_batch: [1, 1024], [0, 1025];
            set_queue_count_max: [1, 65_535], [0, 65_536];
            set_queue_span_max: [1, 65_535], [0, 65_536];
            set_queue_bytes_max: [1, u64::MAX], [0];
            set_buffer_bytes_max: [1, u64::MAX], [0];
            set_body_bytes_max: [1, u64::MAX], [0];
            set_inner_batch_messages_max: [1, 65_535], [0, 65_536];
            set_inner_batch_bytes_max: [1, u64::MAX], [0];
            set_max_reconsume: [0, i32::MAX.unsigned_abs()], [u32::MAX];
            set_pull_hold: [millis(1), millis(22_999)], [ZERO];
            set_pull_deadline: [millis(15_001), secs(7200)], [ZERO, secs(15), secs(7201)];
            set_pull_retry: [millis(1), secs(30)], [ZERO, millis(30_001)];
            set_pull_retry_max: [secs(1), hour], [more];
            set_flow_control_pause: [millis(1), secs(60)], [ZERO, secs(61)];
            set_commit_interval: [millis(10), hour], [millis(9), more];
            set_rebalance_interval: [millis(100), hour], [millis(99), more];
            set_notify_debounce: [ZERO, millis(50)], [millis(51)];
            set_revoke_grace: [ZERO, millis(450)], [millis(451)];
            set_allocate_timeout: [millis(1), hour], [ZERO, more];
            set_takeover_delay: [ZERO, secs(60)], [secs(61)];
            set_delivery_deadline: [millis(1), secs(30 * 24 * 3600)], [ZERO, secs(30 * 24 * 3600 + 1)];
            set_cancel_grace: [millis(1), hour], [ZERO, more];
            set_local_retry: [millis(1), hour], [ZERO, more];
            set_suspend_time: [millis(10), secs(30)], [millis(9), millis(30_001)];
            set_orderly_revoke_max: [ZERO, hour], [more];
            set_send_back_retries: [0, 64], [65];
            set_consume_directly_max: [0, 64], [65];
            set_consume_directly_deadline: [millis(1), hour], [ZERO, more];
            set_rate_limit: [None, Some(Rate::per_second(1)), Some(Rate::per_second(1_000_000)),
                Some(Rate::per_second(1).with_burst(1_000_000))],
                [Some(Rate::per_second(0)), Some(Rate::per_second(1_000_001)),
                Some(Rate::per_second(5).with_burst(0)), Some(Rate::per_second(5).with_burst(1_000_001))];
            set_flow_names_max: [1, 65_535], [0, 65_536];
            set_topic_count_max: [None, Some(1), Some(6_553_500)], [Some(0), Some(6_553_501)];
            set_topic_bytes_max: [None, Some(1), Some(u64::MAX)], [Some(0)];
            set_stalled_after: [secs(1), secs(24 * 3600)], [millis(999), secs(24 * 3600 + 1)];
        }
        assert_eq!(
            group_key(|c| {
                c.set_model(MessageModel::Broadcasting);
            }),
            None
        );
        assert_eq!(
            group_key(|c| {
                c.set_model(MessageModel::Broadcasting)
                    .set_mode(ConsumeMode::Orderly);
            }),
            Some("mode")
        );
        assert_eq!(
            group_key(|c| {
                c.set_strategy(AllocateStrategy::ConsistentHash { virtual_nodes: 0 });
            }),
            Some("strategy")
        );
    }

    #[test]
    fn retries_end_unless_messages_are_consumed_in_order() {
        for (mode, set, times) in [
            (ConsumeMode::Concurrently, None, 16),
            (ConsumeMode::Orderly, None, i32::MAX.unsigned_abs()),
            (ConsumeMode::Concurrently, Some(3), 3),
            (ConsumeMode::Orderly, Some(3), 3),
        ] {
            let mut config = group();
            if let Some(times) = set {
                config.set_max_reconsume(times);
            }
            config.set_mode(mode);
            assert_eq!(
                (config.max_reconsume(), config.check()),
                (times, Ok(())),
                "{mode:?} {set:?}"
            );
        }
    }

    #[test]
    fn rates_of_topics_have_ends_and_there_are_not_too_many() {
        for (rate, times, good) in [
            (Rate::per_second(1), 0, true),
            (Rate::per_second(1), 1024, true),
            (Rate::per_second(1), 1025, false),
            (Rate::per_second(0), 1, false),
        ] {
            let key = group_key(|c| {
                c.set_topic_rate_limits(vec![("T".into(), rate); times]);
            });
            assert_eq!(key, (!good).then_some("topic_rate_limits"), "{rate:?} {times}");
        }
    }

    #[test]
    fn a_pull_must_outlast_its_hold_and_the_error_names_both() {
        for (hold, good) in [(15_000, false), (14_999, true), (15_001, false)] {
            let mut config = group();
            config.set_pull_deadline(secs(15)).set_pull_hold(millis(hold));
            match config.check() {
                Ok(()) => assert!(good, "{hold}"),
                Err(error) => {
                    let text = error.to_string();
                    assert!(
                        !good && text.contains("pull_hold") && text.contains("pull_deadline"),
                        "{text}"
                    );
                }
            }
        }
    }

    #[test]
    fn names_are_those_a_broker_takes() {
        let long = |len| "x".repeat(len);
        for (name, good) in [
            ("orders-2_x%|", true),
            (&*long(120), true),
            (&*long(121), false),
            ("", false),
            ("  ", false),
            ("a b", false),
            ("größe", false),
            ("a.b", false),
            ("DEFAULT_CONSUMER", false),
        ] {
            assert_eq!(check_group_name(name).is_ok(), good, "{name:?}");
        }
        for (topic, good) in [
            (&*long(127), true),
            (&*long(128), false),
            ("a/b", false),
            ("", false),
        ] {
            let key = group_key(|c| {
                c.subscribe(topic.into(), "*");
            });
            assert_eq!(key, (!good).then_some("subscribe"), "{topic:?}");
        }
    }

    #[test]
    fn a_subscription_names_a_tag_or_everything() {
        for (topic, filter, good) in [
            ("T", FilterExpression::from("a || b"), true),
            ("T", "||".into(), false),
            ("T", FilterExpression::sql92("a > 3"), true),
            ("T", FilterExpression::sql92(""), false),
            ("%RETRY%g", "*".into(), false),
            ("%RETRY%h", "*".into(), true),
        ] {
            let mut config = GroupConfig::new("g".into());
            config.subscribe(topic.into(), filter.clone());
            assert_eq!(config.check().is_ok(), good, "{topic} {filter}");
        }
        let mut config = GroupConfig::new("g".into());
        assert_eq!(config.check().map_err(|error| error.key), Err("subscribe"));
        for topic in 0..SUBSCRIPTIONS_MAX {
            config.subscribe(alloc::format!("T{topic}").into(), "*");
        }
        assert_eq!(config.check(), Ok(()));
        config.subscribe("T".into(), "*");
        assert_eq!(config.check().map_err(|error| error.key), Err("subscribe"));
    }

    #[test]
    fn every_setting_reads_back() {
        let mut config = client();
        config.set_dial_timeout(secs(9)).set_frame_len_max(2048);
        assert_eq!((config.dial_timeout(), config.frame_len_max()), (&secs(9), &2048));
        assert_eq!(config.client_id().as_str(), "10.0.0.1@7");
        let mut config = group();
        config.set_concurrency(7).set_start_at(StartAt::Earliest);
        assert_eq!(
            (config.concurrency(), config.start_at()),
            (&7, &StartAt::Earliest)
        );
        assert_eq!(config.illegal_offset(), &IllegalOffsetPolicy::Resume);
        config.set_illegal_offset(IllegalOffsetPolicy::Hold);
        assert_eq!(config.illegal_offset(), &IllegalOffsetPolicy::Hold);
        assert_eq!(config.subscriptions(), [("T".into(), "*".into())]);
    }
}
