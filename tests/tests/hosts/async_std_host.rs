use std::future::Future;

use rocketmq_consumer_async_std::AsyncStdRuntime;
use rocketmq_consumer_testing::conformance::Host;

/// async-std, of which there is one in a process: its threads are all cases', its clock is each case's own.
pub(crate) struct AsyncStdHost;

impl Host for AsyncStdHost {
    type Runtime = AsyncStdRuntime;

    fn start() -> Self {
        Self
    }

    fn runtime(&self) -> AsyncStdRuntime {
        AsyncStdRuntime::new()
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        async_std::task::block_on(future)
    }
}
