//! A name server or broker that can be killed, stopped, suspended and restarted.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::clock::Deadline;
use super::jvm::{Jvm, Recipe};
use super::{AdminClient, LaunchError};

/// A JVM on a busy machine may need several times the 6 seconds of an idle one.
pub(crate) const START_LIMIT: Duration = Duration::from_secs(90);
/// A broker needs 8 seconds to stop; a busy machine longer.
const STOP_LIMIT: Duration = Duration::from_secs(40);
/// How long a broker that answers may be unlisted before it is told to register.
const NUDGE_PERIOD: Duration = Duration::from_millis(500);
const GET_ROUTEINFO_BY_TOPIC: i32 = 105;

/// What makes it ready.
#[derive(Clone, Debug)]
pub(crate) enum Role {
    NameServer,
    /// Registered at the name server of this address, under the broker's name with this id.
    Broker {
        name_server: String,
        broker: String,
        id: i64,
    },
}

/// One server of a [`Cluster`](super::Cluster). All operations take `&self` and may come from any thread.
#[derive(Debug)]
pub struct Server {
    role: Role,
    address: String,
    recipe: Recipe,
    jvm: Mutex<Option<Jvm>>,
}

impl Server {
    pub(crate) fn new(role: Role, address: String, recipe: Recipe) -> Self {
        Self {
            role,
            address,
            recipe,
            jvm: Mutex::new(None),
        }
    }

    /// `name-server`, or the broker's name: `broker-a`, `broker-b`, …; of a slave `broker-a-slave`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.recipe.name
    }

    /// `127.0.0.1:port`.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The process id while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.running().as_ref().map(Jvm::id)
    }

    /// A new connection for administrative requests.
    ///
    /// # Errors
    /// When it does not accept connections.
    pub fn admin(&self) -> Result<AdminClient, LaunchError> {
        Ok(AdminClient::connect(&self.address)?)
    }

    /// Ends it at once (SIGKILL), as a power failure would; the store stays. Returns when it is gone.
    ///
    /// # Errors
    /// When it is not running.
    pub fn kill(&self) -> Result<(), LaunchError> {
        let mut running = self.running();
        running.as_mut().ok_or_else(|| self.not_running())?.kill()?;
        *running = None;
        Ok(())
    }

    /// Asks it to end (SIGTERM) and waits until it has; a broker takes about 8 seconds.
    ///
    /// # Errors
    /// When it is not running, or has not ended within 40 seconds.
    pub fn stop(&self) -> Result<(), LaunchError> {
        let mut running = self.running();
        let jvm = running.as_mut().ok_or_else(|| self.not_running())?;
        jvm.terminate()?;
        jvm.wait(STOP_LIMIT)
            .ok_or_else(|| self.recipe.late("stopped", STOP_LIMIT))?;
        *running = None;
        Ok(())
    }

    /// Starts it again on the same port and store and waits until it is ready; kills it first if it runs.
    ///
    /// At a restarted name server nothing is listed until the brokers register again: by themselves within 30
    /// seconds, or at once with [`Cluster::wait_ready`](super::Cluster::wait_ready).
    ///
    /// # Errors
    /// When it ends while starting, or is not ready within 90 seconds.
    pub fn restart(&self) -> Result<(), LaunchError> {
        self.launch()?;
        self.wait_ready(START_LIMIT)
    }

    /// Freezes it (SIGSTOP): connections stay open and nothing answers.
    ///
    /// # Errors
    /// When it is not running.
    pub fn suspend(&self) -> Result<(), LaunchError> {
        self.running()
            .as_mut()
            .ok_or_else(|| self.not_running())?
            .suspend()
    }

    /// Lets it go on (SIGCONT).
    ///
    /// # Errors
    /// When it is not running.
    pub fn resume(&self) -> Result<(), LaunchError> {
        self.running()
            .as_mut()
            .ok_or_else(|| self.not_running())?
            .resume()
    }

    /// Waits until it answers, and a broker also until its name server lists it (if that runs). A broker that
    /// answers but is not listed is told to register, which it would do by itself up to 30 seconds later.
    ///
    /// # Errors
    /// When it is not running, ends meanwhile, or is not ready within `limit`.
    pub fn wait_ready(&self, limit: Duration) -> Result<(), LaunchError> {
        let deadline = Deadline::after(limit);
        let mut nudge = Deadline::after(NUDGE_PERIOD);
        loop {
            let exited = self
                .running()
                .as_mut()
                .ok_or_else(|| self.not_running())?
                .exited();
            if let Some(status) = exited {
                return Err(LaunchError::Exited {
                    process: self.name().into(),
                    status,
                    log: self.recipe.log(),
                });
            }
            let is_registered = self.is_registered();
            let answers = self.answers();
            if is_registered && answers {
                return Ok(());
            }
            if answers && nudge.is_over() {
                self.nudge();
                nudge = Deadline::after(NUDGE_PERIOD);
            }
            if deadline.is_over() {
                return Err(self.recipe.late("ready", limit));
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Starts the process without waiting for it.
    pub(crate) fn launch(&self) -> Result<(), LaunchError> {
        let mut running = self.running();
        *running = None;
        *running = Some(Jvm::start(&self.recipe.name, self.recipe.command()?)?);
        Ok(())
    }

    fn is_registered(&self) -> bool {
        match &self.role {
            Role::NameServer => true,
            Role::Broker {
                name_server,
                broker,
                id,
            } => {
                // A broker may well be restarted while the name server is down: then nobody can list it.
                let Ok(mut admin) = AdminClient::connect(name_server) else {
                    return true;
                };
                matches!(admin.route(broker), Ok(Some(route)) if route.address(broker, *id) == Some(self.address()))
            }
        }
    }

    /// Asks for the route of an unknown topic: a name server says so, a broker that it does not know the
    /// request, and neither changes anything.
    fn answers(&self) -> bool {
        AdminClient::connect(&self.address)
            .and_then(|mut admin| {
                admin.request(GET_ROUTEINFO_BY_TOPIC, &[("topic", &"is-anybody-there")], &[])
            })
            .is_ok()
    }

    /// Makes an unlisted broker register now. A starting broker knows its name server only some milliseconds
    /// after it has connected to it; when its first registration comes before that, it is skipped, and the
    /// next is due 10 seconds later (30 for a running one whose name server was restarted). Setting
    /// `brokerPermission` to what it is registers at once.
    fn nudge(&self) {
        const KEY: &str = "brokerPermission";
        let nudged = AdminClient::connect(&self.address).and_then(|mut admin| {
            let now = admin.broker_config()?.remove(KEY).unwrap_or_default();
            admin.update_broker_config(&[(KEY, &now)])
        });
        // It is still starting, or has ended: the caller looks again.
        drop(nudged);
    }

    fn not_running(&self) -> LaunchError {
        LaunchError::NotRunning {
            process: self.name().into(),
        }
    }

    fn running(&self) -> MutexGuard<'_, Option<Jvm>> {
        // A panic elsewhere leaves no half-changed state here.
        self.jvm.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
