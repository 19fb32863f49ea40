//! How a command runs that goes on until its work is done or somebody wants it to end.

use std::io;

use crate::exit::{Exit, Failure};

/// Runs a command on one thread, with the signals in its hands.
///
/// # Errors
/// The system refuses a thread or the signals; otherwise what the command says.
pub(crate) fn run(command: impl AsyncFnOnce(Signals) -> Result<Exit, Failure>) -> Result<Exit, Failure> {
    let refused = |error: io::Error| Failure::failed(format_args!("the system refuses: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(refused)?;
    let exit = runtime.block_on(async { command(Signals::listen().map_err(refused)?).await });
    // A host name that is still being looked up keeps nobody waiting.
    runtime.shutdown_background();
    exit
}

/// A wish to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// SIGINT: the user pressed Ctrl-C.
    Interrupt,
    /// SIGTERM: whoever started us wants us to end.
    Terminate,
}

/// How a command ends that had nothing left to lose when it was told to.
impl From<Signal> for Exit {
    fn from(signal: Signal) -> Self {
        match signal {
            Signal::Interrupt => Self::Interrupted,
            Signal::Terminate => Self::Done,
        }
    }
}

/// Both signals, one after another.
#[cfg(unix)]
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    /// Takes the signals over from the system, which would end the process.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};

        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// The next signal.
    pub(crate) async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.terminate.recv() => Signal::Terminate,
        }
    }
}

/// Ctrl-C; other systems have no other way to ask.
#[cfg(not(unix))]
#[derive(Debug)]
pub(crate) struct Signals;

#[cfg(not(unix))]
impl Signals {
    /// Nothing has to be prepared.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self)
    }

    /// The next Ctrl-C.
    pub(crate) async fn next(&mut self) -> Signal {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        Signal::Interrupt
    }
}
