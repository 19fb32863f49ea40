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
