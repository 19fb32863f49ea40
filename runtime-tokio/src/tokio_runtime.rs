use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use rocketmq_consumer::{Instant, Runtime};
use tokio::net::TcpStream;
use tokio::runtime::Handle;

use crate::socket::TokioSocket;

/// What a timer waits at most; a deadline beyond it is as good as none.
const FAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// tokio as the consumer sees it. Uses tokio's clock, so a paused one works in tests.
#[derive(Clone, Debug)]
pub struct TokioRuntime {
    origin: tokio::time::Instant,
    handle: Option<Handle>,
}

impl TokioRuntime {
    /// The runtime that is current wherever a consumer is started.
    #[must_use]
    pub fn new() -> Self {
        Self {
            origin: tokio::time::Instant::now(),
            handle: None,
        }
    }

    /// Runs the tasks of consumers on this runtime, wherever they are started.
    #[must_use]
    pub fn on(handle: Handle) -> Self {
        Self {
            handle: Some(handle),
            ..Self::new()
        }
    }

    /// Lets what is made here belong to the runtime that was given.
    #[cfg(feature = "broker")]
    pub(crate) fn enter(&self) -> Option<tokio::runtime::EnterGuard<'_>> {
        self.handle.as_ref().map(Handle::enter)
    }
}

impl Default for TokioRuntime {
    fn default() -> Self {
        Self::new()
    }
}

impl Runtime for TokioRuntime {
    type Socket = TokioSocket;
    type Sleep = tokio::time::Sleep;

    fn now(&self) -> Instant {
        Instant::from_micros(u64::try_from(self.origin.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    fn connect(&self, addr: SocketAddr) -> impl Future<Output = io::Result<TokioSocket>> + Send + 'static {
        dial(addr)
    }

    fn lookup(&self, host: &str) -> impl Future<Output = io::Result<Vec<IpAddr>>> + Send + 'static {
        let host = host.to_owned();
        async move {
            Ok(tokio::net::lookup_host((host, 0))
                .await?
                .map(|addr| addr.ip())
                .collect())
        }
    }

    fn sleep_until(&self, at: Instant) -> tokio::time::Sleep {
        let left = at.saturating_since(self.now());
        if left > FAR {
            return tokio::time::sleep(FAR);
        }
        tokio::time::sleep_until(self.origin + Duration::from_micros(at.as_micros()))
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        match &self.handle {
            Some(handle) => drop(handle.spawn(task)),
            None => drop(tokio::spawn(task)),
        }
    }

    fn spawn_blocking(&self, job: impl FnOnce() + Send + 'static) {
        match &self.handle {
            Some(handle) => drop(handle.spawn_blocking(job)),
            None => drop(tokio::task::spawn_blocking(job)),
        }
    }
}

async fn dial(addr: SocketAddr) -> io::Result<TokioSocket> {
    let stream = TcpStream::connect(addr).await?;
    stream.set_nodelay(true)?;
    Ok(TokioSocket::new(stream))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_io::{AsyncRead, AsyncWrite};
    use std::future::poll_fn;
    use std::pin::Pin;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn a_socket_carries_bytes_both_ways_without_delay() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (socket, accepted) = tokio::join!(TokioRuntime::new().connect(addr), listener.accept());
        let (mut socket, (mut peer, _)) = (socket.unwrap(), accepted.unwrap());
        let slices = [io::IoSlice::new(b"pi"), io::IoSlice::new(b"ng")];
        let written = poll_fn(|cx| Pin::new(&mut socket).poll_write_vectored(cx, &slices))
            .await
            .unwrap();
        let mut heard = [0; 4];
        peer.read_exact(&mut heard).await.unwrap();
        assert_eq!((written, &heard), (4, b"ping"));
        peer.write_all(b"pong!").await.unwrap();
        let mut buf = [0; 16];
        let read = poll_fn(|cx| Pin::new(&mut socket).poll_read(cx, &mut buf))
            .await
            .unwrap();
        assert_eq!(&buf[..read], b"pong!");
        poll_fn(|cx| Pin::new(&mut socket).poll_close(cx)).await.unwrap();
        assert_eq!(peer.read(&mut heard).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_refused_connection_says_so() {
        let free = TcpListener::bind("127.0.0.1:0")
            .await
            .unwrap()
            .local_addr()
            .unwrap();
        let error = TokioRuntime::new().connect(free).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[tokio::test]
    async fn a_host_name_is_looked_up() {
        let found = TokioRuntime::new().lookup("localhost").await.unwrap();
        assert!(found.iter().any(IpAddr::is_loopback), "{found:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_timer_never_fires_early_and_the_end_of_time_is_far() {
        let runtime = TokioRuntime::new();
        for at in [0, 1, 1_500, 20_000] {
            let at = Instant::from_millis(at);
            runtime.sleep_until(at).await;
            assert!(runtime.now() >= at);
        }
        let never = runtime.sleep_until(Instant::from_micros(u64::MAX));
        assert!(
            tokio::time::timeout(Duration::from_secs(9_999), never)
                .await
                .is_err()
        );
    }

    #[test]
    fn tasks_can_be_sent_to_a_runtime_from_outside() {
        let tokio = tokio::runtime::Runtime::new().unwrap();
        let runtime = TokioRuntime::on(tokio.handle().clone());
        let (sender, receiver) = std::sync::mpsc::channel();
        let blocking = sender.clone();
        runtime.spawn(async move { sender.send("task").unwrap() });
        runtime.spawn_blocking(move || blocking.send("thread").unwrap());
        let mut heard = [receiver.recv().unwrap(), receiver.recv().unwrap()];
        heard.sort_unstable();
        assert_eq!(heard, ["task", "thread"]);
    }
}
