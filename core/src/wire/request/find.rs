//! Finding single messages, by the place they lie at or by a key.
//= rocketmq: ViewMessageRequestHeader, QueryMessageRequestHeader, QueryMessageResponseHeader

use alloc::string::String;

use bytes::Bytes;

use super::{Answer, AnswerError, Malformed, Request, expect_success};
use crate::ids::{PhysicalOffset, Topic};
use crate::time::WallTime;
use crate::wire::code::{RequestCode, ResponseCode};
use crate::wire::command::{ExtFields, ExtWriter, Header, WriteExt};

/// `VIEW_MESSAGE_BY_ID`, to the broker an [`OffsetMessageId`](crate::wire::message_id::OffsetMessageId)
/// names. A place where no message begins is refused with
/// [`SYSTEM_ERROR`](crate::wire::code::ResponseCode::SYSTEM_ERROR).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewMessageRequest {
    /// The place in the commit log.
    pub offset: PhysicalOffset,
    /// The topic, which is not looked at.
    pub topic: Option<Topic>,
}

impl WriteExt for ViewMessageRequest {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        out.int("offset", self.offset.0);
        out.opt_text("topic", self.topic.as_ref().map(Topic::as_str));
    }
}

impl Request for ViewMessageRequest {
    const CODE: RequestCode = RequestCode::VIEW_MESSAGE_BY_ID;
    type Answer = ViewedMessage;

    fn decode(ext: &ExtFields<'_>, _: &Bytes) -> Result<Self, Malformed> {
        Ok(Self {
            offset: PhysicalOffset(ext.require_i64("offset")?),
            topic: ext.get("topic").map(Into::into),
        })
    }
}

/// One message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ViewedMessage {
    /// As it is stored, for a [`Scanner`](crate::wire::stored::Scanner).
    pub message: Bytes,
}

impl WriteExt for ViewedMessage {
    fn write_ext(&self, _: &mut ExtWriter<'_>) {}
}

impl Answer for ViewedMessage {
    fn body(&self) -> Bytes {
        self.message.clone()
    }

    fn decode(header: &Header<'_>, body: &Bytes) -> Result<Self, AnswerError> {
        expect_success(header)?;
        Ok(Self {
            message: body.clone(),
        })
    }
}

/// `QUERY_MESSAGE`, to a broker: messages of a topic by a key of theirs or by the id of their producer.
/// The broker compares hashes only, so the answer may hold others; compare topic and key again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryMessageRequest {
    /// The topic.
    pub topic: Topic,
    /// The key, one word, or the id.
    pub key: String,
    /// How many messages to answer with, the newest; a broker has a limit of its own.
    pub max: i32,
    /// Stored at this time or later.
    pub begin: WallTime,
    /// Stored at this time or earlier.
    pub end: WallTime,
    /// Whether `key` is the id of a producer. Both are found anyway.
    pub unique_key: bool,
}

impl WriteExt for QueryMessageRequest {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        out.text("topic", self.topic.as_str());
        out.text("key", &self.key);
        out.int("maxNum", self.max);
        out.int("beginTimestamp", self.begin.as_unix_millis());
        out.int("endTimestamp", self.end.as_unix_millis());
        if self.unique_key {
            out.bool(UNIQUE, true);
        }
    }
}

const UNIQUE: &str = "_UNIQUE_KEY_QUERY";

impl Request for QueryMessageRequest {
    const CODE: RequestCode = RequestCode::QUERY_MESSAGE;
    type Answer = FoundMessages;

    fn decode(ext: &ExtFields<'_>, _: &Bytes) -> Result<Self, Malformed> {
        Ok(Self {
            topic: ext.require("topic")?.into(),
            // A broker finds nothing by an absent key.
            key: ext.get("key").unwrap_or_default().into(),
            max: ext.require_i32("maxNum")?,
            begin: WallTime::from_unix_millis(ext.require_i64("beginTimestamp")?),
            end: WallTime::from_unix_millis(ext.require_i64("endTimestamp")?),
            unique_key: ext.get_bool(UNIQUE).unwrap_or(false),
        })
    }
}

/// The messages that were found, in the order of the log. None is an answer too, with a code of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundMessages {
    /// As they are stored, for a [`Scanner`](crate::wire::stored::Scanner).
    pub messages: Bytes,
    /// Up to which store time the index has come.
    pub indexed_until: Option<WallTime>,
    /// Up to which place in the log.
    pub indexed_offset: Option<PhysicalOffset>,
}

impl WriteExt for FoundMessages {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        out.opt_int(INDEX_TIME, self.indexed_until.map(WallTime::as_unix_millis));
        out.opt_int(INDEX_OFFSET, self.indexed_offset.map(|offset| offset.0));
    }
}

const INDEX_TIME: &str = "indexLastUpdateTimestamp";
const INDEX_OFFSET: &str = "indexLastUpdatePhyoffset";

impl Answer for FoundMessages {
    fn code(&self) -> ResponseCode {
        if self.messages.is_empty() {
            ResponseCode::QUERY_NOT_FOUND
        } else {
            ResponseCode::SUCCESS
        }
    }

    fn body(&self) -> Bytes {
        self.messages.clone()
    }

    fn decode(header: &Header<'_>, body: &Bytes) -> Result<Self, AnswerError> {
        let found = header.code != ResponseCode::QUERY_NOT_FOUND.0;
        if found {
            expect_success(header)?;
        }
        let indexed_offset = header.ext.get_i64(INDEX_OFFSET)?;
        Ok(Self {
            messages: if found { body.clone() } else { Bytes::new() },
            indexed_until: header.ext.get_i64(INDEX_TIME)?.map(WallTime::from_unix_millis),
            indexed_offset: indexed_offset.filter(|&offset| offset >= 0).map(PhysicalOffset),
        })
    }
}
