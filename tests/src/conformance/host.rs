use std::future::Future;

use rocketmq_consumer::Runtime;

/// Starts a runtime for one case, and waits on it.
///
/// A case has a host of its own and drops it at its end: nothing of one case may reach another.
///
/// ```
/// use std::future::Future;
/// use rocketmq_consumer_testing::conformance::Host;
/// use rocketmq_consumer_tokio::TokioRuntime;
///
/// struct TokioHost(tokio::runtime::Runtime);
///
/// impl Host for TokioHost {
///     type Runtime = TokioRuntime;
///
///     fn start() -> Self {
///         Self(tokio::runtime::Runtime::new().expect("threads can be had"))
///     }
///
///     fn runtime(&self) -> TokioRuntime {
///         TokioRuntime::on(self.0.handle().clone())
///     }
///
///     fn block_on<F: Future>(&self, future: F) -> F::Output {
///         self.0.block_on(future)
///     }
/// }
///
/// let host = TokioHost::start();
/// assert_eq!(host.block_on(async { 1 + 1 }), 2);
/// ```
pub trait Host: Sized + 'static {
    /// What is examined.
    type Runtime: Runtime;

    /// Starts it.
    ///
    /// # Panics
    /// When it cannot be started: the case fails then.
    fn start() -> Self;

    /// A handle to it, with an origin of time of its own.
    fn runtime(&self) -> Self::Runtime;

    /// Waits on this thread for a future. It may use everything of the runtime; tasks that were spawned go on
    /// meanwhile, and need not go on otherwise.
    fn block_on<F: Future>(&self, future: F) -> F::Output;
}
