use bytes::Bytes;
use rocketmq_consumer_core::broker::BrokerState;
use rocketmq_consumer_core::broker::event::{BrokerAction, BrokerEvent};
use rocketmq_consumer_core::broker::observation::Observation;
use rocketmq_consumer_core::ids::{ClientId, ConsumerGroup, MessageQueue, QueueOffset};
use rocketmq_consumer_core::time::Instant;

/// Observations that one step of a cluster may make. Each is taken at once.
const OBSERVATIONS_MAX: usize = 65_536;

/// The cluster of a world, and what the world reads of it besides its actions.
#[derive(Debug)]
pub(crate) struct Cluster {
    state: BrokerState,
}

/// What was seen of a cluster.
#[derive(Debug)]
pub(crate) enum Observed {
    Stored {
        queue: MessageQueue,
        offset: QueueOffset,
        body: Bytes,
        tag: Option<String>,
    },
    SentBack {
        group: ConsumerGroup,
        queue: MessageQueue,
        offset: QueueOffset,
        dead: bool,
    },
    Committed {
        group: ConsumerGroup,
        queue: MessageQueue,
        offset: QueueOffset,
    },
    Reset {
        group: ConsumerGroup,
        queue: MessageQueue,
        offset: QueueOffset,
    },
    /// A queue was locked for a client, or given back by it.
    Lock {
        group: ConsumerGroup,
        queue: MessageQueue,
        client: ClientId,
        held: bool,
    },
}

impl Observed {
    const fn lock(group: ConsumerGroup, queue: MessageQueue, client: ClientId, held: bool) -> Self {
        Self::Lock {
            group,
            queue,
            client,
            held,
        }
    }
}

impl Cluster {
    pub(crate) fn new(mut state: BrokerState) -> Self {
        state.observe(OBSERVATIONS_MAX);
        Self { state }
    }

    pub(crate) fn handle(&mut self, now: Instant, event: BrokerEvent) {
        self.state.handle(now, event);
    }

    pub(crate) fn poll_action(&mut self) -> Option<BrokerAction> {
        self.state.poll_action()
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.state.poll_timeout()
    }

    /// Takes the oldest observation that a world makes use of.
    pub(crate) fn poll_observation(&mut self) -> Option<Observed> {
        loop {
            match self.state.poll_observation()? {
                Observation::Stored { queue, offset, .. } => {
                    let stored = self.state.stored_at(&queue, offset);
                    let body = stored.map(|stored| Bytes::copy_from_slice(stored.body()));
                    let tag = stored.and_then(|stored| Some(stored.record.tags()?.into_owned()));
                    return Some(Observed::Stored {
                        queue,
                        offset,
                        body: body.unwrap_or_default(),
                        tag,
                    });
                }
                Observation::SentBack {
                    group,
                    queue,
                    offset,
                    dead,
                } => {
                    return Some(Observed::SentBack {
                        group,
                        queue,
                        offset,
                        dead,
                    });
                }
                Observation::Committed {
                    group, queue, offset, ..
                } => return Some(Observed::Committed { group, queue, offset }),
                Observation::Reset { group, queue, offset } => {
                    return Some(Observed::Reset { group, queue, offset });
                }
                Observation::LockGranted { group, queue, client } => {
                    return Some(Observed::lock(group, queue, client, true));
                }
                Observation::LockReleased { group, queue, client } => {
                    return Some(Observed::lock(group, queue, client, false));
                }
                Observation::MemberJoined { .. } | Observation::MemberLeft { .. } | _ => {}
            }
        }
    }

    pub(crate) fn committed(&self, group: &ConsumerGroup, queue: &MessageQueue) -> Option<QueueOffset> {
        self.state.committed(group, queue)
    }

    pub(crate) fn max_offset(&self, queue: &MessageQueue) -> QueueOffset {
        self.state.max_offset(queue)
    }
}
