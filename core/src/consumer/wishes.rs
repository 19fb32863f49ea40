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

impl ConsumerState {
    /// Grants wishes until there is none. Bounded: a wish is a step of a protocol that waits for an
    /// answer, or an edge.
    pub(super) fn settle(&mut self) {
        loop {
            while let Some(signal) = self.rpc.pop_signal() {
                self.on_signal(signal);
            }
            let Some(wish) = self.ground.wishes.pop_front() else {
                break;
            };
            self.grant(wish);
        }
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
            Wish::Route(topic) => {
                self.use_addresses();
                self.each_group(|group, cx, peers| group.on_route(cx, peers, &topic));
            }
            Wish::Room(group) => {
                let mut cx = self.ground.cx();
                if let Some(group) = self.groups.get_mut(group) {
                    group.use_room(&mut cx, Peers::of(&self.routes, &self.beats));
                }
            }
            Wish::Leave(group) => self.say_farewell(group),
            Wish::Stopped(group) => self.stopped(group),
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
        let request = HeartbeatRequest {
            client_id: self.config.client_id.clone(),
            consumers: self
                .groups
                .iter()
                .filter(|(_, group)| !group.has_left())
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

    fn each_group(&mut self, mut visit: impl FnMut(&mut Group, &mut Cx<'_>, Peers<'_>)) {
        for key in self.groups.keys() {
            let mut cx = self.ground.cx();
            if let Some(group) = self.groups.get_mut(key) {
                visit(group, &mut cx, Peers::of(&self.routes, &self.beats));
            }
        }
    }
}
