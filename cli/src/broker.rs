//! `broker`: the embedded broker on ports of its own, until somebody ends it.

use std::str::FromStr;

use rocketmq_consumer_core::config::check_topic_name;
use rocketmq_consumer_core::ids::PeerAddr;
use rocketmq_consumer_tokio::broker::{ClusterConfig, EmbeddedBroker};

use crate::args::BrokerArgs;
use crate::exit::{Exit, Failure};
use crate::output::Lines;
use crate::signals;
use crate::talk::{Level, Talk};

/// Queues of a topic on each broker, unless told otherwise.
const QUEUES: u32 = 4;

/// Runs the command.
///
/// # Errors
/// Something else listens at an address, or an argument makes no sense.
pub(crate) fn run(args: &BrokerArgs, talk: Talk) -> Result<Exit, Failure> {
    let config = config(args)?;
    signals::run(async |mut signals| {
        let broker = EmbeddedBroker::start_at(config).await.map_err(|error| {
            Failure::failed(format_args!("cannot listen: {error}; port 0 takes a free one"))
        })?;
        announce(&broker, talk)?;
        let signal = signals.next().await;
        broker.shutdown().await;
        Ok(signal.into())
    })
}

/// Says where it listens: for scripts, once clients may come.
fn announce(broker: &EmbeddedBroker, talk: Talk) -> Result<(), Failure> {
    for of in &broker.config().brokers {
        for addr in of.replicas.values() {
            talk.say(Level::Info, format_args!("{} listens at {addr}", of.name));
        }
    }
    let mut lines = Lines::stdout();
    lines.text(&format!("NAMESRV_ADDR={}\n", broker.name_server()))?;
    lines.finish()
}

fn config(args: &BrokerArgs) -> Result<ClusterConfig, Failure> {
    let mut config = ClusterConfig::with_brokers(args.listen.len());
    let addresses = config
        .brokers
        .iter_mut()
        .flat_map(|broker| broker.replicas.values_mut());
    for (addr, ListenAddr(listen)) in addresses.zip(&args.listen) {
        addr.clone_from(listen);
    }
    let ListenAddr(name_server) = &args.name_server_listen;
    config.name_servers = vec![name_server.clone()];
    for topic in &args.topic {
        check_topic_name(&topic.name)
            .map_err(|error| Failure::usage(format_args!("--topic: {}", error.why)))?;
        config = config.topic(&topic.name, topic.queues);
    }
    Ok(config)
}

/// Where a node listens: an address whose port may be 0, a free one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListenAddr(PeerAddr);

impl FromStr for ListenAddr {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let addr: std::net::SocketAddr = text
            .parse()
            .map_err(|_| "write IP:PORT, for instance 127.0.0.1:10911; port 0 takes a free one")?;
        Ok(Self(PeerAddr::new(addr.ip().to_string(), addr.port())))
    }
}

/// A topic and how many queues it has on each broker: an item of `--topic`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TopicQueues {
    name: String,
    queues: u32,
}

impl FromStr for TopicQueues {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const MOST: u32 = 1_024;
        let (name, queues) = match text.split_once(':') {
            None => (text, Some(QUEUES)),
            Some((name, queues)) => (name, queues.parse().ok()),
        };
        let queues = queues.filter(|queues| (1..=MOST).contains(queues));
        let queues = queues.ok_or_else(|| format!("write TOPIC or TOPIC:QUEUES, with 1 to {MOST} queues"))?;
        Ok(Self {
            name: name.into(),
            queues,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command};

    fn made_of(args: &[&str]) -> Result<ClusterConfig, Failure> {
        let args = [&["rocketcat", "broker"], args].concat();
        let Command::Broker(args) = Cli::try_parse_from(args).unwrap().command else {
            panic!("broker");
        };
        config(&args)
    }

    #[test]
    fn each_address_is_a_broker() {
        let plain = made_of(&[]).unwrap();
        assert_eq!(plain.name_servers, [PeerAddr::new("127.0.0.1", 9876)]);
        let addrs = |config: &ClusterConfig| -> Vec<String> {
            let of = |broker: &rocketmq_consumer_tokio::broker::BrokerConfig| {
                let addrs: Vec<_> = broker.replicas.values().map(ToString::to_string).collect();
                format!("{} {}", broker.name, addrs.join(" "))
            };
            config.brokers.iter().map(of).collect()
        };
        assert_eq!(addrs(&plain), ["broker-a 127.0.0.1:10911"]);
        let two = made_of(&[
            "--listen",
            "127.0.0.1:0",
            "--listen",
            "[::1]:7",
            "--topic",
            "a:8",
            "--topic",
            "b",
        ]);
        let two = two.unwrap();
        assert_eq!(addrs(&two), ["broker-a 127.0.0.1:0", "broker-b [::1]:7"]);
        let topics: Vec<_> = two
            .topics
            .iter()
            .map(|topic| (topic.name.as_str(), topic.write_queues))
            .collect();
        assert_eq!(topics, [("a", 8), ("b", QUEUES)]);
    }

    #[test]
    fn topics_and_addresses_are_checked() {
        for text in ["a:0", "a:x", "a:1025", "a:-1", "a:"] {
            assert!(text.parse::<TopicQueues>().is_err(), "{text}");
        }
        for text in ["", "localhost:1", "127.0.0.1", "127.0.0.1:65536"] {
            assert!(text.parse::<ListenAddr>().is_err(), "{text}");
        }
        let failure = made_of(&["--topic", "no topic"]).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
    }
}
