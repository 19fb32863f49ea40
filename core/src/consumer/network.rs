//! What comes from peers: connections, answers and requests, each carried to the part it is for.

use alloc::format;
use alloc::string::String;

use bytes::Bytes;

use super::ConsumerState;
use super::cx::{Cx, Purpose, QueueAsk};
use super::group::{Group, Stored};
use super::peers::Peers;
use crate::action::CallError;
use crate::event::NetEvent;
use crate::ids::{ConnId, QueueKey};
use crate::notice::NoticeKind;
use crate::rpc::RpcSignal;
use crate::status::LinkTrouble;
use crate::wire::code::ResponseCode;
use crate::wire::command::Header;
use crate::wire::request::heartbeat::HeartbeatAnswer;
use crate::wire::request::locks::LockAnswer;
use crate::wire::request::members::MemberList;
use crate::wire::request::offsets::{OffsetAnswer, StoredOffset};
use crate::wire::request::operator::RunningInfo;
use crate::wire::request::pull::PullAnswer;
use crate::wire::request::route::TopicRoute;
use crate::wire::request::send::SendAnswer;
use crate::wire::request::stats::ConsumerConnections;
use crate::wire::request::{Answer, AnswerError, Done};

impl ConsumerState {
    pub(super) fn on_net(&mut self, event: NetEvent) {
        let received = if let NetEvent::Received { conn, .. } = &event {
            Some(*conn)
        } else {
            None
        };
        let mut cx = self.ground.cx();
        self.rpc.on_net(&mut cx.step(), event);
        let Some(conn) = received else { return };
        loop {
            let mut cx = self.ground.cx();
            let Some(frame) = self.rpc.next_frame(&mut cx.step(), conn) else {
                break;
            };
            let header = Header::decode(frame.form, &frame.header);
            if let Ok(header) = &header
                && header.is_response()
                && ResponseCode(header.code) == ResponseCode::GO_AWAY
            {
                self.rpc.go_away(&mut cx.step(), conn, header.opaque);
                self.settle();
                continue;
            }
            if header.is_ok() {
                self.rpc.proved(conn);
            }
            match header {
                Ok(header) if header.is_response() => {
                    let purpose = self.rpc.complete(&mut cx.step(), conn, header.opaque);
                    if let Some(purpose) = purpose {
                        self.on_answer(conn, purpose, &header, &frame.body);
                    }
                }
                Ok(header) => self.on_request(conn, &header, &frame.body),
                Err(error) => self.rpc.misbehaved(&mut cx.step(), conn, format!("{error}")),
            }
            self.settle();
        }
    }

    /// An answer has come, whatever it says.
    fn on_answer(&mut self, conn: ConnId, purpose: Purpose, header: &Header<'_>, body: &Bytes) {
        let is_current = self.rpc.is_current(conn);
        let mut cx = self.ground.cx();
        match purpose {
            Purpose::Route(topic) => match TopicRoute::decode(header, body) {
                Ok(route) => self.routes.on_route(&mut cx, &topic, &route),
                Err(error) => {
                    // A retry topic is made by the first heartbeat, for which a route is needed first:
                    // until there is one, whatever is wrong is not the retry topic's trouble.
                    let is_absent = matches!(error, AnswerError::Refused { code, .. } if code == ResponseCode::TOPIC_NOT_EXIST);
                    let expected =
                        topic.as_str().starts_with("%RETRY%") && (is_absent || !self.routes.knows_any());
                    self.routes
                        .on_unknown(&mut cx, &topic, no_route(&error), expected);
                }
            },
            // It came on a connection that goes away: who is asked next knows nothing of us.
            Purpose::Heartbeat { addr, .. } if !is_current => {
                self.beats.on_failed(&mut cx, &addr, &CallError::Closed);
                self.on_beat_ended(&addr, false);
            }
            Purpose::Heartbeat { addr, revision } => {
                match HeartbeatAnswer::decode(header, body) {
                    Ok(_) => self.beats.on_acknowledged(&mut cx, &addr, revision),
                    Err(error) => self.beats.on_failed(&mut cx, &addr, &error.into()),
                }
                self.on_beat_ended(&addr, false);
            }
            Purpose::Members { group, round, broker } => {
                let members = decode::<MemberList>(header, body).map(|list| list.client_ids);
                if let Some(group) = self.groups.get_mut(group) {
                    group.on_members(
                        &mut cx,
                        Peers::of(&self.routes, &self.beats),
                        round,
                        &broker,
                        members,
                    );
                }
            }
            Purpose::Queue { group, queue, ask } => {
                if let Some(group) = self.groups.get_mut(group) {
                    on_queue_answer(
                        &mut cx,
                        Peers::of(&self.routes, &self.beats),
                        group,
                        queue,
                        ask,
                        header,
                        body,
                    );
                }
            }
            Purpose::SendBack { group, back } => {
                let answer = decode::<Done>(header, body).map(|_| ());
                if let Some(group) = self.groups.get_mut(group) {
                    group.on_send_back(&mut cx, Peers::of(&self.routes, &self.beats), back, answer);
                }
            }
            Purpose::RetryCopy { group, back } => {
                // However well it is stored: it is stored.
                let answer = decode::<SendAnswer>(header, body).map(|_| ());
                if let Some(group) = self.groups.get_mut(group) {
                    group.on_retry_copy(&mut cx, Peers::of(&self.routes, &self.beats), back, answer);
                }
            }
            Purpose::Lock { group, serial } => {
                let answer = decode::<LockAnswer>(header, body);
                if let Some(group) = self.groups.get_mut(group) {
                    group.on_locked(&mut cx, Peers::of(&self.routes, &self.beats), serial, answer);
                }
            }
            Purpose::Unlock { group, serial } => {
                let answer = decode::<Done>(header, body).map(|_| ());
                if let Some(group) = self.groups.get_mut(group) {
                    group.on_unlocked(&mut cx, Peers::of(&self.routes, &self.beats), serial, answer);
                }
            }
            Purpose::Connections { group, broker } => {
                let answer = decode::<ConsumerConnections>(header, body);
                if let Some(group) = self.groups.get_mut(group) {
                    group.on_connections(&mut cx, &broker, answer);
                }
            }
            Purpose::Subscriptions { group, member } => {
                let answer = decode::<RunningInfo>(header, body).and_then(|info| {
                    let read = info.read().map(|info| info.subscriptions);
                    read.map_err(|why| CallError::Malformed(format!("{why}")))
                });
                if let Some(group) = self.groups.get_mut(group) {
                    group.on_member_subscriptions(&mut cx, member, answer);
                }
            }
            Purpose::Filter { group, topic, serial } => {
                let answer = decode::<Done>(header, body).map(|_| ());
                if let Some(group) = self.groups.get_mut(group) {
                    let peers = Peers::of(&self.routes, &self.beats);
                    group.on_filter_checked(&mut cx, peers, &topic, serial, answer);
                }
            }
            Purpose::Unregister { addr, group } => {
                self.on_farewell(addr, group, decode::<Done>(header, body).map(|_| ()));
            }
            Purpose::Call(id) => self.calls.answered(&mut cx, id, header, body),
        }
    }

    /// A request has ended without an answer.
    pub(super) fn on_failure(&mut self, purpose: Purpose, error: CallError) {
        let mut cx = self.ground.cx();
        match purpose {
            Purpose::Route(topic) => {
                if let (CallError::Timeout, Some(addr)) = (&error, self.routes.asked(&topic)) {
                    cx.client_notice(NoticeKind::NameServerUnreachable {
                        addr: addr.clone(),
                        cause: LinkTrouble::NoAnswer,
                    });
                }
                self.routes.on_failed(&mut cx, &topic, &error);
            }
            Purpose::Heartbeat { addr, .. } => {
                self.beats.on_failed(&mut cx, &addr, &error);
                let lost = matches!(error, CallError::Closed | CallError::Connect(_));
                self.on_beat_ended(&addr, lost);
            }
            Purpose::Members { group, round, broker } => {
                if let Some(group) = self.groups.get_mut(group) {
                    group.on_members(
                        &mut cx,
                        Peers::of(&self.routes, &self.beats),
                        round,
                        &broker,
                        Err(error),
                    );
                }
            }
            Purpose::Queue { group, queue, ask } => {
                if let Some(group) = self.groups.get_mut(group) {
                    match ask {
                        QueueAsk::Pull { serial } => {
                            group.on_pull(
                                &mut cx,
                                Peers::of(&self.routes, &self.beats),
                                queue,
                                serial,
                                Err(error),
                            );
                        }
                        QueueAsk::StoredOffset => group.on_stored_offset(
                            &mut cx,
                            Peers::of(&self.routes, &self.beats),
                            queue,
                            Err(error),
                        ),
                        QueueAsk::StartOffset => group.on_start_offset(
                            &mut cx,
                            Peers::of(&self.routes, &self.beats),
                            queue,
                            Err(error),
                        ),
                        QueueAsk::Commit(offset) => group.on_committed(&mut cx, queue, offset, Err(error)),
                        QueueAsk::Recheck => group.on_recheck(&mut cx, queue, Err(error)),
                        QueueAsk::Verify => group.on_verified(&mut cx, queue, Err(error)),
                    }
                }
            }
            Purpose::SendBack { group, back } => {
                if let Some(group) = self.groups.get_mut(group) {
                    group.on_send_back(&mut cx, Peers::of(&self.routes, &self.beats), back, Err(error));
                }
            }
            Purpose::RetryCopy { group, back } => {
                if let Some(group) = self.groups.get_mut(group) {
                    group.on_retry_copy(&mut cx, Peers::of(&self.routes, &self.beats), back, Err(error));
                }
            }
            Purpose::Lock { group, serial } => {
                if let Some(group) = self.groups.get_mut(group) {
                    group.on_locked(&mut cx, Peers::of(&self.routes, &self.beats), serial, Err(error));
                }
            }
            Purpose::Unlock { group, serial } => {
                if let Some(group) = self.groups.get_mut(group) {
                    group.on_unlocked(&mut cx, Peers::of(&self.routes, &self.beats), serial, Err(error));
                }
            }
            Purpose::Connections { group, broker } => {
                if let Some(group) = self.groups.get_mut(group) {
                    group.on_connections(&mut cx, &broker, Err(error));
                }
            }
            Purpose::Subscriptions { group, member } => {
                if let Some(group) = self.groups.get_mut(group) {
                    group.on_member_subscriptions(&mut cx, member, Err(error));
                }
            }
            Purpose::Filter { group, topic, serial } => {
                if let Some(group) = self.groups.get_mut(group) {
                    let peers = Peers::of(&self.routes, &self.beats);
                    group.on_filter_checked(&mut cx, peers, &topic, serial, Err(error));
                }
            }
            Purpose::Unregister { addr, group } => self.on_farewell(addr, group, Err(error)),
            Purpose::Call(id) => self.calls.failed(&mut cx, id, error),
        }
    }

    pub(super) fn on_signal(&mut self, signal: RpcSignal<Purpose>) {
        match signal {
            RpcSignal::Failed { purpose, error } => self.on_failure(purpose, error),
            RpcSignal::Up { addr, again, .. } => {
                let mut cx = self.ground.cx();
                self.routes.link_works(&addr);
                self.beats.on_link_up(&addr);
                if again {
                    if !self.routes.is_name_server(&addr) {
                        self.beats.redialled(cx.now);
                    }
                    cx.client_notice(NoticeKind::LinkUp { addr });
                }
            }
            RpcSignal::Down { addr, trouble, .. } => {
                let mut cx = self.ground.cx();
                self.beats.on_link_down(&mut cx, &addr);
                self.routes.link_failed(&mut cx, &addr);
                self.on_link_lost(&addr);
                self.each_group(|group, cx, peers| group.on_link_down(cx, peers, &addr));
                let mut cx = self.ground.cx();
                let kind = if self.routes.is_name_server(&addr) {
                    NoticeKind::NameServerUnreachable { addr, cause: trouble }
                } else {
                    NoticeKind::LinkDown { addr, cause: trouble }
                };
                cx.client_notice(kind);
            }
            RpcSignal::Misbehaved { addr, why } => {
                let mut cx = self.ground.cx();
                cx.client_notice(NoticeKind::PeerMisbehaved { addr, why });
            }
        }
    }
}

fn on_queue_answer(
    cx: &mut Cx<'_>,
    peers: Peers<'_>,
    group: &mut Group,
    queue: QueueKey,
    ask: QueueAsk,
    header: &Header<'_>,
    body: &Bytes,
) {
    match ask {
        QueueAsk::Pull { serial } => {
            group.on_pull(cx, peers, queue, serial, decode::<PullAnswer>(header, body));
        }
        QueueAsk::StoredOffset => {
            let stored = decode::<StoredOffset>(header, body).map(|stored| Stored {
                offset: stored.0,
                version: header.version,
            });
            group.on_stored_offset(cx, peers, queue, stored);
        }
        QueueAsk::StartOffset => {
            let start = decode::<OffsetAnswer>(header, body).map(|answer| answer.offset);
            group.on_start_offset(cx, peers, queue, start);
        }
        QueueAsk::Commit(offset) => {
            group.on_committed(cx, queue, offset, decode::<Done>(header, body).map(|_| ()));
        }
        QueueAsk::Verify => {
            let stored = decode::<StoredOffset>(header, body).map(|stored| stored.0);
            group.on_verified(cx, queue, stored);
        }
        QueueAsk::Recheck => {
            group.on_recheck(
                cx,
                queue,
                decode::<StoredOffset>(header, body).map(|stored| stored.0),
            );
        }
    }
}

/// What a name server means that gives no route, for people.
fn no_route(error: &AnswerError) -> String {
    match error {
        AnswerError::Refused {
            code: ResponseCode::TOPIC_NOT_EXIST,
            ..
        } => "the topic does not exist".into(),
        // A broker's port in place of the name server's, most often.
        AnswerError::Refused {
            code: ResponseCode::REQUEST_CODE_NOT_SUPPORTED,
            remark,
        } => format!("this is not a name server ({})", remark.trim()),
        AnswerError::Refused { .. } | AnswerError::Malformed(_) => format!("{error}"),
    }
}

fn decode<A: Answer>(header: &Header<'_>, body: &Bytes) -> Result<A, CallError> {
    A::decode(header, body).map_err(CallError::from)
}

impl From<AnswerError> for CallError {
    fn from(error: AnswerError) -> Self {
        match error {
            AnswerError::Refused { code, remark } => Self::Broker { code: code.0, remark },
            AnswerError::Malformed(why) => Self::Malformed(format!("{why}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_gives_no_route_is_quoted_in_plain_words() {
        let refused = |code, remark: &str| AnswerError::Refused {
            code,
            remark: remark.into(),
        };
        for (error, words) in [
            (
                refused(
                    ResponseCode::TOPIC_NOT_EXIST,
                    "No topic route info, see a long URL",
                ),
                "the topic does not exist",
            ),
            (
                refused(
                    ResponseCode::REQUEST_CODE_NOT_SUPPORTED,
                    " request type 105 not supported",
                ),
                "this is not a name server (request type 105 not supported)",
            ),
            (
                refused(ResponseCode::SYSTEM_ERROR, "out of memory"),
                "refused with 1 (SYSTEM_ERROR): out of memory",
            ),
        ] {
            assert_eq!(no_route(&error), words);
        }
    }
}
