//! What an operator wants: to be told what happens, to ask how things stand, to turn the pace, to stop politely.
//!
//! ```sh
//! cargo run -p rocketmq-consumer-tokio --example shutdown -- 127.0.0.1:9876 orders billing
//! ```

use std::error::Error;
use std::time::Duration;

use rocketmq_consumer_tokio::{BoxError, Consumer, Context, Message, Outcome, StartAt};

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
        .delivery_deadline(Duration::from_secs(60))
        .start_with_context(handle)
        .await?;

    // What is worth knowing, as it happens: assignments, commits, troubles. The same goes to `tracing` under the
    // target `rocketmq`. A listener that comes late hears the latest 256 first, so nothing is missed here.
    let mut notices = consumer.notices();
    tokio::spawn(async move {
        while let Some(notice) = notices.next().await {
            eprintln!("notice: {:?}", notice.kind);
        }
    });

    // `ready` waits for a cluster for ever, and for the topic too: give it a time.
    match tokio::time::timeout(Duration::from_secs(10), consumer.ready()).await {
        Ok(ready) => ready?,
        Err(_) => eprintln!("not ready within 10 s; the notices tell why"),
    }
    consumer.set_concurrency(4);

    let mut every = tokio::time::interval(Duration::from_secs(5));
    let mut stop = std::pin::pin!(tokio::signal::ctrl_c());
    loop {
        tokio::select! {
            stopped = &mut stop => break stopped?,
            _ = every.tick() => {
                let status = consumer.status().await?;
                for queue in status.groups.iter().flat_map(|group| &group.queues) {
                    eprintln!(
                        "{}: {:?}, hold {:?}, unfinished {}, committed {:?} of {:?}",
                        queue.queue, queue.state, queue.hold, queue.unfinished, queue.committed, queue.max_offset,
                    );
                }
            }
        }
    }

    // No new deliveries; running handlers get up to 30 s, then their messages come again elsewhere.
    let report = consumer.shutdown(Duration::from_secs(30)).await;
    eprintln!(
        "{} finished, {} abandoned{}",
        report.finished,
        report.abandoned,
        if report.timed_out { ", time was up" } else { "" },
    );
    for (queue, committed) in report.committed {
        eprintln!("{queue}: {committed:?}");
    }
    Ok(())
}

/// Work that may take long, and ends by itself when its time is up.
async fn handle(message: Message, context: Context) -> Result<Outcome, BoxError> {
    let work = tokio::time::sleep(Duration::from_millis(50));
    // A long step may ask for more: the deadline is now two minutes from here.
    context.extend(Duration::from_secs(120));
    tokio::select! {
        () = work => {
            println!("{}", message.msg_id());
            Ok(Outcome::Done)
        }
        // `delivery_deadline` has passed. Who goes on nevertheless is dropped after `cancel_grace`.
        () = context.cancelled() => Err("gave up in time".into()),
    }
}
