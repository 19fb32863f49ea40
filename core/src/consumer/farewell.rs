//! How a group takes its leave: every broker that knows it is told, then it is forgotten.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;

use super::ConsumerState;
use super::cx::{Destination, Purpose, Question, QuestionBody};
use crate::action::AppAction;
use crate::ids::{GroupKey, Topic};
use crate::wire::request::heartbeat::UnregisterRequest;

impl ConsumerState {
    pub(super) fn say_farewell(&mut self, group: GroupKey) {
        let Some(name) = self.groups.get(group).map(|group| group.name().clone()) else {
            return;
        };
        let told = self.beats.acknowledged();
        self.farewells.insert(group, told.len());
        for addr in told {
            let body = QuestionBody::Unregister(UnregisterRequest {
                client_id: self.config.client_id.clone(),
                consumer_group: Some(name.clone()),
                producer_group: None,
            });
            let timeout = self.config.request_timeout;
            self.ask(Question {
                to: Destination::Address(addr),
                body,
                timeout,
                purpose: Purpose::Unregister(group),
            });
        }
        if self.farewells.get(&group) == Some(&0) {
            self.everybody_told(group);
        }
    }

    pub(super) fn told_farewell(&mut self, group: GroupKey) {
        if let Some(left) = self.farewells.get_mut(&group) {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.everybody_told(group);
            }
        }
    }

    fn everybody_told(&mut self, key: GroupKey) {
        self.farewells.remove(&key);
        let mut cx = self.ground.cx();
        if let Some(group) = self.groups.get_mut(key) {
            group.on_everybody_told(&mut cx);
        }
    }

    pub(super) fn stopped(&mut self, key: GroupKey) {
        self.farewells.remove(&key);
        let Some(group) = self.groups.remove(key) else {
            return;
        };
        self.by_name.remove(group.name());
        let report = Box::new(group.report().clone());
        self.ground.out.push(AppAction::GroupStopped {
            group: group.name().clone(),
            report,
        });
        let used: BTreeSet<Topic> = self
            .groups
            .iter()
            .flat_map(|(_, group)| group.topics())
            .cloned()
            .collect();
        let mut cx = self.ground.cx();
        self.routes.keep_only(&mut cx, &used);
        if !used.is_empty() {
            self.beats.subscriptions_changed(&mut cx, true);
        } else {
            self.beats.stop(&mut cx);
        }
        self.use_addresses();
        self.close_if_empty();
    }
}
