//! A soak: a consumer whose connections are all reset each second, for minutes.
//!
//! ```text
//! cargo run --release -p rocketmq-consumer-testing --example soak -- --runtime tokio --minutes 10
//! ```
//!
//! Exits with 1 when a message was lost or memory has grown, and with 2 when it was called wrongly. The broker and
//! its producer are a process of their own, so that what is measured is the consumer (and the proxies before it).

#![allow(
    clippy::disallowed_methods,
    reason = "it lasts as long as it is told by the clock"
)]

#[path = "../../tests/hosts/mod.rs"]
mod hosts;
mod memory;
mod seen;
mod server;

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use hosts::{AsyncStdHost, TokioHost};
use memory::Memory;
use rocketmq_consumer::{
    Consumer, ConsumerBuilder, Message, Outcome, PeerAddr, Runtime, ShutdownReport, StartAt,
};
use rocketmq_consumer_testing::conformance::Host;
use rocketmq_consumer_testing::conformance::proxy::Proxy;
use seen::Seen;
use server::Server;

const USAGE: &str = "usage: soak --runtime tokio|async-std [--minutes <minutes>]";

/// Messages a second.
const RATE: u64 = 500;

/// Between two resets of all connections.
const RESET: Duration = Duration::from_secs(1);

/// How long the last messages may take to come: some were on their way when the last reset came.
const LAST: Duration = Duration::from_secs(60);

/// Each so-many-th message fails at its first try.
const FAILS: u64 = 997;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let soaked = match arguments[..] {
        // What this program starts itself as.
        [server::ROLE, seconds] => return server::serve(seconds, RATE),
        ["--runtime", runtime] => soak_on(runtime, "10"),
        ["--runtime", runtime, "--minutes", minutes] | ["--minutes", minutes, "--runtime", runtime] => {
            soak_on(runtime, minutes)
        }
        _ => Err(USAGE.into()),
    };
    match soaked {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("soak: {error}");
            ExitCode::from(2)
        }
    }
}

fn soak_on(runtime: &str, minutes: &str) -> Result<bool> {
    let minutes: f64 = minutes.parse().map_err(|_| USAGE)?;
    let time = Duration::try_from_secs_f64(minutes * 60.0)?;
    match runtime {
        "tokio" => soak::<TokioHost>(time),
        "async-std" => soak::<AsyncStdHost>(time),
        _ => Err(USAGE.into()),
    }
}

/// Whether nothing was lost and nothing has grown.
fn soak<H: Host>(time: Duration) -> Result<bool> {
    let server = Server::start(time)?;
    let name_server = Proxy::start(server.name_server)?;
    let broker = Proxy::start(server.broker.to_string().parse()?)?;
    // Room for all from the beginning: the list must not grow.
    let seen = Seen::new(RATE * (time.as_secs() + 2));
    let host = H::start();
    let runtime = host.runtime();
    host.block_on(async {
        let consumer = start(runtime.clone(), &server, [&name_server, &broker], &seen).await?;
        let (begin, mut memory) = (Instant::now(), Memory::new(time));
        let mut resets = 0_u64;
        while begin.elapsed() < time {
            sleep(&runtime, RESET).await;
            name_server.reset_all();
            broker.reset_all();
            resets += 1;
            if let Some(kib) = memory.sample(begin.elapsed())? {
                let seconds = begin.elapsed().as_secs();
                println!("{seconds:>5} s  {kib:>8} KiB  {:>8} messages", seen.count());
            }
        }
        let sent = server.sent()?;
        let end = Instant::now() + LAST;
        while seen.missing(sent) > 0 && Instant::now() < end {
            sleep(&runtime, Duration::from_millis(50)).await;
        }
        let report = consumer.shutdown(Duration::from_secs(10)).await;
        Ok(judge(sent, resets, broker.accepted(), &seen, &report, &memory))
    })
}

async fn start<R: Runtime>(
    runtime: R,
    server: &Server,
    [name_server, broker]: [&Proxy; 2],
    seen: &Seen,
) -> Result<Consumer<R>> {
    let proxy = PeerAddr::new(broker.addr().ip().to_string(), broker.addr().port());
    let map = vec![(server.broker.clone(), proxy)];
    let seen = seen.clone();
    let consumer = ConsumerBuilder::new(runtime, "soak")
        .name_server(name_server.addr().to_string())
        .client_config(|config| config.set_address_map(map))
        .subscribe(server::TOPIC, "*")
        .start_at(StartAt::Earliest)
        .start(move |message: Message| {
            let seen = seen.clone();
            async move {
                let number = server::number(&message)?;
                if number % FAILS == 0 && message.reconsume_times() == 0 {
                    return Ok(Outcome::Retry);
                }
                seen.note(number);
                Ok::<_, server::NoNumber>(Outcome::Done)
            }
        })
        .await?;
    Ok(consumer)
}

async fn sleep<R: Runtime>(runtime: &R, time: Duration) {
    runtime.sleep_until(runtime.now() + time).await;
}

fn judge(
    sent: u64,
    resets: u64,
    connections: u64,
    seen: &Seen,
    report: &ShutdownReport,
    memory: &Memory,
) -> bool {
    let (lost, thirds) = (seen.missing(sent), memory.thirds());
    println!(
        "{sent} messages, {lost} lost, {} came again",
        seen.calls() - (sent - lost)
    );
    println!("{resets} resets, {connections} connections to the broker, at the end {report:?}");
    println!(
        "memory: {} KiB in the first third, {} KiB in the last: {}",
        thirds.first,
        thirds.last,
        if thirds.has_grown() {
            "it has grown"
        } else {
            "flat"
        }
    );
    lost == 0 && !thirds.has_grown() && !report.timed_out
}
