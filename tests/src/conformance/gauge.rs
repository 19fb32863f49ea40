//! A runtime around the one that is examined, which counts what is alive in it, and what has panicked.

mod socket;

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use rocketmq_consumer::{Instant, Runtime, WallTime};

pub use socket::CountedSocket;

/// A runtime, and how many tasks, jobs, timers and sockets of it there are.
#[derive(Clone, Debug)]
pub struct Gauge<R> {
    inner: R,
    alive: Arc<Alive>,
}

#[derive(Debug, Default)]
struct Alive {
    tasks: Arc<AtomicUsize>,
    jobs: Arc<AtomicUsize>,
    timers: Arc<AtomicUsize>,
    sockets: Arc<AtomicUsize>,
    panicked: Arc<AtomicUsize>,
}

/// What is alive in a runtime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tasks that have not ended.
    pub tasks: usize,
    /// Closures on threads that may block.
    pub jobs: usize,
    /// Timers that have not been dropped.
    pub timers: usize,
    /// Attempts to connect, and sockets that have not been dropped.
    pub sockets: usize,
    /// Tasks and jobs that have ended by a panic. A runtime keeps that to itself.
    pub panicked: usize,
}

impl<R> Gauge<R> {
    /// Counts from now on.
    pub fn new(inner: R) -> Self {
        Self {
            inner,
            alive: Arc::default(),
        }
    }

    /// What is alive now.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let of = |count: &AtomicUsize| count.load(Ordering::Acquire);
        Counts {
            tasks: of(&self.alive.tasks),
            jobs: of(&self.alive.jobs),
            timers: of(&self.alive.timers),
            sockets: of(&self.alive.sockets),
            panicked: of(&self.alive.panicked),
        }
    }

    fn running(&self, count: &Arc<AtomicUsize>) -> Running {
        Running {
            panicked: Arc::clone(&self.alive.panicked),
            _one: One::more(count),
        }
    }
}

impl<R: Runtime> Runtime for Gauge<R> {
    type Socket = CountedSocket<R::Socket>;
    type Sleep = CountedSleep<R::Sleep>;

    fn now(&self) -> Instant {
        self.inner.now()
    }

    fn wall(&self) -> WallTime {
        self.inner.wall()
    }

    fn connect(&self, addr: SocketAddr) -> impl Future<Output = io::Result<Self::Socket>> + Send + 'static {
        let (attempt, one) = (self.inner.connect(addr), One::more(&self.alive.sockets));
        async move { Ok(CountedSocket::new(attempt.await?, one)) }
    }

    fn lookup(&self, host: &str) -> impl Future<Output = io::Result<Vec<IpAddr>>> + Send + 'static {
        self.inner.lookup(host)
    }

    fn sleep_until(&self, at: Instant) -> Self::Sleep {
        CountedSleep {
            inner: Box::pin(self.inner.sleep_until(at)),
            _one: One::more(&self.alive.timers),
        }
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let running = self.running(&self.alive.tasks);
        self.inner.spawn(async move {
            task.await;
            drop(running);
        });
    }

    fn spawn_blocking(&self, job: impl FnOnce() + Send + 'static) {
        let running = self.running(&self.alive.jobs);
        self.inner.spawn_blocking(move || {
            job();
            drop(running);
        });
    }
}

/// A timer that is counted.
#[derive(Debug)]
pub struct CountedSleep<S> {
    inner: Pin<Box<S>>,
    _one: One,
}

impl<S: Future<Output = ()>> Future for CountedSleep<S> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.inner.as_mut().poll(cx)
    }
}

/// Code of a consumer that runs.
#[derive(Debug)]
struct Running {
    panicked: Arc<AtomicUsize>,
    _one: One,
}

impl Drop for Running {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.panicked.fetch_add(1, Ordering::AcqRel);
        }
    }
}

/// One of what is counted, for as long as this lives.
#[derive(Debug)]
struct One(Arc<AtomicUsize>);

impl One {
    fn more(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(count))
    }
}

impl Drop for One {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
