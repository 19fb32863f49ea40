use std::collections::BTreeMap;
use std::time::Duration;

use rocketmq_consumer_core::event::AppEvent;
use rocketmq_consumer_core::ids::{ConsumeId, Epoch};
use rocketmq_consumer_core::time::Instant;

use crate::sim::invariant::View;
use crate::sim::seen::{Ask, Deed, GroupNo, Kind, Life, NodeNo, QueueNo};

/// One ownership of one queue, as it can be seen from outside, with what a rule keeps of it.
#[derive(Debug)]
pub(in crate::sim) struct Tenure<T> {
    pub(in crate::sim) epoch: Epoch,
    pub(in crate::sim) since: Instant,
    /// When its runs were withdrawn although the member neither leaves nor pauses: its share is lost. A queue that is
    /// given back while no handler has anything of it shows nothing but its end.
    pub(in crate::sim) revoked_at: Option<Instant>,
    pub(in crate::sim) data: T,
}

/// What is known of a living process.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) struct Alive {
    pub(in crate::sim) kind: Kind,
    pub(in crate::sim) group: GroupNo,
    /// When it was asked to leave, and when its handlers have to have ended.
    pub(in crate::sim) leaving: Option<(Instant, Instant)>,
    /// When it wanted to be woken, as of its last step.
    wake_at: Option<Instant>,
    /// When it was woken last: whatever was due by then is over.
    pub(in crate::sim) woken_at: Instant,
    /// How much later than it wanted it got to do something, at worst, since it was asked to leave; and in the
    /// step that runs now.
    pub(in crate::sim) late: Duration,
    pub(in crate::sim) late_now: Duration,
    /// Whether the step that runs, or has just ended, began with a wake-up.
    pub(in crate::sim) is_wakeup: bool,
    step_is_over: bool,
    /// Whether the step that runs began with a pause: what it withdraws stays its own.
    pauses: bool,
}

impl Alive {
    pub(in crate::sim) const fn is_ours(&self) -> bool {
        matches!(self.kind, Kind::Ours)
    }

    /// Something is seen for the first time since the last step was over.
    fn begin_step(&mut self, at: Instant) {
        self.step_is_over = false;
        self.pauses = false;
        self.is_wakeup = false;
        self.late_now = at.saturating_since(self.wake_at.unwrap_or(at));
        if self.leaving.is_some() {
            self.late = self.late.max(self.late_now);
        }
    }
}

/// Who owns what: the account that most rules begin with.
///
/// A member may have two ownerships of one queue for a while: the old one waits for its last acknowledgement
/// while the new one is pulled already. Requests name the queue and not the ownership, so a rule about requests
/// is broken only if it is broken for every one of them.
///
/// Every rule that keeps one is shown every deed of a world, so finding the life that did it is one index.
#[derive(Debug)]
pub(in crate::sim) struct Tenures<T> {
    /// By the number of the life; `None` for one that is over, or never showed its beginning.
    lives: Vec<Option<Household<T>>>,
    /// A queue of each node's broker.
    homes: BTreeMap<NodeNo, QueueNo>,
}

/// What is known of one process.
#[derive(Debug)]
struct Household<T> {
    alive: Alive,
    queues: BTreeMap<QueueNo, Vec<Tenure<T>>>,
    /// Runs that are out: their queue and ownership, and how many messages are not settled.
    runs: BTreeMap<ConsumeId, (QueueNo, Epoch, u32)>,
}

impl<T> Default for Tenures<T> {
    fn default() -> Self {
        Self {
            lives: Vec::new(),
            homes: BTreeMap::new(),
        }
    }
}

impl<T> Household<T> {
    fn new(alive: Alive) -> Self {
        Self {
            alive,
            queues: BTreeMap::new(),
            runs: BTreeMap::new(),
        }
    }

    fn newest(&self, queue: QueueNo) -> Option<&Tenure<T>> {
        let tenures = self.queues.get(&queue)?;
        tenures.last().filter(|tenure| tenure.revoked_at.is_none())
    }

    fn settled(&mut self, run: ConsumeId) {
        if let Some((.., left)) = self.runs.get_mut(&run) {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.runs.remove(&run);
            }
        }
    }

    fn withdrawn(&mut self, at: Instant, run: ConsumeId) {
        if self.alive.leaving.is_some() || self.alive.pauses {
            return;
        }
        let Some(&(queue, epoch, _)) = self.runs.get(&run) else {
            return;
        };
        let tenures = self.queues.get_mut(&queue).into_iter().flatten();
        for tenure in tenures.filter(|tenure| tenure.epoch == epoch) {
            tenure.revoked_at.get_or_insert(at);
        }
    }

    fn end(&mut self, queue: QueueNo, epoch: Epoch) {
        if let Some(tenures) = self.queues.get_mut(&queue) {
            tenures.retain(|tenure| tenure.epoch != epoch);
            if tenures.is_empty() {
                self.queues.remove(&queue);
            }
        }
    }
}

impl<T: Default> Tenures<T> {
    /// Takes what was seen. An ownership that ends is gone when this returns.
    pub(in crate::sim) fn see(&mut self, at: Instant, life: Life, deed: &Deed<'_>) {
        match *deed {
            Deed::Begun { kind, group, .. } => return self.begin(at, life, kind, group),
            Deed::Killed | Deed::Closed => return self.forget(life),
            Deed::Asked {
                node,
                ask: Ask::Pull { queue, .. } | Ask::Commit { queue, .. } | Ask::QueryOffset { queue, .. },
                ..
            } => {
                self.homes.entry(node).or_insert(queue);
            }
            _ => {}
        }
        let Some(household) = self.household(life) else {
            return;
        };
        let alive = &mut household.alive;
        if alive.step_is_over {
            alive.begin_step(at);
        }
        match *deed {
            Deed::AskedToLeave { drain } => {
                alive.leaving.get_or_insert((at, at + drain));
            }
            Deed::Wished(AppEvent::Pause { .. }) => alive.pauses = true,
            Deed::Woken => {
                alive.woken_at = at;
                alive.is_wakeup = true;
            }
            Deed::StepEnd { wake_at, .. } => {
                alive.wake_at = wake_at;
                alive.step_is_over = true;
            }
            Deed::Assigned { queue, epoch, .. } => {
                household.queues.entry(queue).or_default().push(Tenure {
                    epoch,
                    since: at,
                    revoked_at: None,
                    data: T::default(),
                });
            }
            Deed::Revoked { queue, epoch, .. } => household.end(queue, epoch),
            Deed::Delivered {
                queue, run, range, ..
            } => {
                let epoch = household.newest(queue).map_or(Epoch(0), |tenure| tenure.epoch);
                household.runs.insert(run, (queue, epoch, range.len()));
            }
            Deed::Settled { run, .. } => household.settled(run),
            Deed::Withdrawn { run } => household.withdrawn(at, run),
            _ => {}
        }
    }

    fn begin(&mut self, at: Instant, life: Life, kind: Kind, group: GroupNo) {
        let index = life.0 as usize;
        if self.lives.len() <= index {
            self.lives.resize_with(index + 1, || None);
        }
        self.lives[index] = Some(Household::new(Alive {
            kind,
            group,
            leaving: None,
            wake_at: None,
            woken_at: at,
            late: Duration::ZERO,
            late_now: Duration::ZERO,
            is_wakeup: false,
            step_is_over: false,
            pauses: false,
        }));
    }

    fn forget(&mut self, life: Life) {
        if let Some(household) = self.lives.get_mut(life.0 as usize) {
            *household = None;
        }
    }

    fn household(&mut self, life: Life) -> Option<&mut Household<T>> {
        self.lives.get_mut(life.0 as usize)?.as_mut()
    }

    fn household_ref(&self, life: Life) -> Option<&Household<T>> {
        self.lives.get(life.0 as usize)?.as_ref()
    }

    /// Whether a queue belongs to the broker of this node, as far as is known. A place in a log is one of its
    /// broker's: others have other messages there.
    pub(in crate::sim) fn is_home(&self, node: NodeNo, queue: QueueNo, view: &dyn View) -> bool {
        let home = self.homes.get(&node);
        home.is_none_or(|home| view.queue(*home).broker == view.queue(queue).broker)
    }

    /// A process that lives.
    pub(in crate::sim) fn alive(&self, life: Life) -> Option<&Alive> {
        self.household_ref(life).map(|household| &household.alive)
    }

    /// Whether it lives and is one of ours.
    pub(in crate::sim) fn is_ours(&self, life: Life) -> bool {
        self.alive(life).is_some_and(Alive::is_ours)
    }

    /// The ownerships of a queue, the newest last.
    pub(in crate::sim) fn of(&mut self, life: Life, queue: QueueNo) -> &mut [Tenure<T>] {
        let household = self.household(life);
        let tenures = household.and_then(|household| household.queues.get_mut(&queue));
        tenures.map_or(&mut [], Vec::as_mut_slice)
    }

    /// The ownership that counts now, if its share is not lost.
    pub(in crate::sim) fn newest(&mut self, life: Life, queue: QueueNo) -> Option<&mut Tenure<T>> {
        self.of(life, queue)
            .last_mut()
            .filter(|tenure| tenure.revoked_at.is_none())
    }

    /// The same, to be read.
    pub(in crate::sim) fn newest_ref(&self, life: Life, queue: QueueNo) -> Option<&Tenure<T>> {
        self.household_ref(life)?.newest(queue)
    }

    /// The ownership that a run belongs to, while it lasts.
    pub(in crate::sim) fn of_run(&mut self, life: Life, run: ConsumeId) -> Option<&mut Tenure<T>> {
        let &(queue, epoch, _) = self.household_ref(life)?.runs.get(&run)?;
        self.of(life, queue)
            .iter_mut()
            .find(|tenure| tenure.epoch == epoch)
    }

    /// All ownerships of a life.
    pub(in crate::sim) fn of_life(&self, life: Life) -> impl Iterator<Item = (QueueNo, &Tenure<T>)> {
        let queues = self
            .household_ref(life)
            .into_iter()
            .flat_map(|household| &household.queues);
        queues.flat_map(|(queue, tenures)| tenures.iter().map(|tenure| (*queue, tenure)))
    }

    /// The same, to be changed.
    pub(in crate::sim) fn of_life_mut(
        &mut self,
        life: Life,
    ) -> impl Iterator<Item = (QueueNo, &mut Tenure<T>)> {
        let queues = self
            .household(life)
            .into_iter()
            .flat_map(|household| &mut household.queues);
        queues.flat_map(|(queue, tenures)| tenures.iter_mut().map(|tenure| (*queue, tenure)))
    }

    /// Messages of a life that are with handlers.
    pub(in crate::sim) fn open(&self, life: Life) -> u32 {
        let household = self.household_ref(life);
        let runs = household
            .into_iter()
            .flat_map(|household| household.runs.values());
        runs.map(|(.., left)| left).sum()
    }
}
