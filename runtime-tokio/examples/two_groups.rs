//! Two groups on one client: they share connections, routes and heartbeats, and each gets every message.
//!
//! ```sh
//! cargo run -p rocketmq-consumer-tokio --example two_groups -- 127.0.0.1:9876 orders billing audit
//! ```

use std::error::Error;
use std::time::Duration;

use rocketmq_consumer_tokio::{Client, Consumer, Message, StartAt};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut argument = |name| arguments.next().ok_or(name);
    let name_server = argument("first argument: name server, host:port")?;
    let topic = argument("second argument: topic")?;
    let groups = [
        argument("third argument: a consumer group")?,
        argument("fourth argument: another consumer group")?,
    ];

    // Name servers, client id and time-outs belong to the client. Nothing connects before a group wants it.
    let client = Client::builder().name_server(name_server).start().await?;

    let mut consumers = Vec::new();
    for group in groups {
        let name = group.clone();
        let consumer = Consumer::builder(group)
            .client(&client)
            .subscribe(topic.as_str(), "*")
            .start_at(StartAt::Earliest)
            .start(move |message: Message| {
                println!("{name}: {}", message.msg_id());
                async {}
            })
            .await?;
        consumers.push(consumer);
    }

    tokio::signal::ctrl_c().await?;
    // A group may leave while others go on; `client.shutdown` would stop all that are left.
    for consumer in &consumers {
        let report = consumer.shutdown(Duration::from_secs(30)).await;
        println!("{}: {} messages finished", consumer.group(), report.finished);
    }
    client.shutdown(Duration::ZERO).await;
    Ok(())
}
