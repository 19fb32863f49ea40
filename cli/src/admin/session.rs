use crate::cluster::Cluster;
use crate::exit::{Exit, Failure};
use crate::settings::Settings;
use crate::signals;

/// Runs a command that asks a cluster and has nothing to lose when a signal ends it.
///
/// # Errors
/// No name server is named; otherwise what the command says.
pub(crate) fn with_cluster(
    settings: Settings,
    command: impl AsyncFnOnce(&Cluster) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    signals::run(async |mut signals| {
        let cluster = Cluster::new(settings).await?;
        let exit = tokio::select! {
            exit = command(&cluster) => exit,
            signal = signals.next() => Ok(signal.into()),
        };
        cluster.close().await;
        exit
    })
}
