//! A consumer without any async library: its tasks, sockets and timers are threads.
//!
//! What `smol` does with a runtime that is there, this does with none: it is longer, for tasks and timers have to be
//! made first. It is here to show that nothing more is needed, and to run the same tests.
//!
//! ```text
//! cargo run -p rocketmq-consumer-testing --example threads -- 127.0.0.1:9876 my-group my-topic 10
//! ```

mod runtime;
mod sleep;
mod socket;

use std::sync::mpsc;
use std::time::Duration;

use rocketmq_consumer::{BoxError, Consumer, Message, Outcome, StartAt};

use self::runtime::{Threads, wait_for};

fn main() -> Result<(), BoxError> {
    let mut args = std::env::args().skip(1);
    let usage = "usage: threads NAME_SERVER GROUP TOPIC COUNT";
    let [name_server, group, topic, count] =
        [args.next(), args.next(), args.next(), args.next()].map(|arg| arg.ok_or(usage));
    let print = |body: &[u8]| println!("{}", String::from_utf8_lossy(body));
    let finished = consume(&name_server?, &group?, &topic?, count?.parse()?, print)?;
    println!("{finished} messages");
    Ok(())
}

/// Shows so many messages to `see`, and those that are handled meanwhile; ends when all of them are committed.
pub(crate) fn consume(
    name_server: &str,
    group: &str,
    topic: &str,
    count: usize,
    mut see: impl FnMut(&[u8]),
) -> Result<u64, BoxError> {
    let (handled, messages) = mpsc::channel();
    let consumer = Consumer::<Threads>::builder(group)
        .name_server(name_server)
        .subscribe(topic, "*")
        .start_at(StartAt::Earliest)
        .start(move |message: Message| {
            let handled = handled.clone();
            async move {
                let _enough = handled.send(message.body()?);
                Ok::<_, BoxError>(Outcome::Done)
            }
        });
    let consumer = wait_for(consumer)?;
    for body in messages.iter().take(count) {
        see(&body);
    }
    let report = wait_for(consumer.shutdown(Duration::from_secs(10)));
    Ok(report.finished)
}
