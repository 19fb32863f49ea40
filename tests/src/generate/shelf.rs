//! What the peers of one machine have: the truth that a meaningful answer tells.

use std::collections::BTreeMap;
use std::time::Duration;

use arbitrary::{Result, Unstructured};
use bytes::Bytes;
use rocketmq_consumer_core::allocate::AllocateStrategy;
use rocketmq_consumer_core::config::{ClientConfig, GroupConfig, StartAt};
use rocketmq_consumer_core::ids::{
    ClientId, MessageQueue, PeerAddr, PhysicalOffset, QueueId, QueueOffset, Topic,
};
use rocketmq_consumer_core::time::Instant;
use rocketmq_consumer_core::wire::code::{RequestCode, ResponseCode};
use rocketmq_consumer_core::wire::frame::HeaderForm;
use rocketmq_consumer_core::wire::request::heartbeat::HeartbeatAnswer;
use rocketmq_consumer_core::wire::request::members::MemberList;
use rocketmq_consumer_core::wire::request::offsets::{
    CommitOffsetRequest, MaxOffsetRequest, MinOffsetRequest, OffsetAnswer, QueryOffsetRequest, QueueRef,
    SearchOffsetRequest, StoredOffset,
};
use rocketmq_consumer_core::wire::request::pull::{PullAnswer, PullRequest, PullStatus};
use rocketmq_consumer_core::wire::request::route::{BrokerData, QueueData, RouteRequest, TopicRoute};
use rocketmq_consumer_core::wire::request::{Answer, Done, encode_answer, encode_refusal};
use rocketmq_consumer_core::wire::subscription::Subscription;

use super::dice::{pick, rarely};
use crate::world::{Asked, StoredMessage, records};

/// Messages a broker sends at most for one pull.
const BATCH_MAX: i64 = 32;

/// Every this many physical offsets another queue begins, so that no two messages have the same.
const PHYSICAL_STRIDE: i64 = 1_000_000;

/// One topic on a few brokers, one group that consumes it, and what is stored.
#[derive(Clone, Debug)]
pub struct Shelf {
    /// This member.
    pub own: ClientId,
    /// The other members of its group, now and then.
    pub others: Vec<ClientId>,
    /// What the group subscribes to.
    pub subscription: Subscription,
    /// The queues of the topic.
    pub logs: BTreeMap<MessageQueue, Log>,
}

/// One queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Log {
    /// The oldest offset.
    pub min: i64,
    /// The offset of the next message; there is one at each offset below.
    pub max: i64,
    /// The progress of the group.
    pub stored: Option<i64>,
}

impl Shelf {
    /// One or two brokers with up to three queues each of up to 120 messages.
    ///
    /// # Errors
    ///
    /// None of its own.
    pub fn generate(u: &mut Unstructured<'_>) -> Result<Self> {
        let topic = Topic::from("T");
        let expression = pick(u, &["*", "Aa", "Aa || TagA", "BB"])?;
        let mut logs = BTreeMap::new();
        for broker in BROKERS.iter().take(u.int_in_range(1..=2)?) {
            for id in 0..u.int_in_range(1..=3)? {
                let queue = MessageQueue {
                    topic: topic.clone(),
                    broker: (*broker).into(),
                    id: QueueId(id),
                };
                let min = pick(u, &[0, 0, 7])?;
                let max = min + u.int_in_range(0..=120)?;
                let stored = pick(u, &[None, Some(min), Some(i64::midpoint(min, max))])?;
                logs.insert(queue, Log { min, max, stored });
            }
        }
        Ok(Self {
            own: "me".into(),
            others: pick(u, &[&[][..], &["a"], &["z"], &["a", "z"]])?
                .iter()
                .map(|id| (*id).into())
                .collect(),
            subscription: Subscription::tagged(topic, expression).expect("they are written well"),
            logs,
        })
    }

    /// Settings of a client that finds this.
    #[must_use]
    pub fn client(&self) -> ClientConfig {
        ClientConfig::new(self.own.clone(), vec![PeerAddr::new("10.0.0.1", 9876)])
    }

    /// Settings of a group that consumes this: limits that a few messages reach as often as the
    /// defaults.
    ///
    /// # Errors
    ///
    /// None of its own.
    pub fn group(&self, u: &mut Unstructured<'_>) -> Result<GroupConfig> {
        let mut group = GroupConfig::new("g".into());
        group.subscribe(
            self.subscription.topic.clone(),
            self.subscription.expression.clone(),
        );
        group.set_start_at(StartAt::Earliest);
        if u.arbitrary()? {
            group.set_queue_count_max(u.int_in_range(1..=40)?);
            group.set_queue_span_max(u.int_in_range(1..=80)?);
            group.set_queue_bytes_max(u.int_in_range(1..=300)?);
            group.set_buffer_bytes_max(u.int_in_range(1..=8_000)?);
        }
        group.set_concurrency(u.int_in_range(1..=64)?);
        group.set_handler_batch(pick(u, &[1, 1, 4, 32])?);
        group.set_pull_batch(pick(u, &[32, 1, 5])?);
        if rarely(u, 4)? {
            let strategies = [
                AllocateStrategy::Circle,
                AllocateStrategy::ConsistentHash { virtual_nodes: 3 },
            ];
            group.set_strategy(u.choose(&strategies)?.clone());
        }
        Ok(group)
    }

    /// The message at a place. Tags follow from offsets; `Aa` and `BB` have one hash.
    #[must_use]
    pub fn message(&self, queue: &MessageQueue, offset: i64) -> StoredMessage {
        let tag = ["Aa", "BB", "TagA", "", "Aa"][usize::try_from(offset.rem_euclid(5)).unwrap_or(0)];
        let body = format!("{queue} {offset}");
        let mut message = StoredMessage::new(queue.clone(), offset, body, tag);
        let index = self
            .logs
            .keys()
            .position(|known| known == queue)
            .unwrap_or_default();
        let index = i64::try_from(index).unwrap_or_default();
        message.physical_offset = PhysicalOffset(index * PHYSICAL_STRIDE + offset);
        message
    }

    /// The queue a request names.
    #[must_use]
    pub fn queue(&self, topic: &Topic, asked: &Asked, id: QueueId) -> Option<&MessageQueue> {
        self.logs.keys().find(|queue| {
            queue.topic == *topic && queue.id == id && address(queue.broker.as_str()) == asked.to
        })
    }

    /// The route of the topic.
    #[must_use]
    pub fn route(&self) -> TopicRoute {
        let mut counts: BTreeMap<_, u32> = BTreeMap::new();
        for queue in self.logs.keys() {
            *counts.entry(&queue.broker).or_default() += 1;
        }
        TopicRoute {
            queues: counts
                .iter()
                .map(|(broker, count)| QueueData {
                    broker: (*broker).clone(),
                    read_queues: *count,
                    write_queues: *count,
                    perm: 6,
                    topic_sys_flag: 0,
                })
                .collect(),
            brokers: counts
                .keys()
                .map(|broker| BrokerData {
                    cluster: "C".into(),
                    name: (*broker).clone(),
                    addresses: [(0, address(broker.as_str()).to_string())].into(),
                    zone_name: None,
                    enable_acting_master: false,
                })
                .collect(),
            ..TopicRoute::default()
        }
    }

    /// What happens when a request arrives, answered or not: progress is stored.
    pub fn arrived(&mut self, asked: &Asked) {
        let commit = match asked.code {
            RequestCode::UPDATE_CONSUMER_OFFSET => {
                let request: CommitOffsetRequest = asked.request();
                Some((request.queue.topic, request.queue.queue, request.offset))
            }
            RequestCode::PULL_MESSAGE => {
                let request: PullRequest = asked.request();
                request
                    .commit
                    .map(|offset| (request.topic, request.queue, offset))
            }
            _ => None,
        };
        if let Some((topic, id, offset)) = commit
            && let Some(queue) = self.queue(&topic, asked, id).cloned()
            && let Some(log) = self.logs.get_mut(&queue)
        {
            log.stored = Some(offset.0);
        }
    }

    /// The frame of the answer that an untroubled peer gives, or when it gives one: a pull waits at the
    /// end of its queue. Other members are not mentioned.
    ///
    /// # Errors
    ///
    /// The time at which the answer will come.
    pub fn honest(&self, asked: &Asked, now: Instant) -> core::result::Result<Bytes, Instant> {
        let form = HeaderForm::Json;
        Ok(match asked.code {
            RequestCode::GET_ROUTEINFO_BY_TOPIC => {
                let request: RouteRequest = asked.request();
                if request.topic == self.subscription.topic {
                    written(form, asked, &self.route())
                } else {
                    refused(form, asked, ResponseCode::TOPIC_NOT_EXIST)
                }
            }
            RequestCode::HEART_BEAT => written(form, asked, &HeartbeatAnswer::default()),
            RequestCode::GET_CONSUMER_LIST_BY_GROUP => written(
                form,
                asked,
                &MemberList {
                    client_ids: vec![self.own.clone()],
                },
            ),
            RequestCode::QUERY_CONSUMER_OFFSET => {
                let stored = self
                    .log(asked, &asked.request::<QueryOffsetRequest>().queue)
                    .stored;
                written(form, asked, &StoredOffset(stored.map(QueueOffset)))
            }
            RequestCode::GET_MIN_OFFSET => offset(
                form,
                asked,
                self.log(asked, &asked.request::<MinOffsetRequest>().queue).min,
            ),
            RequestCode::SEARCH_OFFSET_BY_TIMESTAMP => offset(
                form,
                asked,
                self.log(asked, &asked.request::<SearchOffsetRequest>().queue).min,
            ),
            RequestCode::GET_MAX_OFFSET => offset(
                form,
                asked,
                self.log(asked, &asked.request::<MaxOffsetRequest>().queue).max,
            ),
            RequestCode::PULL_MESSAGE => {
                let request: PullRequest = asked.request();
                let answer = self.read(asked, &request, BATCH_MAX);
                let until = asked.at + request.suspend.unwrap_or(Duration::ZERO);
                if answer.status == PullStatus::NotFound && now < until {
                    return Err(until);
                }
                written(form, asked, &answer)
            }
            _ => written(form, asked, &Done),
        })
    }

    /// The answer of a broker that has these messages and filters by hashes.
    #[must_use]
    pub fn read(&self, asked: &Asked, request: &PullRequest, most: i64) -> PullAnswer {
        let from = request.offset.0;
        let queue = self.queue(&request.topic, asked, request.queue);
        let log = queue.map_or(Log::NONE, |queue| self.logs[queue]);
        let mut next = from;
        let mut found = Vec::new();
        let status = if from < log.min || from > log.max {
            next = if from < log.min { log.min } else { log.max };
            PullStatus::OffsetMoved
        } else if from == log.max {
            PullStatus::NotFound
        } else {
            next = log
                .max
                .min(from + most.max(1).min(request.max_messages.into()).max(1));
            let messages = (from..next).filter_map(|offset| Some(self.message(queue?, offset)));
            found.extend(messages.filter(|message| self.lets_through(message)));
            if found.is_empty() {
                PullStatus::RetryImmediately
            } else {
                PullStatus::Found
            }
        };
        PullAnswer {
            status,
            next_begin_offset: QueueOffset(next),
            min_offset: Some(QueueOffset(log.min)),
            max_offset: Some(QueueOffset(log.max)),
            suggest_broker_id: Some(0),
            offset_delta: None,
            reset: false,
            messages: records(&found),
        }
    }

    /// Whether a broker, which compares hashes, sends a message to the group.
    fn lets_through(&self, message: &StoredMessage) -> bool {
        let codes = &self.subscription.codes;
        let code = rocketmq_consumer_core::wire::subscription::java_hash(message.tag().unwrap_or_default());
        codes.is_empty() || codes.contains(&code)
    }

    fn log(&self, asked: &Asked, queue: &QueueRef) -> Log {
        let queue = self.queue(&queue.topic, asked, queue.queue);
        queue.map_or(Log::NONE, |queue| self.logs[queue])
    }
}

impl Log {
    /// What brokers say of a queue they do not have.
    const NONE: Self = Self {
        min: 0,
        max: 0,
        stored: None,
    };
}

const BROKERS: [&str; 2] = ["a", "b"];

fn address(broker: &str) -> PeerAddr {
    let last = BROKERS
        .iter()
        .position(|known| *known == broker)
        .unwrap_or_default();
    PeerAddr::new(format!("10.1.0.{}", last + 1), 10911)
}

pub(super) fn written<A: Answer>(form: HeaderForm, asked: &Asked, answer: &A) -> Bytes {
    encode_answer(form, asked.opaque, answer).expect("a generated answer is small")
}

pub(super) fn refused(form: HeaderForm, asked: &Asked, code: ResponseCode) -> Bytes {
    encode_refusal(form, asked.opaque, code, "generated").expect("a refusal is small")
}

fn offset(form: HeaderForm, asked: &Asked, offset: i64) -> Bytes {
    written(
        form,
        asked,
        &OffsetAnswer {
            offset: QueueOffset(offset),
        },
    )
}
