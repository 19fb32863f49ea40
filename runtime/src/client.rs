mod request;

use std::sync::Arc;
use std::time::Duration;

use futures_channel::oneshot;
use rocketmq_consumer_core::action::{CallAnswer, CallError};
use rocketmq_consumer_core::config::{ClientConfig, ConfigError};
use rocketmq_consumer_core::consumer::ConsumerState;
use rocketmq_consumer_core::event::{AppEvent, Call, Target};
use rocketmq_consumer_core::ids::{CallId, ClientId, PeerAddr};
use rocketmq_consumer_core::status::Status;
use rocketmq_consumer_core::step::Seed;
use rocketmq_consumer_core::wire::request as wire;

use crate::client_id;
use crate::driver::{Command, Driver, Inbox, Parts};
use crate::error::{Closed, StartError};
use crate::machine::Machine;
use crate::notices::{NoticeHub, Notices};
use crate::record::Recorder;
use crate::runtime::Runtime;
use crate::typed;

pub use request::Request;

/// One client instance: connections, routes and heartbeats that any number of consumer groups share,
/// carried by one task.
///
/// A clone is the same client. It ends with [`Client::shutdown`], or when the last clone and the last
/// consumer on it are gone; then without a drain.
#[derive(Clone)]
pub struct Client<R: Runtime> {
    shared: Arc<Shared<R>>,
}

struct Shared<R> {
    runtime: R,
    client_id: ClientId,
    inbox: Arc<Inbox>,
    notices: Arc<NoticeHub>,
}

impl<R> Drop for Shared<R> {
    fn drop(&mut self) {
        self.inbox.push(Command::Shutdown {
            drain: Duration::ZERO,
            reply: None,
        });
    }
}

impl<R: Runtime + Default> Client<R> {
    /// A client on the runtime's default.
    pub fn builder() -> ClientBuilder<R> {
        ClientBuilder::new(R::default())
    }
}

impl<R: Runtime> Client<R> {
    /// Starts a driver for a machine.
    pub(crate) fn carry<M: Machine>(
        runtime: R,
        client_id: ClientId,
        machine: M,
        recorder: Option<Box<dyn Recorder>>,
        frame_len_max: u32,
    ) -> Self {
        let (inbox, notices) = (Arc::<Inbox>::default(), Arc::<NoticeHub>::default());
        let parts = Parts {
            runtime: runtime.clone(),
            machine,
            inbox: Arc::clone(&inbox),
            notices: Arc::clone(&notices),
            recorder,
            frame_len_max,
        };
        runtime.spawn(Driver::new(parts).run());
        Self {
            shared: Arc::new(Shared {
                runtime,
                client_id,
                inbox,
                notices,
            }),
        }
    }

    /// This member's id, as brokers and other members see it.
    #[must_use]
    pub fn client_id(&self) -> &ClientId {
        &self.shared.client_id
    }

    /// Asks a name server or a broker something that is not consuming.
    ///
    /// # Errors
    /// Why there is no answer; [`CallError::is_retryable`] tells whether asking again may help.
    pub async fn call(&self, to: Target, request: Request) -> Result<CallAnswer, CallError> {
        self.send(to, request).await?.accept()
    }

    /// Asks with one of the typed requests of [`core::wire::request`](crate::core::wire::request),
    /// and waits up to `timeout` for the answer, connecting included.
    ///
    /// Codes that are an answer and no refusal, such as "nothing is stored" to a question for an offset,
    /// are read as such.
    ///
    /// # Errors
    /// Why there is no answer; [`CallError::is_retryable`] tells whether asking again may help.
    pub async fn ask<Q: wire::Request>(
        &self,
        to: Target,
        request: &Q,
        timeout: Duration,
    ) -> Result<Q::Answer, CallError> {
        typed::read::<Q>(self.send(to, typed::write(request)?.timeout(timeout)).await?)
    }

    /// Whatever the peer answers is an answer.
    async fn send(&self, to: Target, request: Request) -> Result<CallAnswer, CallError> {
        let Request {
            code,
            fields,
            body,
            timeout,
        } = request;
        // The driver numbers calls; this id is never seen.
        let call = Call {
            id: CallId(0),
            to,
            code,
            fields: fields.into(),
            body,
            timeout,
        };
        self.command(|reply| Command::Call {
            call: Box::new(call),
            reply,
        })
        .await
        .unwrap_or(Err(CallError::Closed))
    }

    /// What the client knows about itself: links, topics, groups, queues and why they do not move.
    ///
    /// # Errors
    /// [`Closed`] after the end.
    pub async fn status(&self) -> Result<Status, Closed> {
        self.command(|reply| Command::Status { reply }).await
    }

    /// Notices of all groups of this client and of the client itself.
    #[must_use]
    pub fn notices(&self) -> Notices {
        self.shared.notices.listen()
    }

    /// Replaces the name servers, for all groups of this client.
    pub fn set_name_servers(&self, servers: impl IntoIterator<Item = PeerAddr>) {
        let servers = servers.into_iter().collect();
        self.shared
            .inbox
            .push(Command::App(AppEvent::NameServers(servers)));
    }

    /// Stops every group, waiting up to `drain` for running handlers, and closes all connections.
    /// Once it is closed, further calls return at once.
    pub async fn shutdown(&self, drain: Duration) {
        let _already = self
            .command(|reply| Command::Shutdown {
                drain,
                reply: Some(reply),
            })
            .await;
    }

    pub(crate) fn runtime(&self) -> &R {
        &self.shared.runtime
    }

    pub(crate) fn inbox(&self) -> &Arc<Inbox> {
        &self.shared.inbox
    }

    /// Sends a command that is answered.
    pub(crate) async fn command<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T, Closed> {
        let (reply, answer) = oneshot::channel();
        self.shared.inbox.push(command(reply));
        answer.await.map_err(|oneshot::Canceled| Closed)
    }
}

impl<R: Runtime> std::fmt::Debug for Client<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("client_id", self.client_id())
            .finish_non_exhaustive()
    }
}

type ClientSetting = Box<dyn FnOnce(&mut ClientConfig) + Send>;

/// Settings of a [`Client`].
#[must_use = "a builder does nothing until it is started"]
pub struct ClientBuilder<R> {
    runtime: R,
    name_servers: Vec<String>,
    client_id: Option<ClientId>,
    instance_name: Option<String>,
    settings: Vec<ClientSetting>,
    recorder: Option<Box<dyn Recorder>>,
}

impl<R: Runtime> ClientBuilder<R> {
    /// Defaults on a runtime.
    pub const fn new(runtime: R) -> Self {
        Self {
            runtime,
            name_servers: Vec::new(),
            client_id: None,
            instance_name: None,
            settings: Vec::new(),
            recorder: None,
        }
    }

    /// Adds name servers: `host:port`, several separated by `;` (not by commas), without `http://`. Without
    /// any, the environment variable `NAMESRV_ADDR` names them.
    pub fn name_server(mut self, list: impl Into<String>) -> Self {
        self.name_servers.push(list.into());
        self
    }

    /// Sets the whole client id. Default: `<local ip>@<process id>#<unique>`, new with every start.
    ///
    /// It must be unique among all members of the groups; a restarted process with its old id is taken
    /// for its predecessor until the broker has noticed that the old socket is dead.
    pub fn client_id(mut self, id: impl Into<ClientId>) -> Self {
        self.client_id = Some(id.into());
        self
    }

    /// Sets the stable part of the client id: `<local ip>@<instance name>#<unique>` (`instanceName`).
    ///
    /// It also names what groups that broadcast keep of their offsets, so it has to be the same after a restart.
    /// Default there: `DEFAULT`.
    pub fn instance_name(mut self, name: impl Into<String>) -> Self {
        self.instance_name = Some(name.into());
        self
    }

    /// Reaches every setting: `.client_config(|c| c.set_dial_timeout(…).set_request_timeout(…))`.
    pub fn client_config(
        mut self,
        set: impl FnOnce(&mut ClientConfig) -> &mut ClientConfig + Send + 'static,
    ) -> Self {
        self.settings.push(Box::new(|config| {
            set(config);
        }));
        self
    }

    /// Writes down everything that goes into and comes out of the machine.
    pub fn record(mut self, recorder: Box<dyn Recorder>) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// Starts the client; nothing connects before a group or a call wants it.
    ///
    /// # Errors
    /// [`StartError::Config`] names the setting that cannot be used.
    pub async fn start(self) -> Result<Client<R>, StartError> {
        let (now, wall) = (self.runtime.now(), self.runtime.wall());
        let mut config = self.base_config()?;
        let Self {
            runtime,
            settings,
            mut recorder,
            ..
        } = self;
        for set in settings {
            set(&mut config);
        }
        config.check()?;
        let seed = Seed(client_id::entropy(wall));
        if let Some(recorder) = &mut recorder {
            recorder.start(&config, seed, now, wall);
        }
        let (client_id, frame_len_max) = (config.client_id().clone(), *config.frame_len_max());
        let machine = ConsumerState::new(config, seed, now, wall)?;
        Ok(Client::carry(
            runtime,
            client_id,
            machine,
            recorder,
            frame_len_max,
        ))
    }

    /// The first setting that was made here, if any.
    pub(crate) fn first_setting(&self) -> Option<&'static str> {
        [
            (!self.name_servers.is_empty(), "name_server"),
            (self.client_id.is_some(), "client_id"),
            (self.instance_name.is_some(), "instance_name"),
            (!self.settings.is_empty(), "client_config"),
            (self.recorder.is_some(), "record"),
        ]
        .into_iter()
        .find_map(|(set, name)| set.then_some(name))
    }

    fn base_config(&self) -> Result<ClientConfig, ConfigError> {
        let from_environment = || std::env::var("NAMESRV_ADDR").into_iter().collect::<Vec<_>>();
        let servers = if self.name_servers.is_empty() {
            parse_name_servers(&from_environment())
        } else {
            parse_name_servers(&self.name_servers)
        }?;
        let id = self.client_id.clone().unwrap_or_else(|| {
            client_id::unique(self.instance_name.as_deref(), &servers, self.runtime.wall())
        });
        let mut config = ClientConfig::new(id, servers);
        if let Some(name) = &self.instance_name {
            config.set_instance(name.clone());
        }
        Ok(config)
    }
}

impl<R> std::fmt::Debug for ClientBuilder<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("name_servers", &self.name_servers)
            .field("client_id", &self.client_id)
            .field("instance_name", &self.instance_name)
            .finish_non_exhaustive()
    }
}

fn parse_name_servers(lists: &[String]) -> Result<Vec<PeerAddr>, ConfigError> {
    let texts = lists
        .iter()
        .flat_map(|list| list.split(';'))
        .map(str::trim)
        .filter(|text| !text.is_empty());
    texts
        .map(|text| {
            let parsed: Result<PeerAddr, _> = text.parse();
            parsed.map_err(|error| ConfigError {
                key: "name_server",
                why: format!("{text:?}: {error}"),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests;
