//! The one file that names the runtime. For smol put `smol::spawn` and `smol::unblock` in place of the two functions
//! of `async_std::task`: sockets, timers and the reactor behind them are `async-io`, on which both stand.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use async_io::{Async, Timer};
use rocketmq_consumer::{Instant, Runtime};

use crate::sleep::Sleep;
use crate::socket::AsyncStdSocket;

/// async-std as the consumer sees it. There is one executor in a process, which starts with the first task; its
/// threads are as many as `ASYNC_STD_THREAD_COUNT` says, or the cores.
#[derive(Clone, Debug)]
pub struct AsyncStdRuntime {
    origin: std::time::Instant,
}

impl AsyncStdRuntime {
    /// The executor of this process.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the driver's clock")]
    pub fn new() -> Self {
        Self {
            origin: std::time::Instant::now(),
        }
    }
}

impl Default for AsyncStdRuntime {
    fn default() -> Self {
        Self::new()
    }
}

impl Runtime for AsyncStdRuntime {
    type Socket = AsyncStdSocket;
    type Sleep = Sleep;

    fn now(&self) -> Instant {
        Instant::from_micros(u64::try_from(self.origin.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    fn connect(&self, addr: SocketAddr) -> impl Future<Output = io::Result<AsyncStdSocket>> + Send + 'static {
        dial(addr)
    }

    fn lookup(&self, host: &str) -> impl Future<Output = io::Result<Vec<IpAddr>>> + Send + 'static {
        let host = host.to_owned();
        // The system's resolver blocks.
        async_std::task::spawn_blocking(move || {
            let found = (host.as_str(), 0).to_socket_addrs()?;
            Ok(found.map(|addr| addr.ip()).collect())
        })
    }

    fn sleep_until(&self, at: Instant) -> Sleep {
        // What the clock of this machine cannot count to never comes.
        let at = self.origin.checked_add(Duration::from_micros(at.as_micros()));
        Sleep::new(at.map_or_else(Timer::never, Timer::at))
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(async_std::task::spawn(task));
    }

    fn spawn_blocking(&self, job: impl FnOnce() + Send + 'static) {
        drop(async_std::task::spawn_blocking(job));
    }
}

async fn dial(addr: SocketAddr) -> io::Result<AsyncStdSocket> {
    let stream = Async::<TcpStream>::connect(addr).await?;
    stream.get_ref().set_nodelay(true)?;
    Ok(AsyncStdSocket::new(stream))
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::net::TcpListener;
    use std::pin::{Pin, pin};
    use std::sync::mpsc;
    use std::task::Poll;
    use std::thread;

    use async_std::task::block_on;
    use futures_io::{AsyncRead, AsyncWrite};

    use super::*;

    fn socket_and_peer() -> (AsyncStdSocket, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let socket = block_on(AsyncStdRuntime::new().connect(addr)).unwrap();
        (socket, listener.accept().unwrap().0)
    }

    #[test]
    fn a_socket_carries_bytes_both_ways_without_delay() {
        use std::io::{Read as _, Write as _};
        let (mut socket, mut peer) = socket_and_peer();
        assert!(socket.nodelay().unwrap());
        let slices = [io::IoSlice::new(b"pi"), io::IoSlice::new(b"ng")];
        let written = poll_fn(|cx| Pin::new(&mut socket).poll_write_vectored(cx, &slices));
        assert_eq!(block_on(written).unwrap(), 4, "both in one system call");
        let mut heard = [0; 4];
        peer.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"ping");
        let late = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            peer.write_all(b"pong!").unwrap();
            peer
        });
        let mut buf = [0; 16];
        let read = block_on(poll_fn(|cx| Pin::new(&mut socket).poll_read(cx, &mut buf))).unwrap();
        assert_eq!(&buf[..read], b"pong!");
        block_on(poll_fn(|cx| Pin::new(&mut socket).poll_close(cx))).unwrap();
        assert_eq!(late.join().unwrap().read(&mut heard).unwrap(), 0);
    }

    #[test]
    fn a_peer_that_does_not_read_makes_the_writer_wait_and_wakes_it() {
        use std::io::Read as _;
        const ALL: usize = 16 << 20;
        let (mut socket, mut peer) = socket_and_peer();
        let chunk = vec![7; 64 << 10];
        let mut sent = 0;
        block_on(poll_fn(|cx| {
            while let Poll::Ready(written) = Pin::new(&mut socket).poll_write(cx, &chunk) {
                sent += written.unwrap();
                assert!(sent < ALL, "the kernel takes no end of bytes");
            }
            Poll::Ready(())
        }));
        let reader = thread::spawn(move || {
            let mut all = Vec::new();
            peer.read_to_end(&mut all).unwrap();
            all.len()
        });
        block_on(poll_fn(|cx| {
            while sent < ALL {
                let written = std::task::ready!(Pin::new(&mut socket).poll_write(cx, &chunk));
                sent += written.unwrap();
            }
            Poll::Ready(())
        }));
        drop(socket);
        assert_eq!(reader.join().unwrap(), sent);
    }

    #[test]
    fn a_refused_connection_says_so() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = block_on(AsyncStdRuntime::new().connect(free)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn a_host_name_is_looked_up_and_one_that_nobody_knows_is_an_error() {
        let runtime = AsyncStdRuntime::new();
        let found = block_on(runtime.lookup("localhost")).unwrap();
        assert!(found.iter().any(IpAddr::is_loopback), "{found:?}");
        assert!(block_on(runtime.lookup("nobody.invalid")).is_err());
    }

    #[test]
    fn a_timer_never_fires_early_and_the_end_of_time_is_far() {
        let runtime = AsyncStdRuntime::new();
        for millis in [0, 1, 2, 7, 20] {
            let at = runtime.now() + Duration::from_micros(millis * 1_000 + 137);
            block_on(runtime.sleep_until(at));
            assert!(runtime.now() >= at);
        }
        let mut never = pin!(runtime.sleep_until(Instant::from_micros(u64::MAX)));
        block_on(poll_fn(|cx| {
            assert!(never.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        }));
    }

    #[test]
    fn tasks_and_threads_run_whoever_asks() {
        let runtime = AsyncStdRuntime::new();
        let (sender, receiver) = mpsc::channel();
        let blocking = sender.clone();
        runtime.spawn(async move { sender.send("task").unwrap() });
        runtime.spawn_blocking(move || blocking.send("thread").unwrap());
        let mut heard = [receiver.recv().unwrap(), receiver.recv().unwrap()];
        heard.sort_unstable();
        assert_eq!(heard, ["task", "thread"]);
    }

    #[test]
    fn what_panics_takes_nothing_with_it() {
        let runtime = AsyncStdRuntime::new();
        for _ in 0..32 {
            runtime.spawn(async { panic!("a task, on purpose") });
            runtime.spawn_blocking(|| panic!("a job, on purpose"));
        }
        let (sender, receiver) = mpsc::channel();
        let blocking = sender.clone();
        runtime.spawn(async move { sender.send(()).unwrap() });
        runtime.spawn_blocking(move || blocking.send(()).unwrap());
        for _ in 0..2 {
            receiver.recv_timeout(Duration::from_secs(10)).unwrap();
        }
    }
}
