use std::fmt;
use std::str::FromStr;

use rocketmq_consumer_core::ids::{BrokerName, MessageQueue, QueueId};

/// One queue of a topic: the value of `--queue`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueueArg {
    /// The broker.
    pub(crate) broker: BrokerName,
    /// The queue there.
    pub(crate) id: QueueId,
}

impl QueueArg {
    /// Whether it names this queue.
    pub(crate) fn is(&self, queue: &MessageQueue) -> bool {
        self.broker == queue.broker && self.id == queue.id
    }
}

impl FromStr for QueueArg {
    type Err = &'static str;

    /// The last colon separates: a broker's name may hold one.
    fn from_str(text: &str) -> Result<Self, &'static str> {
        const ADVICE: &str = "write BROKER:ID, for instance broker-a:0";
        let (broker, id) = text.rsplit_once(':').ok_or(ADVICE)?;
        let id = id.parse().ok().filter(|id| *id >= 0).ok_or(ADVICE)?;
        if broker.is_empty() {
            return Err(ADVICE);
        }
        Ok(Self {
            broker: broker.into(),
            id: QueueId(id),
        })
    }
}

impl fmt::Display for QueueArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.broker, self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_a_broker_and_a_number() {
        let queue: QueueArg = "room:broker-a:3".parse().unwrap();
        assert_eq!((queue.broker.as_str(), queue.id), ("room:broker-a", QueueId(3)));
        assert_eq!(queue.to_string(), "room:broker-a:3");
        for text in ["", "3", "a:", ":3", "a:-1", "a:x"] {
            assert!(text.parse::<QueueArg>().is_err(), "{text}");
        }
    }
}
