//! What a name server is asked.
//= rocketmq: ClientRequestProcessor.getRouteInfoByTopic

use alloc::format;

use super::super::cx::Cx;
use super::super::post::Refusal;
use super::NodeKey;
use super::serve::{Asked, read, unsupported};
use crate::wire::code::{RequestCode, ResponseCode};
use crate::wire::request::route::{DialectRoute, RouteRequest};

/// Serves a request to a name server.
pub(in crate::broker) fn serve_name_server(cx: &mut Cx<'_>, node: NodeKey, asked: &Asked<'_, '_>) {
    match RequestCode(asked.header.code) {
        RequestCode::GET_ROUTEINFO_BY_TOPIC => route(cx, node, asked),
        code => cx.post.refuse(cx.now, asked.to, &unsupported(code)),
    }
}

fn route(cx: &mut Cx<'_>, node: NodeKey, asked: &Asked<'_, '_>) {
    let Some(request) = read::<RouteRequest>(cx, asked) else {
        return;
    };
    match cx.names.view(node).route(&request.topic) {
        Some(route) if request.reads_standard_json(asked.header.version) => {
            cx.post.answer(cx.now, asked.to, &route);
        }
        Some(route) => cx.post.answer(cx.now, asked.to, &DialectRoute(route)),
        None => {
            let remark = format!(
                "No topic route info in name server for the topic: {}",
                request.topic
            );
            let refusal = Refusal::new(ResponseCode::TOPIC_NOT_EXIST, remark);
            cx.post.refuse(cx.now, asked.to, &refusal);
        }
    }
}
