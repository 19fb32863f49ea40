//! A handler and its tests: as a function of its own it needs neither a broker nor a runtime of ours.
//!
//! ```sh
//! cargo test -p rocketmq-consumer-tokio --example testing
//! cargo run -p rocketmq-consumer-tokio --example testing -- 127.0.0.1:9876 orders billing
//! ```

use std::error::Error;
use std::time::Duration;

use rocketmq_consumer_tokio::{BoxError, Consumer, Context, Message, Outcome};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut argument = |name| arguments.next().ok_or(name);
    let name_server = argument("first argument: name server, host:port")?;
    let topic = argument("second argument: topic")?;
    let group = argument("third argument: consumer group")?;

    let consumer = Consumer::builder(group)
        .name_server(name_server)
        .subscribe(topic, "*")
        .connect_timeout(Duration::from_secs(10))
        .start_with_context(handle)
        .await?;
    tokio::signal::ctrl_c().await?;
    consumer.shutdown(Duration::from_secs(30)).await;
    Ok(())
}

/// Counts apples. What is no number will never be one; while the shop is asked, the call may come to its end.
async fn handle(message: Message, context: Context) -> Result<Outcome, BoxError> {
    let body = message.body()?;
    let Ok(apples) = std::str::from_utf8(&body)?.parse::<u32>() else {
        return Ok(Outcome::DeadLetter);
    };
    tokio::select! {
        () = ask_the_shop_for(apples) => Ok(Outcome::Done),
        () = context.cancelled() => Ok(Outcome::RetryAfter(Duration::from_secs(60))),
    }
}

async fn ask_the_shop_for(apples: u32) {
    tokio::time::sleep(Duration::from_millis(apples.into())).await;
}

#[cfg(test)]
mod tests {
    use rocketmq_consumer_tokio::Rehearsal;

    use super::*;

    fn order(body: &'static str) -> Message {
        let draft = Message::draft("orders").tags("paid").body(body);
        draft.finish().expect("a broker could store it")
    }

    #[tokio::test]
    async fn apples_are_ordered() {
        let outcome = handle(order("12"), Rehearsal::new().context()).await;
        assert_eq!(outcome.expect("it is a number"), Outcome::Done);
    }

    #[tokio::test]
    async fn what_is_no_number_is_not_tried_again() {
        let outcome = handle(order("a dozen"), Rehearsal::new().context()).await;
        assert_eq!(outcome.expect("it is text"), Outcome::DeadLetter);
    }

    #[tokio::test]
    async fn a_slow_shop_is_asked_again_a_minute_later() {
        let call = Rehearsal::new();
        call.cancel();
        let outcome = handle(order("5000000"), call.context()).await;
        let later = Outcome::RetryAfter(Duration::from_secs(60));
        assert_eq!(outcome.expect("it is a number"), later);
    }
}
