//! What every runtime under a consumer has to keep, on the embedded broker.

mod hosts;

use hosts::{AsyncStdHost, TokioHost};

rocketmq_consumer_testing::conformance_suite!(tokio => TokioHost, async_std => AsyncStdHost);
