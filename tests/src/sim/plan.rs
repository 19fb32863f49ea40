//! What a seed means: a world, and what is done to it and when.
//!
//! A swarm: each seed switches whole kinds of faults off and takes others to their extreme, because faults that
//! all happen a little hide each other. Everything is drawn here, before the world begins.

use std::time::Duration;

use rocketmq_consumer_core::allocate::AllocateStrategy;
use rocketmq_consumer_core::broker::config::{ClusterConfig, TopicConfig};
use rocketmq_consumer_core::broker::rule::{Effect, Nth, Rule};
use rocketmq_consumer_core::config::{ClientConfig, GroupConfig, IllegalOffsetPolicy, StartAt};
use rocketmq_consumer_core::ids::{BrokerName, ConsumerGroup, PeerAddr, Topic};
use rocketmq_consumer_core::time::Instant;
use rocketmq_consumer_core::wire::code::{RequestCode, ResponseCode};

use super::dice::Dice;
use super::fault::Fault;
use super::habits::Habits;
use super::invariant::Allowances;
use super::network::{Way, Weather};
use super::seen::{Kind, MemberId, NodeNo};
use super::sharing;
use super::trouble::{Trouble, Troubles};

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

/// The longest that any handler's delivery may take in a drawn world.
const DELIVERY_DEADLINE_MAX: Duration = secs(40);

/// The number in the name of a second group of clients; the others count from 0.
const TENANT_GROUP: usize = 7;

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

    // ---- members --------------------------------------------------------------------------------

    fn draw_members(&mut self) {
        let groups = if self.dice.chance(15) { 2 } else { 1 };
        let members = *self.dice.pick(&[2, 2, 2, 2, 3, 3, 3, 3, 3, 4]);
        let settings: Vec<GroupConfig> = (0..groups).map(|group| self.draw_group(group)).collect();
        let equal_ids = members > groups + 1 && self.dice.chance(4) && self.troubles.has(Trouble::Twins);
        let different =
            members > groups + 1 && self.dice.chance(4) && self.troubles.has(Trouble::Subscriptions);
        let habits = self.draw_habits();
        let mixed = !equal_ids && self.dice.chance(30) && self.troubles.has(Trouble::Java);
        if mixed {
            for strategy in &mut self.strategies {
                if matches!(strategy, AllocateStrategy::Own(_)) {
                    *strategy = AllocateStrategy::Averagely;
                }
            }
        }
        if mixed && self.dice.chance(92) {
            // A slave whose master is back says "again, at once, from the master", and a Java client that has not
            // heard of the master's return asks the slave again, a few hundred times a second for up to 30 s.
            // That is so in life, and too dear for every world.
            for broker in &mut self.cluster.brokers {
                broker.replicas.retain(|id, _| *id == 0);
            }
        }
        for index in 0..members {
            let mut group = settings[index % groups].clone();
            // A place in the list that is not that of the age: the order of ids is that of text.
            let mut id = format!("10.0.2.{}@{}", self.dice.number(1..250), 1000 + index);
            if equal_ids && index == groups {
                self.allowances.equal_client_ids = true;
                id = self.members[0].client.client_id().to_string();
            }
            if different && index == groups {
                self.allowances.different_subscriptions = true;
                let mut other = GroupConfig::new(group.group().clone());
                other.set_start_at(StartAt::Earliest);
                other.subscribe(self.cluster.topics[0].name.clone(), "a");
                group = other;
            }
            group.set_strategy(self.strategies[index % groups].clone());
            let servers: Vec<PeerAddr> = self.cluster.name_servers.clone();
            let late = self.dice.chance(30);
            let begins = if late {
                self.moment()
            } else {
                Instant::ZERO + self.dice.time(Duration::ZERO..secs(5))
            };
            let is_java = mixed && self.dice.chance(50);
            if is_java {
                self.allowances.java_members = true;
                // A Java client has no deadline for its listeners but one of 15 minutes.
                self.javas.push(index);
            }
            let mut client = ClientConfig::new(id.as_str().into(), servers);
            client.set_route_retry(self.dice.time(secs(1)..secs(6)));
            let member = MemberPlan {
                kind: if is_java { Kind::Java } else { Kind::Ours },
                host: None,
                client,
                group,
                habits,
                begins,
                timer_lag: if self.dice.chance(20) {
                    self.dice.time(Duration::ZERO..ms(10))
                } else {
                    Duration::ZERO
                },
                timers_first: self.dice.chance(20),
            };
            let place = MemberId(u32::try_from(self.members.len()).unwrap_or(u32::MAX));
            self.members.push(member);
            self.add(begins, Fault::Start(place));
        }
    }

    /// One world in six has clients that hold a second group, which may leave and come back while the client goes
    /// on. They are drawn apart, so that the rest of a world is as it was without them.
    fn draw_tenants(&mut self) {
        let of_its_own = Dice::new(self.seed ^ 0x7E4A_4755_7E4A_4755);
        let of_the_rest = std::mem::replace(&mut self.dice, of_its_own);
        if self.troubles.has(Trouble::Groups) && self.dice.chance(17) {
            let group = self.draw_group(TENANT_GROUP);
            let hosts: Vec<usize> = (0..self.members.len())
                .filter(|host| !self.javas.contains(host))
                .collect();
            for (place, host) in hosts.into_iter().enumerate() {
                if place == 0 || self.dice.chance(60) {
                    self.draw_tenant(host, group.clone());
                }
            }
        }
        self.dice = of_the_rest;
    }

    fn draw_tenant(&mut self, host: usize, group: GroupConfig) {
        let begins = if self.dice.chance(50) {
            self.members[host].begins
        } else {
            self.members[host].begins.max(self.moment())
        };
        let member = MemberPlan {
            host: Some(MemberId(u32::try_from(host).unwrap_or(u32::MAX))),
            group,
            begins,
            habits: self.draw_habits(),
            ..self.members[host].clone()
        };
        let place = MemberId(u32::try_from(self.members.len()).unwrap_or(u32::MAX));
        self.members.push(member);
        self.add(begins, Fault::Start(place));
        for _ in 0..self.dice.number(0..3) {
            let at = self.moment();
            let drain = self.dice.time(Duration::ZERO..secs(5));
            self.add(at, Fault::Leave(place, drain));
            let away = self.dice.time(ms(1)..secs(40));
            self.add(at + away, Fault::Start(place));
            // It may not have left by the first attempt.
            self.add(at + secs(60), Fault::Start(place));
        }
    }

    fn draw_group(&mut self, number: usize) -> GroupConfig {
        let mut group = GroupConfig::new(ConsumerGroup::from(format!("G{number}")));
        group.set_start_at(StartAt::Earliest);
        let topics: Vec<Topic> = self
            .cluster
            .topics
            .iter()
            .map(|topic| topic.name.clone())
            .collect();
        for topic in topics {
            let expression = if self.dice.chance(75) { "*" } else { "a || b" };
            group.subscribe(topic, expression);
        }
        group.set_delivery_deadline(self.dice.time(secs(15)..DELIVERY_DEADLINE_MAX));
        if self.dice.chance(30) {
            let count = u32::try_from(self.dice.number(1..40)).unwrap_or(1);
            group.set_queue_count_max(count);
        }
        if self.dice.chance(20) {
            let span = u32::try_from(self.dice.number(1..60)).unwrap_or(1);
            group.set_queue_span_max(span);
        }
        if self.dice.chance(20) {
            group.set_queue_bytes_max(self.dice.number(1..200));
        }
        if self.dice.chance(30) {
            let batch = u32::try_from(self.dice.number(1..33)).unwrap_or(1);
            group.set_pull_batch(batch);
        }
        if self.dice.chance(40) {
            let permits = u32::try_from(self.dice.number(1..8)).unwrap_or(1);
            group.set_concurrency(permits);
        }
        if self.dice.chance(25) {
            let times = u32::try_from(self.dice.number(0..3)).unwrap_or(0);
            group.set_max_reconsume(times);
        }
        let policies = [
            IllegalOffsetPolicy::Resume,
            IllegalOffsetPolicy::Follow,
            IllegalOffsetPolicy::Earliest,
            IllegalOffsetPolicy::Latest,
            IllegalOffsetPolicy::Hold,
        ];
        group.set_illegal_offset(*self.dice.pick(&policies));
        group
    }

    fn draw_habits(&mut self) -> Habits {
        let mut habits = Habits {
            quick: self.dice.time(Duration::ZERO..ms(50)),
            lane: self.dice.time(Duration::ZERO..ms(20)),
            ..Habits::GOOD
        };
        if self.dice.chance(50) && self.troubles.has(Trouble::Handlers) {
            habits.fails = self.dice.number(0..50);
            habits.panics = self.dice.number(0..10);
            habits.fails_with_delay = self.dice.number(0..20);
            habits.buries = self.dice.number(0..10);
        }
        habits
    }

    // ---- messages -------------------------------------------------------------------------------

    fn draw_messages(&mut self) {
        // Some are lost before they are stored: their broker is down.
        let total = if self.dice.chance(35) {
            self.dice.number(40..300)
        } else {
            self.dice.number(660..720)
        };
        let mut left = total;
        while left > 0 {
            let burst = if self.dice.chance(10) {
                self.dice.number(20..80)
            } else {
                self.dice.number(1..12)
            };
            let burst = burst.min(left);
            left -= burst;
            let at = Instant::ZERO + self.dice.time(Duration::ZERO..self.safety);
            let topics = self.cluster.topics.len();
            let topic = self.cluster.topics[self.dice.index(0..topics)].name.clone();
            self.script
                .push((at, Step::Produce(topic, u32::try_from(burst).unwrap_or(1))));
        }
    }

    // ---- faults ---------------------------------------------------------------------------------

    fn draw_weather(&mut self, extreme: bool) -> Weather {
        let most = if extreme { ms(700) } else { ms(8) };
        Weather {
            latency: self.dice.time(ms(0)..most / 2) + Duration::from_micros(100),
            jitter: self.dice.time(ms(0)..most),
            bytes_per_second: if extreme && self.dice.chance(50) {
                self.dice.number(2_000..50_000)
            } else {
                0
            },
            halves_per_mille: if extreme {
                self.dice.number(0..300)
            } else {
                self.dice.number(0..20)
            },
            half_gap: if extreme { secs(6) } else { ms(200) },
            lost_halves_percent: if extreme { 10 } else { 0 },
        }
    }

    fn draw_faults(&mut self) {
        let allowed: Vec<Trouble> = self.troubles.kinds().filter(|kind| kind.is_done()).collect();
        if allowed.is_empty() {
            return;
        }
        let mut on = allowed.clone();
        on.retain(|_| self.dice.chance(60));
        if on.is_empty() {
            on = allowed;
        }
        // One kind may be taken to its extreme.
        if self.dice.chance(30) {
            let favourite = *self.dice.pick(&on);
            on.extend([favourite; 8]);
        }
        for _ in 0..self.dice.number(4..15) {
            let trouble = *self.dice.pick(&on);
            self.draw_fault(trouble);
        }
    }

    fn draw_fault(&mut self, trouble: Trouble) {
        let at = self.moment();
        let member = MemberId(u32::try_from(self.dice.index(0..self.members.len())).unwrap_or(0));
        let node = self.node(|_| true);
        let broker = {
            let index = self.dice.index(0..self.cluster.brokers.len());
            self.cluster.brokers[index].name.clone()
        };
        match trouble {
            Trouble::Disconnect if self.dice.chance(30) => self.add(at, Fault::DisconnectAll(node)),
            Trouble::Disconnect => self.add(at, Fault::Disconnect(member, node)),
            Trouble::Cut => {
                let lasts = self.dice.time(ms(100)..secs(60));
                let ways: &[Way] = match self.dice.number(0..3) {
                    0 => &[Way::ToNode],
                    1 => &[Way::ToMember],
                    _ => &[Way::ToNode, Way::ToMember],
                };
                for (index, way) in ways.iter().enumerate() {
                    self.add(at, Fault::Cut(member, node, *way));
                    self.add(at + lasts + ms(index as u64), Fault::Mend(member, node, *way));
                }
            }
            Trouble::Weather => {
                let (bad, good) = (self.draw_weather(true), self.draw_weather(false));
                let lasts = self.dice.time(secs(1)..secs(60));
                self.add(at, Fault::Weather(bad));
                self.add(at + lasts, Fault::Weather(good));
            }
            Trouble::Stall => {
                let most = if self.dice.chance(20) { secs(60) } else { secs(5) };
                let time = self.dice.time(ms(10)..most);
                self.add(at, Fault::Stall(member, time));
            }
            Trouble::Crash => {
                let told = self.dice.chance(70);
                self.add(at, Fault::Kill { member, told });
                let away = self.dice.time(ms(1)..secs(40));
                self.add(at + away, Fault::Start(member));
            }
            Trouble::Leave => {
                let drain = self.dice.time(Duration::ZERO..secs(5));
                self.add(at, Fault::Leave(member, drain));
                let away = self.dice.time(secs(1)..secs(40));
                self.add(at + away, Fault::Start(member));
                // It may not have left by the first attempt.
                self.add(at + secs(60), Fault::Start(member));
            }
            Trouble::BrokerCrash => self.draw_outage(at, false),
            Trouble::Failover => self.draw_outage(at, true),
            Trouble::NameServer => {
                let server = self.node(|node| node.is_none());
                let killed = true;
                let silent = self.dice.chance(20);
                self.add(
                    at,
                    Fault::Down {
                        node: server,
                        killed,
                        silent,
                    },
                );
                let away = self.dice.time(secs(1)..secs(60));
                self.add(at + away, Fault::Up(server));
            }
            Trouble::LostAnswer => {
                let effect = self.draw_loss();
                self.draw_rule(at, effect);
            }
            Trouble::LateAnswer => {
                let effect = self.draw_delay();
                self.draw_rule(at, effect);
            }
            Trouble::Refusal if self.dice.chance(25) => self.draw_refused_send_backs(at),
            Trouble::Refusal => {
                let effect = self.draw_refusal();
                self.draw_rule(at, effect);
            }
            Trouble::Notification => self.draw_notification(at),
            Trouble::Queues => {
                let topic = self.dice.pick(&self.cluster.topics).clone();
                let queues = self.dice.number(1..u64::from(topic.read_queues) + 4);
                let queues = u32::try_from(queues).unwrap_or(1);
                self.add(at, Fault::Queues(topic.name, broker, queues));
            }
            Trouble::StaleRoutes => {
                let server = self.node(|node| node.is_none());
                let lasts = self.dice.time(secs(5)..secs(90));
                self.add(at, Fault::Freeze(server, true));
                self.add(at + lasts, Fault::Freeze(server, false));
            }
            Trouble::Clocks => {
                let far = [-86_400_000, -5_000, 3_000, 3_600_000, 86_400_000_000];
                let off = *self.dice.pick(&far);
                if self.dice.chance(50) {
                    self.add(at, Fault::Clock(member, off));
                } else {
                    self.add(at, Fault::BrokerClock(off));
                }
            }
            Trouble::Handlers => {
                let (good, mut bad) = (self.draw_habits(), self.draw_bad_habits());
                if self.javas.contains(&(member.0 as usize)) {
                    bad.hangs = 0;
                }
                let lasts = self.dice.time(secs(1)..secs(60));
                self.add(at, Fault::Handlers(member, bad));
                self.add(at + lasts, Fault::Handlers(member, good));
            }
            Trouble::Reset => {
                let topic = self.dice.pick(&self.cluster.topics).name.clone();
                let group = self.members[member.0 as usize].group.group().clone();
                let per_mille = self.dice.number(0..1001);
                self.add(at, Fault::Reset(group, topic, per_mille));
            }
            Trouble::OldOffsets => {
                let master = self.node(|replica| replica == Some(0));
                let (name, by) = (self.broker_of(master), self.dice.number(1..200));
                let killed = self.dice.chance(50);
                let down = Fault::Down {
                    node: master,
                    killed,
                    silent: false,
                };
                self.allowances.offsets_lost = true;
                self.add(at, down);
                self.add(at + ms(50), Fault::Rewind(name, by));
                let away = self.dice.time(ms(100)..secs(60));
                self.add(at + away, Fault::Up(master));
            }
            Trouble::Permissions => {
                let topic = self.dice.pick(&self.cluster.topics).name.clone();
                let lasts = self.dice.time(secs(1)..secs(60));
                // Whether it may be written is nothing to a consumer.
                self.add(at, Fault::Permission(topic.clone(), broker.clone(), 2));
                self.add(at + lasts, Fault::Permission(topic, broker, 6));
            }
            Trouble::Joining => {
                // Nobody has seen it before.
                let at = at.min(Instant::ZERO + secs(60));
                for node in self.replicas_of(&broker) {
                    let (killed, silent) = (false, false);
                    self.add(Instant::ZERO + ms(1), Fault::Down { node, killed, silent });
                    self.add(at, Fault::Up(node));
                }
            }
            // They are drawn with the members.
            Trouble::Java | Trouble::Twins | Trouble::Subscriptions | Trouble::Groups => {}
        }
    }

    fn draw_outage(&mut self, at: Instant, failover: bool) {
        let is_master = |replica: Option<i64>| replica == Some(0);
        let node = if failover {
            self.node(is_master)
        } else {
            self.node(|replica| replica.is_some())
        };
        let (killed, silent) = (self.dice.chance(70), self.dice.chance(20));
        if failover {
            let lag = self.dice.time(Duration::ZERO..secs(20));
            let name = self.broker_of(node);
            self.add(at - secs(1), Fault::Lag(name, lag));
        }
        self.add(at, Fault::Down { node, killed, silent });
        // Members that miss a broker ask for routes every second.
        let most = if self.dice.chance(15) { secs(90) } else { secs(20) };
        let away = self.dice.time(ms(100)..most);
        self.add(at + away, Fault::Up(node));
    }

    fn draw_bad_habits(&mut self) -> Habits {
        let mut habits = self.draw_habits();
        match self.dice.number(0..5) {
            0 => habits.fails = 500,
            1 => habits.panics = 1000,
            2 => habits.hangs = self.dice.number(20..300),
            3 => {
                habits.slows = 800;
                habits.extends = 300;
                habits.slow = self.dice.time(secs(1)..secs(20));
            }
            _ => {
                habits.fails = 100;
                habits.hangs = 30;
                habits.slows = 300;
                habits.slow = secs(2);
                habits.lane = secs(1);
            }
        }
        habits
    }

    /// What members ask is treated like this for a while.
    fn draw_rule(&mut self, at: Instant, effect: Effect) {
        let codes = [
            RequestCode::PULL_MESSAGE,
            RequestCode::QUERY_CONSUMER_OFFSET,
            RequestCode::UPDATE_CONSUMER_OFFSET,
            RequestCode::CONSUMER_SEND_MSG_BACK,
            RequestCode::SEND_MESSAGE_V2,
            RequestCode::HEART_BEAT,
            RequestCode::GET_CONSUMER_LIST_BY_GROUP,
            RequestCode::GET_ROUTEINFO_BY_TOPIC,
            RequestCode::GET_MIN_OFFSET,
            RequestCode::UNREGISTER_CLIENT,
        ];
        let code = *self.dice.pick(&codes);
        self.add_rule(at, code, effect);
    }

    fn add_rule(&mut self, at: Instant, code: RequestCode, effect: Effect) {
        let nth = Nth::Every(u32::try_from(self.dice.number(1..8)).unwrap_or(1));
        self.add(at, Fault::Rule(Rule::on(code, effect).nth(nth)));
        let lasts = self.dice.time(ms(200)..secs(40));
        self.add(at + lasts, Fault::NoRules);
    }

    fn draw_loss(&mut self) -> Effect {
        if self.dice.chance(50) {
            Effect::Drop
        } else if self.dice.chance(20) {
            Effect::Twice
        } else {
            Effect::LoseAnswer
        }
    }

    fn draw_delay(&mut self) -> Effect {
        let late = self.dice.time(ms(10)..secs(12));
        if self.dice.chance(50) {
            Effect::Delay(late)
        } else {
            Effect::DelayAnswer(late)
        }
    }

    fn draw_refusal(&mut self) -> Effect {
        let fail = |code, remark: &str| Effect::Fail {
            code,
            remark: remark.into(),
        };
        match self.dice.number(0..4) {
            0 => Effect::Close,
            1 => fail(ResponseCode::SYSTEM_BUSY, "busy"),
            2 => fail(ResponseCode::GO_AWAY, "please go away"),
            _ => fail(ResponseCode::SYSTEM_ERROR, "made to fail"),
        }
    }

    /// No message is taken back for so long that consumers help themselves.
    fn draw_refused_send_backs(&mut self, at: Instant) {
        let effect = Effect::Fail {
            code: ResponseCode::SYSTEM_ERROR,
            remark: "look message by offset failed".into(),
        };
        let code = RequestCode::CONSUMER_SEND_MSG_BACK;
        self.add(at, Fault::Rule(Rule::on(code, effect)));
        let lasts = self.dice.time(secs(5)..secs(90));
        self.add(at + lasts, Fault::NoRules);
    }

    /// Notifications are lost, doubled or late; and there may be one without a cause.
    fn draw_notification(&mut self, at: Instant) {
        let late = self.dice.time(ms(10)..secs(12));
        let effect = match self.dice.number(0..3) {
            0 => Effect::Drop,
            1 => Effect::Twice,
            _ => Effect::Delay(late),
        };
        self.add_rule(at, RequestCode::NOTIFY_CONSUMER_IDS_CHANGED, effect);
        if self.dice.chance(50) {
            let broker = self.cluster.brokers[0].name.clone();
            let group = self.members[0].group.group().clone();
            self.add(at + ms(500), Fault::Notify(broker, group));
        }
    }

    /// A node of this kind: `None` is a name server, else the id of the replica.
    fn node(&mut self, wanted: impl Fn(Option<i64>) -> bool) -> NodeNo {
        let servers = self.cluster.name_servers.iter().map(|_| None);
        let replicas = self
            .cluster
            .brokers
            .iter()
            .flat_map(|broker| broker.replicas.keys());
        let all = (0..).map(NodeNo).zip(servers.chain(replicas.copied().map(Some)));
        let fit: Vec<NodeNo> = all.filter(|(_, kind)| wanted(*kind)).map(|(no, _)| no).collect();
        *self.dice.pick(&fit)
    }

    /// The nodes of a broker.
    fn replicas_of(&self, broker: &BrokerName) -> Vec<NodeNo> {
        let servers = u32::try_from(self.cluster.name_servers.len()).unwrap_or(0);
        let replicas = self
            .cluster
            .brokers
            .iter()
            .flat_map(|of| of.replicas.keys().map(|_| &of.name));
        let all = (servers..).map(NodeNo).zip(replicas);
        all.filter(|(_, name)| *name == broker)
            .map(|(no, _)| no)
            .collect()
    }

    fn broker_of(&self, node: NodeNo) -> BrokerName {
        let mut index = (node.0 as usize).saturating_sub(self.cluster.name_servers.len());
        for broker in &self.cluster.brokers {
            if index < broker.replicas.len() {
                return broker.name.clone();
            }
            index -= broker.replicas.len();
        }
        self.cluster.brokers[0].name.clone()
    }
}

fn draw_cluster(dice: &mut Dice) -> ClusterConfig {
    let brokers = *dice.pick(&[1, 1, 1, 2, 2, 3]);
    let mut cluster = ClusterConfig::with_brokers(brokers);
    if dice.chance(40) {
        cluster.name_servers.push(PeerAddr::new("10.0.1.2", 9876));
    }
    for (index, broker) in (1_u8..).zip(&mut cluster.brokers) {
        if dice.chance(40) {
            let slave = PeerAddr::new(format!("10.0.3.{index}"), 10911);
            broker.replicas.insert(1, slave);
        }
    }
    let topics = 1 + u64::from(dice.chance(30));
    let total = *dice.pick(&[2, 4, 6, 7, 7, 8, 8, 9, 10]);
    for number in 0..topics {
        let each = (total / topics / brokers as u64).max(1);
        let queues = u32::try_from(each + dice.number(0..2)).unwrap_or(4);
        cluster
            .topics
            .push(TopicConfig::new(Topic::from(format!("T{number}")), queues));
    }
    let settings = &mut cluster.settings;
    let levels = [1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 15, 16, 17, 18, 19, 20, 20, 20];
    settings.delay_levels = levels.map(secs).into();
    // Short polling takes a step a second and queue.
    settings.long_polling = dice.chance(96);
    settings.slave_read = dice.chance(50);
    settings.offset_check_in_slave = dice.chance(30);
    settings.route_expiry = if dice.chance(50) {
        Duration::ZERO
    } else {
        dice.time(secs(1)..secs(120))
    };
    settings.replication_lag = dice.time(Duration::ZERO..secs(2));
    cluster
}
