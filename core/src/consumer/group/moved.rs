//! A broker says that an offset is none of its own, or that an operator has moved it: the ownership ends, and
//! another one of the same queue begins elsewhere. What was fetched so far is dropped; handlers that run belong to an
//! ownership that has ended. Only where messages have expired it goes on: what was fetched is all there is of them.
//!
//! What is decided, and why, stands in [`queue::moved`](super::queue::moved).
//= rocketmq: DefaultMQPushConsumerImpl.pullMessage (OFFSET_ILLEGAL) type=differs
//  reason: a slave is not believed, a master that has just come back not at once; nothing that is there is skipped;
//  an operator's reset is told apart.

use crate::consumer::cx::{Cx, QuestionBody};
use crate::consumer::peers::Peers;
use crate::ids::{MessageQueue, QueueKey, QueueOffset};
use crate::notice::OffsetTrouble;
use crate::status::HoldReason;
use crate::wire::request::offsets::{Boundary, MaxOffsetRequest, MinOffsetRequest, SearchOffsetRequest};
use crate::wire::request::pull::PullAnswer;
use crate::wire::request::route::MASTER_ID;

use super::Group;
use super::left::Left;
use super::queue::Queue;
use super::queue::moved::{Claim, Course, Evidence, Find, Moved};

impl Group {
    pub(super) fn on_offset_moved(
        &mut self,
        cx: &mut Cx<'_>,
        peers: Peers<'_>,
        key: QueueKey,
        asked: QueueOffset,
        answer: &PullAnswer,
    ) {
        let Some(tenure) = self.queues.get(key).and_then(Queue::tenure) else {
            return;
        };
        let claim = Claim::of(asked, answer);
        let evidence = Evidence {
            from_master: tenure.asked_master,
            doubts: tenure.pull.doubts(),
            unfinished: tenure.window.lowest_unfinished(),
            new_since: tenure.seen.new_since(),
        };
        match claim.course(self.config.illegal_offset, &evidence) {
            Course::AskAgain => {
                let reason = HoldReason::OffsetDoubted;
                self.stay(cx, key, &claim, OffsetTrouble::Unconfirmed, reason);
            }
            Course::Hold(trouble) => self.stay(cx, key, &claim, trouble, HoldReason::OffsetIllegal),
            Course::GoTo(to, Some(OffsetTrouble::BelowMin))
                if to > asked && tenure.window.unfinished() > 0 =>
            {
                self.pass_over(cx, key, &claim, to);
            }
            Course::GoTo(to, trouble) => {
                if let Some(key) = self.begin_elsewhere(cx, key, claim, trouble) {
                    self.own(cx, peers, key, to, None);
                }
            }
            Course::Find(find, trouble) => {
                if let Some(key) = self.begin_elsewhere(cx, key, claim, Some(trouble)) {
                    self.find_start(cx, key, find);
                }
            }
        }
    }

    /// The ownership goes on where it is: the master is asked for the same once more.
    fn stay(
        &mut self,
        cx: &mut Cx<'_>,
        key: QueueKey,
        claim: &Claim,
        why: OffsetTrouble,
        reason: HoldReason,
    ) {
        let Some(queue) = self.queues.get_mut(key) else {
            return;
        };
        let kind = claim.illegal(queue.name.clone(), claim.asked, why);
        let Some(tenure) = queue.tenure_mut() else { return };
        if tenure.asked_master {
            tenure.pull.doubt();
        }
        let pause = if reason == HoldReason::OffsetIllegal {
            self.config.pull_retry_max
        } else {
            self.config.pull_retry
        };
        tenure.pull.suggest(Some(MASTER_ID));
        tenure.pull.pause(cx, pause, reason);
        cx.notice(&self.name, kind);
    }

    /// What was next has expired, and what was fetched before is not finished: it has most likely expired as well,
    /// so that nobody could fetch it again. The ownership goes on with it, and the range passes over the gap.
    fn pass_over(&mut self, cx: &mut Cx<'_>, key: QueueKey, claim: &Claim, to: QueueOffset) {
        let Some(queue) = self.queues.get_mut(key) else {
            return;
        };
        let kind = claim.illegal(queue.name.clone(), to, OffsetTrouble::BelowMin);
        let Some(tenure) = queue.tenure_mut() else { return };
        tenure.window.advance_to(to);
        // Once is at once; a broker that says so of every offset does not set the pace.
        if tenure.pull.stood_still() > 1 {
            tenure
                .pull
                .pause(cx, self.config.pull_retry, HoldReason::BackingOff);
        }
        cx.notice(&self.name, kind);
    }

    /// Ends an ownership and begins another one of the same queue.
    pub(super) fn begin_elsewhere(
        &mut self,
        cx: &mut Cx<'_>,
        key: QueueKey,
        claim: Claim,
        trouble: Option<OffsetTrouble>,
    ) -> Option<QueueKey> {
        let queue = self.queues.get(key)?;
        let tenure = queue.tenure()?;
        let (name, unfinished) = (queue.name.clone(), tenure.window.lowest_unfinished());
        let moved = Moved {
            claim,
            trouble,
            unfinished,
            again: queue.moved.is_some() && !tenure.was_served,
            carried: tenure.progress.legacy(cx.now),
        };
        let left = Left {
            finished: unfinished,
            new_since: tenure.seen.new_since(),
            missing: false,
            back_at: None,
        };
        let key = self.begin_anew(cx, key, name, left);
        if let Some(queue) = self.queues.get_mut(key) {
            queue.moved = Some(moved);
        }
        Some(key)
    }

    /// Ends an ownership at once and begins another one of the same queue. In order its handlers come first.
    pub(super) fn begin_anew(
        &mut self,
        cx: &mut Cx<'_>,
        key: QueueKey,
        name: MessageQueue,
        left: Left,
    ) -> QueueKey {
        self.withdraw(cx, key);
        self.bury(cx, key);
        self.left.leave(name.clone(), left);
        self.insert_queue(cx, name)
    }

    pub(super) fn find_start(&mut self, cx: &mut Cx<'_>, key: QueueKey, find: Find) {
        let Some(queue) = self.queues.get_mut(key) else {
            return;
        };
        let reference = queue.reference();
        let body = match find {
            Find::Min => QuestionBody::MinOffset(MinOffsetRequest { queue: reference }),
            Find::Max => QuestionBody::MaxOffset(MaxOffsetRequest {
                queue: reference,
                committed: None,
            }),
            Find::Since(timestamp) => QuestionBody::OffsetAt(SearchOffsetRequest {
                queue: reference,
                timestamp,
                boundary: Some(Boundary::Lower),
            }),
        };
        queue.ask_start(cx, body, self.offset_timeout);
    }
}
