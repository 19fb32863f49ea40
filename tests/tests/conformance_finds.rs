//! The suite finds runtimes that do not keep the contract: each of these breaks it in one way.

#[path = "hosts/tokio_host.rs"]
mod tokio_host;

use std::future::Future;
use std::io::{self, ErrorKind, IoSlice};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::panic::catch_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use futures_io::{AsyncRead, AsyncWrite};
use rocketmq_consumer::{Instant, Runtime, WallTime};
use rocketmq_consumer_testing::conformance::{Host, cases};
use rocketmq_consumer_tokio::{TokioRuntime, TokioSocket};
use tokio_host::TokioHost;

/// What is wrong; a number, so that a type can have it.
type Fault = usize;

const CLONES_HAVE_THEIR_OWN_CLOCK: Fault = 0;
const THE_CLOCK_GOES_BACK: Fault = 1;
const THE_WALL_CLOCK_IS_UNSET: Fault = 2;
const TIMERS_ARE_EARLY: Fault = 3;
const FAR_TIMERS_FIRE: Fault = 4;
const REFUSALS_HAVE_NO_KIND: Fault = 5;
const EVERY_NAME_IS_FOUND: Fault = 6;
const SLICES_ARE_LOST: Fault = 7;
const SLICES_ARE_COUNTED_TWICE: Fault = 8;
const FULL_SOCKETS_TAKE_MORE: Fault = 9;
const RESETS_ARE_ENDS: Fault = 10;
const CONNECTING_BLOCKS: Fault = 11;

/// No fault: what the others show is theirs, and not this file's.
const NONE: Fault = usize::MAX;

struct Spoiled<const FAULT: Fault>(TokioHost);

impl<const FAULT: Fault> Host for Spoiled<FAULT> {
    type Runtime = SpoiledRuntime<FAULT>;

    fn start() -> Self {
        Self(TokioHost::start())
    }

    fn runtime(&self) -> SpoiledRuntime<FAULT> {
        SpoiledRuntime {
            inner: self.0.runtime(),
            origin: 0,
            readings: Arc::default(),
        }
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.0.block_on(future)
    }
}

struct SpoiledRuntime<const FAULT: Fault> {
    inner: TokioRuntime,
    /// Added to the clock, in microseconds.
    origin: u64,
    readings: Arc<AtomicU64>,
}

impl<const FAULT: Fault> Clone for SpoiledRuntime<FAULT> {
    fn clone(&self) -> Self {
        let later = if FAULT == CLONES_HAVE_THEIR_OWN_CLOCK {
            5_000
        } else {
            0
        };
        Self {
            inner: self.inner.clone(),
            origin: self.origin + later,
            readings: Arc::clone(&self.readings),
        }
    }
}

impl<const FAULT: Fault> Runtime for SpoiledRuntime<FAULT> {
    type Socket = SpoiledSocket<FAULT>;
    type Sleep = tokio::time::Sleep;

    fn now(&self) -> Instant {
        let now = self.inner.now().as_micros() + self.origin;
        let reading = self.readings.fetch_add(1, Ordering::Relaxed);
        let back = if FAULT == THE_CLOCK_GOES_BACK {
            reading % 100 * 100
        } else {
            0
        };
        Instant::from_micros(now.saturating_sub(back))
    }

    fn wall(&self) -> WallTime {
        if FAULT == THE_WALL_CLOCK_IS_UNSET {
            return WallTime::from_unix_millis(0);
        }
        self.inner.wall()
    }

    fn connect(&self, addr: SocketAddr) -> impl Future<Output = io::Result<Self::Socket>> + Send + 'static {
        let attempt = self.inner.connect(addr);
        async move {
            let connected = if FAULT == CONNECTING_BLOCKS {
                wait_here_for(attempt)
            } else {
                attempt.await
            };
            match connected {
                Ok(socket) => Ok(SpoiledSocket(socket)),
                Err(_) if FAULT == REFUSALS_HAVE_NO_KIND => Err(io::Error::other("no connection")),
                Err(error) => Err(error),
            }
        }
    }

    fn lookup(&self, host: &str) -> impl Future<Output = io::Result<Vec<IpAddr>>> + Send + 'static {
        let found = self.inner.lookup(host);
        async move {
            match found.await {
                Err(_) if FAULT == EVERY_NAME_IS_FOUND => Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]),
                found => found,
            }
        }
    }

    fn sleep_until(&self, at: Instant) -> Self::Sleep {
        let micros = match FAULT {
            TIMERS_ARE_EARLY => at.as_micros().saturating_sub(2_000),
            // As if counted in a few bits.
            FAR_TIMERS_FIRE if at.as_micros() >> 32 > 0 => at.as_micros() & 0xfff,
            _ => at.as_micros(),
        };
        self.inner.sleep_until(Instant::from_micros(micros))
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.inner.spawn(task);
    }

    fn spawn_blocking(&self, job: impl FnOnce() + Send + 'static) {
        self.inner.spawn_blocking(job);
    }
}

struct SpoiledSocket<const FAULT: Fault>(TokioSocket);

impl<const FAULT: Fault> SpoiledSocket<FAULT> {
    fn inner(&mut self) -> Pin<&mut TokioSocket> {
        Pin::new(&mut self.0)
    }
}

impl<const FAULT: Fault> AsyncRead for SpoiledSocket<FAULT> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.inner().poll_read(cx, buf).map(|read| match read {
            Err(error) if FAULT == RESETS_ARE_ENDS && error.kind() == ErrorKind::ConnectionReset => Ok(0),
            read => read,
        })
    }
}

impl<const FAULT: Fault> AsyncWrite for SpoiledSocket<FAULT> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = self.inner().poll_write(cx, buf);
        if FAULT == FULL_SOCKETS_TAKE_MORE && written.is_pending() {
            return Poll::Ready(Ok(buf.len()));
        }
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let all = bufs.iter().map(|slice| slice.len()).sum();
        match FAULT {
            SLICES_ARE_LOST => {
                let first = bufs.iter().find(|slice| !slice.is_empty());
                let written = self.inner().poll_write(cx, first.map_or(&[], |slice| slice));
                written.map_ok(|_| all)
            }
            SLICES_ARE_COUNTED_TWICE => self
                .inner()
                .poll_write_vectored(cx, bufs)
                .map_ok(|written| 2 * written),
            _ => self.inner().poll_write_vectored(cx, bufs),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner().poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner().poll_close(cx)
    }
}

/// Holds the thread of the task until a future has completed, as a blocking call would.
fn wait_here_for<F: Future<Output: Send> + Send + 'static>(future: F) -> F::Output {
    let tokio = tokio::runtime::Handle::current();
    let elsewhere = std::thread::spawn(move || tokio.block_on(future));
    elsewhere.join().expect("connecting does not panic")
}

fn fails(case: fn()) -> bool {
    catch_unwind(case).is_err()
}

#[test]
fn a_clock_has_to_be_one() {
    use cases::clock::run;
    assert!(fails(run::<Spoiled<CLONES_HAVE_THEIR_OWN_CLOCK>>));
    assert!(fails(run::<Spoiled<THE_CLOCK_GOES_BACK>>));
    assert!(fails(run::<Spoiled<THE_WALL_CLOCK_IS_UNSET>>));
    run::<Spoiled<NONE>>();
}

#[test]
fn timers_have_to_keep_their_time() {
    use cases::timers::run;
    assert!(fails(run::<Spoiled<TIMERS_ARE_EARLY>>));
    assert!(fails(run::<Spoiled<FAR_TIMERS_FIRE>>));
    run::<Spoiled<NONE>>();
}

#[test]
fn connections_have_to_be_made_and_dropped() {
    use cases::dialling::run;
    assert!(fails(run::<Spoiled<REFUSALS_HAVE_NO_KIND>>));
    run::<Spoiled<NONE>>();
}

/// Where the system refuses instead of saying nothing, there is no telling.
#[cfg(target_os = "linux")]
#[test]
fn connecting_must_not_block() {
    let found = catch_unwind(cases::dialling::run::<Spoiled<CONNECTING_BLOCKS>>);
    let panic = found.expect_err("it blocks");
    let why = panic.downcast_ref::<String>().expect("words");
    assert!(why.starts_with("connecting blocks"), "{why}");
}

#[test]
fn names_have_to_be_somebodys() {
    use cases::lookup::run;
    assert!(fails(run::<Spoiled<EVERY_NAME_IS_FOUND>>));
    run::<Spoiled<NONE>>();
}

#[test]
fn bytes_have_to_arrive() {
    use cases::{full_sockets, sockets};
    assert!(fails(sockets::run::<Spoiled<SLICES_ARE_LOST>>));
    assert!(fails(sockets::run::<Spoiled<SLICES_ARE_COUNTED_TWICE>>));
    assert!(fails(sockets::run::<Spoiled<RESETS_ARE_ENDS>>));
    assert!(fails(full_sockets::run::<Spoiled<FULL_SOCKETS_TAKE_MORE>>));
    sockets::run::<Spoiled<NONE>>();
    full_sockets::run::<Spoiled<NONE>>();
}
