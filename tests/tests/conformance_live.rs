//! The same on the real broker.

mod hosts;

use hosts::{AsyncStdHost, TokioHost};
use rocketmq_consumer_testing::conformance::Real;

rocketmq_consumer_testing::conformance_suite!(on Real: tokio => TokioHost, async_std => AsyncStdHost);
