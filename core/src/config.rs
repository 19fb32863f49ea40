//! What a user can set. Every limit of the machine is here, with Java's name where Java has one.
//!
//! Values are checked once, when the machine or the group is created; afterwards they change only
//! by events.

use alloc::string::String;
use core::time::Duration;

/// A setting that cannot be used: which one, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {why}")]
pub struct ConfigError {
    /// The setter's name.
    pub key: &'static str,
    /// What is wrong and what would be right.
    pub why: String,
}

impl ConfigError {
    fn new(key: &'static str, why: impl Into<String>) -> Self {
        Self { key, why: why.into() }
    }
}

/// Declares a config struct: private fields with defaults, a chained setter and a reader for each.
macro_rules! settings {
    (
        $(#[$doc:meta])* $name:ident { $($req:ident: $reqty:ty),* }
        $( $(#[$fdoc:meta])* $field:ident / $set:ident: $ty:ty = $default:expr; )*
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub struct $name {
            $(pub(crate) $req: $reqty,)*
            $(pub(crate) $field: $ty,)*
        }

        impl $name {
            fn with_defaults($($req: $reqty),*) -> Self {
                Self { $($req,)* $($field: $default,)* }
            }

            $(
                $(#[$fdoc])*
                pub fn $set(&mut self, value: $ty) -> &mut Self {
                    self.$field = value;
                    self
                }

                #[doc = concat!("What [`Self::", stringify!($set), "`] set, or the default.")]
                #[must_use]
                pub fn $field(&self) -> &$ty {
                    &self.$field
                }
            )*
        }
    };
}

// Behind the macro: the rooms below are written with it.
mod check;
mod client;
mod filter;
mod group;
mod policies;
#[cfg(test)]
mod tests;

pub(crate) use check::check_subscription;
pub use check::{
    CONCURRENCY, GROUP_LEN_MAX, RATE, SUSPEND_TIME, TOPIC_LEN_MAX, check_group_name, check_rate,
    check_topic_name,
};
pub use client::ClientConfig;
pub use filter::{EXPRESSION_LEN_MAX, FilterExpression, SUBSCRIPTIONS_MAX};
pub use group::GroupConfig;
pub use policies::{
    ConsumeMode, DamagedStore, IllegalOffsetPolicy, MessageModel, OrderBy, SendBackFallback, StartAt,
    UndecodablePolicy,
};

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const MIB: u64 = 1 << 20;
