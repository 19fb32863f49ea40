//! What happens to a machine next.

use std::time::Duration;

use arbitrary::{Result, Unstructured};
use bytes::Bytes;
use rocketmq_consumer_core::config::FilterExpression;
use rocketmq_consumer_core::event::{
    AppEvent, Event, FlowScope, Found, NetCause, NetEvent, Report, RunRange, SeekTo, StoreEvent, Verdict,
};
use rocketmq_consumer_core::ids::{
    AllocateId, ConnId, ConsumeId, GroupKey, MessageQueue, QueueId, QueueOffset, StoreKey, StoreKind,
};
use rocketmq_consumer_core::message::Outcome;
use rocketmq_consumer_core::rate::Rate;
use rocketmq_consumer_core::time::{Instant, WallTime};
use rocketmq_consumer_core::wire::request::members::MembersChanged;
use rocketmq_consumer_core::wire::request::{Request, encode_request};

use super::dice::{bytes, pick, rarely, several};
use super::driver::OpenRun;
use super::frames::{frame, header_form};
use super::operator::{
    consume_directly_request, consumer_status_request, reset_offset_request, running_info_request,
};
use super::replies::reply;
use super::shelf::Shelf;
use super::subscriptions::expression;
use crate::world::Asked;

/// An event, and how long after the one before it it happens.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// How long after.
    pub after: Duration,
    /// What.
    pub event: Event,
}

/// What of a machine and its surroundings decides which events make sense.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The time.
    pub now: Instant,
    /// When the machine wants to be woken.
    pub wakeup: Option<Instant>,
    /// Connections that are being made.
    pub dialling: &'a [ConnId],
    /// Connections that stand.
    pub standing: &'a [ConnId],
    /// Requests that wait for an answer on a connection that stands.
    pub waiting: &'a [Asked],
    /// Runs that are with handlers.
    pub runs: &'a [OpenRun],
    /// What the peers have.
    pub shelf: &'a Shelf,
}

/// One more event: nine in ten make sense now, one in ten does not. None ends the machine.
///
/// When the bytes have run out, what waits is done in order: connections are made, requests answered,
/// messages handled.
pub fn step(u: &mut Unstructured<'_>, view: &View<'_>) -> Result<Step> {
    if rarely(u, 10)? {
        let after = Duration::from_micros(u.int_in_range(0..=3_000_000)?);
        return Ok(Step {
            after,
            event: nonsense(u, view)?,
        });
    }
    let kind = kind(u, view)?;
    let after = match kind {
        Kind::Wakeup(at) => at.saturating_since(view.now),
        Kind::Idle => Duration::from_millis(u.int_in_range(0..=5_000)?),
        Kind::Dialled(_) | Kind::Answer(_) | Kind::Report(_) | Kind::Extend(_) | Kind::Net(_) => {
            Duration::from_micros(u.int_in_range(0..=20_000)?)
        }
    };
    Ok(Step {
        after,
        event: sense(u, view, kind)?,
    })
}

/// What could happen.
#[derive(Clone, Copy)]
enum Kind<'a> {
    Dialled(ConnId),
    Answer(&'a Asked),
    Report(&'a OpenRun),
    Extend(&'a OpenRun),
    Wakeup(Instant),
    Net(ConnId),
    Idle,
}

/// One of the things that could happen, by weight.
fn kind<'a>(u: &mut Unstructured<'_>, view: &View<'a>) -> Result<Kind<'a>> {
    let mut kinds = Vec::new();
    if !view.dialling.is_empty() {
        kinds.extend([Kind::Dialled(pick(u, view.dialling)?); 6]);
    }
    if !view.waiting.is_empty() {
        kinds.extend([Kind::Answer(u.choose(view.waiting)?); 10]);
    }
    if !view.runs.is_empty() {
        let run = u.choose(view.runs)?;
        kinds.extend([Kind::Report(run); 10]);
        kinds.push(Kind::Extend(run));
    }
    if let Some(at) = view.wakeup {
        kinds.extend([Kind::Wakeup(at); 3]);
    }
    if !view.standing.is_empty() {
        kinds.push(Kind::Net(pick(u, view.standing)?));
    }
    kinds.push(Kind::Idle);
    pick(u, &kinds)
}

fn sense(u: &mut Unstructured<'_>, view: &View<'_>, kind: Kind<'_>) -> Result<Event> {
    Ok(match kind {
        Kind::Dialled(conn) if rarely(u, 8)? => {
            let cause = pick(u, &[NetCause::Refused, NetCause::TimedOut, NetCause::Unreachable])?;
            NetEvent::ConnectFailed { conn, cause }.into()
        }
        Kind::Dialled(conn) => NetEvent::Connected { conn }.into(),
        Kind::Answer(asked) => {
            let (conn, bytes) = (asked.link.conn, reply(u, asked, view.shelf)?);
            NetEvent::Received { conn, bytes }.into()
        }
        Kind::Report(run) => report(u, run)?.into(),
        Kind::Extend(run) => AppEvent::Extend {
            id: run.id,
            position: run.open.first().copied().unwrap_or_default(),
            by: Duration::from_secs(u.int_in_range(0..=3_600)?),
        }
        .into(),
        Kind::Wakeup(_) => Event::Wakeup,
        Kind::Net(conn) if u.arbitrary()? => {
            let word = MembersChanged { group: "g".into() };
            request(u, conn, true, &word)?.into()
        }
        Kind::Net(conn) => {
            let cause = pick(u, &[NetCause::Reset, NetCause::EndOfStream])?;
            NetEvent::Closed { conn, cause }.into()
        }
        Kind::Idle => AppEvent::Concurrency {
            group: "g".into(),
            permits: u.int_in_range(1..=64)?,
        }
        .into(),
    })
}

/// What handlers say of a run or a part of it: it is done, as a rule.
fn report(u: &mut Unstructured<'_>, run: &OpenRun) -> Result<AppEvent> {
    let (start, end) = (run.range.start, run.range.end);
    let range = if rarely(u, 3)? {
        let start = u.int_in_range(start..=end)?;
        RunRange {
            start,
            end: u.int_in_range(start..=end)?,
        }
    } else {
        run.range
    };
    let report = if rarely(u, 4)? {
        let each: Result<_> = (range.start..range.end).map(|_| verdict(u)).collect();
        Report::Each(each?)
    } else {
        Report::All(verdict(u)?)
    };
    Ok(AppEvent::Consumed {
        id: run.id,
        range,
        report,
    })
}

/// A verdict with which a message ends sooner or later.
fn verdict(u: &mut Unstructured<'_>) -> Result<Verdict> {
    const DONE: Verdict = Verdict::Handled(Outcome::Done);
    pick(
        u,
        &[
            DONE,
            DONE,
            DONE,
            DONE,
            DONE,
            Verdict::Handled(Outcome::Retry),
            Verdict::Handled(Outcome::RetryAfter(Duration::from_secs(11))),
            Verdict::Handled(Outcome::DeadLetter),
            Verdict::Undecodable,
            Verdict::NotStarted,
        ],
    )
}

fn nonsense(u: &mut Unstructured<'_>, view: &View<'_>) -> Result<Event> {
    let conn = conn(u, view)?;
    Ok(match u.int_in_range(0..=11_u8)? {
        0 => NetEvent::Received {
            conn,
            bytes: frame(u)?,
        }
        .into(),
        1 => NetEvent::Received {
            conn,
            bytes: bytes(u, 40)?.into(),
        }
        .into(),
        2 => unexpected(u, conn)?.into(),
        3 => NetEvent::Connected { conn: stranger(u)? }.into(),
        4 => NetEvent::Closed {
            conn: stranger(u)?,
            cause: NetCause::Other,
        }
        .into(),
        5 => NetEvent::Sent {
            conn,
            bytes: u.arbitrary()?,
        }
        .into(),
        6 => {
            let id = ConsumeId {
                group: GroupKey {
                    slot: u.int_in_range(0..=2)?,
                    generation: u.int_in_range(0..=2)?,
                },
                run: u.arbitrary()?,
            };
            let (start, end) = u.arbitrary()?;
            let report = Report::All(verdict(u)?);
            AppEvent::Consumed {
                id,
                range: RunRange { start, end },
                report,
            }
            .into()
        }
        7 if !view.runs.is_empty() => {
            // Positions that were never handed out, and more or fewer verdicts than positions.
            let run = u.choose(view.runs)?;
            let (start, end) = (u.int_in_range(0..=40)?, u.int_in_range(0..=80)?);
            let report = Report::Each(several(u, 8, verdict)?);
            AppEvent::Consumed {
                id: run.id,
                range: RunRange { start, end },
                report,
            }
            .into()
        }
        8 => store_answer(u)?.into(),
        9 => AppEvent::Clock(WallTime::from_unix_millis(u.arbitrary()?)).into(),
        10 => wish(u)?.into(),
        _ => Event::Wakeup,
    })
}

/// What a store answers that nobody has asked, or not in this life.
fn store_answer(u: &mut Unstructured<'_>) -> Result<StoreEvent> {
    let key = Box::new(StoreKey {
        group: "g".into(),
        instance: "i".into(),
        kind: StoreKind::Offsets,
    });
    let seq = u.int_in_range(0..=3)?;
    if u.arbitrary()? {
        let error = None;
        return Ok(StoreEvent::Saved { key, seq, error });
    }
    let main = Some(Bytes::copy_from_slice(u.arbitrary::<&[u8]>()?));
    Ok(StoreEvent::Loaded {
        key,
        seq,
        place: "somewhere".into(),
        found: Box::new(Ok(Found { main, backup: None })),
    })
}

/// A request no member expects, or an operator's.
fn unexpected(u: &mut Unstructured<'_>, conn: ConnId) -> Result<NetEvent> {
    match u.int_in_range(0..=3_u8)? {
        0 => {
            let word = reset_offset_request(u)?;
            request(u, conn, true, &word)
        }
        1 => {
            let word = running_info_request(u)?;
            request(u, conn, false, &word)
        }
        2 => {
            // Hardly ever a message: handlers of these tests are asked for what they were given.
            let word = consume_directly_request(u)?;
            request(u, conn, false, &word)
        }
        _ => {
            let word = consumer_status_request(u)?;
            request(u, conn, false, &word)
        }
    }
}

fn request<R: Request>(u: &mut Unstructured<'_>, conn: ConnId, oneway: bool, word: &R) -> Result<NetEvent> {
    let bytes: Bytes =
        encode_request(header_form(u)?, u.arbitrary()?, oneway, word).expect("a small request");
    Ok(NetEvent::Received { conn, bytes })
}

/// What the application may want while it runs; it leaves no trace once it is taken back.
fn flow(u: &mut Unstructured<'_>) -> Result<AppEvent> {
    let group = "g".into();
    let scope = FlowScope::Group;
    Ok(match u.int_in_range(0..=3_u8)? {
        0 => AppEvent::Pause { group, scope },
        1 => AppEvent::Resume { group, scope },
        // Nobody's queue.
        2 => AppEvent::Seek {
            group,
            queue: Box::new(MessageQueue {
                topic: "T".into(),
                broker: "nobody's".into(),
                id: QueueId(0),
            }),
            to: SeekTo::Offset(QueueOffset(u.arbitrary()?)),
        },
        _ => AppEvent::RateLimit {
            group,
            topic: None,
            rate: if u.arbitrary()? {
                Some(Rate::per_second(u.int_in_range(1..=2_000)?))
            } else {
                None
            },
        },
    })
}

/// A wish that cannot be met, or one that may.
fn wish(u: &mut Unstructured<'_>) -> Result<AppEvent> {
    let group = || "g".into();
    Ok(match u.int_in_range(0..=6_u8)? {
        6 => AppEvent::Subscribe {
            group: group(),
            // Of the topic that brokers serve here whoever watches knows one filter.
            topic: pick(u, &["U", "U", "%RETRY%G", "no topic"])?.into(),
            filter: match u.int_in_range(0..=3_u8)? {
                0 => FilterExpression::sql92("a > 3"),
                1 => FilterExpression::sql92(""),
                _ => expression(u)?.into(),
            },
        },
        // Nobody asked.
        5 => AppEvent::Allocated {
            id: AllocateId {
                group: GroupKey {
                    slot: u.int_in_range(0..=1)?,
                    generation: u.int_in_range(0..=2)?,
                },
                serial: u.int_in_range(0..=3)?,
            },
            share: if u.arbitrary()? {
                Ok([].into())
            } else {
                Err("no".into())
            },
        },
        0 => flow(u)?,
        1 => AppEvent::Unsubscribe {
            group: group(),
            topic: pick(u, &["T", "U"])?.into(),
        },
        2 => AppEvent::Concurrency {
            group: group(),
            permits: pick(u, &[0, 1_001, u32::MAX])?,
        },
        3 => AppEvent::StopGroup {
            group: "nobody".into(),
            drain: Duration::ZERO,
        },
        _ => AppEvent::NameServers([].into()),
    })
}

/// A connection of any state.
fn conn(u: &mut Unstructured<'_>, view: &View<'_>) -> Result<ConnId> {
    if view.standing.is_empty() || rarely(u, 3)? {
        stranger(u)
    } else {
        pick(u, view.standing)
    }
}

/// A connection that never was, as a rule.
fn stranger(u: &mut Unstructured<'_>) -> Result<ConnId> {
    Ok(ConnId {
        slot: u.int_in_range(0..=5)?,
        generation: u.int_in_range(1_000..=2_000)?,
    })
}
