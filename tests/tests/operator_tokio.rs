//! An operator over TCP: a client that asks the embedded broker, which asks a consumer, which answers.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rocketmq_consumer_core::action::CallError;
use rocketmq_consumer_core::event::Target;
use rocketmq_consumer_core::ids::{MessageQueue, PeerAddr, QueueId, QueueOffset};
use rocketmq_consumer_core::time::WallTime;
use rocketmq_consumer_core::wire::request::Request;
use rocketmq_consumer_core::wire::request::operator::{
    ConsumeDirectlyRequest, DirectResult, RunningInfoRequest,
};
use rocketmq_consumer_core::wire::request::reset::{GroupStatusRequest, OperatorResetRequest};
use rocketmq_consumer_tokio::broker::{ClusterConfig, Control, EmbeddedBroker, NewMessage};
use rocketmq_consumer_tokio::{Client, Consumer, Message, Outcome, StartAt};

const MESSAGES: usize = 10;
/// How long anything may take that is waited for.
const LIMIT: Duration = Duration::from_secs(30);

struct Bench {
    broker: EmbeddedBroker,
    master: PeerAddr,
    consumer: Consumer,
    operator: Client,
    /// What the handler was given.
    seen: Arc<Mutex<Vec<(i64, String)>>>,
}

impl Bench {
    /// A consumer that has handled all messages of one queue. The last of them fails.
    async fn new(server_side_reset: bool) -> Self {
        let mut config = ClusterConfig::with_brokers(1).topic("orders", 1);
        config.settings.server_side_reset = server_side_reset;
        let broker = EmbeddedBroker::start(config).await.expect("free ports");
        let master = broker.config().brokers[0].replicas[&0].clone();
        for number in 0..MESSAGES {
            append(&broker, format!("order {number}")).await;
        }
        let seen = Arc::<Mutex<Vec<_>>>::default();
        let note = Arc::clone(&seen);
        let consumer = Consumer::builder("billing")
            .name_server(broker.name_server())
            .subscribe("orders", "*")
            .start_at(StartAt::Earliest)
            .start(move |message: Message| {
                let body = String::from_utf8_lossy(&message.body().unwrap_or_default()).into_owned();
                let is_last = body.ends_with('9');
                let mut seen = note.lock().unwrap_or_else(PoisonError::into_inner);
                seen.push((message.queue_offset().0, body));
                async move { if is_last { Outcome::Retry } else { Outcome::Done } }
            });
        let operator = Client::builder().name_server(broker.name_server()).start();
        let bench = Self {
            master,
            consumer: consumer.await.expect("good settings"),
            operator: operator.await.expect("good settings"),
            broker,
            seen,
        };
        bench.sees(1).await;
        bench
    }

    fn seen(&self) -> Vec<(i64, String)> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until every message was seen so often.
    async fn sees(&self, times: usize) {
        let often = |seen: &[(i64, String)], number: usize| {
            let body = format!("order {number}");
            seen.iter().filter(|(_, seen)| seen == &body).count() >= times
        };
        let enough = async {
            while !(0..MESSAGES).all(|number| often(&self.seen(), number)) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let in_time = tokio::time::timeout(LIMIT, enough).await;
        assert!(in_time.is_ok(), "{times} times each: {:?}", self.seen());
    }

    async fn append(&self, body: &str) {
        append(&self.broker, body.to_owned()).await;
    }

    async fn ask<R: Request>(&self, request: &R) -> Result<R::Answer, CallError> {
        let to = Target::Address(self.master.clone());
        self.operator.ask(to, request, LIMIT).await
    }

    async fn end(self) {
        self.consumer.shutdown(Duration::from_secs(5)).await;
        self.operator.shutdown(Duration::ZERO).await;
        self.broker.shutdown().await;
    }
}

async fn append(broker: &EmbeddedBroker, body: String) {
    let (queue, message) = (queue(broker), NewMessage::new(Bytes::from(body)));
    let stored = broker.control(Control::Append { queue, message }).await;
    stored.expect("the broker runs");
}

fn queue(broker: &EmbeddedBroker) -> MessageQueue {
    MessageQueue {
        topic: "orders".into(),
        broker: broker.config().brokers[0].name.clone(),
        id: QueueId(0),
    }
}

#[tokio::test]
async fn a_member_tells_what_it_has_and_how_far_it_is() {
    let bench = Bench::new(true).await;
    let id = bench.consumer.status().await.expect("it lives").client_id;
    let info = RunningInfoRequest {
        group: "billing".into(),
        client_id: id.clone(),
        jstack: true,
    };
    let info = bench.ask(&info).await.expect("the member is online");
    let info = info.read().expect("a body that operators can read");
    assert!(info.queues.contains_key(&queue(&bench.broker)), "{info:?}");
    assert!(
        info.jstack
            .is_some_and(|text| text.contains("group billing is Running"))
    );
    let status = GroupStatusRequest {
        group: "billing".into(),
        topic: "orders".into(),
        client_id: None,
    };
    let status = bench.ask(&status).await.expect("the group is online");
    assert!(
        status.members[&id].contains_key(&queue(&bench.broker)),
        "{status:?}"
    );
    bench.end().await;
}

/// Through the broker or by its word at the next pull: everything comes again.
#[tokio::test]
async fn a_reset_moves_the_member_in_both_ways() {
    for server_side in [false, true] {
        let bench = Bench::new(server_side).await;
        let is_committed = async {
            let (group, queue) = ("billing".into(), queue(&bench.broker));
            while bench
                .broker
                .look(committed(&group, &queue))
                .await
                .expect("it runs")
                .is_none()
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(LIMIT, is_committed).await.expect("a commit");
        let reset = OperatorResetRequest {
            group: "billing".into(),
            topic: "orders".into(),
            timestamp: WallTime::from_unix_millis(0),
            force: true,
            queue: None,
            offset: None,
        };
        let reset = bench.ask(&reset).await.expect("it can be reset");
        assert_eq!(reset.offsets[&queue(&bench.broker)], QueueOffset(0));
        // A pull that the broker holds hears of nothing before it ends.
        bench.append("one more").await;
        bench.sees(2).await;
        bench.end().await;
    }
}

/// What is stored of a group's progress.
fn committed(
    group: &rocketmq_consumer_core::ids::ConsumerGroup,
    queue: &MessageQueue,
) -> impl FnOnce(&rocketmq_consumer_core::broker::BrokerState) -> Option<QueueOffset> + Send + 'static {
    let (group, queue) = (group.clone(), queue.clone());
    move |state| state.committed(&group, &queue)
}

#[tokio::test]
async fn a_message_is_handled_by_hand() {
    let bench = Bench::new(true).await;
    let (at, id) = (
        queue(&bench.broker),
        bench.consumer.status().await.expect("it lives").client_id,
    );
    let ids = bench.broker.look(move |state| {
        let stored = state.stored(&at.broker, &at.topic, at.id);
        stored
            .map(|message| message.record.offset_msg_id())
            .collect::<Vec<_>>()
    });
    let ids = ids.await.expect("the broker runs");
    for (number, result) in [(3, DirectResult::Success), (9, DirectResult::Later)] {
        let request = ConsumeDirectlyRequest {
            group: "billing".into(),
            client_id: Some(id.clone()),
            message_id: Some(ids[number].clone()),
            broker: None,
            topic: Some("orders".into()),
            message: Bytes::new(),
        };
        let before = bench.seen().len();
        let answer = bench.ask(&request).await.expect("the member is online");
        assert_eq!((answer.result, answer.order), (Some(result), false));
        let seen = bench.seen().split_off(before);
        assert!(
            seen.contains(&(i64::try_from(number).expect("few"), format!("order {number}"))),
            "{seen:?}"
        );
    }
    bench.end().await;
}
