//! Messages in a loop of your own instead of a handler that is called.
//!
//! ```sh
//! cargo run -p rocketmq-consumer-tokio --example stream -- 127.0.0.1:9876 orders billing
//! ```

use std::error::Error;
use std::time::Duration;

use rocketmq_consumer_tokio::{Consumer, StartAt};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut argument = |name| arguments.next().ok_or(name);
    let name_server = argument("first argument: name server, host:port")?;
    let topic = argument("second argument: topic")?;
    let group = argument("third argument: consumer group")?;

    // It is also a `futures_core::Stream`, for those who use its adapters.
    let mut stream = Consumer::builder(group)
        .name_server(name_server)
        .subscribe(topic, "*")
        .start_at(StartAt::Earliest)
        // Deliveries that may be out at once. A loop that keeps them unsettled gets no more than these.
        .concurrency(64)
        .connect_timeout(Duration::from_secs(10))
        .stream()
        .await?;

    let mut stop = std::pin::pin!(tokio::signal::ctrl_c());
    loop {
        tokio::select! {
            stopped = &mut stop => break stopped?,
            // Safe to be cancelled: a message that was not returned is not lost.
            delivery = stream.next() => {
                let Some(delivery) = delivery else { break };
                println!("{:?}", delivery.message);
                // Also `retry`, `retry_after`, `dead_letter`; a delivery that is dropped is retried. It may be
                // moved to another task and settled there.
                delivery.done();
            }
        }
    }

    let report = stream.shutdown(Duration::from_secs(30)).await;
    println!("{} messages finished", report.finished);
    Ok(())
}
