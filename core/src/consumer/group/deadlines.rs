//! Deliveries that take too long: their tokens are cancelled, then they are given up and sent back.

use core::time::Duration;

use crate::action::AppAction;
use crate::consumer::cx::{Cx, GroupTimer, QueueTimer};
use crate::consumer::peers::Peers;
use crate::ids::{ConsumeId, QueueKey};
use crate::notice::NoticeKind;
use crate::status::GroupPhase;
use crate::wire::request::send_back::Delay;

use super::Group;
use super::dispatch::strays::Stage;
use super::queue::Queue;
use super::queue::window::SlotState;

impl Group {
    /// A handler asks for more time. Without effect while the queue is being given back and once the group
    /// is past its drain: a message whose report will not count is not to be waited for. Neither has it for a message
    /// that an operator handed in: his broker does not wait.
    pub(crate) fn on_extend(&mut self, cx: &mut Cx<'_>, run: u64, position: u32, by: Duration) {
        if self.directs.is_one(run) {
            return;
        }
        let Some((key, seq)) = self.dispatch.find(run, position) else {
            cx.counters.late_reports += 1;
            return;
        };
        let has_deadlines = matches!(self.phase, GroupPhase::Running | GroupPhase::Draining);
        if self.strays.extend(cx.now, (run, position), by) {
            return self.arm_strays_timer(cx);
        }
        let queue = self
            .queues
            .get_mut(key)
            .filter(|queue| has_deadlines && queue.is_owned());
        let Some(tenure) = queue.and_then(Queue::tenure_mut) else {
            return;
        };
        if matches!(tenure.window.state(seq), Some(SlotState::Out { .. })) {
            tenure.window.set_state(
                seq,
                SlotState::Out {
                    deadline: cx.now + by,
                },
            );
            self.arm_delivery_timer(cx, key);
        }
    }

    /// A lane found that a body is not what its checksum says.
    pub(crate) fn on_crc_mismatch(&mut self, cx: &mut Cx<'_>, run: u64, position: u32) {
        if self.directs.is_one(run) {
            return;
        }
        let Some((key, seq)) = self.dispatch.find(run, position) else {
            cx.counters.late_reports += 1;
            return;
        };
        if let Some(queue) = self.queues.get(key)
            && let Some(offset) = queue.tenure().and_then(|tenure| tenure.window.offset(seq))
        {
            cx.notice(
                &self.name,
                NoticeKind::CrcMismatch {
                    queue: queue.name.clone(),
                    offset,
                },
            );
        }
    }

    /// Deliveries have passed their deadline, or their grace.
    pub(super) fn on_delivery_timer(&mut self, cx: &mut Cx<'_>, peers: Peers<'_>, key: QueueKey) {
        let overdue = self
            .queues
            .get(key)
            .and_then(Queue::tenure)
            .map(|tenure| tenure.window.overdue(cx.now));
        for seq in overdue.unwrap_or_default() {
            let Some((run, position)) = self.dispatch.locate(key, seq) else {
                continue;
            };
            let id = ConsumeId { group: self.key, run };
            let Some(queue) = self.queues.get_mut(key) else {
                return;
            };
            let name = queue.name.clone();
            let Some(tenure) = queue.tenure_mut() else { return };
            match (tenure.window.state(seq), tenure.window.offset(seq)) {
                (Some(SlotState::Out { .. }), Some(offset)) => {
                    let until = cx.now + self.config.cancel_grace;
                    tenure.window.set_state(seq, SlotState::Cancelled { until });
                    cx.tell(AppAction::Cancel { id, position });
                    let after = self.config.delivery_deadline;
                    cx.notice(
                        &self.name,
                        NoticeKind::DeliveryDeadline {
                            queue: name,
                            offset,
                            after,
                        },
                    );
                }
                (Some(SlotState::Cancelled { .. }), _) => {
                    cx.tell(AppAction::Abandon { id, position });
                    if self.config.is_orderly() {
                        tenure.window.set_state(seq, SlotState::Abandoned);
                    } else {
                        self.send_back(cx, key, seq, Delay::Broker);
                    }
                }
                _ => {}
            }
        }
        self.arm_delivery_timer(cx, key);
        self.after_deadline(cx, peers, key);
    }

    /// An ownership has ended: the deadlines of handlers that still run for it hold on, see [`Strays`].
    ///
    /// [`Strays`]: super::dispatch::strays::Strays
    pub(super) fn stray(&mut self, cx: &mut Cx<'_>, key: QueueKey, queue: &Queue) {
        if !matches!(self.phase, GroupPhase::Running | GroupPhase::Draining) {
            return;
        }
        for (run, position, seq) in self.dispatch.out_of(key) {
            let state = queue.tenure().and_then(|tenure| tenure.window.state(seq));
            match state {
                Some(SlotState::Out { deadline }) => {
                    self.strays.add(deadline, (run, position), Stage::Running);
                }
                Some(SlotState::Cancelled { until }) => {
                    self.strays.add(until, (run, position), Stage::Cancelled);
                }
                // Abandoned already: its report is under way.
                Some(
                    SlotState::Ready
                    | SlotState::Abandoned
                    | SlotState::Failing
                    | SlotState::Held
                    | SlotState::Done,
                )
                | None => {}
            }
        }
        self.arm_strays_timer(cx);
    }

    pub(super) fn on_strays_timer(&mut self, cx: &mut Cx<'_>) {
        while let Some(((run, position), stage)) = self.strays.take_due(cx.now) {
            if self.dispatch.find(run, position).is_none() {
                continue;
            }
            let id = ConsumeId { group: self.key, run };
            match stage {
                Stage::Running => {
                    let until = cx.now + self.config.cancel_grace;
                    self.strays.add(until, (run, position), Stage::Cancelled);
                    cx.tell(AppAction::Cancel { id, position });
                }
                Stage::Cancelled => cx.tell(AppAction::Abandon { id, position }),
            }
        }
        self.arm_strays_timer(cx);
    }

    fn arm_strays_timer(&self, cx: &mut Cx<'_>) {
        cx.timers
            .arm(self.timer(GroupTimer::Strays), self.strays.next_at());
    }

    fn arm_delivery_timer(&self, cx: &mut Cx<'_>, key: QueueKey) {
        let Some(queue) = self.queues.get(key) else { return };
        let next = queue.tenure().and_then(|tenure| tenure.window.next_due());
        cx.timers.arm(queue.timer(QueueTimer::Delivery), next);
    }
}
