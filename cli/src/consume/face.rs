use std::future::{Future, pending};
use std::io;
use std::sync::Arc;

use rocketmq_consumer_core::message::{Message, OrderlyOutcome, Outcome};
use rocketmq_consumer_tokio::{Client, Consumer, ConsumerBuilder, Context, StartError, TokioRuntime};

use super::desk::Desk;
use super::plan::Plan;
use super::sink::Sink;
use super::stop::Stop;
use crate::exit::Failure;
use crate::output::Output;

/// Where the library meets the desk: the handlers, in the form that the run needs.
pub(crate) struct Face {
    desk: Arc<Desk>,
    sink: Option<Sink>,
}

impl Face {
    /// A face with a pipe for records, if there are any.
    ///
    /// # Errors
    /// The system has no thread for the pipe.
    pub(crate) fn new(desk: Arc<Desk>, output: &Output) -> Result<Arc<Self>, Failure> {
        let told = Arc::clone(&desk);
        let on_error = move |error: io::Error| {
            told.stop(if error.kind() == io::ErrorKind::BrokenPipe {
                Stop::PipeClosed
            } else {
                Stop::WriteFailed(error.to_string())
            });
        };
        let sink =
            match output {
                Output::None => None,
                Output::Text | Output::Json | Output::Format(_) => {
                    let sink = Sink::new(io::stdout(), on_error);
                    Some(sink.map_err(|error| {
                        Failure::failed(format_args!("the system refuses a thread: {error}"))
                    })?)
                }
            };
        Ok(Arc::new(Self { desk, sink }))
    }

    /// Starts the group.
    ///
    /// # Errors
    /// Those of [`ConsumerBuilder::start`].
    pub(crate) async fn start(
        self: Arc<Self>,
        plan: &Plan,
        client: &Client,
        runtime: TokioRuntime,
        has_command: bool,
    ) -> Result<Consumer, StartError> {
        let group = plan.group.clone();
        let is_batched = *group.handler_batch() > 1;
        let mut builder = ConsumerBuilder::new(runtime, group.group().clone());
        if let Some(dir) = &plan.store_dir {
            builder = builder.store_dir(dir);
        }
        let builder = builder.client(client).group_config(move |config| {
            *config = group;
            config
        });
        if plan.is_orderly() {
            return self.start_orderly(builder, is_batched).await;
        }
        if has_command {
            let handler = move |message, context: Context| {
                let face = Arc::clone(&self);
                async move { face.handle(message, 0, context.cancelled()).await }
            };
            builder.start_with_context(handler).await
        } else if is_batched {
            let handler = move |messages| {
                let face = Arc::clone(&self);
                async move { face.desk.handle_all(face.sink.as_ref(), messages, 0).await }
            };
            builder.start_batch(handler).await
        } else {
            let handler = move |message| {
                let face = Arc::clone(&self);
                async move { face.handle(message, 0, pending()).await }
            };
            builder.start(handler).await
        }
    }

    /// In order every repeat is made here, so only the context knows how many there were.
    async fn start_orderly(
        self: Arc<Self>,
        builder: ConsumerBuilder,
        is_batched: bool,
    ) -> Result<Consumer, StartError> {
        if is_batched {
            let handler = move |messages, context: Context| {
                let face = Arc::clone(&self);
                async move {
                    let outcomes = face
                        .desk
                        .handle_all(face.sink.as_ref(), messages, context.attempt());
                    outcomes.await.into_iter().map(in_order).collect::<Vec<_>>()
                }
            };
            builder.start_orderly_batch_with_context(handler).await
        } else {
            let handler = move |message, context: Context| {
                let face = Arc::clone(&self);
                async move {
                    let outcome = face.handle(message, context.attempt(), context.cancelled());
                    in_order(outcome.await)
                }
            };
            builder.start_orderly_with_context(handler).await
        }
    }

    async fn handle(&self, message: Message, repeats: u32, cancelled: impl Future<Output = ()>) -> Outcome {
        self.desk
            .handle(self.sink.as_ref(), message, repeats, cancelled)
            .await
    }
}

/// What an outcome means to a queue that waits for its messages.
fn in_order(outcome: Outcome) -> OrderlyOutcome {
    if let Outcome::RetryAfter(pause) = outcome {
        OrderlyOutcome::SuspendFor(pause)
    } else if outcome == Outcome::Done {
        OrderlyOutcome::Commit
    } else if outcome == Outcome::DeadLetter {
        OrderlyOutcome::DeadLetter
    } else {
        OrderlyOutcome::Suspend
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn in_order_a_retry_is_waited_for() {
        let pause = Duration::from_secs(2);
        let table = [
            (Outcome::Done, OrderlyOutcome::Commit),
            (Outcome::Retry, OrderlyOutcome::Suspend),
            (Outcome::RetryAfter(pause), OrderlyOutcome::SuspendFor(pause)),
            (Outcome::DeadLetter, OrderlyOutcome::DeadLetter),
        ];
        for (outcome, want) in table {
            assert_eq!(in_order(outcome), want);
        }
    }
}
