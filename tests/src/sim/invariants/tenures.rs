use std::collections::BTreeMap;
use std::time::Duration;

use rocketmq_consumer_core::ids::{ConsumeId, Epoch};
use rocketmq_consumer_core::time::Instant;

use crate::sim::invariant::View;
use crate::sim::seen::{Ask, Deed, GroupNo, Kind, Life, NodeNo, QueueNo};

/// One ownership of one queue, as it can be seen from outside, with what a rule keeps of it.
#[derive(Debug)]
pub(in crate::sim) struct Tenure<T> {
    pub(in crate::sim) epoch: Epoch,
    pub(in crate::sim) since: Instant,
    /// When its runs were withdrawn although the member does not leave: its share is lost. A queue that is
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
}

impl Alive {
    pub(in crate::sim) const fn is_ours(&self) -> bool {
        matches!(self.kind, Kind::Ours)
    }
}

/// Who owns what: the account that most rules begin with.
///
/// A member may have two ownerships of one queue for a while: the old one waits for its last acknowledgement
/// while the new one is pulled already. Requests name the queue and not the ownership, so a rule about requests
/// is broken only if it is broken for every one of them.
#[derive(Debug)]
pub(in crate::sim) struct Tenures<T> {
    lives: BTreeMap<Life, Alive>,
    queues: BTreeMap<(Life, QueueNo), Vec<Tenure<T>>>,
    /// Runs that are out: their queue and ownership, and how many messages are not settled.
    runs: BTreeMap<(Life, ConsumeId), (QueueNo, Epoch, u32)>,
    /// A queue of each node's broker.
    homes: BTreeMap<NodeNo, QueueNo>,
}

impl<T> Default for Tenures<T> {
    fn default() -> Self {
        Self {
            lives: BTreeMap::new(),
            queues: BTreeMap::new(),
            runs: BTreeMap::new(),
            homes: BTreeMap::new(),
        }
    }
}

impl<T: Default> Tenures<T> {
    /// Takes what was seen. An ownership that ends is gone when this returns.
    pub(in crate::sim) fn see(&mut self, at: Instant, life: Life, deed: &Deed<'_>) {
        if let Some(alive) = self.lives.get_mut(&life).filter(|alive| alive.step_is_over) {
            alive.step_is_over = false;
            alive.is_wakeup = false;
            alive.late_now = at.saturating_since(alive.wake_at.unwrap_or(at));
            if alive.leaving.is_some() {
                alive.late = alive.late.max(alive.late_now);
            }
        }
        match *deed {
            Deed::Begun { kind, group, .. } => {
                let alive = Alive {
                    kind,
                    group,
                    leaving: None,
                    wake_at: None,
                    woken_at: at,
                    late: Duration::ZERO,
                    late_now: Duration::ZERO,
                    is_wakeup: false,
                    step_is_over: false,
                };
                self.lives.insert(life, alive);
            }
            Deed::AskedToLeave { drain } => {
                if let Some(alive) = self.lives.get_mut(&life) {
                    alive.leaving.get_or_insert((at, at + drain));
                }
            }
            Deed::Woken => {
                if let Some(alive) = self.lives.get_mut(&life) {
                    alive.woken_at = at;
                    alive.is_wakeup = true;
                }
            }
            Deed::StepEnd { wake_at, .. } => {
                if let Some(alive) = self.lives.get_mut(&life) {
                    alive.wake_at = wake_at;
                    alive.step_is_over = true;
                }
            }
            Deed::Killed | Deed::Closed => self.forget(life),
            Deed::Assigned { queue, epoch, .. } => {
                self.queues.entry((life, queue)).or_default().push(Tenure {
                    epoch,
                    since: at,
                    revoked_at: None,
                    data: T::default(),
                })
            }
            Deed::Revoked { queue, epoch, .. } => self.end(life, queue, epoch),
            Deed::Delivered {
                queue, run, range, ..
            } => {
                let epoch = self.newest(life, queue).map_or(Epoch(0), |tenure| tenure.epoch);
                self.runs.insert((life, run), (queue, epoch, range.len()));
            }
            Deed::Settled { run, .. } => {
                if let Some((.., left)) = self.runs.get_mut(&(life, run)) {
                    *left = left.saturating_sub(1);
                    if *left == 0 {
                        self.runs.remove(&(life, run));
                    }
                }
            }
            Deed::Withdrawn { run } => self.withdrawn(at, life, run),
            Deed::Asked {
                node,
                ask: Ask::Pull { queue, .. } | Ask::Commit { queue, .. } | Ask::QueryOffset { queue, .. },
                ..
            } => {
                self.homes.entry(node).or_insert(queue);
            }
            _ => {}
        }
    }

    fn withdrawn(&mut self, at: Instant, life: Life, run: ConsumeId) {
        if self.lives.get(&life).is_none_or(|alive| alive.leaving.is_some()) {
            return;
        }
        let Some(&(queue, epoch, _)) = self.runs.get(&(life, run)) else {
            return;
        };
        let tenures = self.queues.get_mut(&(life, queue)).into_iter().flatten();
        for tenure in tenures.filter(|tenure| tenure.epoch == epoch) {
            tenure.revoked_at.get_or_insert(at);
        }
    }

    fn end(&mut self, life: Life, queue: QueueNo, epoch: Epoch) {
        if let Some(tenures) = self.queues.get_mut(&(life, queue)) {
            tenures.retain(|tenure| tenure.epoch != epoch);
            if tenures.is_empty() {
                self.queues.remove(&(life, queue));
            }
        }
    }

    fn forget(&mut self, life: Life) {
        self.lives.remove(&life);
        self.queues.retain(|(of, _), _| *of != life);
        self.runs.retain(|(of, _), _| *of != life);
    }

    /// Whether a queue belongs to the broker of this node, as far as is known. A place in a log is one of its
    /// broker's: others have other messages there.
    pub(in crate::sim) fn is_home(&self, node: NodeNo, queue: QueueNo, view: &dyn View) -> bool {
        let home = self.homes.get(&node);
        home.is_none_or(|home| view.queue(*home).broker == view.queue(queue).broker)
    }

    /// A process that lives.
    pub(in crate::sim) fn alive(&self, life: Life) -> Option<&Alive> {
        self.lives.get(&life)
    }

    /// Whether it lives and is one of ours.
    pub(in crate::sim) fn is_ours(&self, life: Life) -> bool {
        self.alive(life).is_some_and(Alive::is_ours)
    }

    /// The ownerships of a queue, the newest last.
    pub(in crate::sim) fn of(&mut self, life: Life, queue: QueueNo) -> &mut [Tenure<T>] {
        self.queues
            .get_mut(&(life, queue))
            .map_or(&mut [], Vec::as_mut_slice)
    }

    /// The ownership that counts now, if its share is not lost.
    pub(in crate::sim) fn newest(&mut self, life: Life, queue: QueueNo) -> Option<&mut Tenure<T>> {
        self.of(life, queue)
            .last_mut()
            .filter(|tenure| tenure.revoked_at.is_none())
    }

    /// The ownership that a run belongs to, while it lasts.
    pub(in crate::sim) fn of_run(&mut self, life: Life, run: ConsumeId) -> Option<&mut Tenure<T>> {
        let &(queue, epoch, _) = self.runs.get(&(life, run))?;
        self.of(life, queue)
            .iter_mut()
            .find(|tenure| tenure.epoch == epoch)
    }

    /// All ownerships of a life.
    pub(in crate::sim) fn of_life(&self, life: Life) -> impl Iterator<Item = (QueueNo, &Tenure<T>)> {
        let range = (life, QueueNo(0))..=(life, QueueNo(u32::MAX));
        self.queues
            .range(range)
            .flat_map(|((_, queue), tenures)| tenures.iter().map(|tenure| (*queue, tenure)))
    }

    /// The same, to be changed.
    pub(in crate::sim) fn of_life_mut(
        &mut self,
        life: Life,
    ) -> impl Iterator<Item = (QueueNo, &mut Tenure<T>)> {
        let range = (life, QueueNo(0))..=(life, QueueNo(u32::MAX));
        self.queues
            .range_mut(range)
            .flat_map(|((_, queue), tenures)| tenures.iter_mut().map(|tenure| (*queue, tenure)))
    }

    /// Messages of a life that are with handlers.
    pub(in crate::sim) fn open(&self, life: Life) -> u32 {
        let first = ConsumeId {
            group: rocketmq_consumer_core::ids::GroupKey {
                slot: 0,
                generation: 0,
            },
            run: 0,
        };
        let runs = self
            .runs
            .range((life, first)..)
            .take_while(|((of, _), _)| *of == life);
        runs.map(|(_, (.., left))| left).sum()
    }
}
