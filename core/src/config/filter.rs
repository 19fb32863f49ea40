//! Which messages of a topic a group wants: an expression, and the language it is written in.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString as _};
use core::fmt;

use serde::{Deserialize, Serialize};

use super::ConfigError;
use crate::ids::Topic;
use crate::wire::subscription::{ALL, ExpressionType, Subscription, SubscriptionError};

/// Longest filter expression, in bytes: it goes with every heartbeat.
pub const EXPRESSION_LEN_MAX: usize = 8192;

/// Topics that a group may subscribe to: all of them go with every heartbeat.
pub const SUBSCRIPTIONS_MAX: usize = 1024;

/// Which messages of a topic are wanted.
///
/// Text becomes [`Self::Tags`]: `config.subscribe("orders".into(), "paid || refund")`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FilterExpression {
    /// Tags, separated by `||`; `*` or nothing for every message. Brokers compare hashes of them, this client
    /// compares their text again.
    Tags(Box<str>),
    /// An SQL92 condition over the properties of messages, such as `amount > 100 AND TAGS = 'paid'`. Only brokers
    /// look at it, and only those configured with `enablePropertyFilter`; so one of them is asked before it is
    /// used.
    Sql92(Box<str>),
}

impl FilterExpression {
    /// A condition over properties.
    pub fn sql92(condition: impl Into<Box<str>>) -> Self {
        Self::Sql92(condition.into())
    }

    /// The expression without its language.
    #[must_use]
    pub const fn text(&self) -> &str {
        match self {
            Self::Tags(text) | Self::Sql92(text) => text,
        }
    }

    /// The language.
    #[must_use]
    pub const fn kind(&self) -> ExpressionType {
        match self {
            Self::Tags(_) => ExpressionType::Tag,
            Self::Sql92(_) => ExpressionType::Sql92,
        }
    }

    /// The same filter as notices name it: nothing is written as `*`.
    #[must_use]
    pub fn normalized(self) -> Self {
        match self {
            Self::Tags(text) if text.is_empty() => Self::Tags(ALL.into()),
            Self::Tags(_) | Self::Sql92(_) => self,
        }
    }

    /// The subscription that brokers hear of.
    ///
    /// # Errors
    /// There is nothing between the separators, or no condition.
    pub fn subscription(&self, topic: Topic) -> Result<Subscription, SubscriptionError> {
        Subscription::new(topic, self.kind(), self.text())
    }

    pub(crate) fn of(subscription: &Subscription) -> Self {
        let text = subscription.expression.as_str().into();
        match subscription.kind {
            ExpressionType::Tag => Self::Tags(text),
            ExpressionType::Sql92 => Self::Sql92(text),
        }
    }

    /// Whether it can be used for a topic at all. Whether an SQL92 condition means something only brokers know.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self, topic: &Topic) -> Result<(), ConfigError> {
        let refuse = |why: String| Err(ConfigError::new("subscribe", format!("topic {topic}: {why}")));
        let len = self.text().len();
        if len > EXPRESSION_LEN_MAX {
            return refuse(format!(
                "the expression has {len} bytes, at most {EXPRESSION_LEN_MAX} are allowed"
            ));
        }
        let subscription = match self.subscription(topic.clone()) {
            Ok(subscription) => subscription,
            Err(error) => return refuse(error.to_string()),
        };
        match self {
            // Java accepts blanks and then nothing ever matches; nobody means that.
            Self::Tags(_) if subscription.expression != ALL && subscription.tags.is_empty() => {
                refuse("the expression names no tag; use * for every message".to_string())
            }
            Self::Sql92(text) if text.trim().is_empty() => refuse("the SQL condition is blank".to_string()),
            Self::Tags(_) | Self::Sql92(_) => Ok(()),
        }
    }
}

impl fmt::Display for FilterExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tags(text) => f.write_str(text),
            Self::Sql92(text) => write!(f, "{} {text}", ExpressionType::Sql92),
        }
    }
}

impl From<&str> for FilterExpression {
    fn from(tags: &str) -> Self {
        Self::Tags(tags.into())
    }
}

impl From<String> for FilterExpression {
    fn from(tags: String) -> Self {
        Self::Tags(tags.into())
    }
}

impl From<&String> for FilterExpression {
    fn from(tags: &String) -> Self {
        Self::Tags(tags.as_str().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_names_a_tag_or_everything_or_a_condition_and_has_a_limit() {
        let long = |len| "x".repeat(len);
        for (filter, good) in [
            (FilterExpression::from(""), true),
            ("*".into(), true),
            ("a || b".into(), true),
            ("  ".into(), false),
            ("||".into(), false),
            (long(EXPRESSION_LEN_MAX).into(), true),
            (long(EXPRESSION_LEN_MAX + 1).into(), false),
            (FilterExpression::sql92("a > 3"), true),
            (FilterExpression::sql92(""), false),
            (FilterExpression::sql92(" \t"), false),
            (FilterExpression::sql92(long(EXPRESSION_LEN_MAX)), true),
            (FilterExpression::sql92(long(EXPRESSION_LEN_MAX + 1)), false),
        ] {
            let checked = filter.check(&"T".into());
            assert_eq!(checked.is_ok(), good, "{:.20}", filter.to_string());
            if let Err(error) = checked {
                let text = error.to_string();
                assert!(text.starts_with("subscribe: topic T: "), "{text}");
            }
        }
    }

    #[test]
    fn a_condition_is_told_as_java_tells_it() {
        let filter = FilterExpression::sql92("a > 3 || b");
        let subscription = filter.subscription("T".into()).expect("a condition");
        assert_eq!(
            (subscription.kind, &*subscription.expression),
            (ExpressionType::Sql92, "a > 3 || b")
        );
        assert!(subscription.tags.is_empty() && subscription.codes.is_empty());
        assert_eq!(FilterExpression::of(&subscription), filter);
    }

    #[test]
    fn nothing_is_everything_and_is_written_so() {
        let everything = FilterExpression::from("").normalized();
        assert_eq!(everything.to_string(), "*");
        let subscription = everything.subscription("T".into()).expect("everything");
        assert_eq!(FilterExpression::of(&subscription), everything);
        assert_eq!(
            FilterExpression::sql92("a = 1").normalized().to_string(),
            "SQL92 a = 1"
        );
    }
}
