//! What a seed means: a world, and what is done to it and when.
//!
//! A swarm: each seed switches whole kinds of faults off and takes others to their extreme, because faults that
//! all happen a little hide each other. Everything is drawn here, before the world begins.

mod cluster;
mod faults;
mod members;
mod messages;
mod modes;
mod rules;
mod wishes;

use std::time::Duration;

use rocketmq_consumer_core::allocate::AllocateStrategy;
use rocketmq_consumer_core::broker::config::ClusterConfig;
use rocketmq_consumer_core::config::{ClientConfig, GroupConfig};
use rocketmq_consumer_core::ids::Topic;
use rocketmq_consumer_core::time::Instant;

use cluster::draw_cluster;
use members::DELIVERY_DEADLINE_MAX;

use super::dice::Dice;
use super::fault::Fault;
use super::habits::Habits;
use super::invariant::Allowances;
use super::network::Weather;
use super::seen::{Kind, MemberId};
use super::sharing;
use super::trouble::Troubles;

/// A world and its story.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where it came from.
    pub seed: u64,
    /// What was allowed to go wrong.
    pub troubles: Troubles,
    /// The cluster, its topics included.
    pub cluster: ClusterConfig,
    /// The network at the beginning and after everything was mended.
    pub weather: Weather,
    /// The members, in the order of their [`MemberId`].
    pub members: Vec<MemberPlan>,
    /// What is done, by time.
    pub script: Vec<(Instant, Step)>,
    /// When everything is mended.
    pub safety: Duration,
    /// The longest that a message may be away in an orderly way: a handler that hangs, and then the delay.
    pub longest_delay: Duration,
    /// What is weaker in this world.
    pub allowances: Allowances,
}

/// One member.
#[derive(Clone, Debug)]
pub struct MemberPlan {
    /// What runs in it.
    pub kind: Kind,
    /// Whose client its group lives on, if that is another member's; its own client settings are not used then.
    pub host: Option<MemberId>,
    /// Its client's settings.
    pub client: ClientConfig,
    /// Its group's settings.
    pub group: GroupConfig,
    /// How its handlers behave at first.
    pub habits: Habits,
    /// When it begins.
    pub begins: Instant,
    /// How late its wake-ups are.
    pub timer_lag: Duration,
    /// Whether wake-ups go before arrivals.
    pub timers_first: bool,
}

/// One entry of the script.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Something is done to the world.
    Fault(Fault),
    /// So many messages are stored, in queues that are drawn.
    Produce(Topic, u32),
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

impl Plan {
    /// Draws the world of a seed.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        Self::draw_with(seed, Troubles::ALL)
    }

    /// Draws the world of a seed in which only these kinds of trouble happen: another world than without the
    /// restriction, but the same each time.
    #[must_use]
    pub fn draw_with(seed: u64, troubles: Troubles) -> Self {
        Painter::new(seed, troubles).plan()
    }

    /// Things that are done to this world, repairs not counted.
    #[must_use]
    pub fn faults(&self) -> usize {
        let faults = self.script.iter();
        faults
            .filter(|(_, step)| matches!(step, Step::Fault(fault) if !fault.is_repair()))
            .count()
    }
}

struct Painter {
    seed: u64,
    troubles: Troubles,
    dice: Dice,
    cluster: ClusterConfig,
    members: Vec<MemberPlan>,
    script: Vec<(Instant, Step)>,
    safety: Duration,
    allowances: Allowances,
    /// Which members are Java-like.
    javas: Vec<usize>,
    /// How each group shares its queues.
    strategies: [AllocateStrategy; 2],
}

impl Painter {
    fn new(seed: u64, troubles: Troubles) -> Self {
        // Neighbouring seeds are not to have neighbouring worlds.
        let mut dice = Dice::new(seed ^ 0x5EED_0F0F_5EED_0F0F);
        let mut cluster = draw_cluster(&mut dice);
        // Of their own, so that nothing else is moved by them.
        let mut dealer = Dice::new(seed ^ 0xA110_CA7E_A110_CA7E);
        let strategies = [(); 2].map(|()| sharing::draw(&mut dealer, &mut cluster));
        // Four in ten are short: what happens at the beginning of a life happens in them as well, and more of them
        // are run in the same time.
        let safety = if dice.chance(41) {
            secs(60)..secs(180)
        } else {
            secs(250)..secs(300)
        };
        Self {
            seed,
            troubles,
            safety: dice.time(safety),
            dice,
            cluster,
            members: Vec::new(),
            script: Vec::new(),
            allowances: Allowances::default(),
            javas: Vec::new(),
            strategies,
        }
    }

    fn plan(mut self) -> Plan {
        self.draw_members();
        self.draw_tenants();
        self.draw_modes();
        self.draw_wishes();
        self.draw_messages();
        self.draw_faults();
        self.script.sort_by_key(|(at, _)| *at);
        let weather = self.draw_weather(false);
        let delays = self.cluster.settings.delay_levels.iter().max().copied();
        Plan {
            seed: self.seed,
            troubles: self.troubles,
            weather,
            longest_delay: delays.unwrap_or_default() + DELIVERY_DEADLINE_MAX + secs(10),
            cluster: self.cluster,
            members: self.members,
            script: self.script,
            safety: self.safety,
            allowances: self.allowances,
        }
    }

    fn moment(&mut self) -> Instant {
        Instant::ZERO + self.dice.time(secs(5)..self.safety)
    }

    fn add(&mut self, at: Instant, fault: Fault) {
        self.script.push((at, Step::Fault(fault)));
    }
}
