use alloc::format;
use alloc::string::ToString as _;
use core::net::SocketAddr;

use bytes::Bytes;

use super::super::cx::Cx;
use super::super::post::{Asker, Refusal};
use super::super::store::View;
use super::{Disk, NodeKey, Replica};
use crate::ids::{ConnId, PeerAddr};
use crate::wire::code::{RequestCode, ResponseCode};
use crate::wire::command::Header;
use crate::wire::request::Request;

/// A request that has come.
pub(in crate::broker) struct Asked<'a, 'h> {
    pub(in crate::broker) header: &'a Header<'h>,
    pub(in crate::broker) body: &'a Bytes,
    /// Who waits for the answer.
    pub(in crate::broker) to: Asker,
    /// Where the client is.
    pub(in crate::broker) from: SocketAddr,
}

impl Asked<'_, '_> {
    pub(in crate::broker) const fn conn(&self) -> ConnId {
        self.to.conn
    }
}

/// One replica at work: what it has in memory, what its broker has on disk, and the step around it.
pub(in crate::broker) struct Serving<'a> {
    pub(in crate::broker) key: NodeKey,
    pub(in crate::broker) addr: &'a PeerAddr,
    pub(in crate::broker) replica: &'a mut Replica,
    pub(in crate::broker) disk: &'a mut Disk,
    pub(in crate::broker) cx: Cx<'a>,
}

impl Serving<'_> {
    /// Serves a request.
    pub(in crate::broker) fn serve(&mut self, asked: &Asked<'_, '_>) {
        match RequestCode(asked.header.code) {
            RequestCode::PULL_MESSAGE | RequestCode::LITE_PULL_MESSAGE => self.on_pull(asked),
            RequestCode::UPDATE_CONSUMER_OFFSET => self.on_commit(asked),
            RequestCode::QUERY_CONSUMER_OFFSET => self.answer(asked, Self::query_offset),
            RequestCode::SEARCH_OFFSET_BY_TIMESTAMP => self.answer(asked, Self::search_offset),
            RequestCode::GET_MAX_OFFSET => self.answer(asked, Self::max_offset),
            RequestCode::GET_MIN_OFFSET => self.answer(asked, Self::min_offset),
            RequestCode::HEART_BEAT => self.answer(asked, Self::heartbeat),
            RequestCode::UNREGISTER_CLIENT => self.answer(asked, Self::unregister),
            RequestCode::GET_CONSUMER_LIST_BY_GROUP => self.answer(asked, Self::member_list),
            RequestCode::LOCK_BATCH_MQ => self.answer(asked, Self::lock),
            RequestCode::UNLOCK_BATCH_MQ => self.answer(asked, Self::unlock),
            RequestCode::SEND_MESSAGE | RequestCode::SEND_MESSAGE_V2 | RequestCode::SEND_BATCH_MESSAGE => {
                self.on_send(asked);
            }
            RequestCode::CONSUMER_SEND_MSG_BACK => self.answer(asked, Self::send_back),
            RequestCode::GET_EARLIEST_MSG_STORETIME => self.answer(asked, Self::earliest_store_time),
            RequestCode::VIEW_MESSAGE_BY_ID => self.answer(asked, Self::view_message),
            RequestCode::QUERY_MESSAGE => self.answer(asked, Self::query_messages),
            RequestCode::CHECK_CLIENT_CONFIG => self.on_check_subscription(asked),
            RequestCode::UPDATE_AND_CREATE_TOPIC => self.answer(asked, Self::update_topic),
            RequestCode::DELETE_TOPIC_IN_BROKER => self.answer(asked, Self::delete_topic),
            RequestCode::GET_TOPIC_CONFIG => self.answer(asked, Self::topic_config),
            RequestCode::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP => self.on_update_group(asked),
            RequestCode::GET_ALL_SUBSCRIPTIONGROUP_CONFIG => self.answer(asked, Self::group_list),
            RequestCode::GET_SUBSCRIPTIONGROUP_CONFIG => self.answer(asked, Self::group_config),
            RequestCode::DELETE_SUBSCRIPTIONGROUP => self.answer(asked, Self::delete_group),
            RequestCode::GET_TOPIC_STATS_INFO => self.answer(asked, Self::topic_stats),
            RequestCode::GET_CONSUME_STATS => self.answer(asked, Self::consume_stats),
            RequestCode::GET_CONSUMER_CONNECTION_LIST => self.answer(asked, Self::connections),
            RequestCode::QUERY_TOPIC_CONSUME_BY_WHO => self.answer(asked, Self::topic_groups),
            RequestCode::INVOKE_BROKER_TO_RESET_OFFSET => self.answer(asked, Self::reset_offsets),
            RequestCode::INVOKE_BROKER_TO_GET_CONSUMER_STATUS => self.on_group_status(asked),
            RequestCode::GET_CONSUMER_RUNNING_INFO => self.on_running_info(asked),
            RequestCode::CONSUME_MESSAGE_DIRECTLY => self.on_consume_directly(asked),
            code => self.cx.post.refuse(self.cx.now, asked.to, &unsupported(code)),
        }
    }

    /// Reads a request, serves it and answers.
    pub(super) fn answer<R: Request>(
        &mut self,
        asked: &Asked<'_, '_>,
        serve: impl FnOnce(&mut Self, &Asked<'_, '_>, R) -> Result<R::Answer, Refusal>,
    ) {
        let Some(request) = read(&mut self.cx, asked) else {
            return;
        };
        let answer = serve(self, asked, request);
        reply(&mut self.cx, asked.to, &answer);
    }

    /// How much of the store this replica sees.
    pub(super) fn view(&self) -> View {
        self.disk.view(self.cx.now, self.replica.is_master())
    }

    /// Slaves take nothing in.
    pub(super) fn must_be_master(&self) -> Result<(), Refusal> {
        if self.replica.is_master() {
            return Ok(());
        }
        let remark = "[REJECTREQUEST]system busy, start flow control for a while";
        Err(Refusal::new(ResponseCode::SYSTEM_BUSY, remark))
    }
}

/// Reads a request; one that lacks something is refused at once.
pub(super) fn read<R: Request>(cx: &mut Cx<'_>, asked: &Asked<'_, '_>) -> Option<R> {
    match R::decode(&asked.header.ext, asked.body) {
        Ok(request) => Some(request),
        Err(malformed) => {
            let refusal = Refusal::new(ResponseCode::SYSTEM_ERROR, malformed.to_string());
            cx.post.refuse(cx.now, asked.to, &refusal);
            None
        }
    }
}

/// Answers or refuses.
pub(super) fn reply<A: crate::wire::request::Answer>(
    cx: &mut Cx<'_>,
    to: Asker,
    answer: &Result<A, Refusal>,
) {
    match answer {
        Ok(answer) => cx.post.answer(cx.now, to, answer),
        Err(refusal) => cx.post.refuse(cx.now, to, refusal),
    }
}

/// The refusal of a request that this kind of node does not know.
pub(super) fn unsupported(code: RequestCode) -> Refusal {
    let remark = format!("request type {} not supported", code.0);
    Refusal::new(ResponseCode::REQUEST_CODE_NOT_SUPPORTED, remark)
}
