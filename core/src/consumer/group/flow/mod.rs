//! Whether messages flow, and how fast: what is paused, and at which rate messages are handed out.
//!
//! ```text
//!            gate: no new pull ◄── paused? ──► dispatch: no new delivery
//!                                              limited? ──► so many of them, or a timer
//! ```
//!
//! A pause stops pulls and deliveries, and nothing else: queues stay owned, a pull that is out is kept when it is
//! answered, handlers finish, failures are sent back, offsets are committed, shares are computed. What waits stays
//! where it is and counts; only what no handler has begun comes back from the lanes. Nothing that lasts as long as a
//! pause or waits for a token is a stall.
//= rocketmq: DefaultMQPushConsumerImpl.suspend type=differs
//  reason: stops deliveries too and not only pulls, for a topic or a queue as well; rebalances go on.

mod bucket;
mod limiter;
mod switches;

use alloc::vec::Vec;

use crate::action::RefusalReason;
use crate::config::{GroupConfig, check_rate};
use crate::consumer::cx::{Cx, GroupTimer};
use crate::consumer::peers::Peers;
use crate::event::FlowScope;
use crate::ids::{MessageQueue, QueueKey, Topic};
use crate::rate::Rate;
use crate::status::{FlowStatus, PauseScope};
use crate::time::Instant;

use super::Group;
use super::queue::Queue;
use super::queue::window::SlotState;

use limiter::{Allowance, Limiter};
use switches::Switches;

/// What a queue may do whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Hand out at most so many messages.
    Take(u32),
    /// Nothing: it is paused, and joins the round again when it is resumed.
    Pass,
    /// Nothing yet, and it stays first: the group has no token.
    Wait,
    /// Nothing yet: its topic has no token.
    StepAside,
}

/// Switches and rates of a group.
#[derive(Clone, Debug, Default)]
pub(super) struct Flow {
    switches: Switches,
    limiter: Limiter,
}

impl Flow {
    pub(super) fn new(config: &GroupConfig, now: Instant) -> Self {
        let mut flow = Self::default();
        flow.limiter.set(None, config.rate_limit, now);
        for (topic, rate) in &config.topic_rate_limits {
            flow.limiter.set(Some(topic), Some(*rate), now);
        }
        flow
    }

    /// What holds a queue, if it is paused.
    pub(super) fn paused(&self, queue: &MessageQueue) -> Option<PauseScope> {
        self.switches.holds(queue)
    }

    /// Turns begin anew.
    pub(super) const fn begin(&mut self) {
        self.limiter.begin();
    }

    /// What a queue may do whose turn it is, with `waiting` more behind it.
    pub(super) fn turn(&mut self, now: Instant, queue: &MessageQueue, waiting: usize) -> Turn {
        if self.switches.holds(queue).is_some() {
            return Turn::Pass;
        }
        match self.limiter.allowance(now, &queue.topic, waiting + 1) {
            Allowance::All => Turn::Take(u32::MAX),
            Allowance::Messages(most) => Turn::Take(most),
            Allowance::NobodyYet => Turn::Wait,
            Allowance::NotThisTopic => Turn::StepAside,
        }
    }

    /// So many messages of a queue were handed out.
    pub(super) fn spend(&mut self, now: Instant, queue: &MessageQueue, messages: u32) {
        self.limiter.spend(now, &queue.topic, messages);
    }

    pub(super) fn step_aside(&mut self, queue: QueueKey) {
        self.limiter.step_aside(queue);
    }

    /// Names of topics and queues that are remembered.
    fn names(&self) -> usize {
        self.switches.names() + self.limiter.topic_rates().len()
    }

    fn status(&self) -> FlowStatus {
        let topics = self.limiter.topic_rates();
        FlowStatus {
            paused: self.switches.group(),
            paused_topics: self.switches.topics().iter().cloned().collect(),
            paused_queues: self.switches.queues().iter().cloned().collect(),
            rate_limit: self.limiter.rate(),
            topic_rate_limits: topics.map(|(topic, rate)| (topic.clone(), rate)).collect(),
            waits_until: self.limiter.waits_until(),
        }
    }
}

impl Group {
    /// Stops pulls and deliveries of a scope. A second time changes nothing.
    ///
    /// # Errors
    /// As many topics and queues are remembered as may be.
    pub(crate) fn pause(
        &mut self,
        cx: &mut Cx<'_>,
        peers: Peers<'_>,
        scope: &FlowScope,
    ) -> Result<(), RefusalReason> {
        if self.flow.switches.is_paused(scope) {
            return Ok(());
        }
        if *scope != FlowScope::Group {
            self.room_for_a_name()?;
        }
        self.flow.switches.pause(scope);
        for key in self.owned() {
            if self.is_paused(key) {
                self.withdraw(cx, key);
                self.pump(cx, peers, key);
            }
        }
        Ok(())
    }

    /// Lets a scope flow again, from where it is.
    pub(crate) fn resume(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>, scope: &FlowScope) {
        if !self.flow.switches.is_paused(scope) {
            return;
        }
        self.flow.switches.resume(scope);
        for key in self.owned() {
            if !self.is_paused(key) {
                self.enlist(key);
                self.pump(cx, peers, key);
            }
        }
        self.deliver(cx);
    }

    /// Limits how fast messages of the group, or of one topic, are handed out; `None` ends that.
    ///
    /// # Errors
    /// A rate that cannot be used, or as many topics and queues are remembered as may be.
    pub(crate) fn set_rate(
        &mut self,
        cx: &mut Cx<'_>,
        topic: Option<&Topic>,
        rate: Option<Rate>,
    ) -> Result<(), RefusalReason> {
        if let Some(rate) = rate {
            check_rate("rate_limit", rate).map_err(|error| RefusalReason::BadConfig(error.key, error.why))?;
        }
        if rate.is_some() && topic.is_some_and(|topic| !self.flow.limiter.limits_topic(topic)) {
            self.room_for_a_name()?;
        }
        self.flow.limiter.set(topic, rate, cx.now);
        self.take_turns(cx);
        Ok(())
    }

    /// Tokens have come, or another rate: whoever waited may have a turn.
    pub(super) fn take_turns(&mut self, cx: &mut Cx<'_>) {
        cx.timers.cancel(self.timer(GroupTimer::Flow));
        for key in self.flow.limiter.come_back() {
            self.dispatch.enlist(key);
        }
        self.deliver(cx);
    }

    /// Turns have ended; if somebody waits for a token, so does a timer.
    pub(super) fn arm_flow_timer(&self, cx: &mut Cx<'_>) {
        if let Some(at) = self.flow.limiter.waits_until() {
            cx.timers.set_no_later(self.timer(GroupTimer::Flow), at);
        }
    }

    /// Whether a queue stands still because it was asked to: it is paused, or its lowest message waits for a token.
    pub(super) fn is_at_rest(&self, queue: &Queue) -> bool {
        let is_ready = |queue: &Queue| {
            let front = queue.tenure().and_then(|tenure| tenure.window.front());
            queue.listed && front == Some(SlotState::Ready)
        };
        self.flow.paused(&queue.name).is_some()
            || (self.flow.limiter.limits(&queue.name.topic) && is_ready(queue))
    }

    pub(super) fn flow_status(&self) -> FlowStatus {
        self.flow.status()
    }

    fn is_paused(&self, key: QueueKey) -> bool {
        let queue = self.queues.get(key);
        queue.is_some_and(|queue| self.flow.paused(&queue.name).is_some())
    }

    fn owned(&self) -> Vec<QueueKey> {
        let owned = self.queues.iter().filter(|(_, queue)| queue.is_owned());
        owned.map(|(key, _)| key).collect()
    }

    fn room_for_a_name(&self) -> Result<(), RefusalReason> {
        let most = self.config.flow_names_max;
        if self.flow.names() < most as usize {
            return Ok(());
        }
        let why = alloc::format!("{most} topics and queues are named already; raise it, or resume some");
        Err(RefusalReason::BadConfig("flow_names_max", why))
    }
}
