//! One port that is open, and the task that takes what comes there.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use atomic_waker::AtomicWaker;
use futures_channel::mpsc;
use rocketmq_consumer_core::ids::PeerAddr;

use crate::listening::{Listening, Taken};
use crate::sync::lock;

/// The pause after an error that is not about one connection, such as too many open files.
const PAUSE: Duration = Duration::from_millis(50);

/// Somebody connected.
#[derive(Debug)]
pub(super) struct Accepted<S> {
    /// The node, by the address it is known at.
    pub(super) at: PeerAddr,
    /// Where the client is.
    pub(super) from: SocketAddr,
    /// The connection.
    pub(super) socket: S,
}

/// A listener that can be taken away from the task that waits at it: the port is closed when [`Port::close`]
/// returns, whenever that task may run.
pub(super) struct Port<L> {
    listener: Mutex<Option<L>>,
    task: AtomicWaker,
}

impl<L: Send + 'static> Port<L> {
    /// Takes connections to the node `at` until the port is closed.
    pub(super) fn open<R: Listening<Listener = L>>(
        runtime: &R,
        at: PeerAddr,
        listener: L,
        accepted: mpsc::Sender<Accepted<R::Socket>>,
    ) -> Arc<Self> {
        let port = Arc::new(Self {
            listener: Mutex::new(Some(listener)),
            task: AtomicWaker::new(),
        });
        runtime.spawn(accept(runtime.clone(), at, Arc::clone(&port), accepted));
        port
    }

    /// Refuses connections from now on.
    pub(super) fn close(&self) {
        let listener = lock(&self.listener).take();
        drop(listener);
        self.task.wake();
    }

    /// The next connection; `None` when the port is closed.
    fn poll_accept<R: Listening<Listener = L>>(
        &self,
        runtime: &R,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Taken<R>>>> {
        self.task.register(cx.waker());
        match lock(&self.listener).as_mut() {
            Some(listener) => runtime.poll_accept(listener, cx).map(Some),
            None => Poll::Ready(None),
        }
    }
}

async fn accept<R: Listening>(
    runtime: R,
    at: PeerAddr,
    port: Arc<Port<R::Listener>>,
    mut accepted: mpsc::Sender<Accepted<R::Socket>>,
) {
    while let Some(next) = poll_fn(|cx| port.poll_accept(&runtime, cx)).await {
        let Ok((socket, from)) = next else {
            runtime.sleep_until(runtime.now() + PAUSE).await;
            continue;
        };
        let at = at.clone();
        let is_gone = poll_fn(|cx| accepted.poll_ready(cx)).await.is_err();
        if is_gone || accepted.start_send(Accepted { at, from, socket }).is_err() {
            return;
        }
    }
}
