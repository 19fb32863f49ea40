//! Beside a web server, ended by one signal: the server takes no more requests, handlers finish, offsets are committed.
//!
//! ```sh
//! cargo run -p rocketmq-consumer-tokio --example axum -- 127.0.0.1:9876 orders billing 127.0.0.1:8080
//! curl 127.0.0.1:8080/ready    # 200 once every queue of the group is on its way, 503 before
//! curl 127.0.0.1:8080/status   # what an operator asks first
//! ```

use std::error::Error;
use std::future::IntoFuture as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use rocketmq_consumer_tokio::{Consumer, Message, Outcome};

struct App {
    consumer: Consumer,
    is_ready: AtomicBool,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut argument = |name| arguments.next().ok_or(name);
    let name_server = argument("first argument: name server, host:port")?;
    let topic = argument("second argument: topic")?;
    let group = argument("third argument: consumer group")?;
    let listen = argument("fourth argument: where the web server listens")?;

    // It starts without its cluster and finds it when it comes: the server need not wait.
    let consumer = Consumer::builder(group)
        .name_server(name_server)
        .subscribe(topic, "*")
        .start(|message: Message| async move {
            println!("{} {}", message.queue_offset(), message.msg_id());
            Outcome::Done
        })
        .await?;
    let app = Arc::new(App {
        consumer,
        is_ready: AtomicBool::new(false),
    });
    let watched = Arc::clone(&app);
    tokio::spawn(async move {
        match watched.consumer.ready().await {
            Ok(()) => watched.is_ready.store(true, Ordering::Relaxed),
            Err(error) => eprintln!("{error}"),
        }
    });

    let router = Router::new()
        .route("/ready", get(ready))
        .route("/status", get(status))
        .with_state(Arc::clone(&app));
    let listener = tokio::net::TcpListener::bind(listen).await?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = axum::serve(listener, router).with_graceful_shutdown(async {
        let _stop = stopped.await;
    });
    let mut server = tokio::spawn(server.into_future());
    tokio::select! {
        ended = &mut server => return Ok(ended??),
        // Without a signal to wait for, one that cannot be waited for ends the program.
        () = signalled() => drop(stop),
    }
    // A client that never finishes its request must not keep the consumer from leaving in order.
    if let Ok(ended) = tokio::time::timeout(Duration::from_secs(5), &mut server).await {
        ended??;
    }

    // Behind the server, because its last requests may still ask; within what the platform grants a process.
    let report = app.consumer.shutdown(Duration::from_secs(20)).await;
    println!(
        "{} messages finished, {} given up",
        report.finished, report.abandoned
    );
    Ok(())
}

/// Ctrl-C, or what platforms send to a process that is to end.
async fn signalled() {
    #[cfg(unix)]
    if let Ok(mut terminate) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
        tokio::select! {
            _signal = tokio::signal::ctrl_c() => {}
            _signal = terminate.recv() => {}
        }
        return;
    }
    let _signal = tokio::signal::ctrl_c().await;
}

async fn ready(State(app): State<Arc<App>>) -> StatusCode {
    if app.is_ready.load(Ordering::Relaxed) {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    }
}

async fn status(State(app): State<Arc<App>>) -> Result<String, StatusCode> {
    let status = app.consumer.status().await;
    let status = status.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    Ok(format!("{status:#?}"))
}
