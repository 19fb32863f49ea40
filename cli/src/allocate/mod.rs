//! `allocate`: what a member of a group would own.

mod many;
mod params;

use std::collections::BTreeMap;
use std::str::FromStr;

use rocketmq_consumer_core::allocate::{Explanation, MemberShare, sort_members, sort_queues};
use rocketmq_consumer_core::ids::{BrokerName, ClientId, MessageQueue, QueueId, Topic};
use serde::Serialize;

use crate::args::AllocateArgs;
use crate::exit::{Exit, Failure};
use crate::output::Lines;
use crate::talk::{Level, Talk};

/// The most queues a broker of `--queues` may have; a typing error must not cost gigabytes.
const QUEUES_PER_BROKER_MAX: i32 = 65_536;

/// Runs the command.
///
/// # Errors
/// The strategy refuses the arguments, or a file cannot be read.
pub(crate) fn run(args: &AllocateArgs, talk: Talk) -> Result<Exit, Failure> {
    match &args.input {
        Some(path) => many::run(path, talk),
        None => one(args, talk),
    }
}

/// One share from flags, sorted first as a rebalance does.
fn one(args: &AllocateArgs, talk: Talk) -> Result<Exit, Failure> {
    let missing = || Failure::usage("give --strategy, --client, --members and --queues, or --in FILE.jsonl");
    let strategy = args.strategy.as_ref().ok_or_else(missing)?;
    let own = ClientId::from(args.client.as_deref().ok_or_else(missing)?);
    let topic = Topic::from(args.topic.as_deref().unwrap_or("TOPIC"));
    let mut members: Vec<ClientId> = args.members.iter().map(|id| id.as_str().into()).collect();
    let mut queues: Vec<MessageQueue> = args
        .queues
        .iter()
        .flat_map(|broker| broker.queues(&topic))
        .collect();
    sort_members(&mut members);
    sort_queues(&mut queues);
    queues.dedup();
    let refused = |error| {
        Failure::usage(format_args!(
            "{error}; see --strategy, --client, --members and --queues"
        ))
    };
    let share = strategy.allocate_all(&queues, &members, &own).map_err(refused)?;
    if !members.contains(&own) {
        talk.say(
            Level::Warn,
            format_args!("{own} is not among the members, so it owns nothing"),
        );
    }
    for queue in strategy.not_there(&topic, &queues) {
        talk.say(
            Level::Warn,
            format_args!("{queue} is named by the strategy and not there"),
        );
    }
    let told = if args.explain {
        Some(strategy.explain(&queues, &members, &own).map_err(refused)?)
    } else {
        None
    };
    let mut lines = Lines::stdout();
    lines.json(&Share::new(&share, told.as_ref()))?;
    lines.finish()?;
    Ok(Exit::Done)
}

/// The answer to flags.
#[derive(Serialize)]
struct Share<'a> {
    queues: Vec<Queue<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explain: Option<Explained<'a>>,
}

/// One queue, and why, if that was asked for.
#[derive(Serialize)]
struct Queue<'a> {
    broker: &'a str,
    queue_id: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

/// What `--explain` adds.
#[derive(Serialize)]
struct Explained<'a> {
    /// The strategy with everything it was made with.
    strategy: &'a str,
    /// How many queues were shared.
    queues: usize,
    /// Everybody, in the order that counts.
    members: Vec<Member<'a>>,
    /// Queues that belong to nobody.
    unowned: Vec<Queue<'a>>,
}

#[derive(Serialize)]
struct Member<'a> {
    client_id: &'a str,
    /// Places in the sorted list, from 0.
    places: &'a [usize],
    /// How many queues it owns; null where only its own list tells.
    owns: Option<usize>,
}

impl<'a> Share<'a> {
    fn new(share: &'a [MessageQueue], told: Option<&'a Explanation>) -> Self {
        let reasons: BTreeMap<_, _> = told
            .iter()
            .flat_map(|told| &told.share)
            .map(|owned| (&owned.queue, owned.why.to_string()))
            .collect();
        Self {
            queues: share
                .iter()
                .map(|queue| Queue::new(queue, reasons.get(queue).cloned()))
                .collect(),
            explain: told.map(Explained::new),
        }
    }
}

impl<'a> Queue<'a> {
    fn new(queue: &'a MessageQueue, why: Option<String>) -> Self {
        Self {
            broker: queue.broker.as_str(),
            queue_id: queue.id.0,
            why,
        }
    }
}

impl<'a> Explained<'a> {
    fn new(told: &'a Explanation) -> Self {
        let member = |member: &'a MemberShare| Member {
            client_id: member.id.as_str(),
            places: &member.places,
            owns: member.owns,
        };
        Self {
            strategy: &told.strategy,
            queues: told.queues,
            members: told.members.iter().map(member).collect(),
            unowned: told.nobodys.iter().map(|queue| Queue::new(queue, None)).collect(),
        }
    }
}

/// The queues of one broker: an item of `--queues`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BrokerQueues {
    broker: BrokerName,
    count: i32,
}

impl BrokerQueues {
    fn queues<'a>(&'a self, topic: &'a Topic) -> impl Iterator<Item = MessageQueue> + 'a {
        (0..self.count).map(|id| MessageQueue {
            topic: topic.clone(),
            broker: self.broker.clone(),
            id: QueueId(id),
        })
    }
}

impl FromStr for BrokerQueues {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.rsplit_once(':')
            .and_then(|(broker, count)| {
                let count = count.parse().ok()?;
                let fits = !broker.is_empty() && (0..=QUEUES_PER_BROKER_MAX).contains(&count);
                fits.then(|| Self {
                    broker: broker.into(),
                    count,
                })
            })
            .ok_or_else(|| format!("{text:?} is not BROKER:COUNT, for instance broker-a:4"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brokers_are_written_with_their_number_of_queues() {
        let broker: BrokerQueues = "a:b:2".parse().unwrap();
        let topic = Topic::from("T");
        let ids: Vec<_> = broker.queues(&topic).map(|queue| queue.to_string()).collect();
        assert_eq!(ids, ["T/a:b/0", "T/a:b/1"]);
        for text in ["", "a", "a:", ":4", "a:-1", "a:x", "a:65537"] {
            assert!(text.parse::<BrokerQueues>().is_err(), "{text}");
        }
    }
}
