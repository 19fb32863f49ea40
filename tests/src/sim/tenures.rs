//! Who owns what: the account that most rules begin with, kept once for all of them.

mod accounts;

use std::time::Duration;

use rocketmq_consumer_core::event::AppEvent;
use rocketmq_consumer_core::ids::{ConnId, ConsumeId, Epoch};
use rocketmq_consumer_core::time::Instant;

use super::invariant::View;
use super::seen::{Ask, Deed, GroupNo, Kind, Life, NodeNo, QueueNo, Seen, What};

pub use accounts::Accounts;

/// The number of an ownership, counted over the whole world from 0 and never reused: a rule keeps its own account of
/// each in a vector, see [`Accounts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenureNo(pub u32);

/// One ownership of one queue, as it can be seen from outside.
#[derive(Clone, Copy, Debug)]
pub struct Tenure {
    /// Its number.
    pub no: TenureNo,
    /// Of which queue.
    pub queue: QueueNo,
    /// What the member calls it.
    pub epoch: Epoch,
    /// When it began.
    pub since: Instant,
    /// When its runs were withdrawn although the member neither leaves nor pauses: its share is lost. A queue that is
    /// given back while no handler has anything of it shows nothing but its end.
    pub revoked_at: Option<Instant>,
}

/// What is known of a living process.
#[derive(Clone, Copy, Debug)]
pub struct Alive {
    /// What runs in it.
    pub kind: Kind,
    /// Its group.
    pub group: GroupNo,
    /// When it was asked to leave, and when its handlers have to have ended.
    pub leaving: Option<(Instant, Instant)>,
    /// When it was woken last: whatever was due by then is over.
    pub woken_at: Instant,
    /// How much later than it wanted it got to do something, at worst, since it was asked to leave.
    pub late: Duration,
    /// The same in the step that runs, or has just ended.
    pub late_now: Duration,
    /// Whether that step began with a wake-up.
    pub is_wakeup: bool,
    /// The link that came up in the step that runs.
    pub connected: Option<ConnId>,
    /// When it wanted to be woken, as of its last step.
    wake_at: Option<Instant>,
    step_is_over: bool,
    /// Whether the step that runs began with a pause: what it withdraws stays its own.
    pauses: bool,
}

impl Alive {
    const fn new(at: Instant, kind: Kind, group: GroupNo) -> Self {
        Self {
            kind,
            group,
            leaving: None,
            woken_at: at,
            late: Duration::ZERO,
            late_now: Duration::ZERO,
            is_wakeup: false,
            connected: None,
            wake_at: None,
            step_is_over: false,
            pauses: false,
        }
    }

    /// Whether it is a member of ours.
    #[must_use]
    pub const fn is_ours(&self) -> bool {
        matches!(self.kind, Kind::Ours)
    }

    /// Something is seen for the first time since the last step was over.
    fn begin_step(&mut self, at: Instant) {
        self.step_is_over = false;
        self.pauses = false;
        self.is_wakeup = false;
        self.connected = None;
        self.late_now = at.saturating_since(self.wake_at.unwrap_or(at));
        if self.leaving.is_some() {
            self.late = self.late.max(self.late_now);
        }
    }
}

/// Who owns what in a world.
///
/// A member may have two ownerships of one queue for a while: the old one waits for its last acknowledgement
/// while the new one is pulled already. Requests name the queue and not the ownership, so a rule about requests
/// is broken only if it is broken for every one of them.
///
/// Where something is seen to begin or to change, rules that look up see it so; what is seen to end (a life, an
/// ownership, a run with its last message) is there until the last of them has looked.
#[derive(Debug, Default)]
pub struct Tenures {
    /// By the number of the life; `None` for one that is over, or never showed its beginning.
    lives: Vec<Option<Household>>,
    /// A queue of each node's broker, by the number of the node.
    homes: Vec<Option<QueueNo>>,
    /// How many there have been.
    count: u32,
}

/// What is known of one process. Everything in it is small: it is looked through.
#[derive(Debug)]
struct Household {
    alive: Alive,
    /// By queue; the ownerships of one queue, the newest last.
    tenures: Vec<Tenure>,
    runs: Vec<Run>,
}

/// A run that is out.
#[derive(Clone, Copy, Debug)]
struct Run {
    id: ConsumeId,
    queue: QueueNo,
    /// The ownership that it belongs to, if the queue had one.
    tenure: Option<TenureNo>,
    /// How many of its messages are not settled.
    left: u32,
}

impl Household {
    const fn new(alive: Alive) -> Self {
        Self {
            alive,
            tenures: Vec::new(),
            runs: Vec::new(),
        }
    }

    fn of(&self, queue: QueueNo) -> &[Tenure] {
        let start = self.tenures.partition_point(|tenure| tenure.queue < queue);
        let len = self.tenures[start..]
            .iter()
            .take_while(|tenure| tenure.queue == queue)
            .count();
        &self.tenures[start..start + len]
    }

    fn newest(&self, queue: QueueNo) -> Option<&Tenure> {
        let end = self.tenures.partition_point(|tenure| tenure.queue <= queue);
        let newest = self.tenures[..end].last()?;
        (newest.queue == queue && newest.revoked_at.is_none()).then_some(newest)
    }

    fn of_run(&self, run: ConsumeId) -> Option<&Tenure> {
        let run = self.runs.iter().find(|of| of.id == run)?;
        self.of(run.queue)
            .iter()
            .find(|tenure| Some(tenure.no) == run.tenure)
    }

    fn assigned(&mut self, tenure: Tenure) {
        let behind = self.tenures.partition_point(|of| of.queue <= tenure.queue);
        self.tenures.insert(behind, tenure);
    }

    fn delivered(&mut self, queue: QueueNo, id: ConsumeId, left: u32) {
        let tenure = self.newest(queue).map(|tenure| tenure.no);
        self.runs.retain(|run| run.id != id);
        self.runs.push(Run {
            id,
            queue,
            tenure,
            left,
        });
    }

    fn withdrawn(&mut self, at: Instant, run: ConsumeId) {
        if self.alive.leaving.is_some() || self.alive.pauses {
            return;
        }
        let Some(no) = self.of_run(run).map(|tenure| tenure.no) else {
            return;
        };
        if let Some(tenure) = self.tenures.iter_mut().find(|tenure| tenure.no == no) {
            tenure.revoked_at.get_or_insert(at);
        }
    }

    fn settled(&mut self, run: ConsumeId) {
        let Some(index) = self.runs.iter().position(|of| of.id == run) else {
            return;
        };
        let left = &mut self.runs[index].left;
        *left = left.saturating_sub(1);
        if *left == 0 {
            self.runs.swap_remove(index);
        }
    }

    fn revoked(&mut self, queue: QueueNo, epoch: Epoch) {
        self.tenures
            .retain(|tenure| (tenure.queue, tenure.epoch) != (queue, epoch));
    }
}

impl Tenures {
    /// Takes what was seen, before rules are shown it: what it begins or changes is so from here on.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "most deeds begin nothing, and a new kind of deed neither"
    )]
    pub(in crate::sim) fn begin(&mut self, seen: &Seen<'_>) {
        let (at, What::Member { life, deed }) = (seen.at, &seen.what) else {
            return;
        };
        if let Deed::Begun { kind, group, .. } = *deed {
            return self.begun(*life, Alive::new(at, kind, group));
        }
        if let Deed::Asked { node, ask, .. } = deed {
            self.learn_home(*node, ask);
        }
        let count = &mut self.count;
        let Some(Some(household)) = self.lives.get_mut(life.0 as usize) else {
            return;
        };
        let alive = &mut household.alive;
        if alive.step_is_over {
            alive.begin_step(at);
        }
        match *deed {
            Deed::AskedToLeave { drain } => _ = alive.leaving.get_or_insert((at, at + drain)),
            Deed::Wished(AppEvent::Pause { .. }) => alive.pauses = true,
            Deed::Woken => {
                alive.woken_at = at;
                alive.is_wakeup = true;
            }
            Deed::Connected { conn, .. } => alive.connected = Some(conn),
            Deed::StepEnd { wake_at, .. } => {
                alive.wake_at = wake_at;
                alive.step_is_over = true;
            }
            Deed::Assigned { queue, epoch, .. } => {
                household.assigned(Tenure {
                    no: TenureNo(*count),
                    queue,
                    epoch,
                    since: at,
                    revoked_at: None,
                });
                *count += 1;
            }
            Deed::Delivered {
                queue, run, range, ..
            } => household.delivered(queue, run, range.len()),
            Deed::Withdrawn { run } => household.withdrawn(at, run),
            _ => {}
        }
    }

    /// Takes what was seen, after rules have looked: what it ends is gone from here on.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "most deeds end nothing, and a new kind of deed neither"
    )]
    pub(in crate::sim) fn end(&mut self, seen: &Seen<'_>) {
        let What::Member { life, deed } = &seen.what else {
            return;
        };
        let Some(home @ Some(_)) = self.lives.get_mut(life.0 as usize) else {
            return;
        };
        match *deed {
            Deed::Killed | Deed::Closed => *home = None,
            Deed::Revoked { queue, epoch, .. } => home.iter_mut().for_each(|of| of.revoked(queue, epoch)),
            Deed::Settled { run, .. } => home.iter_mut().for_each(|of| of.settled(run)),
            _ => {}
        }
    }

    fn begun(&mut self, life: Life, alive: Alive) {
        let index = life.0 as usize;
        if self.lives.len() <= index {
            self.lives.resize_with(index + 1, || None);
        }
        self.lives[index] = Some(Household::new(alive));
    }

    fn learn_home(&mut self, node: NodeNo, ask: &Ask) {
        let (Ask::Pull { queue, .. } | Ask::Commit { queue, .. } | Ask::QueryOffset { queue, .. }) = *ask
        else {
            return;
        };
        let index = node.0 as usize;
        if self.homes.len() <= index {
            self.homes.resize(index + 1, None);
        }
        self.homes[index].get_or_insert(queue);
    }

    fn household(&self, life: Life) -> Option<&Household> {
        self.lives.get(life.0 as usize)?.as_ref()
    }

    /// Whether a queue belongs to the broker of this node, as far as is known. A place in a log is one of its
    /// broker's: others have other messages there.
    pub fn is_home(&self, node: NodeNo, queue: QueueNo, view: &dyn View) -> bool {
        let home = self.homes.get(node.0 as usize).copied().flatten();
        home.is_none_or(|home| view.queue(home).broker == view.queue(queue).broker)
    }

    /// A process that lives.
    #[must_use]
    pub fn alive(&self, life: Life) -> Option<&Alive> {
        self.household(life).map(|household| &household.alive)
    }

    /// Whether it lives and is one of ours.
    #[must_use]
    pub fn is_ours(&self, life: Life) -> bool {
        self.alive(life).is_some_and(Alive::is_ours)
    }

    /// Whether what a member writes on a link now may have waited for it: nobody sees for how long.
    #[must_use]
    pub fn may_have_waited(&self, life: Life, conn: ConnId) -> bool {
        self.alive(life)
            .is_some_and(|alive| alive.connected == Some(conn))
    }

    /// The ownerships of a queue, the newest last.
    #[must_use]
    pub fn of(&self, life: Life, queue: QueueNo) -> &[Tenure] {
        self.household(life).map_or(&[], |household| household.of(queue))
    }

    /// One of them.
    #[must_use]
    pub fn of_epoch(&self, life: Life, queue: QueueNo, epoch: Epoch) -> Option<&Tenure> {
        self.of(life, queue).iter().find(|tenure| tenure.epoch == epoch)
    }

    /// The ownership that counts now, if its share is not lost.
    #[must_use]
    pub fn newest(&self, life: Life, queue: QueueNo) -> Option<&Tenure> {
        self.household(life)?.newest(queue)
    }

    /// The ownership that a run belongs to, while it lasts.
    #[must_use]
    pub fn of_run(&self, life: Life, run: ConsumeId) -> Option<&Tenure> {
        self.household(life)?.of_run(run)
    }

    /// All ownerships of a life, by queue.
    #[must_use]
    pub fn of_life(&self, life: Life) -> &[Tenure] {
        self.household(life).map_or(&[], |household| &household.tenures)
    }

    /// Messages of a life that are with handlers.
    #[must_use]
    pub fn open(&self, life: Life) -> u32 {
        let runs = self
            .household(life)
            .into_iter()
            .flat_map(|household| &household.runs);
        runs.map(|run| run.left).sum()
    }
}

#[cfg(test)]
mod tests;
