use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{SystemTime, UNIX_EPOCH};

use futures_io::{AsyncRead, AsyncWrite};
use rocketmq_consumer_core::time::{Instant, WallTime};

/// What an async runtime must offer to carry a consumer: sockets, a clock, a timer and tasks.
///
/// A clone names the same runtime with the same origin of time. No method blocks.
pub trait Runtime: Clone + Send + Sync + 'static {
    /// A connected TCP socket. Dropping it closes the connection.
    type Socket: AsyncRead + AsyncWrite + Send + Unpin + 'static;
    /// Ends when the time it was made for has come, never before.
    type Sleep: Future<Output = ()> + Send + 'static;

    /// Microseconds since the origin this runtime object chose; never goes back.
    fn now(&self) -> Instant;

    /// The wall clock, for fields of the protocol that carry Unix time; nothing is measured with it. That of the system,
    /// unless the runtime has one of its own, as in a simulation.
    #[expect(clippy::disallowed_methods, reason = "this is the driver's clock")]
    fn wall(&self) -> WallTime {
        // A clock before 1970 is wrong anyway; the field goes to brokers that only show it.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        WallTime::from_unix_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    /// Connects with `TCP_NODELAY` set. There is no time-out here: who is tired of waiting drops the
    /// future.
    ///
    /// # Errors
    /// What the operating system reports; its `ErrorKind` decides what the notice says.
    fn connect(&self, addr: SocketAddr) -> impl Future<Output = io::Result<Self::Socket>> + Send + 'static;

    /// Finds the addresses of a host, best first.
    ///
    /// # Errors
    /// Whatever the resolver reports; it counts as an unknown name.
    fn lookup(&self, host: &str) -> impl Future<Output = io::Result<Vec<IpAddr>>> + Send + 'static;

    /// A timer that ends at `at`, at once if that has passed.
    fn sleep_until(&self, at: Instant) -> Self::Sleep;

    /// Runs a task to its end, detached.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static);

    /// Runs a closure that may block on a thread that may be blocked, detached.
    fn spawn_blocking(&self, job: impl FnOnce() + Send + 'static);
}
