//! Those who watch a world: its rules, each shown what it looks at, and the first that was broken.

use std::fmt;

use rocketmq_consumer_core::time::Instant;

use super::invariant::{Broken, Invariant, View};
use super::seen::{Seen, Sight};

/// The rules, and the first that was broken.
#[derive(Debug)]
pub(crate) struct Watchers {
    pub(crate) rules: Rules,
    pub(crate) broken: Option<(Instant, &'static str, Broken)>,
}

impl Watchers {
    pub(crate) fn new(rules: Vec<Box<dyn Invariant>>) -> Self {
        Self {
            rules: Rules::new(rules),
            broken: None,
        }
    }
}

/// Rules in their order, and which of them look at what.
#[derive(Default)]
pub(crate) struct Rules {
    all: Vec<Box<dyn Invariant>>,
    /// By the number of a [`Sight`]: who looks at it, in order.
    lookers: Vec<Vec<usize>>,
}

impl Rules {
    fn new(all: Vec<Box<dyn Invariant>>) -> Self {
        let mut lookers = vec![Vec::new(); Sight::COUNT];
        for (index, rule) in all.iter().enumerate() {
            rule.looks_at()
                .numbers()
                .for_each(|sight| lookers[sight].push(index));
        }
        Self { all, lookers }
    }

    /// Shows something to those who look at it. The first rule that it breaks, if any.
    pub(crate) fn see(&mut self, seen: &Seen<'_>, view: &dyn View) -> Option<(&'static str, Broken)> {
        let lookers = &self.lookers[Sight::of(&seen.what) as usize];
        lookers.iter().find_map(|index| {
            let rule = &mut self.all[*index];
            let broken = rule.see(seen, view).err()?;
            Some((rule.name(), broken))
        })
    }

    /// Asks every rule something. The first that is broken, if any.
    pub(crate) fn ask(
        &mut self,
        ask: impl Fn(&mut dyn Invariant) -> Result<(), Broken>,
    ) -> Option<(&'static str, Broken)> {
        self.all.iter_mut().find_map(|rule| {
            let broken = ask(rule.as_mut()).err()?;
            Some((rule.name(), broken))
        })
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.all.iter().map(|rule| rule.name());
        f.debug_list().entries(names).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::super::invariants::bench;
    use super::super::seen::{Sights, Upheaval, What};
    use super::*;

    /// Notes that it was shown something, and is broken if it is to be.
    #[derive(Debug)]
    struct Rule {
        name: &'static str,
        looks_at: Sights,
        breaks: bool,
        shown: Rc<RefCell<Vec<&'static str>>>,
    }

    impl Invariant for Rule {
        fn name(&self) -> &'static str {
            self.name
        }

        fn looks_at(&self) -> Sights {
            self.looks_at
        }

        fn see(&mut self, _: &Seen<'_>, _: &dyn View) -> Result<(), Broken> {
            self.shown.borrow_mut().push(self.name);
            if self.breaks {
                Err(Broken(String::new()))
            } else {
                Ok(())
            }
        }
    }

    #[test]
    fn rules_are_shown_what_they_look_at_up_to_the_first_that_is_broken() {
        let shown = Rc::default();
        let rule = |name, looks_at, breaks| -> Box<dyn Invariant> {
            let shown = Rc::clone(&shown);
            Box::new(Rule {
                name,
                looks_at,
                breaks,
                shown,
            })
        };
        let fault = Sights::of(&[Sight::Fault]);
        let mut rules = Rules::new(vec![
            rule("all", Sights::ALL, false),
            rule("nothing", Sights::NONE, true),
            rule("faults", fault, true),
            rule("behind", fault, false),
        ]);
        let what = What::Fault(Upheaval::Healed);
        let seen = Seen {
            at: Instant::ZERO,
            what,
        };
        let broken = rules.see(&seen, &bench::World::new());
        assert_eq!(broken.map(|(name, _)| name), Some("faults"));
        assert_eq!(*shown.borrow(), ["all", "faults"]);
    }
}
