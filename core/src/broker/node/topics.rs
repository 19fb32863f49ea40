//! Topics as operators change them: 17, 215, 351.
//= rocketmq: AdminBrokerProcessor.updateAndCreateTopic, AdminBrokerProcessor.deleteTopic

use alloc::collections::BTreeMap;
use alloc::format;

use super::super::config::TopicConfig;
use super::super::post::Refusal;
use super::Serving;
use super::names::{TOPIC_MAX, is_legal, is_system};
use super::offsets::no_topic;
use super::serve::Asked;
use crate::ids::Topic;
use crate::wire::code::ResponseCode;
use crate::wire::request::Done;
use crate::wire::request::topics::{
    self, DeleteTopicRequest, TopicConfigRequest, TopicFilterType, UpdateTopicRequest,
};

impl Serving<'_> {
    pub(super) fn update_topic(
        &mut self,
        _: &Asked<'_, '_>,
        request: UpdateTopicRequest,
    ) -> Result<Done, Refusal> {
        check_name(&request.topic)?;
        // A broker takes negative counts too; there are no more queues than with none.
        let count = |queues: i32| u32::try_from(queues).unwrap_or(0);
        let topic = TopicConfig {
            read_queues: count(request.read_queues),
            write_queues: count(request.write_queues),
            perm: request.perm,
            order: request.order,
            name: request.topic,
        };
        self.disk.put_topic(&mut self.cx, topic)?;
        Ok(Done)
    }

    /// Name servers are not told: they go on naming the topic until they are asked to forget it.
    pub(super) fn delete_topic(
        &mut self,
        _: &Asked<'_, '_>,
        request: DeleteTopicRequest,
    ) -> Result<Done, Refusal> {
        check_name(&request.topic)?;
        self.disk.store.remove_topic(&request.topic);
        self.disk.offsets.remove_topic(&request.topic);
        Ok(Done)
    }

    pub(super) fn topic_config(
        &mut self,
        _: &Asked<'_, '_>,
        request: TopicConfigRequest,
    ) -> Result<topics::TopicConfig, Refusal> {
        let topic = self.disk.store.topic(&request.topic);
        let topic = topic.ok_or_else(|| no_topic(&request.topic))?;
        let count = |queues: u32| i32::try_from(queues).unwrap_or(i32::MAX);
        Ok(topics::TopicConfig {
            attributes: BTreeMap::new(),
            order: topic.order,
            perm: topic.perm,
            read_queues: count(topic.read_queues),
            filter_type: Some(TopicFilterType::SingleTag),
            topic: topic.name.clone(),
            sys_flag: 0,
            write_queues: count(topic.write_queues),
        })
    }
}

fn check_name(topic: &Topic) -> Result<(), Refusal> {
    let illegal = |remark| Refusal::new(ResponseCode::INVALID_PARAMETER, remark);
    if !is_legal(topic.as_str(), TOPIC_MAX) {
        return Err(illegal(format!("The specified topic[{topic}] is illegal")));
    }
    if is_system(topic) {
        return Err(illegal(format!(
            "The topic[{topic}] is conflict with system topic."
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
