//! Batches into a database: one transaction for each call, and each message once, however often it is delivered.
//!
//! A message is delivered at least once. What makes it "once" is here: the row and the note that the message is done are
//! written in one transaction, under the id that its producer gave it.
//!
//! ```sh
//! cargo run -p rocketmq-consumer-tokio --example database -- 127.0.0.1:9876 orders billing orders.redb
//! ```

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use redb::{Database, ReadableTableMetadata as _, TableDefinition};
use rocketmq_consumer_tokio::{BoxError, Consumer, Message, Outcome, StartAt};

/// The orders, by the id of their message.
const ORDERS: TableDefinition<&str, &[u8]> = TableDefinition::new("orders");

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut argument = |name| arguments.next().ok_or(name);
    let name_server = argument("first argument: name server, host:port")?;
    let topic = argument("second argument: topic")?;
    let group = argument("third argument: consumer group")?;
    let path = argument("fourth argument: the database")?;

    let database = Arc::new(Database::create(path)?);
    // So that it is there to be counted, should no message come.
    let transaction = database.begin_write()?;
    transaction.open_table(ORDERS)?;
    transaction.commit()?;
    let written = Arc::clone(&database);
    let consumer = Consumer::builder(group)
        .name_server(name_server)
        .subscribe(topic, "*")
        .start_at(StartAt::Earliest)
        .batch_size(256)
        .connect_timeout(Duration::from_secs(10))
        .start_batch(move |messages: Vec<Message>| {
            let database = Arc::clone(&written);
            // A transaction blocks; what blocks has threads of its own.
            async move { tokio::task::spawn_blocking(move || insert(&database, &messages)).await? }
        })
        .await?;

    tokio::signal::ctrl_c().await?;
    consumer.shutdown(Duration::from_secs(30)).await;
    let orders = database.begin_read()?.open_table(ORDERS)?.len()?;
    println!("{orders} orders");
    Ok(())
}

/// All of them or none: with an error, all come again.
fn insert(database: &Database, messages: &[Message]) -> Result<Outcome, BoxError> {
    let transaction = database.begin_write()?;
    {
        let mut orders = transaction.open_table(ORDERS)?;
        for message in messages {
            let body = message.body()?;
            orders.insert(&*message.msg_id(), &*body)?;
        }
    }
    // Until here nothing has happened; after it, and before the offset is committed, a crash delivers them again, and
    // they are written over themselves.
    transaction.commit()?;
    Ok(Outcome::Done)
}
