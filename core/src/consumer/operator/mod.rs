//! What brokers ask of this client, for themselves or for an operator's tool.
//!
//! | code | what | answer |
//! |---|---|---|
//! | 40 | the members of a group have changed | none; it is always one-way |
//! | 220 | continue at these offsets | when the new ownerships have begun |
//! | 221 | how far is this member? | at once; of a group that is not ours an empty table, as Java does |
//! | 307 | how is this member? | at once |
//! | 309 | consume this message now | when the handler has ended, or its deadline has passed |
//! | other | | 3, unless it is one-way |
//!
//! A request that cannot be read, or is about a group that is not ours, is counted, told by a notice and
//! refused; nothing that a peer asks can do more. Answers have the header form that was set, whatever the question
//! came in, as in Java: every peer looks at each frame.
//= rocketmq: ClientRemotingProcessor.processRequest type=differs
//  reason: a reset neither sleeps nor blocks anybody; a message that is consumed directly has a limit and a deadline.

mod dump;

use alloc::format;

use bytes::Bytes;

use super::ConsumerState;
use super::group::Group;
use super::peers::Peers;
use super::reply::{Asker, Refused, Reply};
use crate::ids::{ConnId, ConsumerGroup};
use crate::notice::NoticeKind;
use crate::wire::code::{RequestCode, ResponseCode};
use crate::wire::command::Header;
use crate::wire::request::members::MembersChanged;
use crate::wire::request::operator::{
    ConsumeDirectlyAnswer, ConsumeDirectlyRequest, ConsumerStatus, ConsumerStatusRequest, ResetOffsetRequest,
    RunningInfo, RunningInfoRequest,
};
use crate::wire::request::{Answer, Done, Request, encode_answer, encode_refusal};

/// What serving a request came to: an answer, or `None` when it follows later.
type Served<A> = Result<Option<A>, Refused>;

impl ConsumerState {
    /// A peer asks something of us.
    pub(super) fn on_request(&mut self, conn: ConnId, header: &Header<'_>, body: &Bytes) {
        let asker = Asker {
            conn,
            opaque: header.opaque,
            oneway: header.is_oneway(),
        };
        match RequestCode(header.code) {
            RequestCode::NOTIFY_CONSUMER_IDS_CHANGED => self.on_members_changed(conn, header, body),
            RequestCode::RESET_CONSUMER_CLIENT_OFFSET => {
                self.serve(asker, header, body, |client, _, request| client.reset(&request));
            }
            RequestCode::GET_CONSUMER_STATUS_FROM_CLIENT => {
                self.serve(asker, header, body, |client, _, request| {
                    Ok(Some(client.progress(&request)))
                });
            }
            RequestCode::GET_CONSUMER_RUNNING_INFO => {
                self.serve(asker, header, body, |client, _, request| {
                    client.running_info(&request)
                });
            }
            RequestCode::CONSUME_MESSAGE_DIRECTLY => self.serve(asker, header, body, Self::consume_directly),
            code => self.on_unknown_request(asker, code),
        }
    }

    fn on_members_changed(&mut self, conn: ConnId, header: &Header<'_>, body: &Bytes) {
        if let Ok(notice) = MembersChanged::decode(&header.ext, body)
            && let Some(broker) = self.rpc.addr(conn).cloned()
        {
            let mut cx = self.ground.cx();
            let key = self.by_name.get(&notice.group);
            match key.and_then(|key| self.groups.get_mut(*key)) {
                Some(group) => group.on_notified(&mut cx, broker),
                None => self.on_taken_for_member(broker, notice.group),
            }
        }
    }

    fn on_unknown_request(&mut self, asker: Asker, code: RequestCode) {
        if let Some(addr) = self.rpc.addr(asker.conn).cloned() {
            let kind = NoticeKind::UnexpectedRequest { addr, code: code.0 };
            self.ground.cx().client_notice(kind);
        }
        let why = format!("request type {} not supported", code.0);
        self.refuse_peer(
            asker,
            &Refused::new(ResponseCode::REQUEST_CODE_NOT_SUPPORTED, why),
        );
    }

    /// Reads a request, and answers it unless `how` says that the answer follows.
    fn serve<R: Request>(
        &mut self,
        asker: Asker,
        header: &Header<'_>,
        body: &Bytes,
        how: impl FnOnce(&mut Self, Asker, R) -> Served<R::Answer>,
    ) {
        let served = match R::decode(&header.ext, body) {
            Ok(request) => how(self, asker, request),
            Err(error) => Err(Refused::failed(format!("{error}"))),
        };
        match served {
            Ok(None) => {}
            Ok(Some(answer)) => self.answer_peer(asker, &answer),
            Err(refused) => {
                self.ground.counters.refused_requests += 1;
                if let Some(addr) = self.rpc.addr(asker.conn).cloned() {
                    let (code, why) = (R::CODE.0, refused.why.clone());
                    let kind = NoticeKind::RequestNotServed { addr, code, why };
                    self.ground.cx().client_notice(kind);
                }
                self.refuse_peer(asker, &refused);
            }
        }
    }

    fn reset(&mut self, request: &ResetOffsetRequest) -> Served<Done> {
        let key = self.by_name.get(&request.group);
        let Some(group) = key.and_then(|key| self.groups.get_mut(*key)) else {
            return Err(Refused::no_group(&request.group));
        };
        let mut cx = self.ground.cx();
        let peers = Peers::of(&self.routes, &self.beats);
        group.on_reset(&mut cx, peers, &request.topic, &request.offsets)?;
        Ok(Some(Done))
    }

    fn progress(&self, request: &ConsumerStatusRequest) -> ConsumerStatus {
        let group = self.group(&request.group);
        let offsets = group.map(|group| group.progress_in(&request.topic));
        ConsumerStatus {
            offsets: offsets.unwrap_or_default(),
        }
    }

    fn running_info(&mut self, request: &RunningInfoRequest) -> Served<RunningInfo> {
        let jstack = request.jstack.then(|| dump::dump(&self.status(), &request.group));
        let key = self.by_name.get(&request.group);
        let Some(group) = key.and_then(|key| self.groups.get(*key)) else {
            return Err(Refused::no_group(&request.group));
        };
        let mut info = group.running_info(&self.ground.cx(), &self.config, self.routes.servers());
        info.jstack = jstack;
        Ok(Some(info.to_answer()))
    }

    fn consume_directly(
        &mut self,
        asker: Asker,
        request: ConsumeDirectlyRequest,
    ) -> Served<ConsumeDirectlyAnswer> {
        let key = self.by_name.get(&request.group);
        let Some(group) = key.and_then(|key| self.groups.get_mut(*key)) else {
            return Err(Refused::no_group(&request.group));
        };
        group.on_consume_directly(&mut self.ground.cx(), asker, request)?;
        Ok(None)
    }

    fn group(&self, name: &ConsumerGroup) -> Option<&Group> {
        self.by_name.get(name).and_then(|key| self.groups.get(*key))
    }

    /// What was asked earlier has come to an end.
    pub(super) fn reply(&mut self, asker: Asker, reply: &Reply) {
        match reply {
            Reply::Directly(answer) => self.answer_peer(asker, &**answer),
            Reply::Refused(refused) => self.refuse_peer(asker, refused),
        }
    }

    fn answer_peer<A: Answer>(&mut self, asker: Asker, answer: &A) {
        match encode_answer(self.config.header_form, asker.opaque, answer) {
            Ok(frame) => self.send_answer(asker, frame),
            Err(error) => self.refuse_peer(asker, &Refused::failed(format!("{error}"))),
        }
    }

    fn refuse_peer(&mut self, asker: Asker, refused: &Refused) {
        let Refused { code, why } = refused;
        if let Ok(frame) = encode_refusal(self.config.header_form, asker.opaque, *code, why) {
            self.send_answer(asker, frame);
        }
    }

    fn send_answer(&mut self, asker: Asker, frame: Bytes) {
        if !asker.oneway {
            self.rpc.send(&mut self.ground.cx().step(), asker.conn, frame);
        }
    }
}
