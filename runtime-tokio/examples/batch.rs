//! Many messages a call, each with an outcome of its own: for handlers that write to a database at once.
//!
//! ```sh
//! cargo run -p rocketmq-consumer-tokio --example batch -- 127.0.0.1:9876 orders billing
//! ```

use std::error::Error;
use std::time::Duration;

use rocketmq_consumer_tokio::{Consumer, Message, Outcome, StartAt};

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
        .start_at(StartAt::Earliest)
        // Most messages in one call; the default is 1. They are neighbours in one queue, and a call does not
        // wait until it is full.
        .batch_size(32)
        .connect_timeout(Duration::from_secs(10))
        .start_batch(handle)
        .await?;

    tokio::signal::ctrl_c().await?;
    let report = consumer.shutdown(Duration::from_secs(30)).await;
    println!("{} messages finished", report.finished);
    Ok(())
}

/// One outcome for each, in order. `Outcome`, `()` and a `Result` of all these are possible too, and speak for
/// the whole call.
async fn handle(messages: Vec<Message>) -> Vec<Outcome> {
    println!("{} messages", messages.len());
    messages
        .iter()
        .map(|message| match message.body() {
            Ok(body) if !body.is_empty() => Outcome::Done,
            // Trying again would not help.
            Ok(_) => Outcome::DeadLetter,
            Err(_) => Outcome::RetryAfter(Duration::from_secs(10)),
        })
        .collect()
}
