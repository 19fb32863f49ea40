//! A broker in this process: a small cluster on real sockets, for tests and for trying things out.
//!
//! ```no_run
//! use rocketmq_consumer::broker::{ClusterConfig, EmbeddedBroker, Listening};
//! use rocketmq_consumer::{Consumer, Message, Outcome};
//!
//! # async fn example<R: Listening + Default>() -> Result<(), Box<dyn std::error::Error>> {
//! let broker = EmbeddedBroker::<R>::start(ClusterConfig::with_brokers(1).topic("orders", 4)).await?;
//! let consumer = Consumer::<R>::builder("billing")
//!     .name_server(broker.name_server())
//!     .subscribe("orders", "*")
//!     .start(|_: Message| async { Ok::<_, std::io::Error>(Outcome::Done) })
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! It is `BrokerState` of the core, the same machine that runs in simulations, with everything in memory. What
//! it does not model, its module says; nothing is kept when it ends.
//!
//! ```text
//!  clients ═► port ─accepted─┐                      ┌─► outbox ─┐
//!  client ══► link ──bytes───┴─► driver: the machine┘           └─► link ══► client
//!                                  ▲ controls, looks
//! ```
//!
//! Everything on the way has a limit: what links hand over waits in a channel of fixed length, a client that
//! does not read its answers is not read from, and one for which too much waits all the same is cut off.
//!
//! Any runtime that can listen carries it: [`Listening`]. The crates of runtimes give `EmbeddedBroker` a name without
//! a parameter.

mod driver;
mod link;
mod links;
mod listeners;
mod outbox;
mod port;
mod watch;

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use futures_channel::{mpsc, oneshot};
use rocketmq_consumer_core::ids::PeerAddr;

use self::driver::{Command, Driver};
use self::listeners::Listeners;
use self::watch::Watch;

pub use self::watch::Observations;
pub use crate::listening::Listening;

pub use rocketmq_consumer_core::broker::BrokerState;
pub use rocketmq_consumer_core::broker::config::{BrokerConfig, ClusterConfig, Settings, TopicConfig};
pub use rocketmq_consumer_core::broker::event::{Control, NewMessage};
pub use rocketmq_consumer_core::broker::observation::Observation;
pub use rocketmq_consumer_core::broker::rule::{Effect, Nth, Rule};

/// A running cluster. It ends with [`EmbeddedBroker::shutdown`], or when this is dropped.
pub struct EmbeddedBroker<R> {
    config: Arc<ClusterConfig>,
    /// A clone has a place of its own in the channel, and whoever has one waits for the answer.
    commands: mpsc::Sender<Command>,
    ended: oneshot::Receiver<()>,
    runtime: PhantomData<fn() -> R>,
}

impl<R: Listening + Default> EmbeddedBroker<R> {
    /// Starts a cluster on this machine's loopback. Each node listens at a free port, whatever the
    /// configuration names; [`EmbeddedBroker::config`] tells which.
    ///
    /// # Errors
    /// The system gives no port.
    ///
    /// # Panics
    /// With tokio: outside of a runtime with its I/O and time drivers enabled. The same below.
    pub async fn start(config: ClusterConfig) -> io::Result<Self> {
        Self::start_on(R::default(), config).await
    }

    /// Starts a cluster whose nodes listen at the addresses the configuration names. Hosts are IP addresses;
    /// port 0 stands for a free one. A node that listens everywhere (`0.0.0.0`) tells clients to come to
    /// `127.0.0.1`.
    ///
    /// # Errors
    /// A host is no IP address, or something else listens there.
    pub async fn start_at(config: ClusterConfig) -> io::Result<Self> {
        Self::start_at_on(R::default(), config).await
    }
}

impl<R: Listening> EmbeddedBroker<R> {
    /// [`EmbeddedBroker::start`] on this runtime.
    ///
    /// # Errors
    /// The system gives no port.
    pub async fn start_on(runtime: R, mut config: ClusterConfig) -> io::Result<Self> {
        for addr in nodes_mut(&mut config) {
            *addr = PeerAddr::new(Ipv4Addr::LOCALHOST.to_string(), 0);
        }
        Self::start_at_on(runtime, config).await
    }

    /// [`EmbeddedBroker::start_at`] on this runtime.
    ///
    /// # Errors
    /// A host is no IP address, or something else listens there.
    pub async fn start_at_on(runtime: R, mut config: ClusterConfig) -> io::Result<Self> {
        let mut listeners = Listeners::new(runtime.clone());
        for addr in nodes_mut(&mut config) {
            // Of several addresses it is good to know which.
            let listener = runtime
                .bind(socket_addr(addr)?)
                .map_err(|error| io::Error::new(error.kind(), format!("{addr}: {error}")))?;
            let at = runtime.local_addr(&listener)?;
            *addr = PeerAddr::new(reachable(at.ip()).to_string(), at.port());
            listeners.add(addr.clone(), at, listener);
        }
        let config = Arc::new(config);
        let (commands, inbox) = mpsc::channel(0);
        let (over, ended) = oneshot::channel();
        runtime.spawn(Driver::new(runtime.clone(), &config, listeners, inbox, over).run());
        Ok(Self {
            config,
            commands,
            ended,
            runtime: PhantomData,
        })
    }
}

impl<R> EmbeddedBroker<R> {
    /// The name servers, as a consumer's builder and `NAMESRV_ADDR` take them: `host:port`, several separated
    /// by `;`.
    #[must_use]
    pub fn name_server(&self) -> String {
        let servers: Vec<_> = self.config.name_servers.iter().map(ToString::to_string).collect();
        servers.join(";")
    }

    /// What the cluster was made of, with the addresses at which its nodes listened when it started: one that
    /// [`Control::Move`] has moved stands here, and in [`Self::name_server`], where it was.
    #[must_use]
    pub fn config(&self) -> &ClusterConfig {
        &self.config
    }

    /// Lets an operator's hand act on the cluster: topics, faults, nodes that go down and come back. It has
    /// taken effect when this returns; a node that was stopped refuses connections from then on.
    ///
    /// # Errors
    /// The cluster has ended; or a node was to start again and its port is not free any more.
    pub async fn control(&self, control: Control) -> io::Result<()> {
        let (reply, answer) = oneshot::channel();
        self.command(Command::Control { control, reply })?;
        answer.await.map_err(|_| ended())?
    }

    /// Looks at the state of the cluster: what is stored, who is a member, what is committed.
    ///
    /// # Errors
    /// The cluster has ended.
    ///
    /// # Panics
    /// As `look` does. The cluster goes on.
    pub async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&BrokerState) -> T + Send + 'static,
    ) -> io::Result<T> {
        let (reply, answer) = oneshot::channel();
        let look = Box::new(move |state: &BrokerState| {
            // An assertion that fails is the asker's, and not the end of the cluster.
            let _gone = reply.send(catch_unwind(AssertUnwindSafe(|| look(state))));
        });
        self.command(Command::Look(look))?;
        Ok(answer
            .await
            .map_err(|_| ended())?
            .unwrap_or_else(|panic| resume_unwind(panic)))
    }

    /// Hears of what the cluster does from now on, in place of whoever observed it before. Up to `most` things
    /// wait to be taken; `BrokerState::observations_missed` counts what had no room.
    ///
    /// # Errors
    /// The cluster has ended.
    pub async fn observe(&self, most: usize) -> io::Result<Observations> {
        let (watch, observations) = Watch::new();
        self.command(Command::Observe { most, watch })?;
        Ok(observations)
    }

    /// Breaks all connections and ends. Nothing listens any more when this returns.
    pub async fn shutdown(self) {
        let Self { commands, ended, .. } = self;
        // The driver ends with its last commander.
        drop(commands);
        // It says nothing; that it has gone is told by its absence.
        let _gone = ended.await;
    }

    fn command(&self, command: Command) -> io::Result<()> {
        self.commands.clone().try_send(command).map_err(|_| ended())
    }
}

impl<R> fmt::Debug for EmbeddedBroker<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedBroker")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// Every place where a node's address stands.
fn nodes_mut(config: &mut ClusterConfig) -> impl Iterator<Item = &mut PeerAddr> {
    let brokers = config.brokers.iter_mut();
    let replicas = brokers.flat_map(|broker| broker.replicas.values_mut());
    config.name_servers.iter_mut().chain(replicas)
}

fn socket_addr(addr: &PeerAddr) -> io::Result<SocketAddr> {
    let ip: IpAddr = addr.host().parse().map_err(|_| {
        let why = format!("{addr}: a node listens at an IP address");
        io::Error::new(io::ErrorKind::InvalidInput, why)
    })?;
    Ok(SocketAddr::new(ip, addr.port()))
}

/// The address that clients are told.
const fn reachable(ip: IpAddr) -> IpAddr {
    if ip.is_unspecified() {
        return IpAddr::V4(Ipv4Addr::LOCALHOST);
    }
    ip
}

fn ended() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "the cluster has ended")
}
