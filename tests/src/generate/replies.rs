//! What a peer answers to a request.

use arbitrary::{Result, Unstructured};
use bytes::Bytes;
use rocketmq_consumer_core::ids::QueueOffset;
use rocketmq_consumer_core::time::Instant;
use rocketmq_consumer_core::wire::code::{RequestCode, ResponseCode};
use rocketmq_consumer_core::wire::frame::HeaderForm;
use rocketmq_consumer_core::wire::request::members::MemberList;
use rocketmq_consumer_core::wire::request::offsets::OffsetAnswer;
use rocketmq_consumer_core::wire::request::pull::{PullAnswer, PullRequest, PullStatus};
use rocketmq_consumer_core::wire::request::route::TopicRoute;
use rocketmq_consumer_core::wire::request::{Done, encode_answer};

use super::answers::{pull_answer, stored_offset};
use super::dice::{bytes, pick, rarely};
use super::frames::{frame, header_form};
use super::members::member_list;
use super::routes::topic_route;
use super::shelf::{Shelf, refused, written};
use crate::world::Asked;

/// Refusals that a broker in trouble gives and takes back.
const PASSING: [ResponseCode; 9] = [
    ResponseCode::SYSTEM_BUSY,
    ResponseCode::SYSTEM_ERROR,
    ResponseCode::SERVICE_NOT_AVAILABLE,
    ResponseCode::FLOW_CONTROL,
    ResponseCode::SUBSCRIPTION_NOT_EXIST,
    ResponseCode::SUBSCRIPTION_NOT_LATEST,
    ResponseCode::NO_PERMISSION,
    ResponseCode::TOPIC_NOT_EXIST,
    ResponseCode(-17),
];

/// The bytes that answer `asked` on a machine that sees what is on the shelf.
///
/// Nine in ten make sense there: what the shelf holds, a part of it, or a refusal that happens. One in
/// ten does not: another answer, one without its fields, one of damaged bytes.
pub fn reply(u: &mut Unstructured<'_>, asked: &Asked, shelf: &Shelf) -> Result<Bytes> {
    if rarely(u, 10)? {
        nonsense(u, asked, shelf)
    } else {
        sense(u, asked, shelf)
    }
}

fn sense(u: &mut Unstructured<'_>, asked: &Asked, shelf: &Shelf) -> Result<Bytes> {
    let form = header_form(u)?;
    if rarely(u, 8)? {
        let code = pick(u, &PASSING)?;
        return Ok(refused(form, asked, code));
    }
    match asked.code {
        RequestCode::GET_CONSUMER_LIST_BY_GROUP if !shelf.others.is_empty() => {
            let mut client_ids = vec![shelf.own.clone()];
            let others = u.int_in_range(0..=shelf.others.len())?;
            client_ids.extend(shelf.others.iter().take(others).cloned());
            Ok(written(form, asked, &MemberList { client_ids }))
        }
        RequestCode::PULL_MESSAGE => Ok(written(form, asked, &pulled(u, asked, shelf)?)),
        // However long an honest peer would wait, some answer at once.
        _ => Ok(shelf
            .honest(asked, Instant::from_micros(u64::MAX))
            .unwrap_or_else(|_| written(form, asked, &Done))),
    }
}

/// A batch of any size, or now and then an operator's reset.
fn pulled(u: &mut Unstructured<'_>, asked: &Asked, shelf: &Shelf) -> Result<PullAnswer> {
    let request: PullRequest = asked.request();
    let mut answer = shelf.read(asked, &request, 32);
    if answer.status == PullStatus::Found && u.arbitrary()? {
        answer = shelf.read(asked, &request, u.int_in_range(1..=31)?);
    }
    if rarely(u, 12)? {
        let bounds =
            answer.min_offset.map_or(0, |offset| offset.0)..=answer.max_offset.map_or(0, |offset| offset.0);
        answer.status = PullStatus::OffsetMoved;
        answer.reset = true;
        answer.next_begin_offset = QueueOffset(u.int_in_range(bounds)?);
        answer.messages = Bytes::new();
    }
    Ok(answer)
}

fn nonsense(u: &mut Unstructured<'_>, asked: &Asked, shelf: &Shelf) -> Result<Bytes> {
    let form = header_form(u)?;
    Ok(match u.int_in_range(0..=8_u8)? {
        0 => refused(form, asked, ResponseCode(u.arbitrary()?)),
        1 => written(form, asked, &Done),
        2 => written(form, asked, &stored_offset(u)?),
        3 => written(
            form,
            asked,
            &OffsetAnswer {
                offset: QueueOffset(u.int_in_range(0..=200)?),
            },
        ),
        4 => written(form, asked, &lie(u, asked)?),
        5 => {
            let route = if u.arbitrary()? {
                topic_route(u)?
            } else {
                TopicRoute::default()
            };
            written(form, asked, &route)
        }
        6 => written(
            form,
            asked,
            &MemberList {
                client_ids: member_list(u, &shelf.own)?,
            },
        ),
        7 => damaged(u, asked, shelf)?,
        // The answer to nothing that was asked.
        _ => frame(u)?,
    })
}

/// A pull answer that has nothing to do with the queue.
fn lie(u: &mut Unstructured<'_>, asked: &Asked) -> Result<PullAnswer> {
    let mut answer = pull_answer(u)?;
    if asked.code == RequestCode::PULL_MESSAGE && u.arbitrary()? {
        let from = asked.request::<PullRequest>().offset.0;
        answer.next_begin_offset = QueueOffset(from.saturating_add(u.int_in_range(0..=40)?).max(0));
    }
    Ok(answer)
}

/// An honest answer in which a few bytes behind the lengths were changed.
fn damaged(u: &mut Unstructured<'_>, asked: &Asked, shelf: &Shelf) -> Result<Bytes> {
    let honest = shelf.honest(asked, Instant::from_micros(u64::MAX));
    let honest = honest.or_else(|_| encode_answer(HeaderForm::Json, asked.opaque, &Done));
    let mut whole = honest.expect("a short answer").to_vec();
    for _ in 0..u.int_in_range(1..=4_u8)? {
        let place = u.int_in_range(8..=whole.len() - 1)?;
        whole[place] = bytes(u, 1)?.first().copied().unwrap_or_default();
    }
    Ok(whole.into())
}
