//! The world as a driver: it carries out what the machines want, and keeps an account of it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rocketmq_consumer_core::action::{Action, AppAction, NetAction};
use rocketmq_consumer_core::event::{AppEvent, Event, NetCause, NetEvent, Report, RunRange, Verdict};
use rocketmq_consumer_core::ids::{ConnId, ConsumeId};
use rocketmq_consumer_core::message::{Message, OrderlyOutcome, Outcome};
use rocketmq_consumer_core::wire::code::RequestCode;
use rocketmq_consumer_core::wire::command::Header;
use rocketmq_consumer_core::wire::frame::{FRAME_LEN_MAX, Frame};
use rocketmq_consumer_core::wire::request::pull::PullRequest;

use super::asked::Asked;
use super::member::{Delivery, Member, Open, PullInFlight};
use super::peer::{Dial, Peer};
use super::{Due, World};

impl<P: Peer> World<P> {
    pub(super) fn feed(&mut self, member: usize, event: Event) {
        for action in self.members[member].machine.handle(self.now, event) {
            match action {
                Action::Net(action) => self.on_net(member, action),
                Action::App(action) => self.on_app(member, action),
                other @ (Action::Store(_) | _) => {
                    self.broken.push(format!("an action nobody knows: {other:?}"));
                }
            }
        }
    }

    fn on_net(&mut self, member: usize, action: NetAction) {
        let event = match action {
            NetAction::Connect { conn, addr, .. } => {
                self.members[member].links.insert(conn, addr.clone());
                let link = self.members[member].link(conn);
                match self.peer.dial(self.now, &link, &addr) {
                    Dial::Accept => Some((conn, NetEvent::Connected { conn })),
                    Dial::Refuse => {
                        let cause = NetCause::Refused;
                        Some((conn, NetEvent::ConnectFailed { conn, cause }))
                    }
                    Dial::Hang => None,
                }
            }
            NetAction::Send { conn, frame } => return self.send(member, conn, frame),
            NetAction::Close { conn } => {
                let link = self.members[member].link(conn);
                self.members[member].forget(conn);
                return self.later(self.latency, Due::HungUp { link });
            }
            // Members know addresses, not host names.
            other @ (NetAction::Lookup { .. } | _) => {
                return self
                    .broken
                    .push(format!("a network action nobody knows: {other:?}"));
            }
        };
        if let Some((conn, event)) = event {
            let (conn, event) = (Some(conn), event.into());
            self.later(self.latency, Due::Event { member, conn, event });
        }
    }

    fn send(&mut self, member: usize, conn: ConnId, frame: Bytes) {
        let link = self.members[member].link(conn);
        let Some(to) = self.members[member].links.get(&conn).cloned() else {
            return self
                .broken
                .push(format!("{:?}: sent on a dead {link:?}", self.now));
        };
        if let Some(asked) = Asked::read(self.now, &link, &to, frame.clone()) {
            if asked.code == RequestCode::PULL_MESSAGE {
                self.note_pull(member, &asked);
            }
            self.requests.push(asked);
        }
        let bytes = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        let event = NetEvent::Sent { conn, bytes }.into();
        self.later(
            Duration::ZERO,
            Due::Event {
                member,
                conn: Some(conn),
                event,
            },
        );
        self.later(self.latency, Due::ToPeer { link, bytes: frame });
    }

    /// Notes a pull, and that it is the only one of its ownership.
    fn note_pull(&mut self, member: usize, asked: &Asked) {
        let request: PullRequest = asked.request();
        let member = &mut self.members[member];
        let status = member.machine.state().status();
        let owned = status.groups.iter().flat_map(|group| &group.queues);
        let owned = owned.filter(|owned| {
            owned.queue.topic == request.topic
                && owned.queue.id == request.queue
                && Some(&owned.queue.broker) == request.broker.as_ref()
        });
        // One that is being given back stands there beside its successor; the newest one pulls.
        let Some(owned) = owned.max_by_key(|owned| owned.epoch) else {
            self.broken
                .push(format!("{:?}: a pull of nobody's queue", self.now));
            return;
        };
        let given_up = *member.group.pull_deadline();
        let (now, pulls) = (self.now, &mut member.pulls);
        pulls.retain(|_, pull| now < pull.at + given_up);
        let pull = PullInFlight {
            queue: owned.queue.clone(),
            epoch: owned.epoch,
            at: now,
        };
        let twin = |other: &&PullInFlight| (&other.queue, other.epoch) == (&pull.queue, pull.epoch);
        if let Some(twin) = pulls.values().find(twin) {
            let words = format!("{now:?}: two pulls of one ownership: {twin:?} and {pull:?}");
            self.broken.push(words);
        }
        pulls.insert((asked.link.conn, asked.opaque), pull);
    }

    fn on_app(&mut self, index: usize, action: AppAction) {
        let member = &mut self.members[index];
        match action {
            AppAction::Consume {
                id,
                batch,
                range,
                attempt,
            } => {
                for position in range.start..range.end {
                    let message = Message::new(Arc::clone(&batch), position);
                    let message = message.expect("a run lies within its batch");
                    self.deliver(index, id, position, Delivery::of(self.now, &message, attempt));
                }
            }
            AppAction::Withdraw { id } => {
                let waiting = member.open.iter();
                let waiting = waiting.filter(|((of, _), open)| *of == id && open.begins_at > self.now);
                let positions: Vec<u32> = waiting.map(|((_, position), _)| *position).collect();
                for position in positions {
                    // A driver answers when its lane comes round to it: not within the same call.
                    self.end_later(index, id, position, Duration::ZERO, Verdict::NotStarted);
                }
            }
            // A handler of this world does not listen to its token.
            AppAction::Cancel { .. } => {}
            AppAction::Abandon { id, position } => {
                let verdict = if member.group.is_orderly() {
                    Verdict::Ordered(OrderlyOutcome::Suspend)
                } else {
                    Verdict::Handled(Outcome::Retry)
                };
                self.end_later(index, id, position, Duration::ZERO, verdict);
            }
            AppAction::Notice(notice) => member.notices.push(*notice),
            AppAction::Refused(refusal) => member.refusals.push(*refusal),
            AppAction::GroupStopped { report, .. } => member.report = Some(*report),
            AppAction::Closed => member.closed = true,
            AppAction::GroupStarted { .. } | AppAction::Answer { .. } => {}
            // No story of the world has an own strategy; those on a bench have.
            other @ (AppAction::Allocate(_) | _) => self
                .broken
                .push(format!("an application action nobody knows: {other:?}")),
        }
    }

    fn deliver(&mut self, index: usize, id: ConsumeId, position: u32, delivery: Delivery) {
        let member = &mut self.members[index];
        let handling = (member.handler)(&delivery);
        member.deliveries.push(delivery);
        let open = Open {
            begins_at: self.now + handling.waits,
            token: 0,
            delivery: member.deliveries.len() - 1,
        };
        member.open.insert((id, position), open);
        if let Some(verdict) = handling.verdict {
            self.end_later(index, id, position, handling.waits + handling.takes, verdict);
        }
    }

    fn end_later(&mut self, member: usize, id: ConsumeId, position: u32, after: Duration, verdict: Verdict) {
        let token = self.seq + 1;
        if let Some(open) = self.members[member].open.get_mut(&(id, position)) {
            open.token = token;
            self.later(
                after,
                Due::Handled {
                    member,
                    id,
                    position,
                    token,
                    verdict,
                },
            );
        }
    }

    pub(super) fn report(&mut self, index: usize, id: ConsumeId, position: u32, verdict: Verdict) {
        let member = &mut self.members[index];
        let Some(open) = member.open.remove(&(id, position)).filter(|_| member.alive) else {
            return;
        };
        if matches!(
            verdict,
            Verdict::Handled(Outcome::Done) | Verdict::Ordered(OrderlyOutcome::Commit)
        ) {
            let delivery = member.deliveries[open.delivery].clone();
            member.done.push((delivery, self.now));
        }
        let range = RunRange {
            start: position,
            end: position + 1,
        };
        let report = Report::All(verdict);
        self.feed(index, AppEvent::Consumed { id, range, report }.into());
    }
}

impl Member {
    /// The driver's own account of its connections.
    pub(super) fn heard(&mut self, event: &NetEvent) {
        match event {
            NetEvent::ConnectFailed { conn, .. } | NetEvent::Closed { conn, .. } => self.forget(*conn),
            NetEvent::Received { conn, bytes } => {
                // Scripts may send what is no frame.
                if let Ok(frame) = Frame::parse(bytes.clone(), FRAME_LEN_MAX)
                    && let Ok(header) = Header::of(&frame)
                    && header.is_response()
                {
                    self.pulls.remove(&(*conn, header.opaque));
                }
            }
            NetEvent::Connected { .. } | NetEvent::Sent { .. } | NetEvent::Resolved { .. } | _ => {}
        }
    }

    pub(super) fn forget(&mut self, conn: ConnId) {
        self.links.remove(&conn);
        self.pulls.retain(|(of, _), _| *of != conn);
    }
}
