use std::future::Future;

use rocketmq_consumer_testing::conformance::Host;
use rocketmq_consumer_tokio::TokioRuntime;

/// tokio with two threads, as programs have it.
pub(crate) struct TokioHost(tokio::runtime::Runtime);

impl Host for TokioHost {
    type Runtime = TokioRuntime;

    fn start() -> Self {
        let mut tokio = tokio::runtime::Builder::new_multi_thread();
        let tokio = tokio.worker_threads(2).enable_all().build();
        Self(tokio.expect("threads can be had"))
    }

    fn runtime(&self) -> TokioRuntime {
        TokioRuntime::on(self.0.handle().clone())
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.0.block_on(future)
    }
}
