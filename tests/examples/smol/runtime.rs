//! A runtime for the consumer, from nothing: smol in one file.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::pin::Pin;
use std::time::Duration;

use rocketmq_consumer::{Instant, Runtime};
use smol::{Async, Timer};

/// smol's executor of this process, and when its clock was started.
#[derive(Clone)]
pub(crate) struct SmolRuntime {
    origin: std::time::Instant,
}

impl Default for SmolRuntime {
    #[allow(clippy::disallowed_methods, reason = "this is the consumer's clock")]
    fn default() -> Self {
        Self {
            origin: std::time::Instant::now(),
        }
    }
}

impl Runtime for SmolRuntime {
    type Socket = Async<TcpStream>;
    type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

    fn now(&self) -> Instant {
        Instant::from_micros(self.origin.elapsed().as_micros().try_into().unwrap_or(u64::MAX))
    }

    fn connect(&self, addr: SocketAddr) -> impl Future<Output = io::Result<Self::Socket>> + Send + 'static {
        dial(addr)
    }

    fn lookup(&self, host: &str) -> impl Future<Output = io::Result<Vec<IpAddr>>> + Send + 'static {
        let host = host.to_owned();
        smol::unblock(move || {
            Ok((host.as_str(), 0)
                .to_socket_addrs()?
                .map(|addr| addr.ip())
                .collect())
        })
    }

    fn sleep_until(&self, at: Instant) -> Self::Sleep {
        let at = self.origin.checked_add(Duration::from_micros(at.as_micros()));
        let timer = at.map_or_else(Timer::never, Timer::at);
        Box::pin(async move {
            timer.await;
        })
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        smol::spawn(task).detach();
    }

    fn spawn_blocking(&self, job: impl FnOnce() + Send + 'static) {
        smol::unblock(job).detach();
    }
}

async fn dial(addr: SocketAddr) -> io::Result<Async<TcpStream>> {
    let socket = Async::<TcpStream>::connect(addr).await?;
    socket.get_ref().set_nodelay(true)?;
    Ok(socket)
}
