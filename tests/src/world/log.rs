use rocketmq_consumer_core::ids::QueueOffset;
use rocketmq_consumer_core::wire::request::heartbeat::SubscriptionData;
use rocketmq_consumer_core::wire::request::pull::{PullAnswer, PullStatus};
use rocketmq_consumer_core::wire::subscription::java_hash;

use super::stored::{StoredMessage, records};

/// Messages a broker looks at for one pull.
const SCAN_MAX: usize = 800;

/// The messages of a queue.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) min: i64,
    pub(super) messages: Vec<StoredMessage>,
}

impl Log {
    pub(super) fn max(&self) -> i64 {
        self.min + i64::try_from(self.messages.len()).unwrap_or(i64::MAX)
    }

    fn from(&self, offset: i64) -> &[StoredMessage] {
        let skip = usize::try_from(offset - self.min).unwrap_or(0);
        self.messages.get(skip..).unwrap_or_default()
    }

    /// Answers a pull; tags are compared by their codes, as brokers do.
    pub(super) fn read(&self, offset: i64, most: usize, subscription: &SubscriptionData) -> PullAnswer {
        let (min, max) = (self.min, self.max());
        let mut next = offset;
        let mut found: Vec<&StoredMessage> = Vec::new();
        let status = if offset < min || offset > max {
            next = if offset < min { min } else { max };
            PullStatus::OffsetMoved
        } else if offset == max {
            PullStatus::NotFound
        } else {
            for message in self.from(offset).iter().take(SCAN_MAX) {
                if found.len() == most {
                    break;
                }
                next = message.offset.0 + 1;
                let code = message.tag().map_or(0, java_hash);
                if subscription.codes.is_empty() || subscription.codes.contains(&code) {
                    found.push(message);
                }
            }
            if found.is_empty() {
                PullStatus::RetryImmediately
            } else {
                PullStatus::Found
            }
        };
        PullAnswer {
            status,
            next_begin_offset: QueueOffset(next),
            min_offset: Some(QueueOffset(min)),
            max_offset: Some(QueueOffset(max)),
            suggest_broker_id: Some(0),
            offset_delta: None,
            messages: records(found),
        }
    }
}
