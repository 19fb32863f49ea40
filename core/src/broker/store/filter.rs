use smallvec::SmallVec;

use crate::wire::subscription::{ALL, ExpressionType, Subscription, java_hash};

/// What a consume queue keeps of a message for filters: the hash of its tag, 0 without one, or of a
/// scheduled message the time it is due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TagCode(pub(crate) i64);

impl TagCode {
    /// The code of a tag.
    pub(crate) fn of(tag: Option<&str>) -> Self {
        Self(tag.map_or(0, |tag| i64::from(java_hash(tag))))
    }
}

/// Which messages of a queue are wanted, as far as a broker looks: by 32 bits of their tag's code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TagFilter {
    /// All of them.
    All,
    /// Those with one of these codes.
    Codes(SmallVec<[i32; 4]>),
}

impl TagFilter {
    /// The filter of a subscription. An SQL condition filters nothing here; a tag expression of blanks
    /// has no codes and lets nothing through.
    //= rocketmq: DefaultMessageFilter.isMatchedByConsumeQueue
    pub(crate) fn of(subscription: &Subscription) -> Self {
        match subscription.kind {
            ExpressionType::Sql92 => Self::All,
            ExpressionType::Tag if subscription.expression == ALL => Self::All,
            ExpressionType::Tag => Self::Codes(subscription.codes.iter().copied().collect()),
        }
    }

    /// Whether a message with this code is wanted.
    pub(crate) fn matches(&self, code: TagCode) -> bool {
        match self {
            Self::All => true,
            // Java compares `intValue()`: the upper half of a due time does not count.
            Self::Codes(codes) => codes.contains(&(code.0 as i32)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_compare_codes_as_brokers_do() {
        let of = |expression: &str| {
            TagFilter::of(&Subscription::tagged("T".into(), expression).expect("a legal expression"))
        };
        let code = |tag| TagCode::of(Some(tag));
        for (expression, matching, not) in [
            ("*", [code("a"), TagCode(0)].as_slice(), [].as_slice()),
            ("a || b", &[code("a"), code("b")], &[code("c"), TagCode(0)]),
            // Equal hashes of different texts, and of a number whose lower half is that hash.
            ("Aa", &[code("BB"), TagCode(2112 + (1 << 32))], &[code("A")]),
            ("  ", &[], &[code("a"), TagCode(0)]),
        ] {
            let filter = of(expression);
            assert!(matching.iter().all(|code| filter.matches(*code)), "{expression}");
            assert!(!not.iter().any(|code| filter.matches(*code)), "{expression}");
        }
        let sql = Subscription::sql92("T".into(), "a = 1").expect("a legal expression");
        assert_eq!(TagFilter::of(&sql), TagFilter::All);
    }
}
