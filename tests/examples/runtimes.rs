//! What a message costs on each runtime: CPU time and context switches of a process that only consumes.
//!
//! ```text
//! rocketcat broker --topic orders:4 &
//! rocketcat produce orders --count 500000
//! for on in tokio async-std smol; do
//!   cargo run --release -p rocketmq-consumer-testing --example runtimes -- 127.0.0.1:9876 orders 500000 $on
//! done
//! ```
//!
//! Each call is a group of its own and starts at the first message. Interleave calls: what is compared is ratios.

#![allow(clippy::disallowed_methods, reason = "it measures time")]

#[path = "smol/runtime.rs"]
mod on_smol;

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rocketmq_consumer::{BoxError, Consumer, ConsumerBuilder, Message, Outcome, Runtime, StartAt};

use self::on_smol::SmolRuntime;

/// Ticks of the kernel's accounting in a second, on every Linux.
const TICKS: u32 = 100;

fn main() -> Result<(), BoxError> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [name_server, topic, count, on] = args.as_slice() else {
        return Err("usage: runtimes NAME_SERVER TOPIC COUNT tokio|async-std|smol".into());
    };
    let count = count.parse()?;
    let work = Work {
        name_server,
        topic,
        count,
    };
    let cost = match on.as_str() {
        "tokio" => {
            let runtime = tokio::runtime::Runtime::new()?;
            runtime.block_on(work.done_on(rocketmq_consumer_tokio::TokioRuntime::new()))
        }
        "async-std" => {
            async_std::task::block_on(work.done_on(rocketmq_consumer_async_std::AsyncStdRuntime::new()))
        }
        "smol" => smol::block_on(work.done_on(SmolRuntime::default())),
        other => return Err(format!("{other}: tokio, async-std or smol").into()),
    }?;
    println!("{on:<9} {cost}");
    Ok(())
}

struct Work<'a> {
    name_server: &'a str,
    topic: &'a str,
    count: u64,
}

impl Work<'_> {
    async fn done_on<R: Runtime>(&self, runtime: R) -> Result<String, BoxError> {
        let (seen, all) = (Arc::new(AtomicU64::new(0)), self.count);
        let (end, ended) = mpsc::channel();
        let before = Spent::so_far()?;
        let began = Instant::now();
        let consumer: Consumer<R> = ConsumerBuilder::new(runtime, format!("runtimes-{}", std::process::id()))
            .name_server(self.name_server)
            .subscribe(self.topic, "*")
            .start_at(StartAt::Earliest)
            .start(move |_: Message| {
                if seen.fetch_add(1, Ordering::Relaxed) + 1 == all {
                    let _ended_already = end.send(());
                }
                async { Ok::<_, BoxError>(Outcome::Done) }
            })
            .await?;
        // It blocks this thread, which has nothing else to do: the consumer runs on others.
        ended.recv()?;
        let (after, took) = (Spent::so_far()?, began.elapsed());
        consumer.shutdown(Duration::from_secs(10)).await;
        let millions = self.count as f64 / 1e6;
        Ok(format!(
            "{:>9.0} messages/s  {:.2} CPU seconds and {:.0} context switches per million",
            self.count as f64 / took.as_secs_f64(),
            f64::from(after.ticks - before.ticks) / f64::from(TICKS) / millions,
            f64::from(after.switches - before.switches) / millions,
        ))
    }
}

/// What this process has spent, its threads that have ended aside for switches.
struct Spent {
    ticks: u32,
    switches: u32,
}

impl Spent {
    fn so_far() -> Result<Self, BoxError> {
        let stat = fs::read_to_string("/proc/self/stat")?;
        // The name of the program, in brackets, may have spaces.
        let (_, stat) = stat.rsplit_once(')').ok_or("no such line")?;
        let fields: Vec<&str> = stat.split_whitespace().collect();
        let [user, system] = [fields.get(11), fields.get(12)].map(|field| field.ok_or("no such field"));
        let mut switches = 0;
        for task in fs::read_dir("/proc/self/task")? {
            let status = fs::read_to_string(task?.path().join("status")).unwrap_or_default();
            let counts = status.lines().filter(|line| line.contains("ctxt_switches"));
            for count in counts.filter_map(|line| line.split_whitespace().last()) {
                switches += count.parse::<u32>()?;
            }
        }
        Ok(Self {
            ticks: user?.parse::<u32>()? + system?.parse::<u32>()?,
            switches,
        })
    }
}
