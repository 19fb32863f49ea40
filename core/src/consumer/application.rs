//! What comes from the application: groups that start and stop, reports, calls.

use alloc::boxed::Box;
use alloc::string::ToString as _;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::cx::{Cx, Destination, Purpose, Replica};
use super::group::{Group, Kept};
use super::peers::Peers;
use super::{ConsumerState, Life, calls};
use crate::action::{AppAction, CallError, Refusal, RefusalReason};
use crate::config::{CONCURRENCY, ConfigError, GroupConfig, MessageModel};
use crate::event::{AppEvent, Call, Target};
use crate::ids::{ConsumerGroup, PeerAddr, Topic};

impl ConsumerState {
    pub(super) fn on_app(&mut self, event: AppEvent) {
        match event {
            AppEvent::StartGroup(config) => self.start_group(config),
            AppEvent::StopGroup { group, drain } => {
                let mut cx = self.ground.cx();
                match self.by_name.get(&group).and_then(|key| self.groups.get_mut(*key)) {
                    Some(group) => group.drain(&mut cx, drain),
                    None if self.loads.call_off(&group) => self.never_began(group),
                    None => self.refuse(Some(group), "stop", RefusalReason::UnknownGroup),
                }
            }
            AppEvent::Shutdown { drain } => self.shut_down(drain),
            AppEvent::Consumed { id, range, report } => {
                let mut cx = self.ground.cx();
                match self.groups.get_mut(id.group) {
                    Some(group) => group.on_consumed(
                        &mut cx,
                        Peers::of(&self.routes, &self.beats),
                        id.run,
                        range,
                        &report,
                    ),
                    None => cx.counters.late_reports += u64::from(range.len()),
                }
            }
            AppEvent::Extend { id, position, by } => {
                let mut cx = self.ground.cx();
                match self.groups.get_mut(id.group) {
                    Some(group) => group.on_extend(&mut cx, id.run, position, by),
                    None => cx.counters.late_reports += 1,
                }
            }
            AppEvent::CrcMismatch { id, position } => {
                let mut cx = self.ground.cx();
                match self.groups.get_mut(id.group) {
                    Some(group) => group.on_crc_mismatch(&mut cx, id.run, position),
                    None => cx.counters.late_reports += 1,
                }
            }
            AppEvent::Allocated { id, share } => {
                let mut cx = self.ground.cx();
                match self.groups.get_mut(id.group) {
                    Some(group) => {
                        group.on_allocated(&mut cx, Peers::of(&self.routes, &self.beats), id.serial, share)
                    }
                    None => cx.counters.stale_answers += 1,
                }
            }
            AppEvent::Concurrency { group, permits } => {
                self.change(group, "concurrency", |group, cx, _| {
                    if !CONCURRENCY.contains(&permits) {
                        let why = "use 1 to 1000".to_string();
                        return Err(RefusalReason::BadConfig("concurrency", why));
                    }
                    group.set_permits(cx, permits);
                    Ok(())
                });
            }
            AppEvent::NameServers(servers) => self.replace_name_servers(&servers),
            AppEvent::Clock(wall) => self.ground.clock = (self.ground.now, wall),
            AppEvent::Call(call) => self.call(*call),
            AppEvent::Subscribe { group, topic, filter } => {
                let is_taken = self.change(group, "subscribe", |group, cx, peers| {
                    group.change_subscription(cx, peers, &topic, &filter)
                });
                if is_taken {
                    self.watch(&topic);
                }
            }
            AppEvent::Unsubscribe { group, topic } => {
                self.change(group, "unsubscribe", |group, cx, _| group.unsubscribe(cx, &topic));
            }
            AppEvent::Pause { group, scope } => {
                self.change(group, "pause", |group, cx, peers| group.pause(cx, peers, &scope));
            }
            AppEvent::Resume { group, scope } => {
                self.change(group, "resume", |group, cx, peers| {
                    group.resume(cx, peers, &scope);
                    Ok(())
                });
            }
            AppEvent::Seek { group, queue, to } => {
                self.change(group, "seek", |group, cx, peers| {
                    group.seek(cx, peers, &queue, to)
                });
            }
            AppEvent::RateLimit { group, topic, rate } => {
                self.change(group, "rate limit", |group, cx, _| {
                    group.set_rate(cx, topic.as_ref(), rate)
                });
            }
            AppEvent::Credentials { .. } => self.refuse(None, "credentials", RefusalReason::NotSupportedYet),
        }
    }

    fn start_group(&mut self, config: Arc<GroupConfig>) {
        let name = config.group.clone();
        if self.life != Life::Running {
            return self.refuse(Some(name), "start", RefusalReason::ShuttingDown);
        }
        if self.by_name.contains_key(&name) || self.loads.is_loading(&name) {
            return self.refuse(Some(name), "start", RefusalReason::AlreadyRegistered);
        }
        let most = self.config.groups_max;
        if self.groups.len() + self.loads.len() >= most as usize {
            return self.refuse(Some(name), "start", RefusalReason::TooManyGroups { most });
        }
        if let Err(ConfigError { key, why }) = config.check() {
            return self.refuse(Some(name), "start", RefusalReason::BadConfig(key, why));
        }
        if config.model == MessageModel::Broadcasting {
            return self.load_offsets(config);
        }
        self.begin_group(config, None);
    }

    /// The settings are good, and what the group keeps itself is known.
    pub(super) fn begin_group(&mut self, config: Arc<GroupConfig>, kept: Option<Kept>) {
        let name = config.group.clone();
        self.farewells.revoke(&name);
        let client = self.config.clone();
        let mut cx = self.ground.cx();
        let key = self.groups.insert_with(|key| {
            Group::new(&mut cx, key, config, &client).expect("the configuration was checked above")
        });
        if let (Some(group), Some(kept)) = (self.groups.get_mut(key), kept) {
            group.keep_offsets(kept);
        }
        self.by_name.insert(name.clone(), key);
        let topics: Vec<Topic> = self
            .groups
            .get(key)
            .into_iter()
            .flat_map(Group::topics)
            .cloned()
            .collect();
        cx.tell(AppAction::GroupStarted { group: name, key });
        for topic in topics {
            self.watch(&topic);
        }
        let mut cx = self.ground.cx();
        if let Some(group) = self.groups.get_mut(key) {
            group.begin(&mut cx, Peers::of(&self.routes, &self.beats));
        }
    }

    fn watch(&mut self, topic: &Topic) {
        self.routes.watch(&mut self.ground.cx(), topic);
    }

    fn shut_down(&mut self, drain: Duration) {
        if self.life != Life::Running {
            return;
        }
        self.life = Life::ShuttingDown;
        self.rpc.leave();
        self.beats.leave();
        for server in self.routes.servers() {
            self.rpc.dial_no_more(server);
        }
        for group in self.loads.call_off_all() {
            self.refuse(Some(group), "start", RefusalReason::ShuttingDown);
        }
        for key in self.groups.keys() {
            let mut cx = self.ground.cx();
            if let Some(group) = self.groups.get_mut(key) {
                group.drain(&mut cx, drain);
            }
        }
        self.close_if_empty();
    }

    pub(super) fn close_if_empty(&mut self) {
        if self.life != Life::ShuttingDown || !self.groups.is_empty() {
            return;
        }
        self.life = Life::Closed;
        let mut cx = self.ground.cx();
        self.calls.fail_all(&mut cx);
        self.rpc.close_all(&mut cx.step());
        cx.tell(AppAction::Closed);
        self.ground.timers.clear();
        self.ground.wishes.clear();
    }

    fn replace_name_servers(&mut self, servers: &[PeerAddr]) {
        if servers.is_empty() {
            let why = "give at least one".to_string();
            return self.refuse(
                None,
                "name servers",
                RefusalReason::BadConfig("name_servers", why),
            );
        }
        let gone = self.routes.set_servers(servers);
        for addr in gone {
            let mut cx = self.ground.cx();
            self.rpc.forget(&mut cx.step(), &addr);
        }
    }

    fn call(&mut self, call: Call) {
        let to = match &call.to {
            Target::NameServer => Destination::NameServer,
            Target::Master(broker) => Destination::Broker(broker.clone(), Replica::Master),
            Target::Address(addr) => Destination::Address(addr.clone()),
        };
        let id = call.id;
        let mut cx = self.ground.cx();
        if !self.calls.begin(id) {
            return cx.tell(calls::answer(id, Err(CallError::Overloaded)));
        }
        let deadline = cx.now + call.timeout;
        let form = self.config.header_form;
        self.send(&to, Purpose::Call(id), deadline, |opaque| {
            calls::encode(&call, form, opaque)
        });
    }

    /// Changes how a group consumes, or says why not; true when it is changed.
    fn change(
        &mut self,
        name: ConsumerGroup,
        wish: &'static str,
        change: impl FnOnce(&mut Group, &mut Cx<'_>, Peers<'_>) -> Result<(), RefusalReason>,
    ) -> bool {
        let mut cx = self.ground.cx();
        let group = self.by_name.get(&name).and_then(|key| self.groups.get_mut(*key));
        let done = group.map_or(Err(RefusalReason::UnknownGroup), |group| {
            change(group, &mut cx, Peers::of(&self.routes, &self.beats))
        });
        let is_done = done.is_ok();
        if let Err(why) = done {
            self.refuse(Some(name), wish, why);
        }
        is_done
    }

    pub(super) fn refuse(&mut self, group: Option<ConsumerGroup>, wish: &'static str, why: RefusalReason) {
        self.ground
            .out
            .push(AppAction::Refused(Box::new(Refusal { group, wish, why })));
    }
}
