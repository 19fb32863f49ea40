//! What a name server is asked.
//= rocketmq: ClientRequestProcessor.getRouteInfoByTopic

use alloc::collections::BTreeSet;
use alloc::format;

use super::super::cx::Cx;
use super::super::name_server::Directory;
use super::super::post::Refusal;
use super::NodeKey;
use super::serve::{Asked, read, unsupported};
use crate::wire::code::{RequestCode, ResponseCode};
use crate::wire::request::Done;
use crate::wire::request::cluster::ClusterInfo;
use crate::wire::request::route::{DialectRoute, RouteRequest};
use crate::wire::request::topics::{ClusterTopicsRequest, ForgetTopicRequest, TopicList};

/// Serves a request to a name server.
pub(in crate::broker) fn serve_name_server(cx: &mut Cx<'_>, node: NodeKey, asked: &Asked<'_, '_>) {
    match RequestCode(asked.header.code) {
        RequestCode::GET_ROUTEINFO_BY_TOPIC => route(cx, node, asked),
        RequestCode::GET_BROKER_CLUSTER_INFO => {
            let info = cluster_info(cx.names.view(node));
            cx.post.answer(cx.now, asked.to, &info);
        }
        RequestCode::GET_ALL_TOPIC_LIST_FROM_NAMESERVER => {
            let topics = cx.names.view(node).topics();
            cx.post.answer(cx.now, asked.to, &TopicList { topics });
        }
        RequestCode::GET_TOPICS_BY_CLUSTER => {
            if let Some(request) = read::<ClusterTopicsRequest>(cx, asked) {
                let directory = cx.names.view(node);
                let is_ours = directory.cluster() == request.cluster;
                let topics = if is_ours {
                    directory.topics()
                } else {
                    BTreeSet::new()
                };
                cx.post.answer(cx.now, asked.to, &TopicList { topics });
            }
        }
        RequestCode::DELETE_TOPIC_IN_NAMESRV => {
            if let Some(request) = read::<ForgetTopicRequest>(cx, asked) {
                cx.names.live.delete_topic(&request.topic);
                cx.post.answer(cx.now, asked.to, &Done);
            }
        }
        code => cx.post.refuse(cx.now, asked.to, &unsupported(code)),
    }
}

fn cluster_info(directory: &Directory) -> ClusterInfo {
    let names = directory.brokers().map(|data| data.name);
    ClusterInfo {
        clusters: [(directory.cluster().into(), names.collect())].into(),
        brokers: directory
            .brokers()
            .map(|data| (data.name.clone(), data))
            .collect(),
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

#[cfg(test)]
mod tests;
