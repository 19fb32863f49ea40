//! The shortest consumer: one handler, one message a call, until somebody presses Enter.
//!
//! ```sh
//! cargo run -p rocketmq-consumer-async-std --example async_std -- 127.0.0.1:9876 orders billing
//! ```

use std::time::Duration;

use rocketmq_consumer_async_std::{BoxError, Consumer, Message, Outcome, StartAt};

fn main() -> Result<(), BoxError> {
    async_std::task::block_on(consume())
}

async fn consume() -> Result<(), BoxError> {
    let mut arguments = std::env::args().skip(1);
    let mut argument = |name| arguments.next().ok_or(name);
    let name_server = argument("first argument: name server, host:port")?;
    let topic = argument("second argument: topic")?;
    let group = argument("third argument: consumer group")?;

    let consumer = Consumer::builder(group)
        .name_server(name_server)
        .subscribe(topic, "*")
        .start_at(StartAt::Earliest)
        .connect_timeout(Duration::from_secs(10))
        .start(handle)
        .await?;

    async_std::io::stdin().read_line(&mut String::new()).await?;
    let report = consumer.shutdown(Duration::from_secs(30)).await;
    println!("{} messages finished", report.finished);
    Ok(())
}

/// An error or a panic means [`Outcome::Retry`] and is logged.
async fn handle(message: Message) -> Result<Outcome, BoxError> {
    println!("{}: {} bytes", message.msg_id(), message.body()?.len());
    Ok(Outcome::Done)
}
