//! Ours beside its peers on one real broker, in one run.
//!
//! ```text
//! cargo build --release -p rocketcat -p rocketmq-consumer-testing --features rocketmq-consumer-testing/real-broker --examples --bins
//! target/release/examples/compare [MESSAGES [BODY_BYTES [RUNS]]]
//! ```
//!
//! Fills a topic of 8 queues, then lets `rocketcat consume -o none`, the Java client and the raw-socket
//! floor read all of it, in turn, and prints the medians: messages a second from the first to the last,
//! CPU seconds (user and system) per million messages, peak memory, and the first message.

use std::error::Error;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use rocketmq_consumer_testing::rocketmq::{Cluster, JavaConsumer, Producer};
use serde_json::Value;

const TOPIC: &str = "compare";

/// What one run of one peer cost.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    seconds: f64,
    cpu_seconds: f64,
    peak_mib: f64,
    first_ms: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| arguments.next().map_or(Ok(default), |text| text.parse());
    let (messages, bytes, runs) = (number(3_000_000)?, number(128)?, number(3)?);
    let cluster = Cluster::builder().broker_heap("1g", "2g").start()?;
    cluster.create_topic(TOPIC, &[(0, 8)])?;
    Producer::new(cluster.name_server(), TOPIC)?
        .body_size(usize::try_from(bytes)?)
        .fill(messages)?;
    eprintln!("{messages} messages of {bytes} bytes in 8 queues, {runs} runs each, in turn");

    let mut costs = [Vec::new(), Vec::new(), Vec::new()];
    for run in 0..runs {
        costs[0].push(rocketcat(&cluster, messages, &format!("ours-{run}"))?);
        costs[1].push(floor(&cluster, messages, &format!("floor-{run}"))?);
        costs[2].push(java(&cluster, messages, &format!("java-{run}"))?);
    }
    println!("| client | messages/s | CPU-s per 10⁶ | peak MiB | first message ms |");
    println!("|---|---|---|---|---|");
    let medians = costs.map(|runs| median(&runs));
    for (name, cost) in ["rocketcat", "floor", "Java"].iter().zip(medians) {
        let million = messages as f64 / 1e6;
        println!(
            "| {name} | {:.0} | {:.2} | {:.1} | {:.0} |",
            messages as f64 / cost.seconds,
            cost.cpu_seconds / million,
            cost.peak_mib,
            cost.first_ms
        );
    }
    let [ours, floor, java] = medians;
    println!(
        "\nCPU: 1/{:.1} of Java's; rate: {:.2} of the floor's",
        java.cpu_seconds / ours.cpu_seconds,
        floor.seconds / ours.seconds
    );
    Ok(())
}

/// The median of each figure on its own.
fn median(runs: &[Cost]) -> Cost {
    let middle = |figure: fn(&Cost) -> f64| {
        let mut figures: Vec<f64> = runs.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        figures.get(figures.len() / 2).copied().unwrap_or(0.0)
    };
    Cost {
        seconds: middle(|c| c.seconds),
        cpu_seconds: middle(|c| c.cpu_seconds),
        peak_mib: middle(|c| c.peak_mib),
        first_ms: middle(|c| c.first_ms),
    }
}

fn rocketcat(cluster: &Cluster, messages: u64, group: &str) -> Result<Cost, Box<dyn Error>> {
    let mut command = Command::new(beside("rocketcat")?);
    command.args([
        "consume",
        TOPIC,
        "--from",
        "earliest",
        "-o",
        "none",
        "--idle-exit",
        "3",
    ]);
    command.args(["-g", group, "-n", cluster.name_server()]);
    let (text, usage) = measured(&mut command)?;
    let summary: Value = serde_json::from_str(text.lines().last().unwrap_or_default())?;
    let summary = &summary["summary"];
    if summary["distinct"] != messages {
        return Err(format!("rocketcat saw {summary}").into());
    }
    let ms = |name: &str| summary[name].as_f64().ok_or("a summary has times");
    let (first, last) = (ms("first_message_ms")?, ms("last_message_ms")?);
    Ok(Cost {
        seconds: (last - first) / 1e3,
        first_ms: first,
        ..usage
    })
}

fn floor(cluster: &Cluster, messages: u64, group: &str) -> Result<Cost, Box<dyn Error>> {
    let mut command = Command::new(beside("examples/floor")?);
    command.args([cluster.name_server(), TOPIC, group]);
    let (text, usage) = measured(&mut command)?;
    let said: Value = serde_json::from_str(text.lines().last().unwrap_or_default())?;
    if said["messages"] != messages {
        return Err(format!("the floor saw {said}").into());
    }
    Ok(Cost {
        seconds: said["seconds"].as_f64().ok_or("the floor has a time")?,
        ..usage
    })
}

fn java(cluster: &Cluster, messages: u64, group: &str) -> Result<Cost, Box<dyn Error>> {
    let consumer = JavaConsumer::builder(cluster.name_server(), group)
        .subscribe(TOPIC, "*")
        .from_first()
        .jvm_option("-Xmx512m")
        .expect(messages)
        .quiet()
        .start()?;
    let peak = watch_peak(consumer.pid());
    let summary = consumer.wait(Duration::from_secs(600))?;
    Ok(Cost {
        seconds: summary.seconds,
        cpu_seconds: summary.cpu_seconds,
        peak_mib: peak.join().map_err(|_| "the watcher panicked")?,
        first_ms: 0.0,
    })
}

/// A program that was built beside this one.
fn beside(name: &str) -> Result<PathBuf, Box<dyn Error>> {
    let own = std::env::current_exe()?;
    let release = own
        .parent()
        .and_then(Path::parent)
        .ok_or("examples lie in a folder of the target")?;
    Ok(release.join(name))
}

/// Runs a program; what it said on either stream, and what it cost.
fn measured(command: &mut Command) -> Result<(String, Cost), Box<dyn Error>> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let peak = watch_peak(child.id());
    let (mut out, mut talk) = (String::new(), String::new());
    child.stdout.take().ok_or("piped")?.read_to_string(&mut out)?;
    child.stderr.take().ok_or("piped")?.read_to_string(&mut talk)?;
    // Ended and not yet waited for, it still has its account.
    let cpu_seconds = loop {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id()))?;
        let (_, fields) = stat
            .rsplit_once(')')
            .ok_or("a stat line names the program in brackets")?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        if fields[0] == "Z" {
            break (fields[11].parse::<f64>()? + fields[12].parse::<f64>()?) / 100.0;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let status = child.wait()?;
    if !status.success() && status.code() != Some(3) {
        return Err(format!("{status}: {talk}").into());
    }
    out.push_str(&talk);
    let peak_mib = peak.join().map_err(|_| "the watcher panicked")?;
    Ok((
        out,
        Cost {
            cpu_seconds,
            peak_mib,
            ..Cost::default()
        },
    ))
}

/// Follows the peak memory of a process until it ends, in MiB.
fn watch_peak(pid: u32) -> JoinHandle<f64> {
    std::thread::spawn(move || {
        let mut peak = 0.0;
        while let Ok(text) = std::fs::read_to_string(format!("/proc/{pid}/status")) {
            let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let Some(kib) = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok()) else {
                break;
            };
            peak = kib.max(peak);
            std::thread::sleep(Duration::from_millis(20));
        }
        peak / 1024.0
    })
}
