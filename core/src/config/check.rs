//! What names, ranges and rates may be, before the start and while a group runs.

use core::ops::RangeInclusive;
use core::time::Duration;

use super::filter::FilterExpression;
use super::{ConfigError, millis, secs};
use crate::ids::{ConsumerGroup, Topic};
use crate::rate::Rate;

/// How many handler calls of a group may run at once, whether set before the start or while it runs.
pub const CONCURRENCY: RangeInclusive<u32> = 1..=1000;

/// How long a queue that is consumed in order may rest after a failure. What a handler asks for beyond is cut.
pub const SUSPEND_TIME: RangeInclusive<Duration> = millis(10)..=secs(30);

/// As many retries as brokers can count: without end.
pub(super) const FOR_EVER: u32 = i32::MAX.unsigned_abs();

/// Messages a second of a rate, and messages that may come at once.
pub const RATE: RangeInclusive<u32> = 1..=1_000_000;

/// Longest name of a user's topic, in bytes.
pub const TOPIC_LEN_MAX: usize = 127;

/// Longest name of a consumer group, in bytes: `%RETRY%` and the name make a topic.
pub const GROUP_LEN_MAX: usize = 120;

/// # Errors
/// Why a broker would not take the name.
pub fn check_group_name(name: &str) -> Result<(), ConfigError> {
    check_name("group", "group", name, GROUP_LEN_MAX)?;
    if name == "DEFAULT_CONSUMER" {
        return Err(ConfigError::new(
            "group",
            "DEFAULT_CONSUMER is reserved; choose a name of your own",
        ));
    }
    Ok(())
}

/// # Errors
/// Why a broker would not take the name of a topic.
pub fn check_topic_name(name: &str) -> Result<(), ConfigError> {
    check_name("topic", "topic", name, TOPIC_LEN_MAX)
}

fn check_name(key: &'static str, what: &str, name: &str, len_max: usize) -> Result<(), ConfigError> {
    if name.trim().is_empty() {
        return Err(ConfigError::new(
            key,
            alloc::format!("the {what} must not be blank"),
        ));
    }
    if name.len() > len_max {
        let why = alloc::format!(
            "the {what} {name:?} has {} bytes, at most {len_max} are allowed",
            name.len()
        );
        return Err(ConfigError::new(key, why));
    }
    let legal = |c: char| c.is_ascii_alphanumeric() || "%|-_".contains(c);
    if let Some(bad) = name.chars().find(|c| !legal(*c)) {
        let why = alloc::format!(
            "the {what} {name:?} contains {bad:?}; letters, digits, %, |, - and _ are allowed"
        );
        return Err(ConfigError::new(key, why));
    }
    Ok(())
}

/// # Errors
/// Why a group cannot subscribe to that.
pub(crate) fn check_subscription(
    group: &ConsumerGroup,
    topic: &Topic,
    filter: &FilterExpression,
) -> Result<(), ConfigError> {
    check_name("subscribe", "topic", topic.as_str(), TOPIC_LEN_MAX)?;
    if topic.as_str().strip_prefix("%RETRY%") == Some(group.as_str()) {
        let why = alloc::format!("{topic} is the group's own retry topic, which it always reads");
        return Err(ConfigError::new("subscribe", why));
    }
    filter.check(topic)
}

/// # Errors
/// Why messages cannot be handed out at this rate.
pub fn check_rate(key: &'static str, rate: Rate) -> Result<(), ConfigError> {
    for value in [rate.messages_per_second(), rate.burst()] {
        check_range(key, value, *RATE.start(), *RATE.end())?;
    }
    Ok(())
}

pub(super) fn check_range(key: &'static str, value: u32, least: u32, most: u32) -> Result<(), ConfigError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(ConfigError::new(
        key,
        alloc::format!("{value} is out of range, use {least} to {most}"),
    ))
}
