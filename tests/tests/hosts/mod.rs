//! The runtimes that conform.

mod async_std_host;
mod tokio_host;

pub(crate) use async_std_host::AsyncStdHost;
pub(crate) use tokio_host::TokioHost;
