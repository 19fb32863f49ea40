//! Takes frames apart, once, into what an observer sees.

use std::time::Duration;

use bytes::Bytes;
use rocketmq_consumer_core::ids::{PhysicalOffset, QueueId, QueueOffset};
use rocketmq_consumer_core::wire::code::{RequestCode, ResponseCode};
use rocketmq_consumer_core::wire::command::{ExtFields, FieldError, Header};
use rocketmq_consumer_core::wire::fastjson;
use rocketmq_consumer_core::wire::frame::{FRAME_LEN_MAX, Frame};
use rocketmq_consumer_core::wire::request::locks::{LockAnswer, LockRequest, UnlockRequest};
use rocketmq_consumer_core::wire::request::pull::PullAnswer;
use rocketmq_consumer_core::wire::request::send::SendRequest;
use rocketmq_consumer_core::wire::request::{Answer as _, Request as _};

use super::ledger::Ledger;
use super::names::Names;
use super::seen::{Answer, Ask, QueueNo};

const COMMIT_OFFSET: i32 = 1;
const SUSPEND: i32 = 1 << 1;

/// A request that a member wrote.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) opaque: i32,
    pub(crate) oneway: bool,
    pub(crate) ask: Ask,
    /// The queues it locks or unlocks.
    pub(crate) locks: Vec<QueueNo>,
}

/// Reads what a member wrote; `None` when it is an answer, or no frame. `broker` is the name of the node it
/// goes to, empty for a name server.
pub(crate) fn request(names: &mut Names, ledger: &Ledger, broker: &str, frame: &Bytes) -> Option<Request> {
    let frame = Frame::parse(frame.clone(), FRAME_LEN_MAX).ok()?;
    let header = Header::of(&frame).ok()?;
    if header.is_response() {
        return None;
    }
    let code = RequestCode(header.code);
    if let Some((ask, locks)) = locks(names, code, &header.ext, &frame.body) {
        return Some(Request {
            opaque: header.opaque,
            oneway: header.is_oneway(),
            ask,
            locks,
        });
    }
    Some(Request {
        opaque: header.opaque,
        oneway: header.is_oneway(),
        locks: Vec::new(),
        ask: copy(names, ledger, code, &header.ext, &frame.body)
            .or_else(|| ask(names, broker, code, &header.ext).ok())
            .unwrap_or(Ask::Other(code)),
    })
}

/// Queues that are locked or unlocked.
fn locks(
    names: &mut Names,
    code: RequestCode,
    ext: &ExtFields<'_>,
    body: &Bytes,
) -> Option<(Ask, Vec<QueueNo>)> {
    let (is_lock, locks) = match code {
        RequestCode::LOCK_BATCH_MQ => (true, LockRequest::decode(ext, body).ok()?.0),
        RequestCode::UNLOCK_BATCH_MQ => (false, UnlockRequest::decode(ext, body).ok()?.0),
        _ => return None,
    };
    let group = names.group(locks.group.as_str());
    let queues = locks.queues.iter().map(|queue| names.of_queue(queue)).collect();
    let ask = if is_lock {
        Ask::Lock { group }
    } else {
        Ask::Unlock { group }
    };
    Some((ask, queues))
}

/// Of the queues that a request asked to lock, which an answer has locked; `None` if it says nothing of any.
pub(crate) fn locked(names: &mut Names, answer: Answer<'_>, body: &Bytes) -> Option<Vec<QueueNo>> {
    if !matches!(answer, Answer::Done) {
        return None;
    }
    let told: LockAnswer = fastjson::from_slice(body).ok()?;
    Some(told.locked.iter().map(|queue| names.of_queue(queue)).collect())
}

/// A message that is produced to a retry topic, if it is a copy of one we know.
fn copy(
    names: &mut Names,
    ledger: &Ledger,
    code: RequestCode,
    ext: &ExtFields<'_>,
    body: &Bytes,
) -> Option<Ask> {
    if code != RequestCode::SEND_MESSAGE_V2 {
        return None;
    }
    let send = SendRequest::decode(ext, body).ok()?;
    let group = send.topic.as_str().strip_prefix("%RETRY%")?;
    Some(Ask::Copy {
        group: names.group(group),
        origin: ledger.of_body(body)?,
        dead: send.reconsume_times > send.max_reconsume_times,
    })
}

fn ask(names: &mut Names, broker: &str, code: RequestCode, ext: &ExtFields<'_>) -> Result<Ask, FieldError> {
    let queue = |names: &mut Names| {
        let broker = ext.get("bname").unwrap_or(broker);
        let id = QueueId(ext.require_i32("queueId")?);
        Ok(names.queue(ext.require("topic")?, broker, id))
    };
    Ok(match code {
        RequestCode::PULL_MESSAGE => {
            let flags = ext.require_i32("sysFlag")?;
            let commit = QueueOffset(ext.require_i64("commitOffset")?);
            let hold = u64::try_from(ext.require_i64("suspendTimeoutMillis")?).unwrap_or(0);
            Ask::Pull {
                group: names.group(ext.require("consumerGroup")?),
                queue: queue(names)?,
                offset: QueueOffset(ext.require_i64("queueOffset")?),
                max: ext.require_i32("maxMsgNums")?,
                commit: (flags & COMMIT_OFFSET != 0).then_some(commit),
                hold: Duration::from_millis(if flags & SUSPEND == 0 { 0 } else { hold }),
            }
        }
        RequestCode::UPDATE_CONSUMER_OFFSET => Ask::Commit {
            group: names.group(ext.require("consumerGroup")?),
            queue: queue(names)?,
            offset: QueueOffset(ext.require_i64("commitOffset")?),
        },
        RequestCode::QUERY_CONSUMER_OFFSET => Ask::QueryOffset {
            group: names.group(ext.require("consumerGroup")?),
            queue: queue(names)?,
        },
        RequestCode::CONSUMER_SEND_MSG_BACK => Ask::SendBack {
            group: names.group(ext.require("group")?),
            physical: PhysicalOffset(ext.require_i64("offset")?),
            delay_level: ext.require_i32("delayLevel")?,
        },
        RequestCode::GET_CONSUMER_LIST_BY_GROUP => Ask::Members {
            group: names.group(ext.require("consumerGroup")?),
        },
        RequestCode::HEART_BEAT => Ask::Heartbeat,
        RequestCode::UNREGISTER_CLIENT => Ask::Unregister {
            group: ext.get("consumerGroup").map(|group| names.group(group)),
        },
        other => Ask::Other(other),
    })
}

/// Reads an answer to what was asked.
pub(crate) fn answer<'a>(header: &Header<'_>, body: &'a Bytes, asked: Ask, by_slave: bool) -> Answer<'a> {
    let code = ResponseCode(header.code);
    match asked {
        Ask::Pull { .. } => match PullAnswer::decode(header, body) {
            Ok(pulled) => Answer::Pulled {
                status: pulled.status,
                next: pulled.next_begin_offset,
                records: body,
                bounds: (
                    pulled.min_offset.unwrap_or(QueueOffset(0)),
                    pulled.max_offset.unwrap_or(QueueOffset(i64::MAX)),
                ),
                reset: pulled.reset,
                by_slave,
            },
            Err(_) => Answer::Refused(code),
        },
        Ask::QueryOffset { .. } if code == ResponseCode::QUERY_NOT_FOUND => Answer::Offset(None),
        Ask::QueryOffset { .. } if code == ResponseCode::SUCCESS => {
            let stored = header.ext.get_i64("offset").ok().flatten();
            Answer::Offset(stored.filter(|offset| *offset >= 0).map(QueueOffset))
        }
        Ask::QueryOffset { .. }
        | Ask::Commit { .. }
        | Ask::SendBack { .. }
        | Ask::Copy { .. }
        | Ask::Members { .. }
        | Ask::Lock { .. }
        | Ask::Unlock { .. }
        | Ask::Heartbeat
        | Ask::Unregister { .. }
        | Ask::Other(_) => {
            if code == ResponseCode::SUCCESS {
                Answer::Done
            } else {
                Answer::Refused(code)
            }
        }
    }
}
