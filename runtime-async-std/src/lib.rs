//! An Apache RocketMQ push consumer on async-std: not there yet.
//!
//! This crate is a place kept free. The consumer is generic over `rocketmq_consumer::Runtime`; an
//! implementation for async-std, or for smol, its successor, will live here. Until then use
//! `rocketmq-consumer-tokio`.
#![forbid(unsafe_code)]
