//! What the parts wish of each other, granted one by one until nobody wishes anything.

use alloc::vec::Vec;

use bytes::Bytes;

use super::ConsumerState;
use super::cx::{Cx, Destination, Purpose, Question, Replica, Wish};
use super::group::Group;
use super::peers::Peers;
use crate::action::CallError;
use crate::ids::PeerAddr;
use crate::rpc::{Outgoing, Patience};
use crate::time::Instant;
use crate::wire::frame::FrameError;
use crate::wire::request::encode_request;
use crate::wire::request::heartbeat::HeartbeatRequest;

/// Wishes granted within one event, at most. The largest legal number is a few for each queue of a client, when its
/// only broker comes or goes.
pub(super) const GRANTS_MAX: u32 = 100_000;

impl ConsumerState {
    /// Grants wishes until there is none. Bounded: a wish is a step of a protocol that waits for an
    /// answer, or an edge. Should that be wrong, what is left waits for the next event: a process that is
    /// busy can be looked into and shut down, one that hangs cannot.
    pub(super) fn settle(&mut self) {
        loop {
            while let Some(signal) = self.rpc.pop_signal() {
                self.on_signal(signal);
            }
            if self.ground.wishes.is_empty() {
                break;
            }
            let Some(left) = self.ground.grants_left.checked_sub(1) else {
                break;
            };
            self.ground.grants_left = left;
            if let Some(wish) = self.ground.wishes.pop_front() {
                self.grant(wish);
            }
        }
    }

    /// Whether nobody wishes anything any more; counts the event if somebody does.
    pub(super) fn note_settled(&mut self) -> bool {
        let is_settled = self.ground.wishes.is_empty();
        self.ground.counters.unsettled_events += u64::from(!is_settled);
        is_settled
    }

    fn grant(&mut self, wish: Wish) {
        match wish {
            Wish::Ask(question) => self.ask(question),
            Wish::Beat { addr, revision } => self.beat(addr, revision),
            Wish::BrokerReady { broker, ready } => self.each_group(|group, cx, peers| {
                group.on_broker_ready(cx, peers, &broker, ready);
            }),
            Wish::OtherReader(broker) => {
                self.each_group(|group, cx, peers| group.on_other_reader(cx, peers, &broker));
            }
            Wish::TellAgain(broker) => {
                let mut cx = self.ground.cx();
                self.beats.tell_again(&mut cx, &broker);
            }
            Wish::RouteSuspect(topic) => {
                let mut cx = self.ground.cx();
                self.routes.suspect(&mut cx, &topic);
            }
            Wish::Withdraw(of, ended) => {
                let is_its = |purpose: &Purpose| matches!(purpose, Purpose::Queue { group, queue, .. } if (*group, *queue) == (of, ended));
                self.rpc.withdraw(&mut self.ground.cx().step(), is_its);
            }
            Wish::BackToMaster(broker) => {
                let mut cx = self.ground.cx();
                if let Some(master) = self.routes.address(&broker, Replica::Master) {
                    self.beats.recommended(&mut cx, master);
                }
            }
            Wish::Subscriptions(group) => {
                let anything = !self.groups.is_empty();
                let mut cx = self.ground.cx();
                let revision = self.beats.subscriptions_changed(&mut cx, anything);
                if let Some(group) = self.groups.get_mut(group) {
                    group.set_revision(revision);
                }
            }
            Wish::Changes(group) => {
                let mut cx = self.ground.cx();
                if let Some(group) = self.groups.get_mut(group) {
                    group.settle_changes(&mut cx, Peers::of(&self.routes, &self.beats));
                }
            }
            Wish::Unwatch => {
                let used = self.used_topics();
                self.routes.keep_only(&mut self.ground.cx(), &used);
                self.use_addresses();
                // Who is not used any more need not be told.
                self.each_group(Group::settle_changes);
            }
            Wish::Route(topic) => {
                self.use_addresses();
                self.each_group(|group, cx, peers| group.on_route(cx, peers, &topic));
            }
            Wish::Locks(group) => {
                let mut cx = self.ground.cx();
                if let Some(group) = self.groups.get_mut(group) {
                    group.use_locks(&mut cx, Peers::of(&self.routes, &self.beats));
                }
            }
            Wish::Room(group) => {
                let mut cx = self.ground.cx();
                if let Some(group) = self.groups.get_mut(group) {
                    group.use_room(&mut cx, Peers::of(&self.routes, &self.beats));
                }
            }
            Wish::Keep(group, queue, offset) => {
                let mut cx = self.ground.cx();
                if let Some(group) = self.groups.get_mut(group) {
                    group.keep(&mut cx, queue, offset);
                }
            }
            Wish::Save(group) => self.save(group),
            Wish::Leave(group) => self.say_farewell(group),
            Wish::Stopped(group) => self.stopped(group),
            Wish::Reply(asker, reply) => self.reply(asker, &reply),
            Wish::Notice(group, kind) => self.notices.tell(&mut self.ground.cx(), group, kind),
        }
    }

    pub(super) fn ask(&mut self, question: Question) {
        let Question {
            to,
            body,
            timeout,
            purpose,
        } = question;
        let deadline = self.ground.now + timeout;
        let form = self.config.header_form;
        self.send(&to, purpose, deadline, |opaque| body.encode(form, opaque));
    }

    pub(super) fn send(
        &mut self,
        to: &Destination,
        purpose: Purpose,
        deadline: Instant,
        encode: impl FnOnce(i32) -> Result<Bytes, FrameError>,
    ) {
        let mut cx = self.ground.cx();
        let (addr, patience) = match to {
            Destination::NameServer => match self.routes.server() {
                Some((addr, true)) => (Some(addr), Patience::FailFast),
                Some((addr, false)) => (Some(addr), Patience::UntilDeadline),
                None => (None, Patience::FailFast),
            },
            Destination::Broker(broker, replica) => {
                (self.routes.address(broker, *replica), Patience::UntilDeadline)
            }
            Destination::Address(addr) => (Some(addr), Patience::UntilDeadline),
        };
        match addr {
            Some(addr) => {
                let out = Outgoing {
                    to: addr,
                    deadline,
                    patience,
                    elsewhere: purpose.may_go_elsewhere(),
                    purpose,
                };
                self.rpc.request(&mut cx.step(), out, encode);
            }
            None => self.on_failure(purpose, CallError::NoRoute),
        }
    }

    fn beat(&mut self, addr: PeerAddr, revision: u64) {
        if !self.beats.names(&addr) {
            // Forgotten since that was wished: a heartbeat would dial it anew.
            return;
        }
        let request = HeartbeatRequest {
            client_id: self.config.client_id.clone(),
            consumers: self
                .groups
                .iter()
                .filter(|(_, group)| group.may_be_named())
                .map(|(_, group)| group.consumer_data())
                .collect(),
            producers: Vec::new(),
            fingerprint: 0,
            without_sub: false,
        };
        let deadline = self.ground.now + self.config.request_timeout;
        let purpose = Purpose::Heartbeat {
            addr: addr.clone(),
            revision,
        };
        let to = Destination::Address(addr);
        let form = self.config.header_form;
        self.send(&to, purpose, deadline, |opaque| {
            encode_request(form, opaque, false, &request)
        });
    }

    /// The routes name these addresses; whoever is not among them is forgotten.
    pub(super) fn use_addresses(&mut self) {
        let addresses = self.routes.addresses();
        let mut cx = self.ground.cx();
        let gone = self.beats.set_addresses(&mut cx, addresses);
        for addr in gone {
            self.routes.link_works(&addr);
            // A call that waits there is nobody's but the caller's; its link stays until it breaks.
            let is_called = self.rpc.awaits(&addr, |of| matches!(of, Purpose::Call(_)));
            if !self.routes.is_name_server(&addr) && !is_called {
                let mut cx = self.ground.cx();
                self.rpc.forget(&mut cx.step(), &addr);
                self.on_link_lost(&addr);
            }
        }
    }

    pub(super) fn each_group(&mut self, mut visit: impl FnMut(&mut Group, &mut Cx<'_>, Peers<'_>)) {
        for key in self.groups.keys() {
            let mut cx = self.ground.cx();
            if let Some(group) = self.groups.get_mut(key) {
                visit(group, &mut cx, Peers::of(&self.routes, &self.beats));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::config::ClientConfig;
    use crate::event::Event;
    use crate::ids::GroupKey;
    use crate::step::Seed;
    use crate::time::WallTime;

    /// A wish that changes nothing: the group is not there.
    const WISH: Wish = Wish::Room(GroupKey {
        slot: 7,
        generation: 1,
    });

    fn wishing(wishes: u32) -> ConsumerState {
        let config = ClientConfig::new("c1".into(), vec!["127.0.0.1:9876".parse().unwrap()]);
        let wall = WallTime::from_unix_millis(1);
        let mut machine = ConsumerState::new(config, Seed(7), Instant::ZERO, wall).unwrap();
        machine.ground.wishes.extend((0..wishes).map(|_| WISH));
        machine
    }

    #[test]
    fn wishes_beyond_the_limit_wait_for_the_next_event_and_are_counted() {
        let mut machine = wishing(5);
        machine.ground.grants_left = 3;
        machine.settle();
        assert_eq!(machine.ground.wishes.len(), 2);
        assert!(!machine.note_settled());
        assert_eq!(machine.status().counters.unsettled_events, 1);

        machine.handle(Instant::from_millis(1), Event::Wakeup);
        assert!(machine.ground.wishes.is_empty());
        assert_eq!(machine.status().counters.unsettled_events, 1);
    }

    #[test]
    fn as_many_wishes_as_are_granted_are_no_defect() {
        let mut machine = wishing(GRANTS_MAX);
        machine.handle(Instant::ZERO, Event::Wakeup);
        assert_eq!(machine.status().counters.unsettled_events, 0);
    }

    /// Tests find the defect; a release goes on with it.
    #[test]
    #[cfg_attr(debug_assertions, should_panic(expected = "wishes that never end"))]
    fn an_event_whose_wishes_do_not_end_ends_all_the_same() {
        let mut machine = wishing(GRANTS_MAX + 2);
        machine.handle(Instant::ZERO, Event::Wakeup);
        assert_eq!(machine.ground.wishes.len(), 2);
        assert_eq!(machine.status().counters.unsettled_events, 1);
    }
}
