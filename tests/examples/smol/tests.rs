//! Whether the runtime keeps its word.

use std::future::Future;

use rocketmq_consumer_testing::conformance::Host;

use super::runtime::SmolRuntime;

struct MyHost;

impl Host for MyHost {
    type Runtime = SmolRuntime;

    fn start() -> Self {
        Self
    }

    fn runtime(&self) -> SmolRuntime {
        SmolRuntime::default()
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        smol::block_on(future)
    }
}

rocketmq_consumer_testing::conformance_suite!(runtime only: mine => MyHost);
