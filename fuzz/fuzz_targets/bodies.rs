#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rocketmq_consumer_testing::fuzzing::bodies(data));
