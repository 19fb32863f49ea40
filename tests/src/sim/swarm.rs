//! Worlds of many seeds.
//!
//! ```text
//!  begin ──script: faults and messages──► mend everything ──at most so long──► at rest ──► all leave ──► end
//!         └────────── safety ──────────┘                  └──── liveness ────┘
//! ```
//!
//! In both phases every rule is shown everything. After mending, a world has [`LIVENESS`] and its own longest
//! delay to come to rest: every message that a group wants finished by it or among its dead letters, everything
//! committed, every queue owned by exactly one member. One world in five consumes in order, Java-like members too; one
//! in ten broadcasts: there every member owes all that, and keeps its offsets itself. Two kinds of worlds owe less:
//!
//! * *Equal client ids*: two processes under one id each own the shares of all places of that id, so a queue may
//!   be owned twice; never by nobody. Everything else is still demanded.
//! * *Different subscriptions in one group*: the broker filters by the subscription it heard last, and members
//!   share queues with some that do not want them. Nothing can be demanded of which messages come; the rules of
//!   the safety phase and the way out are.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rocketmq_consumer_core::broker::event::Control;
use rocketmq_consumer_core::ids::{MessageQueue, Topic};
use rocketmq_consumer_core::time::Instant;

use super::agenda::Due;
use super::dice::Dice;
use super::engine::World;
use super::fault::Fault;
use super::habits::Habits;
use super::handler::Handler;
use super::invariant::{Broken, Invariant};
use super::keep::Disk;
use super::plan::{Plan, Step};
use super::report::Report;
use super::seen::{Upheaval, What};
use super::trouble::Troubles;
use super::violation::Violation;

/// How long a world may take to come to rest after everything was mended, its longest delay not counted.
pub const LIVENESS: Duration = Duration::from_secs(180);

/// How long members may let their handlers run when they leave at the end.
const DRAIN: Duration = Duration::from_secs(5);

/// By when they must be gone: draining, a last commit, and telling the brokers.
const LEAVING: Duration = Duration::from_secs(5 + 5 + 3 + 1);

/// How often a world is asked whether it rests.
const LOOK: Duration = Duration::from_secs(1);

/// How often it is while rest has to last.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// How long rest must last: members learn of new queues at different times, and may share them well by chance in
/// between.
const AFTERGLOW: Duration = Duration::from_secs(25);

/// Runs the world of a seed under the rules that `rules` makes.
///
/// # Errors
/// The first rule that was broken.
pub fn run(seed: u64, rules: fn() -> Vec<Box<dyn Invariant>>) -> Result<Report, Box<Violation>> {
    play(Plan::draw(seed), rules())
}

/// Runs a world that was drawn before.
///
/// # Errors
/// The first rule that was broken. A panic breaks one too.
pub fn play(plan: Plan, rules: Vec<Box<dyn Invariant>>) -> Result<Report, Box<Violation>> {
    let mut story = Story::new(plan, rules);
    let told = catch_unwind(AssertUnwindSafe(|| story.run()));
    // After a panic nothing is asked of the world but what time it is.
    told.unwrap_or_else(|panic| {
        let words = Broken(format!("panicked: {}", words_of(&*panic)));
        Err(Box::new(story.violation(story.world.now, "never_panics", words)))
    })
}

/// What a panic said.
fn words_of(panic: &(dyn Any + Send)) -> &str {
    let owned = || panic.downcast_ref::<String>().map(String::as_str);
    let words = panic.downcast_ref::<&str>().copied().or_else(owned);
    words.unwrap_or("no words")
}

/// How many worlds [`run_many`] runs at once.
#[must_use]
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Runs many seeds on all cores. Reports come in the order of their seeds; of violations, the lowest seed's.
///
/// `progress` is told of each seed that is done.
///
/// # Errors
/// A violation, if there was one. No further seeds are begun then.
pub fn run_many(
    seeds: std::ops::Range<u64>,
    rules: fn() -> Vec<Box<dyn Invariant>>,
    progress: &(dyn Fn(&Report) + Sync),
) -> Result<Vec<Report>, Box<Violation>> {
    run_many_with(seeds, Troubles::ALL, rules, progress)
}

/// As [`run_many`], in worlds in which only these kinds of trouble happen.
///
/// # Errors
/// A violation, if there was one. No further seeds are begun then.
pub fn run_many_with(
    seeds: std::ops::Range<u64>,
    troubles: Troubles,
    rules: fn() -> Vec<Box<dyn Invariant>>,
    progress: &(dyn Fn(&Report) + Sync),
) -> Result<Vec<Report>, Box<Violation>> {
    let next = AtomicU64::new(seeds.start);
    let found: Mutex<(Vec<Report>, Option<Box<Violation>>)> = Mutex::default();
    // Past the last seed nothing is counted: the last one may be the greatest number there is.
    let advance = |seed| (seed < seeds.end).then_some(seed + 1);
    std::thread::scope(|scope| {
        for _ in 0..cores() {
            scope.spawn(|| {
                while let Ok(seed) = next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, advance) {
                    let outcome = play(Plan::draw_with(seed, troubles), rules());
                    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                    match outcome {
                        Ok(report) => {
                            progress(&report);
                            found.0.push(report);
                        }
                        Err(violation) => {
                            next.store(seeds.end, Ordering::Relaxed);
                            let is_lower = found.1.as_ref().is_none_or(|other| violation.seed < other.seed);
                            if is_lower {
                                found.1 = Some(violation);
                            }
                        }
                    }
                }
            });
        }
    });
    let (mut reports, violation) = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    reports.sort_by_key(|report| report.seed);
    violation.map_or(Ok(reports), Err)
}

/// A world that goes through its plan.
#[derive(Debug)]
struct Story {
    plan: Plan,
    world: World,
    dice: Dice,
    produced: u64,
}

impl Story {
    fn new(plan: Plan, rules: Vec<Box<dyn Invariant>>) -> Self {
        let mut world = World::new(plan.cluster.clone(), plan.weather, plan.seed, rules);
        world.allowances = plan.allowances;
        let mut dice = Dice::new(plan.seed);
        for topic in plan.cluster.topics.clone() {
            world.put_topic(None, topic);
        }
        for member in &plan.members {
            let handler = Handler::drawn(member.habits, dice.branch());
            let group = member.group.clone();
            let id = match member.host {
                Some(host) => world.place_on(host, group, handler),
                None => world.place(member.kind, member.client.clone(), group, handler),
            };
            let place = &mut world.places[id.0 as usize];
            place.timer_lag = member.timer_lag;
            place.timers_first = member.timers_first;
        }
        for (index, (at, _)) in (0..).zip(&plan.script) {
            world.agenda.put(*at, Due::Script(index));
        }
        Self {
            plan,
            world,
            dice,
            produced: 0,
        }
    }

    fn run(&mut self) -> Result<Report, Box<Violation>> {
        let healed_at = Instant::ZERO + self.plan.safety;
        self.play_until(healed_at);
        self.heal();
        let rest_after = self.come_to_rest(healed_at);
        self.leave();
        if let Some((at, rule, what)) = self.world.watchers.broken.take() {
            return Err(Box::new(self.violation(at, rule, what)));
        }
        Ok(self.report(rest_after))
    }

    fn play_until(&mut self, until: Instant) {
        while let Some(entry) = self.world.run_until(until) {
            let Some((_, step)) = self.plan.script.get(entry as usize) else {
                continue;
            };
            match step.clone() {
                Step::Fault(fault) => {
                    // Everything was mended at the end of the safety phase: nothing begins after it, and nothing
                    // is left to be repaired.
                    if self.world.now < Instant::ZERO + self.plan.safety {
                        fault.apply(&mut self.world);
                    }
                }
                Step::Produce(topic, count) => self.produce(&topic, count),
            }
        }
    }

    fn produce(&mut self, topic: &Topic, count: u32) {
        let queues: Vec<MessageQueue> = self
            .world
            .topics
            .queues()
            .filter(|queue| &queue.topic == topic)
            .collect();
        for _ in 0..count {
            let queue = self.dice.pick(&queues).clone();
            let tag = *self.dice.pick(&[None, Some("a"), Some("b"), Some("c")]);
            let body = Bytes::from(self.produced.to_string());
            self.produced += 1;
            self.world.append(queue, body, tag);
        }
    }

    /// Everything that is broken is mended.
    fn heal(&mut self) {
        let world = &mut self.world;
        world.show(What::Fault(Upheaval::Healed));
        world.network.set_weather(self.plan.weather);
        world.control(Control::ClearRules);
        let servers: Vec<_> = world
            .nodes
            .all()
            .filter(|(_, node)| node.replica.is_none())
            .map(|(no, _)| no)
            .collect();
        for server in servers {
            Fault::Freeze(server, false).apply(world);
        }
        for broker in world.topics.brokers().to_vec() {
            Fault::Lag(broker, Duration::ZERO).apply(world);
        }
        world.mend_all();
        // Messages in queues that were taken away could not be read.
        let largest: Vec<_> = world.topics.largest();
        for (topic, broker, queues) in largest {
            Fault::Queues(topic, broker, queues).apply(world);
        }
        for index in 0..world.places.len() {
            let member = world.member_at(index);
            world.set_habits(member, Habits::GOOD);
            world.set_disk(member, Disk::GOOD);
            world.want_nothing(member);
        }
        self.start_all();
    }

    /// Waits until rest has lasted; how long it took to come.
    fn come_to_rest(&mut self, since: Instant) -> Duration {
        let until = since + LIVENESS + self.plan.longest_delay;
        let owes_rest = !self.plan.allowances.different_subscriptions;
        let mut rested: Option<Instant> = None;
        while self.world.watchers.broken.is_none() && self.world.now < until {
            let look = if rested.is_some() { LOOK_AGAIN } else { LOOK };
            self.play_until(self.world.now + look);
            // One that was asked to leave just before is not to be missed.
            self.start_all();
            let rests = !owes_rest || self.world.is_at_rest();
            rested = rested
                .filter(|_| rests)
                .or_else(|| rests.then_some(self.world.now));
            if rested.is_some_and(|rested| self.world.now >= rested + AFTERGLOW) {
                break;
            }
        }
        if self.world.watchers.broken.is_none() && owes_rest {
            self.world.ask(|rule, now, view| rule.at_rest(now, view));
            if let Some(words) = self.world.unrest() {
                self.world.broken("comes_to_rest", Broken(words));
            }
        }
        rested.unwrap_or(self.world.now).saturating_since(since)
    }

    fn start_all(&mut self) {
        for index in 0..self.world.places.len() {
            let member = self.world.member_at(index);
            self.world.start(member);
        }
    }

    fn leave(&mut self) {
        self.world.show(What::Fault(Upheaval::Closing));
        for index in 0..self.world.places.len() {
            let member = self.world.member_at(index);
            self.world.leave(member, DRAIN);
        }
        self.play_until(self.world.now + LEAVING);
        if let Some(life) = self.world.alive.first() {
            let words = format!("{life:?} has not left {LEAVING:?} after it was asked to");
            self.world.broken("leaves_in_time", Broken(words));
        }
        self.world.ask(|rule, now, view| rule.at_end(now, view));
    }

    fn report(&self, rest_after: Duration) -> Report {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Report {
            seed: self.plan.seed,
            members: count(self.plan.members.len()),
            queues: self.world.topics.most(),
            messages: count(self.world.ledger.messages()),
            deliveries: self.world.deliveries,
            faults: count(self.plan.faults()),
            steps: self.world.steps,
            time: self.world.now.saturating_since(Instant::ZERO),
            rest_after,
            hash: self.world.trace.hash(),
        }
    }

    fn violation(&self, at: Instant, rule: &'static str, what: Broken) -> Violation {
        let faults = self.plan.script.iter().filter_map(|(when, step)| match step {
            Step::Fault(fault) if *when <= at => Some(format!("{when:?} {fault:?}")),
            Step::Fault(_) | Step::Produce(..) => None,
        });
        Violation {
            seed: self.plan.seed,
            troubles: Some(self.plan.troubles),
            at,
            rule,
            what,
            faults: faults.collect(),
        }
    }
}
