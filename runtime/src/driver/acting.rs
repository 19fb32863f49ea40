use std::net::{IpAddr, SocketAddr};

use rocketmq_consumer_core::action::{Action, AppAction, NetAction, StoreAction};
use rocketmq_consumer_core::event::NetCause;
use rocketmq_consumer_core::ids::ConnId;
use rocketmq_consumer_core::message::Outcome;

use super::Driver;
use super::conn::Conn;
use super::inbox::Settled;
use crate::allocate;
use crate::answer::Answer as _;
use crate::machine::Machine;
use crate::runs::Run;
use crate::runtime::Runtime;
use crate::store;

/// Does what the machine wants.
impl<R: Runtime, M: Machine> Driver<R, M> {
    pub(super) fn act(&mut self) {
        while let Some(action) = self.brain.poll_action() {
            match action {
                Action::Net(action) => self.act_net(action),
                Action::App(action) => self.act_app(action),
                Action::Store(action) => self.act_store(action),
                other => {
                    tracing::error!(target: "rocketmq", action = ?other, "this driver does not know the action")
                }
            }
        }
    }

    fn act_net(&mut self, action: NetAction) {
        match action {
            NetAction::Lookup { conn, name } => {
                self.begin(conn, Conn::looking_up(conn, self.runtime.lookup(&name)));
            }
            NetAction::Connect { conn, addr, tls } => {
                let attempt = match addr.host().parse::<IpAddr>() {
                    // TLS is a later feature; in the clear is not what was asked for.
                    _ if tls.is_some() => Conn::failed(conn, NetCause::Tls),
                    Ok(ip) => Conn::connecting(conn, self.runtime.connect(SocketAddr::new(ip, addr.port()))),
                    Err(_) => Conn::failed(conn, NetCause::NameUnknown),
                };
                self.begin(conn, attempt);
            }
            NetAction::Send { conn, frame } => {
                if let Some(standing) = self.conns.get_mut(&conn) {
                    standing.send(frame);
                    self.touched.push(conn);
                }
            }
            NetAction::Close { conn } => {
                self.conns.remove(&conn);
            }
            other => {
                tracing::error!(target: "rocketmq", action = ?other, "this driver does not know the action")
            }
        }
    }

    fn act_store(&mut self, action: StoreAction) {
        let group = match &action {
            StoreAction::Load { key, .. } | StoreAction::Save { key, .. } => self.groups.by_name(&key.group),
            _ => None,
        };
        let storage = group.and_then(|group| group.storage.as_ref());
        store::act(&self.runtime, &self.inbox, storage, action);
    }

    fn begin(&mut self, id: ConnId, conn: Conn<R::Socket>) {
        self.conns.insert(id, conn);
        self.touched.push(id);
    }

    fn act_app(&mut self, action: AppAction) {
        match action {
            AppAction::Consume {
                id,
                batch,
                range,
                attempt,
            } => {
                if let Some(group) = self.groups.by_key(id.group) {
                    group.desk.consume(Run {
                        id,
                        batch,
                        range,
                        attempt,
                    });
                } else {
                    // Never expected. Sent back, so that nothing is lost and nothing spins.
                    tracing::error!(target: "rocketmq", ?id, "a run of an unknown group");
                    self.inbox
                        .report([Settled::all(id, range, Outcome::AGAIN.verdict())]);
                }
            }
            AppAction::Withdraw { id } => {
                if let Some(group) = self.groups.by_key(id.group) {
                    group.desk.withdraw(id);
                }
            }
            AppAction::Cancel { id, position } => {
                if let Some(group) = self.groups.by_key(id.group) {
                    group.desk.cancel(id, position);
                }
            }
            AppAction::Abandon { id, position } => {
                if let Some(group) = self.groups.by_key(id.group) {
                    group.desk.abandon(id, position);
                }
            }
            AppAction::Allocate(question) => {
                let group = self.groups.by_key(question.id.group);
                let strategy = group.and_then(|group| group.allocate.as_ref());
                allocate::ask(&self.runtime, &self.inbox, strategy, question);
            }
            AppAction::GroupStarted { group, key } => self.groups.started(&group, key),
            AppAction::GroupStopped { group, report } => self.forget(&group, &report),
            AppAction::Refused(refusal) => self.refused(*refusal),
            AppAction::Answer { id, result } => {
                if let Some(reply) = self.calls.remove(&id) {
                    let _gone = reply.send(*result);
                }
            }
            AppAction::Notice(notice) => self.notice(&notice),
            AppAction::Closed => self.closed = true,
            other => {
                tracing::error!(target: "rocketmq", action = ?other, "this driver does not know the action")
            }
        }
    }
}
