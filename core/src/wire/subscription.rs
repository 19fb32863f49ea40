//! Subscription expressions: what a group wants of a topic.
//!
//! A broker compares 32-bit hashes of tags, so it lets the wrong ones through now and then; the
//! client checks the text again with [`Subscription::matches`]. SQL expressions are the broker's
//! business alone.

use alloc::collections::BTreeSet;
use alloc::string::String;
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::Topic;

/// Selects every message of a topic.
pub const ALL: &str = "*";

/// What separates two tags. A single bar is part of a tag.
const SEPARATOR: &str = "||";

/// A group's subscription to one topic, as a heartbeat tells it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Subscription {
    /// The topic.
    pub topic: Topic,
    /// The expression as the user wrote it; `*` for an empty one.
    pub expression: String,
    /// How the broker reads the expression.
    pub kind: ExpressionType,
    /// The tags of a tag expression; empty for `*` and for SQL.
    pub tags: BTreeSet<String>,
    /// The [`java_hash`] of each tag. Fewer than tags if two of them collide.
    pub codes: BTreeSet<i32>,
}

impl Subscription {
    /// Every message of a topic.
    #[must_use]
    pub fn all(topic: Topic) -> Self {
        Self {
            topic,
            expression: ALL.into(),
            kind: ExpressionType::Tag,
            tags: BTreeSet::new(),
            codes: BTreeSet::new(),
        }
    }

    /// The messages whose tag is one of those in `expression`, separated by `||`. Blanks around a tag
    /// do not count; an empty expression means `*`.
    ///
    /// An expression of blanks only is taken as Java takes it, as tags of which there is none: a
    /// broker then delivers nothing. Who reads configuration should refuse it.
    ///
    /// # Errors
    ///
    /// [`SubscriptionError::NoTag`] if there is nothing between the separators.
    pub fn tagged(topic: Topic, expression: &str) -> Result<Self, SubscriptionError> {
        let mut subscription = Self::all(topic);
        if expression.is_empty() || expression == ALL {
            return Ok(subscription);
        }
        // Java's `split` drops empty pieces at the end and complains when none is left.
        if expression.split(SEPARATOR).all(str::is_empty) {
            return Err(SubscriptionError::NoTag);
        }
        for piece in expression.split(SEPARATOR) {
            let tag = java_trim(piece);
            if !tag.is_empty() {
                subscription.codes.insert(java_hash(tag));
                subscription.tags.insert(tag.into());
            }
        }
        subscription.expression = expression.into();
        Ok(subscription)
    }

    /// The messages whose properties fulfil an SQL condition. The broker compiles it; here it is text.
    ///
    /// # Errors
    ///
    /// [`SubscriptionError::EmptySql`] for an empty condition.
    pub fn sql92(topic: Topic, condition: &str) -> Result<Self, SubscriptionError> {
        if condition.is_empty() {
            return Err(SubscriptionError::EmptySql);
        }
        Ok(Self {
            expression: condition.into(),
            kind: ExpressionType::Sql92,
            ..Self::all(topic)
        })
    }

    /// An expression of the given kind.
    ///
    /// # Errors
    ///
    /// Those of [`Subscription::tagged`] and [`Subscription::sql92`].
    pub fn new(topic: Topic, kind: ExpressionType, expression: &str) -> Result<Self, SubscriptionError> {
        match kind {
            ExpressionType::Tag => Self::tagged(topic, expression),
            ExpressionType::Sql92 => Self::sql92(topic, expression),
        }
    }

    /// Whether a message with these tags is meant. What the broker let through by mistake is not,
    /// and counts as consumed. Without tags to compare everything is: `*`, SQL, blanks.
    #[must_use]
    pub fn matches(&self, tags: Option<&str>) -> bool {
        self.tags.is_empty() || tags.is_some_and(|tags| self.tags.contains(tags))
    }
}

/// How a broker reads an expression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ExpressionType {
    /// Tags, separated by `||`.
    #[default]
    Tag,
    /// A condition over properties. The broker must be configured for it.
    Sql92,
}

impl ExpressionType {
    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tag => "TAG",
            Self::Sql92 => "SQL92",
        }
    }

    /// The type of a name on the wire; upper and lower case differ, as for a broker. `None` if there
    /// is no such type: Java sends any text and leaves it to the broker to be silent about it.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "TAG" => Some(Self::Tag),
            "SQL92" => Some(Self::Sql92),
            _ => None,
        }
    }
}

impl fmt::Display for ExpressionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why an expression is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubscriptionError {
    /// Separators and nothing else.
    #[error("the expression has separators but no tag")]
    NoTag,
    /// An SQL condition without text.
    #[error("the SQL expression is empty")]
    EmptySql,
}

/// Java's `String.hashCode`: what a broker stores of a tag, and what it compares.
#[must_use]
pub fn java_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0, |hash: i32, unit| {
        hash.wrapping_mul(31).wrapping_add(i32::from(unit))
    })
}

/// Java's `String.trim`: control characters count as blanks, blanks outside ASCII do not.
fn java_trim(text: &str) -> &str {
    text.trim_matches(|char| char <= ' ')
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn tags(expression: &str) -> Vec<String> {
        let subscription = Subscription::tagged("T".into(), expression).expect("a legal expression");
        subscription.tags.into_iter().collect()
    }

    /// FL-02: signed 32-bit arithmetic over 16-bit units.
    #[test]
    fn hashes_are_those_of_java() {
        let table = [
            ("", 0),
            ("Aa", 2112),
            ("BB", 2112),
            ("TagA", 2_598_919),
            ("rock_tig", -518_376_264),
            ("标签", 857_175),
            ("😀", 1_772_899),
            ("polygenelubricants", i32::MIN),
        ];
        for (text, hash) in table {
            assert_eq!(java_hash(text), hash, "{text}");
        }
    }

    #[test]
    fn tags_are_trimmed_and_empty_pieces_dropped() {
        assert_eq!(tags("TagA || TagB ||  ||TagC||TagA"), ["TagA", "TagB", "TagC"]);
        assert_eq!(tags("a b"), ["a b"]);
        assert_eq!(tags("a|b"), ["a|b"]);
        assert_eq!(tags("a|||b"), ["a", "|b"]);
        assert_eq!(tags("\u{1}a\t||\u{a0}b"), ["a", "\u{a0}b"]);
        assert_eq!(tags(" * "), ["*"]);
        assert!(tags("  ").is_empty());
    }

    #[test]
    fn an_empty_expression_means_everything_and_blanks_do_not() {
        let all = Subscription::all("T".into());
        assert_eq!(Subscription::tagged("T".into(), ""), Ok(all.clone()));
        assert_eq!(Subscription::tagged("T".into(), "*"), Ok(all));
        let blanks = Subscription::tagged("T".into(), "  ").expect("Java takes it");
        assert_eq!(blanks.expression, "  ");
        for expression in ["||", "||||"] {
            assert_eq!(
                Subscription::tagged("T".into(), expression),
                Err(SubscriptionError::NoTag)
            );
        }
        assert_eq!(
            Subscription::sql92("T".into(), ""),
            Err(SubscriptionError::EmptySql)
        );
    }

    #[test]
    fn equal_hashes_are_told_apart_by_text() {
        let subscription = Subscription::tagged("T".into(), "Aa").expect("a legal expression");
        assert!(subscription.matches(Some("Aa")));
        assert!(!subscription.matches(Some("BB")));
        assert!(!subscription.matches(None));
        let sql = Subscription::sql92("T".into(), "n > 3").expect("a legal expression");
        assert!(sql.matches(None));
        assert!(sql.matches(Some("BB")));
    }
}
