//! Settings from all their sources: flag, environment, file, default, in this order.

use std::time::Duration;

use rocketmq_consumer_core::ids::PeerAddr;

use crate::args::{AddressPair, GlobalArgs, NameServers};
use crate::config_file::{ConfigFile, ConsumeSection};
use crate::exit::Failure;
use crate::talk::{LogFormat, Talk};

/// How long to wait for the first answer of a cluster, unless told otherwise.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// What holds for every command.
#[derive(Debug, PartialEq)]
pub(crate) struct Settings {
    /// Name servers, none if nobody named one; or what is wrong with their list. A command that asks
    /// no server does not care what the environment says.
    pub(crate) name_servers: Result<Vec<PeerAddr>, String>,
    /// Addresses to reach brokers at: `(registered, reachable)`.
    pub(crate) address_map: Vec<(PeerAddr, PeerAddr)>,
    /// How long to wait for the first answer; `None` for ever.
    pub(crate) connect_timeout: Option<Duration>,
    /// What the file says about `consume`.
    pub(crate) consume: ConsumeSection,
    log_format: LogFormat,
}

impl Settings {
    /// Reads the file, if one is named, and lets flags and the environment override it.
    ///
    /// # Errors
    /// The file cannot be used.
    pub(crate) fn gather(args: &GlobalArgs) -> Result<Self, Failure> {
        let file = match &args.config {
            Some(path) => ConfigFile::read(path)?,
            None => ConfigFile::default(),
        };
        Ok(Self::merge(args, file))
    }

    fn merge(args: &GlobalArgs, file: ConfigFile) -> Self {
        // An empty variable is the way of many environments to unset one.
        let named = args.name_server.as_deref().filter(|list| !list.trim().is_empty());
        let servers = named.map(str::parse).transpose();
        let pairs = if args.address_map.is_empty() {
            file.address_map
        } else {
            args.address_map.clone()
        };
        let timeout = args
            .connect_timeout
            .or(file.connect_timeout)
            .unwrap_or(CONNECT_TIMEOUT);
        Self {
            name_servers: servers.map(|servers| {
                let servers = servers.or(file.name_server);
                servers.map_or_else(Vec::new, |NameServers(servers)| servers)
            }),
            address_map: pairs
                .into_iter()
                .map(|AddressPair(from, to)| (from, to))
                .collect(),
            connect_timeout: Some(timeout).filter(|timeout| !timeout.is_zero()),
            consume: file.consume,
            log_format: args.log_format.or(file.log_format).unwrap_or_default(),
        }
    }

    /// Takes the name servers, for a command that cannot do without.
    ///
    /// # Errors
    /// Nobody named one, or what was named makes no sense.
    pub(crate) fn take_name_servers(&mut self) -> Result<Vec<PeerAddr>, Failure> {
        let servers = std::mem::replace(&mut self.name_servers, Ok(Vec::new()))
            .map_err(|why| Failure::usage(format_args!("-n or NAMESRV_ADDR: {why}")))?;
        if servers.is_empty() {
            return Err(Failure::usage(
                "no name server is known; give -n HOST:PORT or set NAMESRV_ADDR",
            ));
        }
        Ok(servers)
    }

    /// The mouth to talk with.
    pub(crate) fn talk(&self, args: &GlobalArgs) -> Talk {
        Talk::of_flags(args, self.log_format)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> GlobalArgs {
        GlobalArgs {
            name_server: None,
            address_map: Vec::new(),
            connect_timeout: None,
            config: None,
            quiet: false,
            verbose: 0,
            log_format: None,
        }
    }

    #[test]
    fn flags_override_the_file_and_the_file_the_defaults() {
        let defaults = Settings::merge(&args(), ConfigFile::default());
        assert_eq!(defaults.connect_timeout, Some(CONNECT_TIMEOUT));
        assert_eq!(defaults.name_servers, Ok(Vec::new()));

        let file = || ConfigFile {
            name_server: Some("file:1".parse().unwrap()),
            connect_timeout: Some(Duration::from_secs(7)),
            ..ConfigFile::default()
        };
        let from_file = Settings::merge(&args(), file());
        assert_eq!(from_file.name_servers, Ok(vec![PeerAddr::new("file", 1)]));
        assert_eq!(from_file.connect_timeout, Some(Duration::from_secs(7)));

        let flags = GlobalArgs {
            name_server: Some("flag:1".into()),
            connect_timeout: Some(Duration::ZERO),
            ..args()
        };
        let from_flags = Settings::merge(&flags, file());
        assert_eq!(from_flags.name_servers, Ok(vec![PeerAddr::new("flag", 1)]));
        assert_eq!(from_flags.connect_timeout, None, "0 waits for ever");

        let blank = GlobalArgs {
            name_server: Some(" ".into()),
            ..args()
        };
        assert_eq!(
            Settings::merge(&blank, file()).name_servers,
            from_file.name_servers
        );
    }
}
