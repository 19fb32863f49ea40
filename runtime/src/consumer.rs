mod flow;

use std::sync::Arc;
use std::time::Duration;

use rocketmq_consumer_core::action::ShutdownReport;
use rocketmq_consumer_core::config::FilterExpression;
use rocketmq_consumer_core::ids::{ConsumerGroup, Topic};
use rocketmq_consumer_core::status::Status;

use crate::builder::ConsumerBuilder;
use crate::client::Client;
use crate::driver::{Command, SubscriptionChange};
use crate::error::{Closed, ReadyError, StartError, SubscribeError};
use crate::notices::{NoticeHub, Notices};
use crate::registry::Ticket;
use crate::runtime::Runtime;

/// How often a start with `connect_timeout` looks whether somebody has answered.
const CONNECT_CHECK: Duration = Duration::from_millis(20);

/// A consumer group that runs.
///
/// Dropping it shuts it down in the background and without a drain: running handlers are given up, their
/// messages come again. [`Self::shutdown`] is the polite way.
#[must_use = "a consumer that is dropped is shut down"]
pub struct Consumer<R: Runtime> {
    client: Client<R>,
    group: ConsumerGroup,
    notices: Arc<NoticeHub>,
    /// Nobody else can use the client, so it ends with this consumer.
    owns_client: bool,
    ticket: Ticket,
}

impl<R: Runtime + Default> Consumer<R> {
    /// A consumer of this group on the runtime's default.
    pub fn builder(group: impl Into<ConsumerGroup>) -> ConsumerBuilder<R> {
        ConsumerBuilder::new(R::default(), group)
    }
}

impl<R: Runtime> Consumer<R> {
    pub(crate) const fn new(
        client: Client<R>,
        group: ConsumerGroup,
        notices: Arc<NoticeHub>,
        owns_client: bool,
        ticket: Ticket,
    ) -> Self {
        Self {
            client,
            group,
            notices,
            owns_client,
            ticket,
        }
    }

    /// The group.
    pub const fn group(&self) -> &ConsumerGroup {
        &self.group
    }

    /// The client it runs on, to ask brokers something or to start another group on.
    pub const fn client(&self) -> &Client<R> {
        &self.client
    }

    /// Waits until every queue of the first assignment is being pulled. Without a cluster, or while no name
    /// server knows the topic, it waits for ever: put a time-out around it and look at [`Self::notices`].
    ///
    /// # Errors
    /// A broker does not take a filter that the group begins with, see [`ReadyError::FilterRefused`], or the
    /// consumer ends before.
    pub async fn ready(&self) -> Result<(), ReadyError> {
        let who = self.ticket;
        let ready = self
            .client
            .command(|reply| Command::AwaitReady { who, reply })
            .await?;
        ready.map_err(ReadyError::FilterRefused)
    }

    /// Subscribes to one more topic, or changes which of its messages are wanted: tags as text, or any
    /// [`FilterExpression`]. Resolves when that is in force: every broker that knows this member has acknowledged
    /// it, and nothing that was fetched by the former filter is delivered any more. Asking for what is in force
    /// changes nothing.
    ///
    /// Handlers of the topic that run have the usual grace (`revoke_grace`), what none has begun is fetched anew.
    /// The first message of a new topic comes within about a second. Without a cluster this waits for ever, as
    /// [`Self::ready`] does; the wish stands also when the returned future is dropped.
    ///
    /// All members of a group must subscribe alike: change them one soon after the other.
    ///
    /// # Errors
    /// Why nothing has changed, or that a later wish has taken the place of this one.
    pub async fn subscribe(
        &self,
        topic: impl Into<Topic>,
        filter: impl Into<FilterExpression>,
    ) -> Result<(), SubscribeError> {
        self.resubscribe(topic.into(), Some(filter.into().normalized()))
            .await
    }

    /// [`Self::subscribe`] with an SQL92 condition over properties. A broker of the topic is asked about it first.
    ///
    /// # Errors
    /// As [`Self::subscribe`]; [`SubscribeError::FilterRefused`] has the words of the broker.
    pub async fn subscribe_sql(
        &self,
        topic: impl Into<Topic>,
        condition: impl Into<String>,
    ) -> Result<(), SubscribeError> {
        self.subscribe(topic, FilterExpression::sql92(condition.into()))
            .await
    }

    /// Gives a topic back: running handlers have the usual grace, what is finished is committed, then the brokers
    /// are told. Resolves when that is so. The group's offsets stay there. A topic that is not subscribed to is
    /// given back already; the last one is refused: [`Self::shutdown`] is what is meant then.
    ///
    /// # Errors
    /// Why nothing has changed, or that a later wish has taken the place of this one.
    pub async fn unsubscribe(&self, topic: impl Into<Topic>) -> Result<(), SubscribeError> {
        self.resubscribe(topic.into(), None).await
    }

    async fn resubscribe(
        &self,
        topic: Topic,
        filter: Option<FilterExpression>,
    ) -> Result<(), SubscribeError> {
        let who = self.ticket;
        let change = |reply| Command::Subscribe {
            who,
            change: SubscriptionChange { topic, filter, reply },
        };
        self.client.command(change).await?
    }

    /// What happens to the group and to the client, for logs and dashboards. The same goes to `tracing` under
    /// the target `rocketmq`.
    #[must_use]
    pub fn notices(&self) -> Notices {
        self.notices.listen()
    }

    /// A snapshot of the client, this group included.
    ///
    /// # Errors
    /// [`Closed`] after the end.
    pub async fn status(&self) -> Result<Status, Closed> {
        self.client.status().await
    }

    /// Changes how many handler calls may run at once, 1..=1000; fewer takes effect as calls end.
    /// Another number changes nothing and is a warning in the log.
    pub fn set_concurrency(&self, permits: u32) {
        self.client.inbox().push(Command::Concurrency {
            who: self.ticket,
            permits,
        });
    }

    /// Stops new deliveries, waits up to `drain` for running handlers, commits what is finished, leaves the
    /// group and tells how it went.
    ///
    /// What was begun here goes on if the returned future is dropped. Further calls return an empty report.
    pub async fn shutdown(&self, drain: Duration) -> ShutdownReport {
        let who = self.ticket;
        let stop = |reply| Command::Stop {
            who,
            drain,
            reply: Some(reply),
        };
        let report = self.client.command(stop).await;
        if self.owns_client {
            self.client.shutdown(Duration::ZERO).await;
        }
        report.unwrap_or_default()
    }

    /// Waits until a name server has answered or a broker has acknowledged a heartbeat.
    pub(crate) async fn connected(&self, within: Duration) -> Result<(), StartError> {
        let runtime = self.client.runtime();
        let deadline = runtime.now() + within;
        loop {
            let status = self.client.status().await?;
            if is_connected(&status) {
                return Ok(());
            }
            let now = runtime.now();
            if now >= deadline {
                let troubles = status
                    .links
                    .into_iter()
                    .filter_map(|link| Some((link.addr, link.trouble?)));
                return Err(StartError::ConnectTimeout {
                    after: within,
                    troubles: troubles.collect(),
                });
            }
            runtime.sleep_until(deadline.min(now + CONNECT_CHECK)).await;
        }
    }
}

/// Routes come from name servers only, and so do refusals to give one.
fn is_connected(status: &Status) -> bool {
    status.links.iter().any(|link| link.heartbeat_acknowledged)
        || status
            .topics
            .iter()
            .any(|topic| topic.queues.is_some() || !topic.refusals.is_empty())
}

impl<R: Runtime> Drop for Consumer<R> {
    fn drop(&mut self) {
        let stop = Command::Stop {
            who: self.ticket,
            drain: Duration::ZERO,
            reply: None,
        };
        self.client.inbox().push(stop);
    }
}

impl<R: Runtime> std::fmt::Debug for Consumer<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer")
            .field("group", &self.group)
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
