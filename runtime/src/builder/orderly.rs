use std::future::{Future, ready};

use rocketmq_consumer_core::message::{Message, OrderlyOutcome};

use crate::builder::ConsumerBuilder;
use crate::consumer::Consumer;
use crate::context::Context;
use crate::error::StartError;
use crate::handler::{PerBatch, PerMessage, WithContext};
use crate::outcome::{IntoBatchOutcome, IntoOutcome};
use crate::runtime::Runtime;
use crate::stream::DeliveryStream;

/// Starts for groups that handle the messages of a queue one after another.
///
/// Each queue is locked at its broker for one member of the group, and at most one call of it runs at a time;
/// queues run side by side. A message that fails is not sent back: its queue waits and delivers it again, before
/// anything behind it. Members of the group that are not orderly would not respect the lock, so all of them must
/// be. With [`OrderBy::Key`](crate::OrderBy::Key), see [`Self::order`], all of that holds for each key of a queue by
/// itself. What a handler asks for more time, and how it is told to stop, is as in the other mode.
impl<R: Runtime> ConsumerBuilder<R> {
    /// Starts the consumer with a handler that is given the messages of a queue one after another.
    ///
    /// An error and a panic mean [`OrderlyOutcome::Suspend`]: the message comes again, before anything behind it,
    /// after [`Self::suspend_time`]. After [`Self::max_reconsume`] repeats it becomes a dead letter and its successor
    /// is next; unless that is set, the queue waits without end.
    ///
    /// ```
    /// use rocketmq_consumer::{Message, OrderlyOutcome};
    /// # use rocketmq_consumer::{ConsumerBuilder, Runtime, StartError};
    /// # async fn example<R: Runtime>(builder: ConsumerBuilder<R>) -> Result<(), StartError> {
    /// let consumer = builder
    ///     .subscribe("orders", "*")
    ///     .start_orderly(|message: Message| async move {
    ///         println!("{} after its predecessors", message.queue_offset());
    ///         Ok::<_, std::io::Error>(OrderlyOutcome::Commit)
    ///     })
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// An answer of the other mode is refused by the compiler:
    ///
    /// ```compile_fail
    /// # use rocketmq_consumer::{ConsumerBuilder, Message, Outcome, Runtime};
    /// # async fn example<R: Runtime>(builder: ConsumerBuilder<R>) {
    /// let consumer = builder.start_orderly(|_: Message| async { Outcome::Retry });
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn start_orderly<F, Fut>(self, handler: F) -> Result<Consumer<R>, StartError>
    where
        F: Fn(Message) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoOutcome<OrderlyOutcome>> + Send + 'static,
    {
        self.launch_handler::<OrderlyOutcome>(PerMessage::new(handler))
            .await
    }

    /// Like [`Self::start_orderly`]; the handler also gets a [`Context`], which counts the repeats of its message,
    /// tells it to stop and takes wishes for more time.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn start_orderly_with_context<F, Fut>(self, handler: F) -> Result<Consumer<R>, StartError>
    where
        F: Fn(Message, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoOutcome<OrderlyOutcome>> + Send + 'static,
    {
        self.launch_handler::<OrderlyOutcome>(WithContext::new(handler))
            .await
    }

    /// Starts the consumer with a handler of up to [`Self::batch_size`] neighbouring messages of one queue, which
    /// answers once for all, once for each, or with the number of those that are finished. What follows the first
    /// one that is not committed comes again with it.
    ///
    /// ```
    /// use rocketmq_consumer::{FirstDone, Message};
    /// # use rocketmq_consumer::{ConsumerBuilder, Runtime, StartError};
    /// # async fn example<R: Runtime>(builder: ConsumerBuilder<R>) -> Result<(), StartError> {
    /// let consumer = builder
    ///     .subscribe("orders", "*")
    ///     .batch_size(16)
    ///     .start_orderly_batch(|messages: Vec<Message>| async move {
    ///         let readable = messages.iter().take_while(|message| message.body().is_ok());
    ///         FirstDone(readable.count())
    ///     })
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn start_orderly_batch<F, Fut>(self, handler: F) -> Result<Consumer<R>, StartError>
    where
        F: Fn(Vec<Message>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoBatchOutcome<OrderlyOutcome>> + Send + 'static,
    {
        self.start_orderly_batch_with_context(move |messages, _context| handler(messages))
            .await
    }

    /// Like [`Self::start_orderly_batch`], with a [`Context`] for the whole call.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn start_orderly_batch_with_context<F, Fut>(self, handler: F) -> Result<Consumer<R>, StartError>
    where
        F: Fn(Vec<Message>, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoBatchOutcome<OrderlyOutcome>> + Send + 'static,
    {
        let size = *self.config.handler_batch();
        self.launch_handler::<OrderlyOutcome>(PerBatch::new(handler, size))
            .await
    }

    /// Starts the consumer with a synchronous handler that may block; the same as [`Self::blocking`] and a future
    /// that is ready.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn start_orderly_blocking<F, T>(self, handler: F) -> Result<Consumer<R>, StartError>
    where
        F: Fn(Message) -> T + Send + Sync + 'static,
        T: IntoOutcome<OrderlyOutcome> + Send + 'static,
    {
        self.blocking(true)
            .start_orderly(move |message| ready(handler(message)))
            .await
    }

    /// Starts the consumer without a handler: ask the stream for messages. At most one of each queue is out,
    /// or of each of its keys, see [`Self::order`].
    ///
    /// ```
    /// # use rocketmq_consumer::{ConsumerBuilder, Runtime, StartError};
    /// # async fn example<R: Runtime>(builder: ConsumerBuilder<R>) -> Result<(), StartError> {
    /// let mut stream = builder.subscribe("orders", "*").stream_orderly().await?;
    /// while let Some(delivery) = stream.next().await {
    ///     match delivery.message.body() {
    ///         Ok(_) => delivery.commit(),
    ///         Err(_) => delivery.suspend(),
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn stream_orderly(self) -> Result<DeliveryStream<R, OrderlyOutcome>, StartError> {
        self.launch_stream().await
    }
}
