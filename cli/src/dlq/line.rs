use rocketmq_consumer_core::ids::ConsumerGroup;
use rocketmq_consumer_core::message::Message;
use serde::Serialize;

use super::copy::Copy;
use super::sender::Stored;
use super::stretch::Stretch;

/// A message that is sent again; for programs, the keys are stable.
#[derive(Serialize)]
pub(crate) struct Line<'a> {
    group: &'a str,
    from_broker: &'a str,
    from_queue_id: i32,
    from_offset: i64,
    msg_id: String,
    keys: Option<String>,
    topic: &'a str,
    #[serde(flatten)]
    place: Option<Place<'a>>,
}

#[derive(Serialize)]
struct Place<'a> {
    broker: &'a str,
    queue_id: i32,
    queue_offset: Option<i64>,
}

impl<'a> Line<'a> {
    /// A message, its copy, and where that is stored if it was sent.
    pub(crate) fn new(
        group: &'a ConsumerGroup,
        stretch: &'a Stretch,
        message: &Message,
        copy: &'a Copy,
        place: Option<&'a Stored>,
    ) -> Self {
        Self {
            group: group.as_str(),
            from_broker: stretch.dead.queue.broker.as_str(),
            from_queue_id: stretch.dead.queue.id.0,
            from_offset: message.queue_offset().0,
            msg_id: message.msg_id().into_owned(),
            keys: message.keys().map(std::borrow::Cow::into_owned),
            topic: copy.topic.as_str(),
            place: place.map(|place| Place {
                broker: place.broker.as_str(),
                queue_id: place.queue.0,
                queue_offset: place.offset.map(|offset| offset.0),
            }),
        }
    }

    /// The line for people. There may be any number, so none waits for the others to be as wide.
    pub(crate) fn words(&self) -> String {
        let to = match &self.place {
            Some(place) => format!("{} {}:{}", self.topic, place.broker, place.queue_id),
            None => self.topic.to_owned(),
        };
        let keys = self.keys.as_deref().unwrap_or("-");
        format!(
            "{}:{} {} -> {to}  {}  {keys}\n",
            self.from_broker, self.from_queue_id, self.from_offset, self.msg_id
        )
    }
}

#[cfg(test)]
mod tests {
    use rocketmq_consumer_core::ids::QueueOffset;
    use serde_json::json;

    use super::super::stretch::tests::stretch;
    use super::*;
    use crate::args::RequeueTo;
    use crate::testing::message_with;

    #[test]
    fn every_key_is_there() {
        let (group, stretch) = ("G".into(), stretch());
        let message = message_with(7, b"KEYS\x01k\x02UNIQ_KEY\x01U\x02RETRY_TOPIC\x01orders\x02");
        let copy = Copy::of(&message, RequeueTo::Topic, &group).unwrap();
        let line = Line::new(&group, &stretch, &message, &copy, None);
        let mut want = json!({"group": "G", "from_broker": "broker-a", "from_queue_id": 0, "from_offset": 7,
                              "msg_id": "U", "keys": "k", "topic": "orders"});
        assert_eq!(serde_json::to_value(&line).unwrap(), want);
        assert_eq!(line.words(), "broker-a:0 7 -> orders  U  k\n");
        let place = Stored {
            broker: "broker-b".into(),
            addr: rocketmq_consumer_core::ids::PeerAddr::new("h", 1),
            queue: rocketmq_consumer_core::ids::QueueId(2),
            offset: Some(QueueOffset(5)),
            message_id: String::new(),
        };
        let line = Line::new(&group, &stretch, &message, &copy, Some(&place));
        want["broker"] = json!("broker-b");
        want["queue_id"] = json!(2);
        want["queue_offset"] = json!(5);
        assert_eq!(serde_json::to_value(&line).unwrap(), want);
        assert_eq!(line.words(), "broker-a:0 7 -> orders broker-b:2  U  k\n");
    }
}
