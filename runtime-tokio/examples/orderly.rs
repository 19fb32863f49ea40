//! The messages of each queue one after another: what fails is waited for, nothing overtakes it.
//!
//! ```sh
//! cargo run -p rocketmq-consumer-tokio --example orderly -- 127.0.0.1:9876 orders shipping
//! ```

use std::error::Error;
use std::time::Duration;

use rocketmq_consumer_tokio::{BoxError, Consumer, Context, Message, OrderlyOutcome, StartAt};

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
        // How long a queue rests before a message that was not committed comes again, and how often it does
        // before it becomes a dead letter: until then nothing behind it is handled.
        .suspend_time(Duration::from_millis(500))
        .max_reconsume(8)
        .connect_timeout(Duration::from_secs(10))
        // Also `start_orderly` without the context, `start_orderly_batch`, `start_orderly_blocking`, and
        // `stream_orderly`. All members of the group must consume in order.
        .start_orderly_with_context(handle)
        .await?;

    tokio::signal::ctrl_c().await?;
    // Calls end, their offsets are committed, and the locks are given back: the next owner need not wait.
    let report = consumer.shutdown(Duration::from_secs(30)).await;
    println!("{} messages finished", report.finished);
    Ok(())
}

/// `Ok(())` would do as well. An error or a panic means [`OrderlyOutcome::Suspend`] and is logged.
async fn handle(message: Message, context: Context) -> Result<OrderlyOutcome, BoxError> {
    let body = message.body()?;
    println!(
        "queue {} offset {} try {}: {} bytes, key {:?}",
        message.queue_id(),
        message.queue_offset(),
        context.attempt(),
        body.len(),
        message.keys(),
    );
    if body.is_empty() {
        // Longer than the group's pause: what it waits for takes its time.
        return Ok(OrderlyOutcome::SuspendFor(Duration::from_secs(5)));
    }
    Ok(OrderlyOutcome::Commit)
}
