//! A private name server and its brokers.

use std::ffi::OsString;
use std::path::Path;
use std::process::Output;
use std::thread;
use std::time::Duration;

use super::clock::Deadline;
use super::cluster_builder::{ClusterBuilder, GUARD};
use super::folder::{self, Folder};
use super::jvm::{Jvm, Recipe};
use super::{LaunchError, Server, TopicConfig, Version};

const MQADMIN: &str = "org.apache.rocketmq.tools.command.MQAdminStartup";
const ROUTE_LIMIT: Duration = Duration::from_secs(10);

/// A running cluster. `Drop` kills its processes and removes its folder; if the test is panicking, the folder
/// is kept and its path printed.
#[derive(Debug)]
pub struct Cluster {
    // In this order: the processes end before their folder is removed.
    pub(crate) brokers: Vec<Server>,
    /// In the order of their masters; none unless they were asked for.
    pub(crate) slaves: Vec<Server>,
    pub(crate) name_server: Server,
    pub(crate) folder: Folder,
    pub(crate) version: Version,
}

impl Cluster {
    /// A cluster of one broker with small files, unless told otherwise.
    pub fn builder() -> ClusterBuilder {
        ClusterBuilder::new()
    }

    /// The release of its servers.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.version
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

    /// The slave of a broker, counted as [`Self::broker`] does; see [`ClusterBuilder::slaves`].
    ///
    /// # Panics
    /// When it has none.
    #[must_use]
    pub fn slave(&self, index: usize) -> &Server {
        self.slaves
            .get(index)
            .unwrap_or_else(|| panic!("slave {index} of {}", self.slaves.len()))
    }

    /// All brokers, without slaves.
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
            .chain(&self.slaves)
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
            version: Version::CURRENT,
            home,
            options: Vec::new(),
            main: GUARD,
            arguments: all,
        };
        Jvm::output(recipe.command()?)
    }
}
