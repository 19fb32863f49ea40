//! Asks a cluster what is not consuming: for every command that is no member of a group.

use std::time::Duration;

use rocketmq_consumer_core::ids::{PeerAddr, Topic};
use rocketmq_consumer_core::wire::code::ResponseCode;
use rocketmq_consumer_core::wire::request::Request;
use rocketmq_consumer_core::wire::request::route::{BrokerData, MASTER_ID, RouteRequest, TopicRoute};
use rocketmq_consumer_tokio::{CallError, Client, ClientBuilder, ClientId, StartError, Target, TokioRuntime};

use crate::consume::Trouble;
use crate::exit::{Exit, Failure};
use crate::settings::Settings;

/// How long a server may take to answer, connecting included. What Java gives a send.
const TIMEOUT: Duration = Duration::from_secs(3);

/// The pause before name servers that did not answer are asked again.
const PAUSE: Duration = Duration::from_millis(200);

/// The name servers and, through them, the brokers.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    client: Client,
    name_servers: Vec<PeerAddr>,
    connect_timeout: Option<Duration>,
}

impl Cluster {
    /// Gets ready; nothing is contacted before something is asked.
    ///
    /// # Errors
    /// No name server is known, or a setting makes no sense.
    pub(crate) async fn new(mut settings: Settings) -> Result<Self, Failure> {
        let name_servers = settings.take_name_servers()?;
        let list: Vec<_> = name_servers.iter().map(ToString::to_string).collect();
        let map = settings.address_map;
        let client = ClientBuilder::new(TokioRuntime::new())
            .name_server(list.join(";"))
            .client_config(move |config| config.set_address_map(map))
            .start()
            .await
            .map_err(refused)?;
        Ok(Self {
            client,
            name_servers,
            connect_timeout: settings.connect_timeout,
        })
    }

    /// This client's id.
    pub(crate) fn client_id(&self) -> &ClientId {
        self.client.client_id()
    }

    /// Asks one server.
    ///
    /// # Errors
    /// Why there is no answer.
    pub(crate) async fn ask<Q: Request>(&self, addr: &PeerAddr, request: &Q) -> Result<Q::Answer, CallError> {
        self.ask_within(TIMEOUT, addr, request).await
    }

    /// Asks one server that may take so long.
    ///
    /// # Errors
    /// Why there is no answer.
    pub(crate) async fn ask_within<Q: Request>(
        &self,
        timeout: Duration,
        addr: &PeerAddr,
        request: &Q,
    ) -> Result<Q::Answer, CallError> {
        let target = Target::Address(addr.clone());
        self.client.ask(target, request, timeout).await
    }

    /// The route of a topic, or nothing when no name server knows it.
    ///
    /// # Errors
    /// As [`Cluster::ask_name_servers`].
    pub(crate) async fn route(&self, topic: &Topic) -> Result<Option<TopicRoute>, Failure> {
        let request = RouteRequest {
            topic: topic.clone(),
            standard_json: true,
        };
        self.ask_name_servers(&request).await
    }

    /// What the first name server says that knows the topic in question, or nothing when none does. Name
    /// servers that do not answer are asked again for as long as `--connect-timeout` allows.
    ///
    /// # Errors
    /// None of them answered in time, or one refuses.
    pub(crate) async fn ask_name_servers<Q: Request>(
        &self,
        request: &Q,
    ) -> Result<Option<Q::Answer>, Failure> {
        let asking = async {
            loop {
                if let Some(answer) = self.ask_name_servers_once(request).await? {
                    return Ok(answer);
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        let Some(limit) = self.connect_timeout else {
            return asking.await;
        };
        match tokio::time::timeout(limit, asking).await {
            Ok(result) => result,
            Err(_) => Err(self.unreachable().await),
        }
    }

    /// The outer `None`: none answered.
    async fn ask_name_servers_once<Q: Request>(
        &self,
        request: &Q,
    ) -> Result<Option<Option<Q::Answer>>, Failure> {
        let mut answered = None;
        for server in &self.name_servers {
            match self.ask(server, request).await {
                Ok(answer) => return Ok(Some(Some(answer))),
                Err(error) if is_refused_with(&error, ResponseCode::TOPIC_NOT_EXIST) => answered = Some(None),
                Err(error) if nobody_answered(&error) => {}
                Err(error) => return Err(self.failure(server, &error).await),
            }
        }
        Ok(answered)
    }

    async fn unreachable(&self) -> Failure {
        let mut tried = Vec::new();
        for server in &self.name_servers {
            tried.push(format!("{server}: {}", self.trouble(server).await));
        }
        Failure::new(
            Exit::CannotConnect,
            format_args!(
                "no name server answered in time: {}; check --name-server",
                tried.join("; ")
            ),
        )
    }

    /// How a command ends that cannot go on without this answer.
    pub(crate) async fn failure(&self, addr: &PeerAddr, error: &CallError) -> Failure {
        if let CallError::Connect(_) = error {
            let trouble = self.trouble(addr).await;
            return Failure::new(
                Exit::CannotConnect,
                format_args!("cannot connect to {addr}: {trouble}; --address-map replaces addresses"),
            );
        }
        failure(addr, error)
    }

    /// The same for a request of this kind: not every broker knows every request.
    pub(crate) async fn failure_of<Q: Request>(&self, addr: &PeerAddr, error: &CallError) -> Failure {
        if is_refused_with(error, ResponseCode::REQUEST_CODE_NOT_SUPPORTED) {
            return Failure::failed(format_args!(
                "{addr} does not answer request {}: it is older than the request, or no broker of Java's",
                Q::CODE
            ));
        }
        self.failure(addr, error).await
    }

    /// Asks one server something the command cannot do without.
    ///
    /// # Errors
    /// How the command ends without the answer.
    pub(crate) async fn demand<Q: Request>(
        &self,
        addr: &PeerAddr,
        request: &Q,
    ) -> Result<Q::Answer, Failure> {
        match self.ask(addr, request).await {
            Ok(answer) => Ok(answer),
            Err(error) => Err(self.failure_of::<Q>(addr, &error).await),
        }
    }

    /// The name servers.
    pub(crate) fn name_servers(&self) -> &[PeerAddr] {
        &self.name_servers
    }

    /// What is wrong with the link to a server, in words.
    pub(crate) async fn trouble(&self, addr: &PeerAddr) -> String {
        let status = self.client.status().await.ok();
        let link = status
            .iter()
            .flat_map(|status| &status.links)
            .find(|link| link.addr == *addr);
        match link.and_then(|link| link.trouble) {
            Some(trouble) => Trouble(trouble).to_string(),
            None => "no answer".into(),
        }
    }

    /// Closes all connections.
    pub(crate) async fn close(&self) {
        self.client.shutdown(Duration::ZERO).await;
    }
}

/// Where the master of a broker listens, if the route names one that makes sense.
pub(crate) fn master(broker: &BrokerData) -> Option<PeerAddr> {
    broker.addresses.get(&MASTER_ID)?.parse().ok()
}

/// Whether an error means that the server was not heard at all.
pub(crate) const fn nobody_answered(error: &CallError) -> bool {
    matches!(
        error,
        CallError::NoRoute | CallError::Connect(_) | CallError::Timeout | CallError::Closed
    )
}

fn failure(addr: &PeerAddr, error: &CallError) -> Failure {
    let exit = if nobody_answered(error) {
        Exit::CannotConnect
    } else if is_refused_with(error, ResponseCode::NO_PERMISSION) {
        Exit::NotPermitted
    } else {
        Exit::Failed
    };
    Failure::new(exit, Answered { addr, error })
}

/// An answer that is none, in words.
struct Answered<'a> {
    addr: &'a PeerAddr,
    error: &'a CallError,
}

impl std::fmt::Display for Answered<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { addr, error } = self;
        match refusal(error) {
            Some((code, remark)) => write!(f, "{addr} refused with {code}: {}", brief(remark)),
            None => write!(f, "{addr}: {error}"),
        }
    }
}

/// Whether a server refused with this code.
pub(crate) fn is_refused_with(error: &CallError, code: ResponseCode) -> bool {
    refusal(error).is_some_and(|(refused, _)| refused == code)
}

/// What a server answered in place of what was asked for.
fn refusal(error: &CallError) -> Option<(ResponseCode, &str)> {
    if let CallError::Broker { code, remark } = error {
        return Some((ResponseCode(*code), remark));
    }
    None
}

/// A broker's words without the Java stack that often follows them.
fn brief(remark: &str) -> &str {
    const MOST: usize = 200;
    let line = remark.lines().next().unwrap_or_default();
    let line = line.split(", org.apache.").next().unwrap_or_default();
    match line.char_indices().nth(MOST) {
        Some((end, _)) => line.get(..end).unwrap_or_default(),
        None => line,
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "what is not about settings is a failure"
)]
fn refused(error: StartError) -> Failure {
    match error {
        StartError::Config(error) => Failure::usage(format_args!("{}: {}", error.key, error.why)),
        other => Failure::failed(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_tells_silence_from_refusal() {
        let addr = PeerAddr::new("a", 1);
        let broker = |code, remark: &str| CallError::Broker {
            code,
            remark: remark.into(),
        };
        let table = [
            (CallError::Timeout, Exit::CannotConnect, "a:1: no answer in time"),
            (
                broker(16, "no way"),
                Exit::NotPermitted,
                "a:1 refused with 16 (NO_PERMISSION): no way",
            ),
            (
                broker(1, "boom, org.apache.rocketmq.X.y\nat z"),
                Exit::Failed,
                "a:1 refused with 1 (SYSTEM_ERROR): boom",
            ),
        ];
        for (error, exit, message) in table {
            assert_eq!(failure(&addr, &error), Failure::new(exit, message));
        }
    }

    #[test]
    fn a_long_remark_is_cut_between_characters() {
        let remark = "é".repeat(201);
        assert_eq!(brief(&remark), "é".repeat(200));
    }
}
