//! Runtimes of one's own, as the examples have them, keep the contract too: the part of the suite that needs no broker.

use std::future::Future;

use on_threads::runtime::{Threads, wait_for};
use rocketmq_consumer_testing::conformance::Host;

#[path = "../examples/smol"]
mod on_smol {
    mod runtime;
    mod tests;
}
#[path = "../examples/threads"]
mod on_threads {
    pub(crate) mod runtime;
    mod sleep;
    mod socket;
}

struct ThreadsHost;

impl Host for ThreadsHost {
    type Runtime = Threads;

    fn start() -> Self {
        Self
    }

    fn runtime(&self) -> Threads {
        Threads::default()
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        wait_for(future)
    }
}

rocketmq_consumer_testing::conformance_suite!(runtime only: threads => ThreadsHost);
