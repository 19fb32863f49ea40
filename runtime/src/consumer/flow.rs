use rocketmq_consumer_core::event::{AppEvent, FlowScope, SeekTo};
use rocketmq_consumer_core::ids::{ConsumerGroup, MessageQueue, Topic};
use rocketmq_consumer_core::rate::Rate;

use crate::consumer::Consumer;
use crate::driver::Command;
use crate::error::ChangeError;
use crate::runtime::Runtime;

/// What may change while it runs. Each call returns when it has taken effect.
impl<R: Runtime> Consumer<R> {
    /// Stops pulling and delivering: all, one topic or one queue, as in `pause(FlowScope::Group)` or
    /// `pause(Topic::from("orders"))`. A second time changes nothing.
    ///
    /// The queues stay owned; running handlers finish, and what they finish is committed. What no handler has begun
    /// waits here. A topic or queue may be named that is not there yet; it is remembered as long as the group runs.
    ///
    /// # Errors
    /// As many topics and queues are named as
    /// [`set_flow_names_max`](crate::GroupConfig::set_flow_names_max) allows, or the consumer has ended.
    pub async fn pause(&self, scope: impl Into<FlowScope>) -> Result<(), ChangeError> {
        let scope = scope.into();
        self.change(move |group| AppEvent::Pause { group, scope }).await
    }

    /// Goes on from where it was paused. The three kinds of scopes are switches of their own: resuming the group
    /// says nothing of a topic or a queue that was paused itself.
    ///
    /// # Errors
    /// The consumer has ended.
    pub async fn resume(&self, scope: impl Into<FlowScope>) -> Result<(), ChangeError> {
        let scope = scope.into();
        self.change(move |group| AppEvent::Resume { group, scope }).await
    }

    /// Goes on from another place in a queue that this member owns.
    ///
    /// What was fetched is dropped, and what running handlers still answer for it counts for nothing. An offset is
    /// committed at once; a place that its broker is asked for, when it is known, which the notice `Assigned` tells.
    ///
    /// # Errors
    /// The queue is not owned by this member, the offset is negative, or the consumer is ending or has ended.
    pub async fn seek(&self, queue: MessageQueue, to: SeekTo) -> Result<(), ChangeError> {
        let queue = Box::new(queue);
        self.change(move |group| AppEvent::Seek { group, queue, to })
            .await
    }

    /// Changes how fast messages are handed out over the whole group; `None` for no limit.
    ///
    /// # Errors
    /// A rate or a burst that is not within 1..=1,000,000, or the consumer has ended.
    pub async fn set_rate_limit(&self, rate: Option<Rate>) -> Result<(), ChangeError> {
        let topic = None;
        self.change(move |group| AppEvent::RateLimit { group, topic, rate })
            .await
    }

    /// Changes how fast messages of one topic are handed out, beside the limit of the group.
    ///
    /// # Errors
    /// As [`Self::set_rate_limit`] and [`Self::pause`].
    pub async fn set_topic_rate_limit(
        &self,
        topic: impl Into<Topic>,
        rate: Option<Rate>,
    ) -> Result<(), ChangeError> {
        let topic = Some(topic.into());
        self.change(move |group| AppEvent::RateLimit { group, topic, rate })
            .await
    }

    /// Feeds an event about this very group, and tells what the machine says to it.
    pub(crate) async fn change(
        &self,
        change: impl FnOnce(ConsumerGroup) -> AppEvent + Send + 'static,
    ) -> Result<(), ChangeError> {
        let who = self.ticket;
        let change = Box::new(change);
        let done = self
            .client
            .command(|reply| Command::Change { who, change, reply })
            .await;
        done?.map_err(ChangeError::Refused)
    }
}
