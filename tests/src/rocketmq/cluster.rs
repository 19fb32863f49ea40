//! A private name server and its brokers.

use std::ffi::OsString;
use std::path::Path;
use std::process::Output;
use std::thread;
use std::time::Duration;

use super::clock::Deadline;
use super::folder::{self, Folder};
use super::jvm::{Jvm, Recipe};
use super::server::{Role, START_LIMIT};
use super::{LaunchError, Server, TopicConfig, ports};

const GUARD: &str = "rocketmq.consumer.testing.Guard";
const NAME_SERVER: &str = "org.apache.rocketmq.namesrv.NamesrvStartup";
const BROKER: &str = "org.apache.rocketmq.broker.BrokerStartup";
const MQADMIN: &str = "org.apache.rocketmq.tools.command.MQAdminStartup";

/// Small heaps on few cores: the parallel collectors only cost threads.
const SMALL: &str = "-XX:+UseSerialGC";

/// Two seconds of every start would go into a key pair that no test uses. A broker that is to speak TLS gets
/// the JVM option `-Dtls.server.mode=permissive`.
const NO_TLS: &str = "-Dtls.server.mode=disabled";

/// The name every broker of ours gives for its cluster.
const CLUSTER_NAME: &str = "testing";
/// How often a start is tried on new ports when another process was quicker.
const PORT_TRIES: u32 = 5;
const ROUTE_LIMIT: Duration = Duration::from_secs(10);

/// Settings that make brokers small. They change sizes and addresses, never behaviour, but for one: topics
/// are not created by a typing error.
const BROKER_CONFIG: &[(&str, &str)] = &[
    ("brokerId", "0"),
    ("brokerIP1", "127.0.0.1"),
    ("brokerIP2", "127.0.0.1"),
    ("bindAddress", "127.0.0.1"),
    ("autoCreateTopicEnable", "false"),
    ("mappedFileSizeCommitLog", "67108864"),
    ("mappedFileSizeConsumeQueue", "600000"),
    ("mappedFileSizeTimerLog", "1048576"),
    ("maxHashSlotNum", "50000"),
    ("maxIndexNum", "200000"),
    // Test machines are often nearly full; the store refuses messages at 75 % by default.
    ("diskMaxUsedSpaceRatio", "95"),
];

/// A running cluster. `Drop` kills its processes and removes its folder; if the test is panicking, the folder
/// is kept and its path printed.
#[derive(Debug)]
pub struct Cluster {
    // In this order: the processes end before their folder is removed.
    brokers: Vec<Server>,
    name_server: Server,
    folder: Folder,
}

/// Says what cluster to start; see [`Cluster::builder`].
#[derive(Clone, Debug)]
#[must_use = "nothing happens before `start`"]
pub struct ClusterBuilder {
    brokers: usize,
    rooms: Vec<String>,
    config: Vec<(String, String)>,
    jvm_options: Vec<String>,
}

impl ClusterBuilder {
    /// Number of brokers, all masters: `broker-a`, `broker-b`, … One by default.
    pub fn brokers(mut self, count: usize) -> Self {
        self.brokers = count;
        self
    }

    /// One broker in each of these rooms: `room@broker-a`, and so on.
    pub fn rooms(mut self, rooms: &[&str]) -> Self {
        self.rooms = rooms.iter().map(|room| (*room).to_owned()).collect();
        self.brokers(rooms.len())
    }

    /// A setting of every broker, for example `messageDelayLevel`; replaces ours of the same name.
    pub fn broker_config(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.config.push((key.into(), value.into()));
        self
    }

    /// Heap of every broker: initial and most, as the JVM spells sizes. `256m` and `512m` by default.
    pub fn broker_heap(self, initial: &str, most: &str) -> Self {
        self.broker_jvm_option(format!("-Xms{initial}"))
            .broker_jvm_option(format!("-Xmx{most}"))
    }

    /// A further JVM option of every broker; later ones win. TLS, for example, is off to start quicker:
    /// `-Dtls.server.mode=permissive` makes brokers speak it with a certificate they make up. Before another
    /// garbage collector is chosen, ours is put away with `-XX:-UseSerialGC`.
    pub fn broker_jvm_option(mut self, option: impl Into<String>) -> Self {
        self.jvm_options.push(option.into());
        self
    }

    /// Starts everything and waits until each broker is listed and answers: about 5 seconds on an idle
    /// machine, and once per target directory the time Maven takes.
    ///
    /// # Errors
    /// When Java or Maven is missing, a process ends, or one is not ready within 90 seconds. Ports taken by
    /// somebody else are not an error: others are tried.
    pub fn start(self) -> Result<Cluster, LaunchError> {
        let folder = Folder::new("cluster")?;
        let name_server = on_free_ports(
            1,
            |port| self.launch_name_server(folder.path(), port),
            |server| server.wait_ready(START_LIMIT),
        )?;
        // All are launched before any is waited for; who lost its port then starts again alone.
        let (builder, home, address) = (&self, folder.path(), name_server.address());
        let mut launched = Vec::new();
        for index in 0..self.brokers {
            let launch = move |port| builder.launch_broker(home, index, address, port);
            launched.push((launch(ports::free(BROKER_PORTS)?)?, launch));
        }
        let mut brokers = Vec::new();
        for (first, launch) in launched {
            let mut first = Some(first);
            brokers.push(on_free_ports(
                BROKER_PORTS,
                |port| first.take().map_or_else(|| launch(port), Ok),
                |server| server.wait_ready(START_LIMIT),
            )?);
        }
        Ok(Cluster {
            brokers,
            name_server,
            folder,
        })
    }

    fn launch_name_server(&self, folder: &Path, port: u16) -> Result<Server, LaunchError> {
        let home = folder.join("name-server");
        folder::create(&home)?;
        let config = home.join("name-server.conf");
        folder::write(&config, &format!("listenPort={port}\nbindAddress=127.0.0.1\n"))?;
        let server = Server::new(
            Role::NameServer,
            format!("127.0.0.1:{port}"),
            Recipe {
                name: "name-server".into(),
                home,
                options: vec!["-Xms64m".into(), "-Xmx256m".into(), SMALL.into(), NO_TLS.into()],
                main: GUARD,
                arguments: vec![NAME_SERVER.into(), "-c".into(), config.into()],
            },
        );
        server.launch()?;
        Ok(server)
    }

    fn launch_broker(
        &self,
        folder: &Path,
        index: usize,
        name_server: &str,
        port: u16,
    ) -> Result<Server, LaunchError> {
        let name = match self.rooms.get(index) {
            Some(room) => format!("{room}@{}", broker_name(index)),
            None => broker_name(index),
        };
        let home = folder.join(&name);
        let store = home.join("store");
        folder::create(&store)?;
        let listen = port + FAST_PORT_BELOW;
        let own = [
            ("brokerClusterName", CLUSTER_NAME.to_owned()),
            ("brokerName", name.clone()),
            ("namesrvAddr", name_server.to_owned()),
            ("listenPort", listen.to_string()),
            ("haListenPort", (listen + 1).to_string()),
            ("storePathRootDir", store.display().to_string()),
            (
                "storePathCommitLog",
                store.join("commitlog").display().to_string(),
            ),
        ];
        let own = own.iter().map(|(key, value)| (*key, value.as_str()));
        let given = self
            .config
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()));
        // Java's properties: the last of equal keys counts.
        let text: String = BROKER_CONFIG
            .iter()
            .copied()
            .chain(own)
            .chain(given)
            .map(|(key, value)| format!("{key}={value}\n"))
            .collect();
        let config = home.join("broker.conf");
        folder::write(&config, &text)?;
        let mut options: Vec<String> = ["-Xms256m", "-Xmx512m", SMALL, NO_TLS].map(str::to_owned).into();
        options.extend(self.jvm_options.iter().cloned());
        let server = Server::new(
            Role::Broker {
                name_server: name_server.into(),
            },
            format!("127.0.0.1:{listen}"),
            Recipe {
                name,
                home,
                options,
                main: GUARD,
                arguments: vec![BROKER.into(), "-c".into(), config.into()],
            },
        );
        server.launch()?;
        Ok(server)
    }
}

/// A broker takes its port, the one two below (for sends), and one for replication, which is ours to choose.
const BROKER_PORTS: u16 = 4;
const FAST_PORT_BELOW: u16 = 2;

/// Launches on `count` free ports and waits; once more on others while the ports turn out to be taken.
fn on_free_ports(
    count: u16,
    mut launch: impl FnMut(u16) -> Result<Server, LaunchError>,
    wait: impl Fn(&Server) -> Result<(), LaunchError>,
) -> Result<Server, LaunchError> {
    let mut tries = 1;
    loop {
        let server = launch(ports::free(count)?)?;
        match wait(&server) {
            Ok(()) => return Ok(server),
            Err(LaunchError::Exited { log, .. }) if tries < PORT_TRIES && is_clash(&log) => tries += 1,
            Err(error) => return Err(error),
        }
    }
}

fn is_clash(log: &str) -> bool {
    ["BindException", "Address already in use", "Failed to bind"]
        .iter()
        .any(|sign| log.contains(sign))
}

fn broker_name(index: usize) -> String {
    let letter = u8::try_from(index)
        .ok()
        .and_then(|i| b'a'.checked_add(i))
        .filter(u8::is_ascii_lowercase);
    letter.map_or_else(
        || format!("broker-{index}"),
        |letter| format!("broker-{}", char::from(letter)),
    )
}

impl Cluster {
    /// A cluster of one broker with small files, unless told otherwise.
    pub fn builder() -> ClusterBuilder {
        ClusterBuilder {
            brokers: 1,
            rooms: Vec::new(),
            config: Vec::new(),
            jvm_options: Vec::new(),
        }
    }

    /// `127.0.0.1:port` of the name server, as clients want it.
    #[must_use]
    pub fn name_server(&self) -> &str {
        self.name_server.address()
    }

    /// The name server's process.
    #[must_use]
    pub fn name_server_process(&self) -> &Server {
        &self.name_server
    }

    /// A broker, counted from 0.
    ///
    /// # Panics
    /// When there are not that many.
    #[must_use]
    pub fn broker(&self, index: usize) -> &Server {
        self.brokers
            .get(index)
            .unwrap_or_else(|| panic!("broker {index} of {}", self.brokers.len()))
    }

    /// All brokers.
    #[must_use]
    pub fn brokers(&self) -> &[Server] {
        &self.brokers
    }

    /// Where stores and logs are: a folder per process, with `rocketmq.log` and `printed.log`.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Waits until every server answers and every broker is listed, for example after the name server was
    /// restarted; brokers that are not are told to register now.
    ///
    /// # Errors
    /// When one does not run, or is not ready within `limit`.
    pub fn wait_ready(&self, limit: Duration) -> Result<(), LaunchError> {
        let deadline = Deadline::after(limit);
        self.name_server.wait_ready(limit)?;
        self.brokers
            .iter()
            .try_for_each(|broker| broker.wait_ready(deadline.left()))
    }

    /// Creates a topic with so many queues on each given broker, and waits until the name server says so.
    ///
    /// # Errors
    /// When a broker refuses it, or the route does not show within 10 seconds.
    ///
    /// # Panics
    /// When there is no broker of a given index.
    pub fn create_topic(&self, name: &str, queues: &[(usize, u32)]) -> Result<(), LaunchError> {
        for (broker, queues) in queues {
            self.broker(*broker)
                .admin()?
                .create_topic(&TopicConfig::new(name, *queues))?;
        }
        let mut admin = self.name_server.admin()?;
        let deadline = Deadline::after(ROUTE_LIMIT);
        loop {
            let route = admin.route(name)?.unwrap_or_default();
            let is_listed = |(broker, queues): &(usize, u32)| {
                let broker = self.broker(*broker).name();
                route
                    .queues
                    .iter()
                    .any(|entry| entry.broker == broker && entry.read_queues == *queues)
            };
            if queues.iter().all(is_listed) {
                return Ok(());
            }
            if deadline.is_over() {
                return Err(LaunchError::Late {
                    process: format!("route of {name}"),
                    wanted: "complete",
                    limit: ROUTE_LIMIT,
                    log: format!("{route:?}"),
                });
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Runs a command of Apache RocketMQ's own tool against this cluster (`-n` is added): 1 to 7 seconds, so
    /// only for what [`AdminClient`](super::AdminClient) cannot do.
    ///
    /// # Errors
    /// When Java cannot be started. A command that fails says so in its output; its exit code is 0 all the same.
    pub fn mqadmin(&self, arguments: &[&str]) -> Result<Output, LaunchError> {
        let home = self.folder.path().join("mqadmin");
        folder::create(&home)?;
        let mut all: Vec<OsString> = vec![MQADMIN.into()];
        all.extend(arguments.iter().map(OsString::from));
        all.extend(["-n".into(), self.name_server().into()]);
        let recipe = Recipe {
            name: "mqadmin".into(),
            home,
            options: Vec::new(),
            main: GUARD,
            arguments: all,
        };
        Jvm::output(recipe.command()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broker_names_go_on_after_the_alphabet() {
        for (index, name) in [
            (0, "broker-a"),
            (25, "broker-z"),
            (26, "broker-26"),
            (300, "broker-300"),
        ] {
            assert_eq!(broker_name(index), name);
        }
    }
}
