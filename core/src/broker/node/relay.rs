//! What an operator asks of members through their broker: 307, 309 and 223.
//!
//! ```text
//! operator ─ 307, 309 ─► broker ─ its own number ─► member ─ answer, whatever it is ─► operator
//! operator ─ 223 ─► broker ─ 221 ─► one member after the other ─► what came together ─► operator
//! ```
//= rocketmq: AdminBrokerProcessor.callConsumer, Broker2Client.getConsumeStatus

use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;

use super::super::Timer;
use super::super::post::{Asker, Refusal};
use super::Serving;
use super::serve::{Asked, read};
use crate::ids::{ClientId, ConnId, ConsumerGroup};
use crate::time::Instant;
use crate::wire::code::ResponseCode;
use crate::wire::command::Header;
use crate::wire::message_id::OffsetMessageId;
use crate::wire::request::operator::{
    ConsumeDirectlyRequest, ConsumerStatus, ConsumerStatusRequest, OffsetTable, RunningInfoRequest,
};
use crate::wire::request::reset::{GroupStatus, GroupStatusRequest};
use crate::wire::request::{Answer as _, Request};

/// How long each member may take to answer 221.
const STATUS_TIMEOUT: Duration = Duration::from_secs(5);
/// The first version that answers 307 and 309 (3.1.8).
const VERSION_MIN: i32 = 62;

/// A question that a member has not answered yet.
#[derive(Clone, Debug)]
struct Pending {
    until: Instant,
    purpose: Purpose,
}

#[derive(Clone, Debug)]
enum Purpose {
    /// The answer is the operator's.
    Forward(Asker),
    /// The answer is one of several.
    Status(StatusRound),
}

/// The members of a group are asked one after the other.
#[derive(Clone, Debug)]
struct StatusRound {
    to: Asker,
    request: ConsumerStatusRequest,
    asked: ClientId,
    waiting: VecDeque<(ConnId, ClientId)>,
    answers: BTreeMap<ClientId, OffsetTable>,
}

/// Questions that members have not answered yet, by connection and number.
#[derive(Clone, Debug, Default)]
pub(in crate::broker) struct Relays {
    pending: BTreeMap<(ConnId, i32), Pending>,
}

impl Relays {
    /// Takes the questions for which `over` holds.
    fn take(&mut self, over: impl Fn(ConnId, &Pending) -> bool) -> Vec<Pending> {
        let keys: Vec<_> = self
            .pending
            .iter()
            .filter(|((conn, _), pending)| over(*conn, pending))
            .map(|(key, _)| *key)
            .collect();
        keys.iter().filter_map(|key| self.pending.remove(key)).collect()
    }

    fn next(&self) -> Option<Instant> {
        self.pending.values().map(|pending| pending.until).min()
    }
}

impl Serving<'_> {
    pub(super) fn on_running_info(&mut self, asked: &Asked<'_, '_>) {
        let Some(request) = read::<RunningInfoRequest>(&mut self.cx, asked) else {
            return;
        };
        let member = self.find_member(&request.group, Some(&request.client_id));
        self.forward(asked.to, member, &request);
    }

    pub(super) fn on_consume_directly(&mut self, asked: &Asked<'_, '_>) {
        let Some(mut request) = read::<ConsumeDirectlyRequest>(&mut self.cx, asked) else {
            return;
        };
        let member = self.find_member(&request.group, request.client_id.as_ref());
        let message = request
            .message_id
            .as_deref()
            .and_then(|id| id.parse::<OffsetMessageId>().ok());
        let message = message.and_then(|id| self.disk.store.by_physical(self.view(), id.physical_offset));
        match message.cloned() {
            Some(message) => {
                request.message = message;
                request.broker = Some(self.disk.name.clone());
                self.forward(asked.to, member, &request);
            }
            None => {
                let refusal = Refusal::new(ResponseCode::SYSTEM_ERROR, "no message has this id");
                let refusal = member.err().unwrap_or(refusal);
                self.cx.post.refuse(self.cx.now, asked.to, &refusal);
            }
        }
    }

    /// The connection of a member. Of two with one client id only one is asked.
    fn find_member(&self, group: &ConsumerGroup, client: Option<&ClientId>) -> Result<ConnId, Refusal> {
        let failed = |remark: String| Refusal::new(ResponseCode::SYSTEM_ERROR, remark);
        let name = client.map_or("null", ClientId::as_str);
        let of = self.replica.members.group(group);
        let mut members = of.into_iter().flat_map(|of| &of.by_conn);
        let (conn, member) = members
            .find(|(_, member)| Some(&member.client) == client)
            .ok_or_else(|| failed(format!("The Consumer <{group}> <{name}> not online")))?;
        if member.version < VERSION_MIN {
            let remark = format!("The Consumer <{group}> <{name}> Version too low to finish");
            return Err(failed(remark));
        }
        Ok(*conn)
    }

    fn forward<R: Request>(&mut self, to: Asker, member: Result<ConnId, Refusal>, request: &R) {
        let done = member.and_then(|conn| {
            let pending = Pending {
                until: self.cx.now + self.cx.settings.relay_timeout,
                purpose: Purpose::Forward(to),
            };
            self.ask_member(conn, pending, request)
        });
        if let Err(refusal) = done {
            self.cx.post.refuse(self.cx.now, to, &refusal);
        }
    }

    fn ask_member<R: Request>(&mut self, conn: ConnId, pending: Pending, request: &R) -> Result<(), Refusal> {
        let relays = &mut self.replica.relays.pending;
        if relays.len() >= self.cx.settings.relays_max {
            let remark = "too many questions to members are open";
            return Err(Refusal::new(ResponseCode::SYSTEM_BUSY, remark));
        }
        let until = pending.until;
        let opaque = self.cx.post.ask(self.cx.now, self.addr, conn, request);
        relays.insert((conn, opaque), pending);
        self.cx.timers.set_no_later(Timer::Relays(self.key), until);
        Ok(())
    }

    pub(super) fn on_group_status(&mut self, asked: &Asked<'_, '_>) {
        let Some(request) = read::<GroupStatusRequest>(&mut self.cx, asked) else {
            return;
        };
        let Some(of) = self.replica.members.group(&request.group) else {
            let remark = format!("the consumer group <{}> has no member online", request.group);
            let refusal = Refusal::new(ResponseCode::SYSTEM_ERROR, remark);
            return self.cx.post.refuse(self.cx.now, asked.to, &refusal);
        };
        let is_meant = |client: &ClientId| request.client_id.as_ref().is_none_or(|only| only == client);
        let waiting = of
            .by_conn
            .iter()
            .map(|(conn, member)| (*conn, member.client.clone()));
        let waiting = waiting.filter(|(_, client)| is_meant(client)).collect();
        self.ask_next(StatusRound {
            to: asked.to,
            request: ConsumerStatusRequest {
                group: request.group.clone(),
                topic: request.topic,
                client_addr: None,
            },
            asked: "".into(),
            waiting,
            answers: BTreeMap::new(),
        });
    }

    /// Asks the next member; when none is left the operator is answered.
    fn ask_next(&mut self, mut round: StatusRound) {
        let Some((conn, client)) = round.waiting.pop_front() else {
            let status = GroupStatus {
                members: round.answers,
            };
            return self.cx.post.answer(self.cx.now, round.to, &status);
        };
        round.asked = client;
        let (to, request) = (round.to, round.request.clone());
        let pending = Pending {
            until: self.cx.now + STATUS_TIMEOUT,
            purpose: Purpose::Status(round),
        };
        if let Err(refusal) = self.ask_member(conn, pending, &request) {
            self.cx.post.refuse(self.cx.now, to, &refusal);
        }
    }

    /// A client has answered something. What nobody has asked, or not any more, is passed over.
    pub(in crate::broker) fn on_answer(&mut self, conn: ConnId, header: &Header<'_>, body: &Bytes) {
        let Some(pending) = self.replica.relays.pending.remove(&(conn, header.opaque)) else {
            return;
        };
        match pending.purpose {
            Purpose::Forward(to) => self.cx.post.pass_on(self.cx.now, to, header, body),
            Purpose::Status(mut round) => {
                // A member that answers nonsense is left out.
                if let Ok(status) = ConsumerStatus::decode(header, body) {
                    round.answers.insert(round.asked.clone(), status.offsets);
                }
                self.ask_next(round);
            }
        }
    }

    /// Looks for members that took too long.
    pub(in crate::broker) fn check_relays(&mut self) {
        let now = self.cx.now;
        for pending in self.replica.relays.take(|_, pending| pending.until <= now) {
            let remark = "the consumer did not answer in time";
            self.unanswered(pending, &Refusal::new(ResponseCode::CONSUME_MSG_TIMEOUT, remark));
        }
        if let Some(next) = self.replica.relays.next() {
            self.cx.timers.set_no_later(Timer::Relays(self.key), next);
        }
    }

    /// A connection is gone: nobody answers on it any more, and whoever asked on it waits no more.
    pub(super) fn hang_up_relays(&mut self, gone: ConnId) {
        self.replica.relays.take(|_, pending| match &pending.purpose {
            Purpose::Forward(to) => to.conn == gone,
            Purpose::Status(round) => round.to.conn == gone,
        });
        for pending in self.replica.relays.take(|conn, _| conn == gone) {
            let remark = "the consumer has closed its connection";
            self.unanswered(pending, &Refusal::new(ResponseCode::SYSTEM_ERROR, remark));
        }
    }

    fn unanswered(&mut self, pending: Pending, refusal: &Refusal) {
        match pending.purpose {
            Purpose::Forward(to) => self.cx.post.refuse(self.cx.now, to, refusal),
            Purpose::Status(round) => self.ask_next(round),
        }
    }
}

#[cfg(test)]
mod tests;
