//! Giving a message back: the broker that stores it delivers it again later, or buries it.
//= rocketmq: ConsumerSendMsgBackRequestHeader

use alloc::string::String;

use bytes::Bytes;

use super::{Done, Malformed, Request};
use crate::ids::{BrokerName, ConsumerGroup, PhysicalOffset, Topic};
use crate::wire::code::RequestCode;
use crate::wire::command::{ExtFields, ExtWriter, WriteExt};

/// `CONSUMER_SEND_MSG_BACK`. Only the master that stores the message can do it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendBackRequest {
    /// The group that could not consume it.
    pub group: ConsumerGroup,
    /// Where the message lies in the broker's commit log; not its offset in the queue.
    pub offset: PhysicalOffset,
    /// When to deliver it again.
    pub delay: Delay,
    /// The message's id, for information.
    pub message_id: Option<String>,
    /// The topic it came from. Brokers count by it: 5.5.0 fails without it when the message becomes a dead letter.
    pub topic: Option<Topic>,
    /// Marks the retry topic as one of a unit.
    pub unit_mode: Option<bool>,
    /// How often it may be delivered again before it is buried; absent leaves it to the group's own
    /// setting.
    pub max_reconsume_times: Option<i32>,
    /// The broker that stores it, for those that serve several (since 5.0).
    pub broker: Option<BrokerName>,
}

/// When a message that was sent back is delivered again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Delay {
    /// The broker waits longer each time.
    Broker,
    /// After the time of one of the broker's delay levels, from 1; one that is too high means the
    /// last.
    Level(u16),
    /// Never: it goes to the dead letters.
    DeadLetter,
}

impl Delay {
    /// The delay level on the wire: −1, 0, or the number.
    #[must_use]
    pub fn to_wire(self) -> i32 {
        match self {
            Self::Broker => 0,
            Self::Level(level) => level.into(),
            Self::DeadLetter => -1,
        }
    }

    fn from_wire(level: i32) -> Self {
        match level {
            ..0 => Self::DeadLetter,
            0 => Self::Broker,
            1.. => Self::Level(u16::try_from(level).unwrap_or(u16::MAX)),
        }
    }
}

impl WriteExt for SendBackRequest {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        out.text("group", self.group.as_str());
        out.int("offset", self.offset.0);
        out.int("delayLevel", self.delay.to_wire());
        out.opt_text("originMsgId", self.message_id.as_deref());
        out.opt_text("originTopic", self.topic.as_ref().map(Topic::as_str));
        out.opt_bool("unitMode", self.unit_mode);
        out.opt_int("maxReconsumeTimes", self.max_reconsume_times);
        out.opt_text("bname", self.broker.as_ref().map(BrokerName::as_str));
    }
}

impl Request for SendBackRequest {
    const CODE: RequestCode = RequestCode::CONSUMER_SEND_MSG_BACK;
    type Answer = Done;

    fn decode(ext: &ExtFields<'_>, _: &Bytes) -> Result<Self, Malformed> {
        Ok(Self {
            group: ext.require("group")?.into(),
            offset: PhysicalOffset(ext.require_i64("offset")?),
            delay: Delay::from_wire(ext.require_i32("delayLevel")?),
            message_id: ext.get("originMsgId").map(Into::into),
            topic: ext.get("originTopic").map(Into::into),
            unit_mode: ext.get_bool("unitMode"),
            max_reconsume_times: ext.get_i32("maxReconsumeTimes")?,
            broker: ext.get("bname").map(Into::into),
        })
    }
}
