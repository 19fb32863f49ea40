//! Runtimes of one's own, as the examples have them, keep the contract too: the part of the suite that needs no broker.

use std::future::Future;

use on_smol::SmolRuntime;
use on_threads::runtime::{Threads, wait_for};
use rocketmq_consumer_testing::conformance::Host;

#[path = "../examples/smol/runtime.rs"]
mod on_smol;
#[path = "../examples/threads"]
mod on_threads {
    pub(crate) mod runtime;
    mod sleep;
    mod socket;
}

struct SmolHost;

impl Host for SmolHost {
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

rocketmq_consumer_testing::conformance_suite!(runtime only: smol => SmolHost, threads => ThreadsHost);
