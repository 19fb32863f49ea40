use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::rc::Rc;
use std::time::Duration;

use rocketmq_consumer_core::ids::{Epoch, MessageQueue};
use rocketmq_consumer_core::time::Instant;
use rocketmq_consumer_testing::sim::invariant::{Broken, Invariant, View};
use rocketmq_consumer_testing::sim::seen::{Deed, GroupNo, Life, MemberId, QueueNo, Seen, Upheaval, What};

/// How far apart the points of the lag are.
const FRAME: Duration = Duration::from_secs(1);

/// What a camera has seen of a world.
#[derive(Clone, Debug, Default)]
pub(super) struct Film(Rc<RefCell<Shots>>);

/// Everything that a page draws, in the order in which it ended.
#[derive(Debug, Default)]
pub(super) struct Shots {
    /// When a process ran.
    pub(super) lives: Vec<Span<MemberId>>,
    /// When a member owned a queue for a group.
    pub(super) ownerships: Vec<Span<Owned>>,
    /// How many messages all groups had before them, second by second.
    pub(super) lag: Vec<(Instant, u64)>,
    /// When everything was mended.
    pub(super) healed: Option<Instant>,
    /// The last thing that was seen.
    pub(super) end: Instant,
    running: BTreeMap<Life, (MemberId, Instant)>,
    owning: BTreeMap<(Life, QueueNo, Epoch), (Owned, Instant)>,
    groups: BTreeSet<GroupNo>,
    next_frame: Instant,
}

/// Something that lasted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span<T> {
    /// What.
    pub(super) of: T,
    /// Its begin.
    pub(super) from: Instant,
    /// Its end.
    pub(super) to: Instant,
}

/// A queue in somebody's hands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owned {
    /// Whose.
    pub(super) member: MemberId,
    /// For which group.
    pub(super) group: String,
    /// Which queue.
    pub(super) queue: MessageQueue,
}

impl Film {
    /// A rule that is never broken and films everything it sees.
    pub(super) fn camera(&self) -> Box<dyn Invariant> {
        Box::new(Camera(self.clone()))
    }

    /// Takes the shots; whatever still lasts is cut off at the last thing that was seen.
    pub(super) fn develop(&self) -> Shots {
        let mut shots = mem::take(&mut *self.0.borrow_mut());
        let end = shots.end;
        let running: Vec<Life> = shots.running.keys().copied().collect();
        for life in running {
            shots.end_life(life, end);
        }
        shots
    }
}

struct Camera(Film);

impl Invariant for Camera {
    fn name(&self) -> &'static str {
        "camera"
    }

    fn see(&mut self, seen: &Seen<'_>, view: &dyn View) -> Result<(), Broken> {
        self.0.0.borrow_mut().see(seen, view);
        Ok(())
    }
}

impl Shots {
    #[expect(clippy::wildcard_enum_match_arm, reason = "most of what is seen is not drawn")]
    fn see(&mut self, seen: &Seen<'_>, view: &dyn View) {
        let at = seen.at;
        self.end = at;
        if at >= self.next_frame {
            self.next_frame = at + FRAME;
            self.lag.push((at, self.waiting(view)));
        }
        match seen.what {
            What::Member { life, deed } => match deed {
                Deed::Begun { member, group, .. } => {
                    self.groups.insert(group);
                    self.running.insert(life, (member, at));
                }
                Deed::Closed | Deed::Killed => self.end_life(life, at),
                Deed::Assigned {
                    group, queue, epoch, ..
                } => {
                    if let Some((member, _)) = self.running.get(&life) {
                        let owned = Owned {
                            member: *member,
                            group: view.group(group).to_string(),
                            queue: view.queue(queue).clone(),
                        };
                        self.owning.insert((life, queue, epoch), (owned, at));
                    }
                }
                Deed::Revoked { queue, epoch, .. } => self.end_ownership((life, queue, epoch), at),
                _ => {}
            },
            What::Fault(Upheaval::Healed) => self.healed = Some(at),
            _ => {}
        }
    }

    /// Messages that the brokers have and no group's progress has passed.
    fn waiting(&self, view: &dyn View) -> u64 {
        let queues = |group: &GroupNo| {
            let group = *group;
            view.queues_of(group).into_iter().map(move |queue| {
                let passed = view.committed(group, queue).map_or(0, |offset| offset.0);
                u64::try_from(view.max_offset(queue).0 - passed).unwrap_or(0)
            })
        };
        self.groups.iter().flat_map(queues).sum()
    }

    fn end_life(&mut self, life: Life, at: Instant) {
        let owning: Vec<_> = self.owning.keys().filter(|key| key.0 == life).copied().collect();
        for key in owning {
            self.end_ownership(key, at);
        }
        if let Some((of, from)) = self.running.remove(&life) {
            self.lives.push(Span { of, from, to: at });
        }
    }

    fn end_ownership(&mut self, key: (Life, QueueNo, Epoch), at: Instant) {
        if let Some((of, from)) = self.owning.remove(&key) {
            self.ownerships.push(Span { of, from, to: at });
        }
    }
}

#[cfg(test)]
mod tests {
    use rocketmq_consumer_testing::sim::plan::Plan;
    use rocketmq_consumer_testing::sim::trouble::Troubles;
    use rocketmq_consumer_testing::sim::{invariants, swarm};

    use super::*;

    #[test]
    fn a_calm_world_is_filmed_from_its_begin_to_its_end() {
        let plan = Plan::draw_with(1, Troubles::NONE);
        let film = Film::default();
        let mut rules = invariants::all();
        rules.push(film.camera());
        let report = swarm::play(plan.clone(), rules).unwrap();
        let shots = film.develop();

        assert_eq!(shots.lives.len(), plan.members.len(), "nobody died");
        assert_eq!(shots.healed, Some(Instant::ZERO + plan.safety));
        let (_, lag) = shots.lag.last().unwrap();
        assert_eq!(*lag, 0, "everything was consumed");
        assert!(shots.lag.iter().any(|(_, lag)| *lag > 0));
        let queues: BTreeSet<String> = shots
            .ownerships
            .iter()
            .filter(|span| span.of.queue.topic.as_str().starts_with('T'))
            .map(|span| span.of.queue.to_string())
            .collect();
        assert_eq!(queues.len(), report.queues as usize, "each had an owner");
        let lasts = |from: Instant, to: Instant| from <= to && to <= shots.end;
        assert!(shots.ownerships.iter().all(|span| lasts(span.from, span.to)));
        assert!(shots.lives.iter().all(|span| lasts(span.from, span.to)));
    }
}
