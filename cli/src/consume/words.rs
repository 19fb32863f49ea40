//! Notices in words, for people.

use std::fmt;

use rocketmq_consumer_core::event::NetCause;
use rocketmq_consumer_core::ids::{BrokerName, PeerAddr, Topic};
use rocketmq_consumer_core::notice::{LockLoss, Notice, NoticeKind, OffsetTrouble, RetryPath, StallReason};
use rocketmq_consumer_core::status::{HoldReason, LinkTrouble};
use rocketmq_consumer_core::time::Instant;
use rocketmq_consumer_core::wire::code::ResponseCode;

use crate::talk::Level;

/// How important a notice is, and what it says. `name_servers` have a notice of their own when they
/// cannot be reached, so their links are a detail.
pub(crate) fn of(notice: &Notice, name_servers: &[PeerAddr]) -> (Level, String) {
    let (level, mut text) = kind(&notice.kind, name_servers, notice.at);
    if notice.repeated > 0 {
        text.push_str(&format!(
            " ({} more of these since the last time)",
            notice.repeated
        ));
    }
    (level, text)
}

fn kind(kind: &NoticeKind, name_servers: &[PeerAddr], at: Instant) -> (Level, String) {
    use {Level as L, NoticeKind as K};
    match kind {
        K::Ready => (
            L::Info,
            "every queue of the first assignment is being pulled".into(),
        ),
        K::Assigned { queue, from, .. } => (L::Info, format!("assigned {queue}, from offset {from}")),
        K::Revoked { queue, committed, .. } => match committed {
            Some(offset) => (L::Info, format!("revoked {queue}, committed {offset}")),
            None => (L::Info, format!("revoked {queue}, nothing committed")),
        },
        K::Committed { queue, offset } => (L::Debug, format!("committed {queue} up to {offset}")),
        K::Held { queue, reason } => {
            let level = if *reason == HoldReason::Undecodable {
                L::Error
            } else {
                L::Debug
            };
            (level, format!("{queue} does not pull: {reason:?}"))
        }
        K::NameServerUnreachable { addr, cause } => {
            // What it did wrong was told just before.
            let level = if *cause == LinkTrouble::Misbehaved {
                L::Debug
            } else {
                L::Error
            };
            (
                level,
                format!("name server {addr} is unreachable: {}", Trouble(*cause)),
            )
        }
        K::TopicUnknown { topic, answers } => {
            (L::Error, format!("topic {topic} is unknown{}", Answers(answers)))
        }
        K::TopicHasNoQueues { topic } => (L::Warn, format!("topic {topic} has no queue that can be read")),
        K::LinkDown { addr, cause } => {
            let level = if name_servers.contains(addr) || *cause == LinkTrouble::Misbehaved {
                L::Debug
            } else {
                L::Warn
            };
            (level, format!("the link to {addr} is down: {}", Trouble(*cause)))
        }
        K::LinkUp { addr } => (L::Info, format!("the link to {addr} stands again")),
        K::PeerMisbehaved { addr, why } => {
            let role = if name_servers.contains(addr) {
                "name server"
            } else {
                "broker"
            };
            (
                L::Error,
                format!("{addr} does not speak the protocol: {why}; is it a {role} of RocketMQ?"),
            )
        }
        K::RequestRefused {
            by,
            request,
            code,
            remark,
        } => (
            L::Error,
            format!("{by} refused {request} with code {code}: {remark}"),
        ),
        K::OwnIdRepeated { times, broker } => (
            L::Warn,
            format!("{broker} lists this client id {times} times; does another consumer use it?"),
        ),
        K::NotInMemberList { broker } => (
            L::Warn,
            format!("{broker} does not list this client as a member of its group"),
        ),
        K::AllocationFailed { topic, strategy, why } => (
            L::Warn,
            format!("the share of topic {topic} is unknown, {strategy} failed: {why}"),
        ),
        K::QueuesNotInTopic {
            topic,
            strategy,
            queues,
        } => {
            let names: Vec<String> = queues.iter().take(8).map(ToString::to_string).collect();
            let more = queues.len() - names.len();
            let more = if more == 0 {
                String::new()
            } else {
                format!(" and {more} more")
            };
            let text = format!(
                "{strategy} names queues that topic {topic} does not have: {}{more}",
                names.join(", ")
            );
            (L::Warn, text)
        }
        K::SubscriptionReplaced { topic } => (
            L::Warn,
            format!("topic {topic} is named several times; the last expression counts"),
        ),
        K::SubscriptionChanged { topic, filter } => (
            L::Info,
            match filter {
                Some(filter) => format!("topic {topic} is consumed by {filter} from now on"),
                None => format!("topic {topic} is not consumed any more"),
            },
        ),
        // It ends the run, and is the last line then.
        K::FilterRefused { by, code, remark, .. } => (L::Debug, filter_refused(by, *code, remark)),
        K::Undecodable {
            queue,
            offset,
            reason,
            fate,
            ..
        } => {
            let offset =
                offset.map_or_else(|| "an unknown offset".into(), |offset| format!("offset {offset}"));
            (
                L::Error,
                format!("{queue} has a message at {offset} that cannot be read: {reason}; {fate}"),
            )
        }
        K::CrcMismatch { queue, offset } => (
            L::Warn,
            format!("the checksum of {queue} offset {offset} does not match"),
        ),
        K::OutsideOfAsked { queue, asked, first } => (
            L::Debug,
            format!("{queue} was asked from {asked} and answered from {first}"),
        ),
        K::OffsetIllegal {
            queue,
            requested,
            min,
            max,
            to,
            why,
        } => {
            let bound = |offset: &Option<_>| offset.as_ref().map_or_else(|| "?".into(), ToString::to_string);
            let has = format!(
                "{queue} has no offset {requested} (it has {} to {})",
                bound(min),
                bound(max)
            );
            if *why == OffsetTrouble::Unconfirmed {
                (L::Debug, format!("{has}, it is said; asked again"))
            } else if to == requested {
                (L::Error, format!("{has} and is held until somebody decides"))
            } else {
                (L::Warn, format!("{has} and goes on at {to}"))
            }
        }
        K::SubscriptionsDiffer { member, theirs, ours } => {
            let who = member
                .as_ref()
                .map_or_else(|| "another member".into(), ToString::to_string);
            let list = |topics: &[(Topic, String)]| {
                let each = topics.iter().map(|(topic, text)| format!("{topic} {text:?}"));
                each.collect::<Vec<_>>().join(", ")
            };
            let (theirs, ours) = (list(theirs), list(ours));
            let text = format!(
                "{who} of the group subscribes differently (only there: {theirs}; only here: {ours}); all \
                 members of a group must subscribe alike, or messages are not consumed"
            );
            (L::Warn, text)
        }
        K::OffsetReset { queue, asked, to } => (
            L::Warn,
            format!("{queue} was reset by an operator: it goes on at {to} instead of {asked}"),
        ),
        K::StartDecidedByBroker { queue, offset } => (
            L::Info,
            format!(
                "{queue} starts at {offset}, because its broker cannot tell no progress from a progress of 0"
            ),
        ),
        K::ProgressFellBack {
            queue,
            stored,
            finished,
            from,
        } => (
            L::Warn,
            format!("{queue} is stored at {stored}, but was finished up to {finished}; it starts at {from}"),
        ),
        K::DeliveryDeadline { queue, offset, after } => (
            L::Warn,
            format!("{queue} offset {offset} has been handled for {after:?} and is cancelled"),
        ),
        K::SendBackFailed { queue, offset, why } => (
            L::Warn,
            format!("{queue} offset {offset} could not be sent back for a retry: {why}"),
        ),
        K::Retry {
            queue,
            offset,
            reconsume_times,
            level,
            path,
            ..
        } => {
            let how = match path {
                RetryPath::SentBack => "was sent back",
                RetryPath::Produced => "was produced again",
                RetryPath::Local => "will be delivered again here",
                _ => "will come again",
            };
            let when = match level {
                _ if *path == RetryPath::Local => String::new(),
                ..0 => " as a dead letter".into(),
                0 => ", when the broker thinks fit".into(),
                level => format!(" with delay level {level}"),
            };
            let level = if *path == RetryPath::Local {
                L::Warn
            } else {
                L::Debug
            };
            let tries = reconsume_times.saturating_add(1);
            (
                level,
                format!("{queue} offset {offset} has failed for the {tries}. time and {how}{when}"),
            )
        }
        K::QueueStalled {
            queue,
            reason,
            since,
            lowest_unfinished,
            max_offset,
        } => {
            let secs = at.saturating_since(*since).as_secs();
            let place = |offset: &Option<_>| offset.as_ref().map_or_else(|| "?".into(), ToString::to_string);
            let (lowest, max) = (place(lowest_unfinished), place(max_offset));
            let reason = Standstill(*reason, at);
            (
                L::Warn,
                format!("{queue} has stood still at {lowest} of {max} for {secs} s: {reason}"),
            )
        }
        K::QueueMoves { queue, after, .. } => (
            L::Info,
            format!("{queue} goes on after {} s of standing still", after.as_secs()),
        ),
        K::WrongOutcomes {
            queue,
            messages,
            outcomes,
        } => (
            L::Error,
            format!(
                "a handler gave {outcomes} outcomes for {messages} messages of {queue}; the rest is retried"
            ),
        ),
        K::LockLost { queue, why } => (
            L::Warn,
            format!(
                "the lock on {queue} is lost: {}",
                match why {
                    LockLoss::Refused => "another member has it",
                    LockLoss::Expired => "its broker has not renewed it for 30 s",
                    // One of a later core.
                    _ => "nobody knows why",
                }
            ),
        ),
        K::LockRefused { queue, since } => (
            L::Info,
            format!(
                "{queue} is locked by another member, which is asked for again every second, for {} s",
                at.saturating_since(*since).as_secs()
            ),
        ),
        K::OutcomeOfOtherKind { queue, offset, said } => (
            L::Error,
            format!(
                "the handler answers {said:?} to {queue} offset {offset}, which is not of this way to consume"
            ),
        ),
        K::Dropped { queue, offset, .. } => (
            L::Warn,
            format!("{queue} offset {offset} has failed and is dropped: the group broadcasts"),
        ),
        K::BackupUsed { place, why } => (
            L::Warn,
            format!("the offsets in {place} cannot be read ({why}); their backup is used"),
        ),
        K::StartedOver { place, why } => (
            L::Error,
            format!("the offsets in {place} cannot be read ({why}); every queue begins by the start policy"),
        ),
        K::SaveFailed { place, why } => (
            L::Error,
            format!("offsets could not be stored in {place}: {why}; it is tried again"),
        ),
        K::CommitFailed { queue, offset, why } => (
            L::Warn,
            format!("{queue} could not be committed up to {offset}: {why}"),
        ),
        K::ClockWentBack { by } => (L::Warn, format!("the clock went back by {by:?}")),
        K::RequestNotServed { addr, code, why } => (
            L::Warn,
            format!("{addr} asked for code {code}, which could not be done: {why}"),
        ),
        K::ConsumedDirectly {
            queue,
            offset,
            message_id,
            result,
        } => (
            L::Info,
            format!("an operator had message {message_id} ({queue} at {offset}) consumed here: {result}"),
        ),
        K::UnexpectedRequest { addr, code } => (
            L::Debug,
            format!("{addr} asked for code {code}, which is not supported"),
        ),
        // One of a later core: better shown raw than not at all.
        other => (L::Warn, format!("{other:?}")),
    }
}

/// A broker does not take the condition.
pub(crate) fn filter_refused(by: &BrokerName, code: i32, remark: &str) -> String {
    let hint = if code == ResponseCode::SYSTEM_ERROR.0 {
        "; it has to run with enablePropertyFilter=true"
    } else {
        ""
    };
    format!(
        "--sql: {by} refuses the condition with code {code}: {}{hint}",
        remark.trim()
    )
}

/// Why a queue stands still, in words, at this time.
struct Standstill(StallReason, Instant);

impl fmt::Display for Standstill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(reason, now) = self;
        let running = |f: &mut fmt::Formatter<'_>, running: u32, oldest: Option<Instant>| {
            write!(f, "{running} handlers running")?;
            match oldest {
                Some(oldest) => write!(f, ", oldest since {} s", now.saturating_since(oldest).as_secs()),
                None => Ok(()),
            }
        };
        match *reason {
            StallReason::Held(why) => write!(f, "it does not pull: {why:?}"),
            StallReason::Unanswered => f.write_str("its pulls bring nothing"),
            StallReason::Handlers {
                running: count,
                oldest,
            } => running(f, count, oldest),
            StallReason::NoPermit {
                running: count,
                oldest,
            } => {
                f.write_str("every permit is taken: ")?;
                running(f, count, oldest)
            }
            StallReason::Retrying { messages } => {
                write!(f, "{messages} failed messages are not taken back")
            }
            other => write!(f, "{other:?}"),
        }
    }
}

/// Why a link does not stand, in words.
pub(crate) struct Trouble(pub(crate) LinkTrouble);

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            LinkTrouble::Net(cause) => match cause {
                NetCause::Refused => "connection refused",
                NetCause::TimedOut => "no connection in time",
                NetCause::Unreachable => "the network is unreachable",
                NetCause::NameUnknown => "the host name is unknown",
                NetCause::EndOfStream => "it closed the connection",
                NetCause::Reset => "the connection was reset",
                NetCause::Tls => "the TLS handshake failed",
                NetCause::Other | _ => "the connection failed",
            },
            LinkTrouble::Silent => "it has fallen silent",
            LinkTrouble::NoAnswer => "it does not answer in time",
            LinkTrouble::Misbehaved => "it does not speak the protocol",
            LinkTrouble::GoneAway => "it goes away and wants another connection",
            _ => "unknown trouble",
        })
    }
}

/// What each name server said.
pub(crate) struct Answers<'a>(pub(crate) &'a [(PeerAddr, String)]);

impl fmt::Display for Answers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (addr, answer)) in self.0.iter().enumerate() {
            // Remarks of servers can have several lines; the first one says it.
            let answer = answer.lines().next().unwrap_or("(no remark)");
            write!(f, "{} {addr} says {answer:?}", if at == 0 { ":" } else { "," })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rocketmq_consumer_core::ids::{MessageQueue, QueueId, QueueOffset};

    use super::*;

    fn said(kind: NoticeKind, repeated: u64) -> (Level, String) {
        let notice = Notice {
            at: Instant::ZERO,
            group: None,
            repeated,
            kind,
        };
        of(&notice, &[PeerAddr::new("ns", 1)])
    }

    #[test]
    fn an_illegal_offset_is_told_with_what_follows_and_a_reset_is_not_called_illegal() {
        let queue = || MessageQueue {
            topic: "T".into(),
            broker: "b".into(),
            id: QueueId(0),
        };
        for (to, why, level, part) in [
            (
                3,
                OffsetTrouble::BeyondEnd,
                Level::Warn,
                "T/b/0 has no offset 20 (it has 0 to ?) and goes on at 3",
            ),
            (
                20,
                OffsetTrouble::BeyondEnd,
                Level::Error,
                "T/b/0 has no offset 20 (it has 0 to ?) and is held until somebody decides",
            ),
            (
                20,
                OffsetTrouble::Unconfirmed,
                Level::Debug,
                "T/b/0 has no offset 20 (it has 0 to ?), it is said; asked again",
            ),
        ] {
            let illegal = NoticeKind::OffsetIllegal {
                queue: queue(),
                requested: QueueOffset(20),
                to: QueueOffset(to),
                min: Some(QueueOffset(0)),
                max: None,
                why,
            };
            assert_eq!(said(illegal, 0), (level, part.into()));
        }
        let reset = NoticeKind::OffsetReset {
            queue: queue(),
            asked: QueueOffset(5),
            to: QueueOffset(3),
        };
        let words = "T/b/0 was reset by an operator: it goes on at 3 instead of 5";
        assert_eq!(said(reset, 0), (Level::Warn, words.into()));
    }

    #[test]
    fn a_queue_that_stands_still_says_what_it_waits_for() {
        let seconds = |secs: u64| Instant::from_millis(secs * 1000);
        let handlers = StallReason::Handlers {
            running: 3,
            oldest: Some(seconds(10)),
        };
        let notice = Notice {
            at: seconds(90),
            group: None,
            repeated: 0,
            kind: NoticeKind::QueueStalled {
                queue: crate::testing::queue(),
                reason: handlers,
                since: seconds(20),
                lowest_unfinished: Some(QueueOffset(5)),
                max_offset: Some(QueueOffset(9)),
            },
        };
        let text = of(&notice, &[]).1;
        let want = "has stood still at 5 of 9 for 70 s: 3 handlers running, oldest since 80 s";
        assert!(text.ends_with(want), "{text}");
    }

    #[test]
    fn a_retry_says_when_and_from_where() {
        for (path, level, want) in [
            (
                RetryPath::SentBack,
                0,
                "was sent back, when the broker thinks fit",
            ),
            (RetryPath::SentBack, -1, "was sent back as a dead letter"),
            (RetryPath::Produced, 5, "was produced again with delay level 5"),
            (RetryPath::Local, 5, "will be delivered again here"),
        ] {
            let retry = NoticeKind::Retry {
                queue: crate::testing::queue(),
                offset: QueueOffset(7),
                message_id: None,
                reconsume_times: 1,
                level,
                path,
            };
            let text = said(retry, 0).1;
            let want = format!("offset 7 has failed for the 2. time and {want}");
            assert!(text.ends_with(&want), "{text}");
        }
    }

    #[test]
    fn troubles_name_the_peer_and_what_it_said() {
        let ns = PeerAddr::new("ns", 1);
        let cause = LinkTrouble::Net(NetCause::Refused);
        let unreachable = NoticeKind::NameServerUnreachable {
            addr: ns.clone(),
            cause,
        };
        assert_eq!(
            said(unreachable, 3),
            (
                Level::Error,
                "name server ns:1 is unreachable: connection refused (3 more of these since the last time)"
                    .into()
            )
        );
        let unknown = NoticeKind::TopicUnknown {
            topic: "T".into(),
            answers: vec![
                (ns.clone(), "no route\nat line 1".into()),
                (PeerAddr::new("b", 2), String::new()),
            ],
        };
        assert_eq!(
            said(unknown, 0).1,
            r#"topic T is unknown: ns:1 says "no route", b:2 says "(no remark)""#
        );
        let down = |addr| NoticeKind::LinkDown {
            addr,
            cause: LinkTrouble::Silent,
        };
        assert_eq!(said(down(ns), 0).0, Level::Debug);
        assert_eq!(said(down(PeerAddr::new("broker", 3)), 0).0, Level::Warn);
    }

    #[test]
    fn who_does_not_speak_the_protocol_is_told_of_once() {
        let addr = PeerAddr::new("ns", 1);
        let why = "frame length 0".into();
        let misbehaved = NoticeKind::PeerMisbehaved {
            addr: addr.clone(),
            why,
        };
        assert_eq!(
            said(misbehaved, 0),
            (
                Level::Error,
                "ns:1 does not speak the protocol: frame length 0; is it a name server of RocketMQ?".into()
            )
        );
        let cause = LinkTrouble::Misbehaved;
        let echoes = [
            NoticeKind::NameServerUnreachable {
                addr: addr.clone(),
                cause,
            },
            NoticeKind::LinkDown { addr, cause },
        ];
        assert!(echoes.into_iter().all(|echo| said(echo, 0).0 == Level::Debug));
    }
}
