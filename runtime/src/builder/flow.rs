use rocketmq_consumer_core::ids::Topic;
use rocketmq_consumer_core::rate::Rate;

use crate::builder::ConsumerBuilder;
use crate::runtime::Runtime;

/// How much flows, and how fast.
impl<R: Runtime> ConsumerBuilder<R> {
    /// Hands out at most so many messages a second, over the whole group: `Rate::per_second(500)`. Default: no
    /// limit.
    ///
    /// What waits for its turn is bounded by the limits of the queues, trips no deadline and counts as no stall.
    pub fn rate_limit(self, rate: Rate) -> Self {
        self.group_config(|config| config.set_rate_limit(Some(rate)))
    }

    /// Limits one topic, beside the limit of the group. A second one for the same topic replaces the first.
    pub fn topic_rate_limit(self, topic: impl Into<Topic>, rate: Rate) -> Self {
        let topic = topic.into();
        self.group_config(|config| {
            let mut rates = config.topic_rate_limits().clone();
            rates.retain(|(known, _)| *known != topic);
            rates.push((topic, rate));
            config.set_topic_rate_limits(rates)
        })
    }

    /// Most unfinished messages of one topic, shared by those of its queues that this member owns
    /// (`pullThresholdForTopic`). Default: none but the limit of each queue.
    pub fn topic_count_max(self, messages: u32) -> Self {
        self.group_config(|config| config.set_topic_count_max(Some(messages)))
    }

    /// Most body bytes as stored of one topic, shared likewise (`pullThresholdSizeForTopic`). Default: none but
    /// the limit of each queue.
    pub fn topic_bytes_max(self, bytes: u64) -> Self {
        self.group_config(|config| config.set_topic_bytes_max(Some(bytes)))
    }
}
