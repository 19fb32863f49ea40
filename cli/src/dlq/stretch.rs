use rocketmq_consumer_core::ids::QueueOffset;
use rocketmq_consumer_core::message::Message;

use super::copy::Copy;
use super::queues::DeadQueue;
use super::sender::NotSent;
use crate::exit::Failure;

/// A queue of dead letters, and the part of it that is sent again.
pub(crate) struct Stretch {
    /// The queue.
    pub(crate) dead: DeadQueue,
    /// Where to begin.
    pub(crate) from: QueueOffset,
    /// Where the last run ended.
    pub(crate) position: Option<QueueOffset>,
}

impl Stretch {
    /// How many messages that are.
    pub(crate) fn messages(&self) -> u64 {
        u64::try_from(self.dead.max.0.saturating_sub(self.from.0)).unwrap_or(0)
    }

    /// The run ends at a message, and another can go on behind it.
    pub(crate) fn stopped(&self, offset: Option<QueueOffset>, why: &str) -> Failure {
        let queue = &self.dead.queue;
        let (at, next) = match offset {
            Some(offset) => (offset.to_string(), offset.0.saturating_add(1).to_string()),
            None => ("?".into(), "OFFSET".into()),
        };
        Failure::failed(format_args!(
            "{}:{} at offset {at} {why}; go on behind it with --queue {}:{} --from {next}",
            queue.broker, queue.id, queue.broker, queue.id
        ))
    }

    /// The run ends because a message is not known to be stored.
    pub(crate) fn not_sent(&self, message: &Message, copy: &Copy, error: NotSent) -> Failure {
        let (queue, offset) = (&self.dead.queue, message.queue_offset());
        let at = format!("{}:{} at offset {offset}", queue.broker, queue.id);
        match error {
            NotSent::No(Failure { exit, message }) => Failure::new(
                exit,
                format_args!(
                    "{at} is not sent again: {}; run it again later",
                    message.unwrap_or_default()
                ),
            ),
            NotSent::Unknown(Failure { exit, message: why }) => Failure::new(
                exit,
                format_args!(
                    "{at} was sent to {} and may be stored ({}): look there for message {}, then go on with --queue \
                     {}:{} --from {} if it is there, --from {offset} if not",
                    copy.topic,
                    why.unwrap_or_default(),
                    message.msg_id(),
                    queue.broker,
                    queue.id,
                    offset.0.saturating_add(1)
                ),
            ),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::queues::tests::dead;
    use super::*;
    use crate::args::RequeueTo;
    use crate::exit::Exit;
    use crate::testing::message_with;

    /// The last seven of ten dead letters.
    pub(crate) fn stretch() -> Stretch {
        Stretch {
            dead: dead(0, 10),
            from: QueueOffset(3),
            position: None,
        }
    }

    #[test]
    fn whoever_has_to_stop_is_told_how_to_go_on() {
        let stretch = stretch();
        assert_eq!(stretch.messages(), 7);
        let stopped = stretch.stopped(Some(QueueOffset(7)), "cannot be read: x");
        let words =
            "broker-a:0 at offset 7 cannot be read: x; go on behind it with --queue broker-a:0 --from 8";
        assert_eq!(stopped, Failure::failed(words));
        let message = message_with(7, b"UNIQ_KEY\x01U\x02RETRY_TOPIC\x01orders\x02");
        let copy = Copy::of(&message, RequeueTo::Topic, &"G".into()).unwrap();
        let lost = NotSent::Unknown(Failure::new(Exit::CannotConnect, "no answer in time"));
        let failure = stretch.not_sent(&message, &copy, lost);
        assert_eq!(failure.exit, Exit::CannotConnect);
        let words = failure.message.unwrap();
        for part in [
            "may be stored (no answer in time)",
            "message U",
            "--from 8 if it is there, --from 7 if not",
        ] {
            assert!(words.contains(part), "{words}");
        }
    }
}
