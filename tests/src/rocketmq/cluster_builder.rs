//! What cluster to start, and how.

use std::path::Path;

use super::folder::{self, Folder};
use super::jvm::Recipe;
use super::server::{Role, START_LIMIT};
use super::{Cluster, LaunchError, Server, Version, ports};

pub(crate) const GUARD: &str = "rocketmq.consumer.testing.Guard";
const NAME_SERVER: &str = "org.apache.rocketmq.namesrv.NamesrvStartup";
const BROKER: &str = "org.apache.rocketmq.broker.BrokerStartup";

/// Small heaps on few cores: the parallel collectors only cost threads.
const SMALL: &str = "-XX:+UseSerialGC";

/// Two seconds of every start would go into a key pair that no test uses. A broker that is to speak TLS gets
/// the JVM option `-Dtls.server.mode=permissive`.
const NO_TLS: &str = "-Dtls.server.mode=disabled";

/// The name every broker of ours gives for its cluster.
const CLUSTER_NAME: &str = "testing";
/// How often a start is tried on new ports when another process was quicker.
const PORT_TRIES: u32 = 5;

/// Settings that make brokers small. They change sizes and addresses, never behaviour, but for one: topics
/// are not created by a typing error.
const BROKER_CONFIG: &[(&str, &str)] = &[
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

/// Says what cluster to start; see [`Cluster::builder`].
#[derive(Clone, Debug)]
#[must_use = "nothing happens before `start`"]
pub struct ClusterBuilder {
    version: Version,
    brokers: usize,
    rooms: Vec<String>,
    slaves: Option<Replication>,
    config: Vec<(String, String)>,
    jvm_options: Vec<String>,
}

/// What a master waits for before it acknowledges a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replication {
    /// Its slave has the message too (`SYNC_MASTER`). Without a slave it says after 3 seconds that it has not.
    Sync,
    /// Nothing (`ASYNC_MASTER`): what its slave has not copied when it dies is not there before it is back.
    Async,
}

impl Replication {
    /// What a master is told. Since 5.0 a synchronous one waits for as many copies as it is told, its own
    /// included, and that is 1 by default; earlier ones do not know the setting.
    const fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Sync => &[("brokerRole", "SYNC_MASTER"), ("inSyncReplicas", "2")],
            Self::Async => &[("brokerRole", "ASYNC_MASTER")],
        }
    }
}

/// Since 5.0 a slave refuses every pull unless it is told not to.
const SLAVE: &[(&str, &str)] = &[("brokerRole", "SLAVE"), ("slaveReadEnable", "true")];

/// Where a broker stands among those of its name.
#[derive(Clone, Copy, Debug)]
struct Place {
    index: usize,
    /// 0 is the master.
    id: u8,
}

impl ClusterBuilder {
    pub(crate) fn new() -> Self {
        Self {
            version: Version::from_env(),
            brokers: 1,
            rooms: Vec::new(),
            slaves: None,
            config: Vec::new(),
            jvm_options: Vec::new(),
        }
    }

    /// The release of name server and brokers; by default what `ROCKETMQ_VERSION` says, else
    /// [`Version::CURRENT`]. Java clients and `mqadmin` are always of the latter. Before 5.0 the servers listen on
    /// every interface: `bindAddress` is younger.
    pub fn version(mut self, version: Version) -> Self {
        self.version = version;
        self
    }

    /// Gives every broker a slave with a store of its own, see [`Cluster::slave`]. It answers pulls; that it has
    /// begun to copy is not waited for.
    pub fn slaves(mut self, replication: Replication) -> Self {
        self.slaves = Some(replication);
        self
    }

    /// Number of masters: `broker-a`, `broker-b`, … One by default.
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
        let (brokers, slaves) = self.start_brokers(folder.path(), name_server.address())?;
        Ok(Cluster {
            brokers,
            slaves,
            name_server,
            folder,
            version: self.version,
        })
    }

    /// All are launched before any is waited for; who lost its port then starts again alone.
    fn start_brokers(&self, home: &Path, address: &str) -> Result<(Vec<Server>, Vec<Server>), LaunchError> {
        let masters = (0..self.brokers).map(|index| Place { index, id: 0 });
        let slaves = (0..self.brokers).map(|index| Place { index, id: 1 });
        let slaves = slaves.filter(|_| self.slaves.is_some());
        let mut launched = Vec::new();
        for place in masters.chain(slaves) {
            let launch = move |port| self.launch_broker(home, place, address, port);
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
        let slaves = brokers.split_off(self.brokers);
        Ok((brokers, slaves))
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
                version: self.version,
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
        place: Place,
        name_server: &str,
        port: u16,
    ) -> Result<Server, LaunchError> {
        let broker = self.broker_name(place.index);
        let name = match place.id {
            0 => broker.clone(),
            _ => format!("{broker}-slave"),
        };
        let home = folder.join(&name);
        folder::create(&home.join("store"))?;
        let listen = port + FAST_PORT_BELOW;
        let config = home.join("broker.conf");
        folder::write(&config, &self.broker_conf(&home, place, name_server, listen))?;
        let mut options: Vec<String> = ["-Xms256m", "-Xmx512m", SMALL, NO_TLS].map(str::to_owned).into();
        options.extend(self.jvm_options.iter().cloned());
        let server = Server::new(
            Role::Broker {
                name_server: name_server.into(),
                broker,
                id: place.id.into(),
            },
            format!("127.0.0.1:{listen}"),
            Recipe {
                name,
                version: self.version,
                home,
                options,
                main: GUARD,
                arguments: vec![BROKER.into(), "-c".into(), config.into()],
            },
        );
        server.launch()?;
        Ok(server)
    }

    /// What a broker is started with: what is small, what is its own, what the caller wants, its place.
    fn broker_name(&self, index: usize) -> String {
        match self.rooms.get(index) {
            Some(room) => format!("{room}@{}", broker_name(index)),
            None => broker_name(index),
        }
    }

    fn broker_conf(&self, home: &Path, place: Place, name_server: &str, listen: u16) -> String {
        let store = home.join("store");
        let own = [
            ("brokerClusterName", CLUSTER_NAME.to_owned()),
            ("brokerName", self.broker_name(place.index)),
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
        let role = match (self.slaves, place.id) {
            (None, _) => &[],
            (Some(replication), 0) => replication.settings(),
            (Some(_), _) => SLAVE,
        };
        let id = place.id.to_string();
        let all = BROKER_CONFIG
            .iter()
            .copied()
            .chain(own)
            .chain(given)
            .chain(role.iter().copied());
        // Java's properties: the last of equal keys counts.
        all.chain([("brokerId", id.as_str())])
            .map(|(key, value)| format!("{key}={value}\n"))
            .collect()
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
