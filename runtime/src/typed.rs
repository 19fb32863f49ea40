//! Typed requests of the wire as calls, and answers of calls as what the request's type says.

use rocketmq_consumer_core::action::{CallAnswer, CallError};
use rocketmq_consumer_core::wire::command::{
    Command, ExtFields, FLAG_RESPONSE, Header, Language, VERSION, WriteExt,
};
use rocketmq_consumer_core::wire::frame::{FRAME_LEN_MAX, Frame, FrameError, HeaderForm};
use rocketmq_consumer_core::wire::request::{Answer as _, Request as TypedRequest};

use crate::client::Request;

/// The call that carries a request.
///
/// # Errors
/// [`CallError::Malformed`] when it is larger than a frame may be.
pub(crate) fn write<Q: TypedRequest>(request: &Q) -> Result<Request, CallError> {
    let header = header_of(request).map_err(malformed)?;
    let header = Header::of(&header).map_err(malformed)?;
    let call = Request::new(request.code().0).body(request.body());
    Ok(header
        .ext
        .iter()
        .fold(call, |call, (name, value)| call.field(name, value)))
}

/// What the answer says, for a request of this type.
///
/// # Errors
/// [`CallError::Broker`] when it is a refusal, [`CallError::Malformed`] when it lacks what it has to say.
pub(crate) fn read<Q: TypedRequest>(answer: CallAnswer) -> Result<Q::Answer, CallError> {
    let CallAnswer {
        code,
        remark,
        fields,
        body,
    } = answer;
    let mut ext = ExtFields::new();
    for (name, value) in fields {
        ext.set(name, value).map_err(malformed)?;
    }
    let header = Header {
        code,
        language: None,
        version: VERSION,
        opaque: 0,
        flag: FLAG_RESPONSE,
        remark: Some(remark.into()),
        ext,
    };
    Ok(Q::Answer::decode(&header, &body)?)
}

/// Only a writer of frames knows the fields of a request; its body would be copied for nothing.
fn header_of(ext: &impl WriteExt) -> Result<Frame, FrameError> {
    let command = Command {
        code: 0,
        language: Language::Rust,
        version: VERSION,
        opaque: 0,
        flag: 0,
        remark: None,
        ext,
        body: &[],
    };
    Frame::parse(command.encode(HeaderForm::Json)?, FRAME_LEN_MAX)
}

fn malformed(error: impl std::fmt::Display) -> CallError {
    CallError::Malformed(error.to_string())
}

#[cfg(test)]
mod tests {
    use rocketmq_consumer_core::ids::{QueueId, QueueOffset};
    use rocketmq_consumer_core::wire::request::offsets::{QueryOffsetRequest, QueueRef, StoredOffset};

    use super::*;

    fn query() -> QueryOffsetRequest {
        QueryOffsetRequest {
            group: "G \"1\"".into(),
            queue: QueueRef {
                topic: "T".into(),
                queue: QueueId(3),
                broker: None,
            },
            set_zero_if_not_found: Some(false),
        }
    }

    fn answer(code: i32, fields: &[(&str, &str)]) -> Result<StoredOffset, CallError> {
        read::<QueryOffsetRequest>(CallAnswer {
            code,
            remark: "why".into(),
            fields: fields
                .iter()
                .map(|&(name, value)| (name.into(), value.into()))
                .collect(),
            body: bytes::Bytes::new(),
        })
    }

    #[test]
    fn a_request_keeps_its_code_and_fields() {
        let want = Request::new(14)
            .field("consumerGroup", "G \"1\"")
            .field("topic", "T")
            .field("queueId", "3")
            .field("setZeroIfNotFound", "false");
        assert_eq!(write(&query()), Ok(want));
    }

    #[test]
    fn a_code_means_what_the_request_says() {
        let offset = Ok(StoredOffset(Some(QueueOffset(7))));
        assert_eq!(answer(0, &[("offset", "7")]), offset);
        assert_eq!(answer(22, &[]), Ok(StoredOffset(None)));
        let refused = CallError::Broker {
            code: 1,
            remark: "why".into(),
        };
        assert_eq!(answer(1, &[]), Err(refused));
        assert!(matches!(answer(0, &[]), Err(CallError::Malformed(_))));
    }
}
