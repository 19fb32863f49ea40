//! A runtime for the consumer without any async library: a thread for each task, two for each socket, one for timers.

use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use rocketmq_consumer::{Instant, Runtime};

use super::sleep::Sleep;
use super::socket::Socket;

/// Threads of this process, and when their clock was started.
#[derive(Clone)]
pub(crate) struct Threads {
    origin: std::time::Instant,
}

impl Default for Threads {
    #[expect(clippy::disallowed_methods, reason = "this is the consumer's clock")]
    fn default() -> Self {
        Self {
            origin: std::time::Instant::now(),
        }
    }
}

impl Runtime for Threads {
    type Socket = Socket;
    type Sleep = Sleep;

    fn now(&self) -> Instant {
        Instant::from_micros(self.origin.elapsed().as_micros().try_into().unwrap_or(u64::MAX))
    }

    fn connect(&self, addr: SocketAddr) -> impl Future<Output = io::Result<Socket>> + Send + 'static {
        elsewhere(move || Socket::over(TcpStream::connect(addr)?))
    }

    fn lookup(&self, host: &str) -> impl Future<Output = io::Result<Vec<IpAddr>>> + Send + 'static {
        let host = host.to_owned();
        elsewhere(move || {
            let found = (host.as_str(), 0).to_socket_addrs()?;
            Ok(found.map(|addr| addr.ip()).collect())
        })
    }

    fn sleep_until(&self, at: Instant) -> Sleep {
        Sleep::until(self.origin.checked_add(Duration::from_micros(at.as_micros())))
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        thread::spawn(move || wait_for(task));
    }

    fn spawn_blocking(&self, job: impl FnOnce() + Send + 'static) {
        thread::spawn(job);
    }
}

/// Polls a future on this thread, which sleeps until it is woken.
pub(crate) fn wait_for<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        thread::park();
    }
}

/// What a job that blocks gives, on a thread of its own. Who drops the future drops the value.
fn elsewhere<T: Send + 'static>(
    job: impl FnOnce() -> T + Send + 'static,
) -> impl Future<Output = T> + Send + 'static {
    let given: Arc<Mutex<(Option<T>, Option<Waker>)>> = Arc::default();
    let giver = Arc::clone(&given);
    thread::spawn(move || {
        let value = job();
        let mut given = giver.lock().unwrap_or_else(PoisonError::into_inner);
        given.0 = Some(value);
        given.1.take().into_iter().for_each(Waker::wake);
    });
    poll_fn(move |cx| {
        let mut given = given.lock().unwrap_or_else(PoisonError::into_inner);
        given.1 = Some(cx.waker().clone());
        given.0.take().map_or(Poll::Pending, Poll::Ready)
    })
}
