//! Several groups on one client: they share connections, routes and heartbeats, and each gets every message.
//!
//! ```sh
//! cargo run -p rocketmq-consumer-tokio --example several_groups -- 127.0.0.1:9876 orders billing audit
//! ```
//!
//! Each has its own handler, pace and life: here the first one takes single messages, the second one pauses for
//! a minute while the first goes on.

use std::error::Error;
use std::time::Duration;

use rocketmq_consumer_tokio::{Client, Consumer, Message, StartAt};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut argument = |name| arguments.next().ok_or(name);
    let name_server = argument("first argument: name server, host:port")?;
    let topic = argument("second argument: topic")?;
    let first = argument("third argument: a consumer group")?;
    let second = argument("fourth argument: another consumer group")?;

    // Name servers, client id and time-outs belong to the client; a builder that is given a client refuses them.
    // Nothing connects before a group wants it.
    let client = Client::builder().name_server(name_server).start().await?;

    let billing = Consumer::builder(first)
        .client(&client)
        .subscribe(topic.as_str(), "*")
        .start_at(StartAt::Earliest)
        .start(|message: Message| {
            println!("first: {}", message.msg_id());
            async {}
        })
        .await?;
    let audit = start_audit(&client, &second, &topic).await?;

    // One of them leaves and comes back where it was; the connections stay, and the other one notices nothing.
    let report = audit.shutdown(Duration::from_secs(30)).await;
    println!(
        "{}: {} messages finished, back in a minute",
        audit.group(),
        report.finished
    );
    tokio::time::sleep(Duration::from_secs(60)).await;
    let audit = start_audit(&client, &second, &topic).await?;

    tokio::signal::ctrl_c().await?;
    // `client.shutdown` stops all that are left, each with the time it is given here.
    for consumer in [&billing, &audit] {
        let report = consumer.shutdown(Duration::from_secs(30)).await;
        println!("{}: {} messages finished", consumer.group(), report.finished);
    }
    client.shutdown(Duration::ZERO).await;
    Ok(())
}

async fn start_audit(client: &Client, group: &str, topic: &str) -> Result<Consumer, Box<dyn Error>> {
    let consumer = Consumer::builder(group)
        .client(client)
        .subscribe(topic, "*")
        .start_at(StartAt::Earliest)
        .concurrency(2)
        .batch_size(32)
        .start_batch(|messages: Vec<Message>| {
            println!("second: {} messages", messages.len());
            async {}
        });
    Ok(consumer.await?)
}
