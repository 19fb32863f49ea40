//! Joining and leaving: 34, 35, 38, and the word that a group has changed.
//= rocketmq: ClientManageProcessor, ConsumerManageProcessor, DefaultConsumerIdsChangeListener

use alloc::format;
use alloc::vec::Vec;
use core::mem;
use core::time::Duration;

use super::super::Timer;
use super::super::observation::Observation;
use super::super::post::Refusal;
use super::members::{Gone, Member};
use super::names::retry_topic;
use super::serve::Asked;
use super::{Replica, Serving};
use crate::ids::{ConnId, ConsumerGroup};
use crate::wire::code::ResponseCode;
use crate::wire::request::Done;
use crate::wire::request::heartbeat::{ConsumerData, HeartbeatAnswer, HeartbeatRequest, UnregisterRequest};
use crate::wire::request::members::{MemberList, MemberListRequest, MembersChanged};

/// Topics one group may subscribe to. Java knows no limit.
const SUBSCRIPTIONS_MAX: usize = 4_096;

fn check_subscriptions(data: &ConsumerData) -> Result<(), Refusal> {
    if data.subscriptions.len() <= SUBSCRIPTIONS_MAX {
        return Ok(());
    }
    let remark = format!(
        "group [{}] subscribes to more than {SUBSCRIPTIONS_MAX} topics",
        data.group
    );
    Err(Refusal::new(ResponseCode::SYSTEM_ERROR, remark))
}

impl Serving<'_> {
    pub(super) fn heartbeat(
        &mut self,
        asked: &Asked<'_, '_>,
        request: HeartbeatRequest,
    ) -> Result<HeartbeatAnswer, Refusal> {
        let second_version = request.fingerprint != 0;
        let mut changed = !second_version;
        for data in &request.consumers {
            check_subscriptions(data)?;
            // A group that is not to be is passed over without a word.
            if self.group(&data.group).is_err() {
                continue;
            }
            if second_version {
                changed |= self.replica.members.fingerprint(&data.group, request.fingerprint);
            }
            let member = Member {
                client: request.client_id.clone(),
                language: asked.header.language,
                version: asked.header.version,
                from: asked.from,
                heard: self.cx.now,
            };
            self.join(
                asked.conn(),
                member,
                data,
                !(second_version && request.without_sub),
            );
        }
        Ok(HeartbeatAnswer {
            supports_v2: Some(true),
            sub_changed: Some(changed),
        })
    }

    fn join(&mut self, conn: ConnId, member: Member, data: &ConsumerData, with_topics: bool) {
        let Ok(config) = self.group(&data.group) else {
            return;
        };
        let (notify, retry_queues) = (config.notify_consumer_ids_changed_enable, config.retry_queue_nums);
        let wants_topic = self.replica.is_master();
        if let Some(queues @ 1..) = u32::try_from(retry_queues).ok().filter(|_| wants_topic) {
            // A broker that has no room for the topic has members without one.
            let _full = self
                .disk
                .need_topic(&mut self.cx, &retry_topic(&data.group), queues);
        }
        let client = member.client.clone();
        let registered = self.replica.members.register(conn, member, data, with_topics);
        if registered.joined {
            let (broker, group) = (&self.disk.name, &data.group);
            self.cx.seen.note(|| Observation::MemberJoined {
                broker: broker.clone(),
                group: group.clone(),
                client,
                conn,
            });
        }
        if registered.told && notify {
            self.notify(&data.group);
        }
    }

    pub(super) fn unregister(
        &mut self,
        asked: &Asked<'_, '_>,
        request: UnregisterRequest,
    ) -> Result<Done, Refusal> {
        let Some(group) = &request.consumer_group else {
            return Ok(Done);
        };
        let notify = self
            .disk
            .groups
            .get(group)
            .is_none_or(|config| config.notify_consumer_ids_changed_enable);
        match self.replica.members.leave(asked.conn(), group) {
            Some(gone) => self.left(&Gone {
                told: gone.told && notify,
                ..gone
            }),
            // The others are told that somebody left who was not there.
            None if notify => self.notify(group),
            None => {}
        }
        Ok(Done)
    }

    pub(super) fn member_list(
        &mut self,
        _: &Asked<'_, '_>,
        request: MemberListRequest,
    ) -> Result<MemberList, Refusal> {
        let Some(group) = self.replica.members.group(&request.group) else {
            let remark = format!("no consumer for this group, {}", request.group);
            return Err(Refusal::new(ResponseCode::SYSTEM_ERROR, remark));
        };
        let client_ids = group.by_conn.values().map(|member| member.client.clone());
        Ok(MemberList {
            client_ids: client_ids.collect(),
        })
    }

    /// Tells all members of a group that it has changed.
    pub(in crate::broker) fn notify(&mut self, group: &ConsumerGroup) {
        let word = MembersChanged { group: group.clone() };
        for conn in self.replica.members.conns(group) {
            self.cx.post.tell(self.cx.now, self.addr, conn, &word);
        }
    }

    /// A connection is gone: what hung on it goes too.
    pub(in crate::broker) fn hang_up(&mut self, conn: ConnId) {
        self.replica.holds.drop_conn(conn);
        self.hang_up_relays(conn);
        for gone in self.replica.members.hang_up(conn) {
            self.left(&gone);
        }
    }

    /// The process ends: what it had in memory is gone, and nobody is told.
    pub(in crate::broker) fn end(&mut self, crash: bool) {
        let (broker, id) = (self.replica.broker, self.replica.id);
        let ended = mem::replace(self.replica, Replica::new(broker, id, self.cx.settings));
        for (group, of) in ended.members.groups() {
            for (conn, member) in &of.by_conn {
                self.cx.seen.note(|| Observation::MemberLeft {
                    broker: self.disk.name.clone(),
                    group: group.clone(),
                    client: member.client.clone(),
                    conn: *conn,
                });
            }
        }
        self.cx.timers.cancel(Timer::Holds(self.key));
        self.cx.timers.cancel(Timer::Relays(self.key));
        if self.replica.is_master() {
            self.disk.master_down_since = Some(self.cx.now);
            if crash {
                self.disk.offsets.crash(self.cx.now);
            } else {
                self.disk.offsets.stop();
            }
        }
    }

    /// The process runs again.
    pub(in crate::broker) fn begin(&mut self) {
        self.disk.register_topics(&mut self.cx);
        if self.replica.is_master() {
            self.disk.master_down_since = None;
            self.disk.deliver_due(&mut self.cx);
        }
    }

    fn left(&mut self, gone: &Gone) {
        self.cx.seen.note(|| Observation::MemberLeft {
            broker: self.disk.name.clone(),
            group: gone.group.clone(),
            client: gone.client.clone(),
            conn: gone.conn,
        });
        if gone.told {
            self.notify(&gone.group);
        }
    }

    /// Forgets members that are silent. Their connections are closed, which tells the groups in which they
    /// were not silent; those in which they were are told nothing. Locks that have expired go too.
    pub(in crate::broker) fn expire_members(&mut self, expiry: Duration) {
        self.replica.locks.forget_expired(self.cx.now);
        let silent: Vec<Gone> = self.replica.members.expire(self.cx.now, expiry);
        for gone in silent {
            self.cx.post.close(gone.conn);
            self.left(&Gone { told: false, ..gone });
        }
    }
}

#[cfg(test)]
mod tests;
