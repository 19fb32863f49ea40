//! Each request ends once: by its answer, by its deadline, or with its link.
//!
//! Source: P57; cases LP-03 and LP-09. Three things can be seen from outside:
//!
//! * a number is not used again on a connection while its answer may still come, or an answer that is late would
//!   be taken for that of a newer request;
//! * a commit that was acknowledged does not time out afterwards: that would be a second outcome;
//! * a link is given up when nothing comes back on it any more. A client that waits for the kernel waits a
//!   quarter of an hour.
//!
//! Legal all the same: requests that are not answered at all (their deadline ends them), links that fall silent
//! because nothing was asked, and a process that was stopped meanwhile. Java-like members are not held to it:
//! Java closes a link for one late answer, and leaves a silent one to the next request that somebody waits for.

use std::collections::BTreeMap;
use std::time::Duration;

use rocketmq_consumer_core::action::CallError;
use rocketmq_consumer_core::ids::{ConnId, QueueOffset};
use rocketmq_consumer_core::notice::NoticeKind;
use rocketmq_consumer_core::time::Instant;

use super::requests::{self, Requests};
use crate::sim::invariant::{Broken, Invariant, View};
use crate::sim::seen::{Answer, Ask, Deed, Life, QueueNo, Seen, Sight, Sights, What};

/// The longest a link of ours may stay mute: the next heartbeat is 30 s away, the longest deadline of anything
/// (a held pull) is 23 s, a half frame may have come in between and begun it anew.
const MUTE: Duration = Duration::from_secs(90);

/// A commit begins with the question what is stored when a slave told the start: it may be about any offset.
const ANY: QueueOffset = QueueOffset(-1);

/// What is known of a connection.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    /// The first request since something came in.
    waits_since: Option<Instant>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct EachRequestEndsOnce {
    requests: Requests<Option<(QueueNo, QueueOffset)>>,
    links: BTreeMap<(Life, ConnId), Link>,
    /// Commits of each queue that were written and not answered, and questions for what is stored.
    commits: BTreeMap<(Life, QueueNo, QueueOffset), u32>,
    /// Those that were lost in the step that runs, with a link that the member closed itself: perhaps because one
    /// of them was not answered.
    lost_now: Vec<(QueueNo, QueueOffset)>,
    timeout: String,
}

impl EachRequestEndsOnce {
    pub(super) fn new() -> Self {
        Self {
            timeout: CallError::Timeout.to_string(),
            ..Self::default()
        }
    }

    fn asked(&mut self, at: Instant, life: Life, deed: &Deed<'_>) -> Result<(), Broken> {
        let Deed::Asked {
            conn,
            opaque,
            oneway: false,
            ask,
            ..
        } = *deed
        else {
            return Ok(());
        };
        let commit = match ask {
            Ask::Commit { queue, offset, .. } => Some((queue, offset)),
            Ask::QueryOffset { queue, .. } => Some((queue, ANY)),
            _ => None,
        };
        if let Some((queue, offset)) = commit {
            *self.commits.entry((life, queue, offset)).or_default() += 1;
        }
        let link = self.links.entry((life, conn)).or_default();
        link.waits_since.get_or_insert(at);
        match self.requests.asked(life, conn, opaque, commit) {
            Some(_) => Err(Broken(format!(
                "{life:?} uses number {opaque} on {conn:?} again before it was answered: {ask:?}"
            ))),
            None => Ok(()),
        }
    }

    fn told(&self, life: Life, kind: &NoticeKind, view: &dyn View) -> Result<(), Broken> {
        let NoticeKind::CommitFailed { queue, offset, why } = kind else {
            return Ok(());
        };
        if *why != self.timeout {
            return Ok(());
        }
        let end = QueueNo(u32::MAX);
        let is_of = |of: &QueueOffset| *of == *offset || *of == ANY;
        let of_life = self
            .commits
            .range((life, QueueNo(0), QueueOffset(i64::MIN))..=(life, end, QueueOffset(i64::MAX)));
        let mut waiting =
            of_life.filter(|((_, no, of), left)| is_of(of) && **left > 0 && view.queue(*no) == queue);
        let mut lost = self
            .lost_now
            .iter()
            .filter(|(no, of)| is_of(of) && view.queue(*no) == queue);
        match waiting.next().is_some() || lost.next().is_some() {
            true => Ok(()),
            false => Err(Broken(format!(
                "{life:?} says that its commit of {queue} at {offset} timed out, and every one that was written was \
                 answered"
            ))),
        }
    }

    fn mute(&self, at: Instant, life: Life) -> Result<(), Broken> {
        let end = |n| ConnId {
            slot: n,
            generation: n,
        };
        for ((_, conn), link) in self.links.range((life, end(0))..=(life, end(u32::MAX))) {
            if link.waits_since.is_some_and(|since| at > since + MUTE) {
                return Err(Broken(format!(
                    "{life:?} asked on {conn:?} at {:?}, nothing came since, and the link is still up at {at:?}",
                    link.waits_since
                )));
            }
        }
        Ok(())
    }

    /// A commit was answered or lost: it cannot time out any more.
    fn commit_ended(
        commits: &mut BTreeMap<(Life, QueueNo, QueueOffset), u32>,
        life: Life,
        commit: (QueueNo, QueueOffset),
    ) {
        let key = (life, commit.0, commit.1);
        if let Some(left) = commits.get_mut(&key) {
            *left -= 1;
            if *left == 0 {
                commits.remove(&key);
            }
        }
    }
}

impl Invariant for EachRequestEndsOnce {
    fn name(&self) -> &'static str {
        "each_request_ends_once"
    }

    fn looks_at(&self) -> Sights {
        let others = [Sight::Requested, Sight::Told, Sight::StepEnd];
        let requests = Sights::ASKED.and(Sights::ANSWERED);
        requests::ENDS.and(requests).and(Sights::of(&others))
    }

    fn see(&mut self, seen: &Seen<'_>, view: &dyn View) -> Result<(), Broken> {
        let What::Member { life, deed } = seen.what else {
            return Ok(());
        };
        if !view.tenures().is_ours(life) {
            return Ok(());
        }
        let (commits, lost_now) = (&mut self.commits, &mut self.lost_now);
        let by_itself = matches!(deed, Deed::Disconnected { by_itself: true, .. });
        self.requests.see(life, &deed, |commit| {
            if let Some(commit) = commit {
                Self::commit_ended(commits, life, commit);
                lost_now.extend(by_itself.then_some(commit));
            }
        });
        match deed {
            Deed::Killed | Deed::Closed => {
                self.links.retain(|(of, _), _| *of != life);
                self.commits.retain(|(of, ..), _| *of != life);
            }
            Deed::Disconnected { conn, .. } => {
                self.links.remove(&(life, conn));
            }
            Deed::Answered {
                conn, opaque, answer, ..
            } => {
                if let Some(link) = self.links.get_mut(&(life, conn)) {
                    link.waits_since = None;
                }
                // A refusal is told as what it is, never as a time-out, so it ends the request as well.
                if let Some(Some(commit)) = self.requests.answered(life, conn, opaque)
                    && matches!(answer, Answer::Done | Answer::Refused(_))
                {
                    Self::commit_ended(&mut self.commits, life, commit);
                }
            }
            // Whatever a broker says shows that the link works.
            Deed::Requested { .. } => {
                let end = |n| ConnId {
                    slot: n,
                    generation: n,
                };
                for (_, link) in self.links.range_mut((life, end(0))..=(life, end(u32::MAX))) {
                    link.waits_since = None;
                }
            }
            Deed::StepEnd { .. } => {
                self.lost_now.clear();
                let alive = view.tenures().alive(life);
                // What is due is only over once the machine was woken for it; one that was stopped gets that first.
                if alive.is_some_and(|alive| alive.is_wakeup && alive.late_now < Duration::from_secs(1)) {
                    return self.mute(seen.at, life);
                }
            }
            Deed::Told(notice) => return self.told(life, &notice.kind, view),
            _ => return self.asked(seen.at, life, &deed),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::bench::Bench;
    use super::*;

    fn bench() -> Bench<EachRequestEndsOnce> {
        let mut bench = Bench::new(EachRequestEndsOnce::new());
        bench.ours().assign(1, 100);
        bench
    }

    fn timed_out(bench: &Bench<EachRequestEndsOnce>) -> NoticeKind {
        NoticeKind::CommitFailed {
            queue: bench.world.queue(super::super::bench::QUEUE).clone(),
            offset: QueueOffset(101),
            why: CallError::Timeout.to_string(),
        }
    }

    #[test]
    fn a_number_is_not_used_again_while_its_answer_may_come() {
        bench()
            .ask_as(7, Ask::Heartbeat)
            .ask_as(7, Ask::Heartbeat)
            .breaks("number 7");
        bench()
            .ask_as(7, Ask::Heartbeat)
            .answer(7, Answer::Done)
            .ask_as(7, Ask::Heartbeat)
            .legal();
        bench()
            .ask_as(7, Ask::Heartbeat)
            .disconnected()
            .ask_as(7, Ask::Heartbeat)
            .legal();
    }

    #[test]
    fn a_commit_that_was_answered_does_not_time_out() {
        let mut once = bench();
        let kind = timed_out(&once);
        once.commit(101)
            .answer_last(Answer::Done)
            .told(kind.clone())
            .breaks("timed out");
        let mut open = bench();
        open.commit(101).told(kind.clone()).legal();
        let mut lost = bench();
        lost.commit(101)
            .disconnected()
            .told(kind.clone())
            .breaks("timed out");
        let mut given_up = bench();
        given_up.commit(101).hung_up().told(kind).legal();
    }

    #[test]
    fn a_link_on_which_nothing_comes_back_is_given_up() {
        let silent = |ms| {
            let mut bench = bench();
            bench
                .pull(100, None)
                .at(30_000)
                .woken()
                .heartbeat()
                .step_end(Some(ms))
                .legal();
            bench.at(ms).woken();
            bench
        };
        silent(90_001).step_end(None).breaks("nothing came");
        silent(90_000).step_end(None).legal();
        silent(90_001).requested().step_end(None).legal();
        silent(90_001).disconnected().step_end(None).legal();
        let mut stopped = bench();
        stopped
            .pull(100, None)
            .step_end(Some(23_000))
            .at(200_000)
            .woken()
            .step_end(None)
            .legal();
    }
}
