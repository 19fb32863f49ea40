//! One group: what it reads, from where, and how much it may hold.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use super::check::{
    CONCURRENCY, FOR_EVER, SUSPEND_TIME, check_group_name, check_range, check_rate, check_subscription,
};
use super::filter::{FilterExpression, SUBSCRIPTIONS_MAX};
use super::policies::{
    ConsumeMode, DamagedStore, IllegalOffsetPolicy, MessageModel, OrderBy, SendBackFallback, StartAt,
    UndecodablePolicy,
};
use super::{ConfigError, MIB, millis, secs};
use crate::allocate::AllocateStrategy;
use crate::ids::{ConsumerGroup, Topic};
use crate::rate::Rate;

settings! {
    /// One consumer group of a client: what it reads, from where, and how much it may hold.
    GroupConfig { group: ConsumerGroup, subscriptions: Vec<(Topic, FilterExpression)>, max_reconsume: Option<u32> }

    /// Clustering (default) or broadcasting (`messageModel`).
    model / set_model: MessageModel = MessageModel::Clustering;
    /// What follows when stored offsets of a group that broadcasts cannot be read. Default: it does not start.
    damaged_store / set_damaged_store: DamagedStore = DamagedStore::Refuse;
    /// Concurrently (default) or orderly.
    mode / set_mode: ConsumeMode = ConsumeMode::Concurrently;
    /// What keeps its order in an orderly group: the queue (default), or each key in it.
    order / set_order: OrderBy = OrderBy::Queue;
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
        if self.order == OrderBy::Key && !self.is_orderly() {
            return Err(ConfigError::new(
                "order",
                "keys are kept in order by orderly groups only; others handle all messages side by side",
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
