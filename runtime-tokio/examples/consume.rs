//! The shortest consumer: one handler, one message a call, until Ctrl-C.
//!
//! ```sh
//! cargo run -p rocketmq-consumer-tokio --example consume -- 127.0.0.1:9876 orders billing
//! ```

use std::error::Error;
use std::time::Duration;

use rocketmq_consumer_tokio::{BoxError, Consumer, Message, Outcome, StartAt};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut argument = |name| arguments.next().ok_or(name);
    let name_server = argument("first argument: name server, host:port")?;
    let topic = argument("second argument: topic")?;
    let group = argument("third argument: consumer group")?;

    let consumer = Consumer::builder(group)
        .name_server(name_server)
        // `*` is every message; `paid || refund` those with one of these tags.
        .subscribe(topic, "*")
        // Only where the group has no offset stored yet. The default is `Latest`: nothing that is there already.
        .start_at(StartAt::Earliest)
        // Without it a cluster that is away is waited for, with warnings in the log.
        .connect_timeout(Duration::from_secs(10))
        .start(handle)
        .await?;

    tokio::signal::ctrl_c().await?;
    // Dropping the consumer would give up running handlers; this lets them end and commits.
    let report = consumer.shutdown(Duration::from_secs(30)).await;
    println!("{} messages finished", report.finished);
    Ok(())
}

/// `Ok(())` would do as well. An error or a panic means [`Outcome::Retry`] and is logged.
async fn handle(message: Message) -> Result<Outcome, BoxError> {
    let body = message.body()?;
    println!(
        "{} queue {} offset {} try {}: {} bytes, tag {:?}",
        message.msg_id(),
        message.queue_id(),
        message.queue_offset(),
        message.reconsume_times(),
        body.len(),
        message.tags(),
    );
    Ok(Outcome::Done)
}
