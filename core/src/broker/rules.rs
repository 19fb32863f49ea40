//! Counts requests and finds what the rules say about each.

use alloc::vec::Vec;

use super::rule::{Effect, Rule};
use crate::ids::PeerAddr;
use crate::wire::code::RequestCode;

/// The rules of a cluster, in the order they were made.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    rules: Vec<Counted>,
}

#[derive(Clone, Debug)]
struct Counted {
    rule: Rule,
    seen: u32,
}

impl Rules {
    /// Adds a rule; a cluster that has `most` already forgets its oldest.
    pub(super) fn add(&mut self, rule: Rule, most: usize) {
        if self.rules.len() >= most.max(1) {
            self.rules.remove(0);
        }
        self.rules.push(Counted { rule, seen: 0 });
    }

    pub(super) fn clear(&mut self) {
        self.rules.clear();
    }

    /// Counts a request at every rule it falls under; the first whose turn it is decides.
    pub(super) fn decide(&mut self, node: &PeerAddr, code: RequestCode) -> Option<&Effect> {
        let mut decided = None;
        for counted in &mut self.rules {
            let rule = &counted.rule;
            let concerns =
                rule.node.as_ref().is_none_or(|at| at == node) && rule.code.is_none_or(|of| of == code);
            if concerns {
                counted.seen = counted.seen.saturating_add(1);
                if decided.is_none() && rule.nth.matches(counted.seen) {
                    decided = Some(&rule.effect);
                }
            }
        }
        decided
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;
    use core::time::Duration;

    use super::super::rule::Nth;
    use super::*;

    fn code_of(effect: Option<&Effect>) -> Option<u64> {
        let Some(Effect::Delay(delay)) = effect else {
            return None;
        };
        Some(delay.as_secs())
    }

    fn delay(secs: u64) -> Effect {
        Effect::Delay(Duration::from_secs(secs))
    }

    #[test]
    fn the_first_rule_whose_turn_it_is_decides_and_all_count() {
        let (here, there) = (PeerAddr::new("a", 1), PeerAddr::new("b", 1));
        let pull = RequestCode::PULL_MESSAGE;
        let mut rules = Rules::default();
        rules.add(Rule::on(pull, delay(1)).nth(Nth::Only(2)), 10);
        rules.add(Rule::on(pull, delay(2)).at(there.clone()), 10);
        rules.add(
            Rule {
                node: None,
                code: None,
                nth: Nth::After(3),
                effect: delay(3),
            },
            10,
        );
        let asked = [
            (&here, pull, None),
            (&there, pull, Some(1)),
            (&there, pull, Some(2)),
            (&here, pull, Some(3)),
            (&here, RequestCode::HEART_BEAT, Some(3)),
            (&there, pull, Some(2)),
        ];
        let got: Vec<_> = asked
            .iter()
            .map(|(node, code, _)| code_of(rules.decide(node, *code)))
            .collect();
        assert_eq!(got, asked.map(|(_, _, want)| want));
        rules.clear();
        assert_eq!(rules.decide(&here, pull), None);
    }

    #[test]
    fn the_oldest_rule_makes_room() {
        let here = PeerAddr::new("a", 1);
        let mut rules = Rules::default();
        for secs in 1..=3 {
            rules.add(Rule::on(RequestCode::PULL_MESSAGE, delay(secs)), 2);
        }
        assert_eq!(code_of(rules.decide(&here, RequestCode::PULL_MESSAGE)), Some(2));
    }
}
