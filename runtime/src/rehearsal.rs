use std::sync::Arc;

use crate::context::{Context, Token};

/// A call of a handler that no machine has ordered: to try one without a broker.
///
/// Messages come from [`Message::draft`](crate::Message::draft), and the handler is called as the function it is:
///
/// ```
/// use rocketmq_consumer::{BoxError, Context, Message, Outcome, Rehearsal};
///
/// async fn handle(message: Message, context: Context) -> Result<Outcome, BoxError> {
///     if context.attempt() > 2 {
///         return Ok(Outcome::DeadLetter);
///     }
///     let order = message.body()?;
///     Ok(if order.is_empty() { Outcome::Retry } else { Outcome::Done })
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// let message = Message::draft("orders").body("12 apples").finish()?;
/// let first = Rehearsal::new();
/// assert_eq!(handle(message.clone(), first.context()).await?, Outcome::Done);
/// let fourth = Rehearsal::of_attempt(3);
/// assert_eq!(handle(message, fourth.context()).await?, Outcome::DeadLetter);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Rehearsal {
    token: Arc<Token>,
}

impl Rehearsal {
    /// The first delivery.
    #[must_use]
    pub fn new() -> Self {
        Self::of_attempt(0)
    }

    /// One after so many local deliveries, see [`Context::attempt`].
    #[must_use]
    pub fn of_attempt(attempt: u32) -> Self {
        Self {
            token: Arc::new(Token::of_rehearsal(attempt)),
        }
    }

    /// What the handler is given.
    #[must_use]
    pub fn context(&self) -> Context {
        Context {
            token: Arc::clone(&self.token),
        }
    }

    /// Does what happens at the deadline: see [`Context::is_cancelled`].
    pub fn cancel(&self) {
        self.token.cancel();
    }
}

impl Default for Rehearsal {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::testing::commands;

    #[tokio::test]
    async fn a_handler_that_waits_hears_of_the_end() {
        let rehearsal = Rehearsal::of_attempt(2);
        let context = rehearsal.context();
        assert_eq!((context.attempt(), context.is_cancelled()), (2, false));
        context.extend(Duration::from_secs(1));
        assert!(
            commands(&rehearsal.token.inbox).is_empty(),
            "nobody would take it"
        );
        let waits = tokio::spawn(async move {
            context.cancelled().await;
            context.is_cancelled()
        });
        rehearsal.cancel();
        assert!(waits.await.unwrap());
    }
}
