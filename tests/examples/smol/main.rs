//! A consumer on smol, with a runtime of its own making (`runtime.rs`): the chapter "Bring your own runtime" of
//! `rocketmq-consumer`.
//!
//! ```text
//! cargo run -p rocketmq-consumer-testing --example smol -- 127.0.0.1:9876 my-group my-topic 10
//! ```

mod runtime;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rocketmq_consumer::{BoxError, Consumer, Message, Outcome, StartAt};
use smol::channel;

use self::runtime::SmolRuntime;

fn main() -> Result<(), BoxError> {
    let mut args = std::env::args().skip(1);
    let usage = "usage: smol NAME_SERVER GROUP TOPIC COUNT";
    let [name_server, group, topic, count] =
        [args.next(), args.next(), args.next(), args.next()].map(|arg| arg.ok_or(usage));
    let print = |body: &[u8]| println!("{}", String::from_utf8_lossy(body));
    let finished = consume(&name_server?, &group?, &topic?, count?.parse()?, print)?;
    println!("{finished} messages");
    Ok(())
}

/// Shows so many messages to `see`, and more where several are handled at once; ends when all of them are committed.
pub(crate) fn consume(
    name_server: &str,
    group: &str,
    topic: &str,
    count: usize,
    see: impl Fn(&[u8]) + Send + Sync + 'static,
) -> Result<u64, BoxError> {
    smol::block_on(async {
        let (enough, is_enough) = channel::bounded(1);
        let (see, seen) = (std::sync::Arc::new(see), std::sync::Arc::new(AtomicUsize::new(0)));
        let consumer = Consumer::<SmolRuntime>::builder(group)
            .name_server(name_server)
            .subscribe(topic, "*")
            .start_at(StartAt::Earliest)
            .start(move |message: Message| {
                let (see, seen, enough) = (see.clone(), seen.clone(), enough.clone());
                async move {
                    see(&message.body()?);
                    if seen.fetch_add(1, Ordering::Relaxed) + 1 == count {
                        let _ended_already = enough.try_send(());
                    }
                    Ok::<_, BoxError>(Outcome::Done)
                }
            })
            .await?;
        is_enough.recv().await?;
        let report = consumer.shutdown(Duration::from_secs(10)).await;
        Ok(report.finished)
    })
}
