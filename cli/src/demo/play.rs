//! Who comes when, and how it ends.

use std::future::pending;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use rocketmq_consumer_core::ids::{MessageQueue, QueueId};
use rocketmq_consumer_tokio::broker::{
    BrokerState, ClusterConfig, EmbeddedBroker, Observation, Observations,
};
use tokio::time::{Instant, sleep_until};

use super::ledger::Balance;
use super::member::{Member, Stage};
use super::narrator::{Told, Who, channel, narrate};
use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::exit::{Exit, Failure};
use crate::produce::{Choice, Recipe, Sender, UniqueKeys};
use crate::settings::Settings;

/// What is sent and consumed.
pub(super) const TOPIC: &str = "orders";

/// Who consumes it.
pub(super) const GROUP: &str = "billing";

/// The order whose handler fails the first time.
pub(super) const FAILING: u64 = 60;

/// Queues of the topic.
const QUEUES: u32 = 6;

/// Orders, and how many of them in a second.
const ORDERS: u64 = 420;
const PER_SECOND: f64 = 60.0;

/// When the shop opens, somebody joins, and somebody is killed.
const SHOP_OPENS: Duration = Duration::from_millis(900);
const ANOTHER_JOINS: Duration = Duration::from_millis(3_300);
const ONE_IS_KILLED: Duration = Duration::from_millis(5_300);

/// How long a message that failed waits: all delay levels are this one.
const DELAY: Duration = Duration::from_secs(1);

/// How long the last orders may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Observations that may wait; many more than there are.
const OBSERVATIONS: usize = 10_000;

/// Plays to the end. The exit code says whether an order was lost.
pub(super) async fn play(mut settings: Settings, clock: Clock) -> Result<Exit, Failure> {
    let failed = |error: io::Error| Failure::failed(format_args!("the broker: {error}"));
    let mut config = ClusterConfig::with_brokers(1).topic(TOPIC, QUEUES);
    config.settings.delay_levels = vec![DELAY; 18];
    let broker = EmbeddedBroker::start(config).await.map_err(failed)?;
    settings.name_servers = Ok(broker.config().name_servers.clone());
    settings.address_map = Vec::new();

    let (teller, told) = channel();
    let narrator = tokio::spawn(narrate(told, clock));
    let stage = Stage {
        name_server: broker.name_server(),
        ledger: Arc::default(),
        teller,
    };
    let seen = broker.observe(OBSERVATIONS).await.map_err(failed)?;
    let watching = tokio::spawn(watch(stage.clone(), seen));
    let line = format!(
        "listens at {}, with {QUEUES} queues for {TOPIC}",
        broker.name_server()
    );
    stage.tell(Told::Line(Who::Broker, line)).await;

    let members = tokio::select! {
        members = act(&stage) => members?,
        failure = sell(settings, clock, &stage) => return Err(failure),
    };
    for member in members {
        let name = member.name();
        if let Some(report) = member.leave().await? {
            let line = format!(
                "leaves: {} orders finished, {} abandoned",
                report.finished, report.abandoned
            );
            stage.tell(Told::Line(Who::Member(name), line)).await;
            stage.tell(Told::Gone(name)).await;
        }
    }
    let uncommitted = broker.look(uncommitted).await.map_err(failed)?;
    broker.shutdown().await;
    let balance = stage.ledger(|ledger| ledger.balance());
    drop(stage);
    // Both end when nobody is left who could tell them anything.
    let _ = watching.await;
    let _ = narrator.await;
    Ok(end(balance, uncommitted))
}

/// The members' part of the play; returns those who are left when every order is handled.
async fn act(stage: &Stage) -> Result<Vec<Member>, Failure> {
    let began = Instant::now();
    let anna = Member::start("anna", stage.clone())?;
    let ben = Member::start("ben", stage.clone())?;
    sleep_until(began + ANOTHER_JOINS).await;
    let carla = Member::start("carla", stage.clone())?;
    sleep_until(began + ONE_IS_KILLED).await;
    stage
        .tell(Told::Line(
            Who::Member("ben"),
            "is killed: no farewell, no last commit".into(),
        ))
        .await;
    ben.kill().await?;
    stage.tell(Told::Gone("ben")).await;
    sleep_until(began + SHOP_OPENS + Duration::from_secs_f64(ORDERS as f64 / PER_SECOND)).await;
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline
        && !stage.ledger(|ledger| is_over(ledger.balance()) && ledger.is_settled())
    {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(vec![anna, carla])
}

/// Whether everything was sent.
fn is_over(balance: Balance) -> bool {
    u64::try_from(balance.sent).is_ok_and(|sent| sent >= ORDERS)
}

/// Sends orders. It only returns when it cannot go on.
async fn sell(settings: Settings, clock: Clock, stage: &Stage) -> Failure {
    let opens = Instant::now() + SHOP_OPENS;
    let selling = async {
        let cluster = Cluster::new(settings).await?;
        let mut keys = UniqueKeys::new(cluster.client_id(), std::process::id(), clock.unix_ms());
        let sender = Sender::new(cluster, TOPIC.into(), Choice::InTurn, false, clock).await?;
        sleep_until(opens).await;
        let line = format!("opens: {PER_SECOND} orders a second");
        stage.tell(Told::Line(Who::Shop, line)).await;
        for number in 0..ORDERS {
            sleep_until(opens + Duration::from_secs_f64(number as f64 / PER_SECOND)).await;
            let key = keys.draw(clock.unix_ms());
            let message = Recipe::default().message(number, key, number.to_string().into());
            let message =
                message.map_err(|error| Failure::failed(format_args!("order {number}: {error}")))?;
            let receipt = sender.send(message).await?;
            let queue = MessageQueue {
                topic: TOPIC.into(),
                broker: receipt.broker,
                id: receipt.queue_id,
            };
            if let Some(offset) = receipt.queue_offset {
                stage.ledger(|ledger| ledger.stored(queue, offset, number));
            }
        }
        stage
            .tell(Told::Line(
                Who::Shop,
                format!("closes: {ORDERS} orders are stored"),
            ))
            .await;
        sender.close().await;
        Ok(())
    };
    match selling.await {
        Ok(()) => pending().await,
        Err(failure) => failure,
    }
}

/// Passes on what the broker does.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "most observations are not for the audience"
)]
async fn watch(stage: Stage, mut seen: Observations) {
    while let Some(observation) = seen.next().await {
        let line = match observation {
            Observation::MemberJoined { client, .. } => {
                format!("welcomes {} into group {GROUP}", name_of(client.as_str()))
            }
            Observation::MemberLeft { client, .. } => format!("has lost {}", name_of(client.as_str())),
            Observation::SentBack { queue, offset, .. } => {
                let number = stage.ledger(|ledger| ledger.at(&queue, offset));
                let number = number.map_or_else(|| "an order".into(), |number| format!("order {number}"));
                format!("takes {number} back, to be delivered again in {DELAY:?}")
            }
            _ => continue,
        };
        stage.tell(Told::Line(Who::Broker, line)).await;
    }
}

/// The name in a client id, which is `address@name#chance`.
fn name_of(client: &str) -> &str {
    let behind = client.split_once('@').map_or(client, |(_, name)| name);
    behind.split('#').next().unwrap_or(behind)
}

/// Messages behind what the group has committed.
fn uncommitted(state: &BrokerState) -> i64 {
    let queues = (0..QUEUES)
        .filter_map(|id| i32::try_from(id).ok())
        .map(|id| MessageQueue {
            topic: TOPIC.into(),
            broker: "broker-a".into(),
            id: QueueId(id),
        });
    let behind = queues.map(|queue| {
        let committed = state
            .committed(&GROUP.into(), &queue)
            .map_or(0, |offset| offset.0);
        state.max_offset(&queue).0.saturating_sub(committed)
    });
    behind.sum()
}

/// Prints the end, and judges it.
fn end(balance: Balance, uncommitted: i64) -> Exit {
    let Balance {
        sent,
        handled,
        repeated,
        failed,
        came_back,
        lost,
    } = balance;
    let lines = format!(
        "\n{sent} orders sent, {handled} handled, {lost} lost; {repeated} handled twice because a member was killed\n\
         {failed} failed and {came_back} came back; {uncommitted} not committed\n"
    );
    // The exit code says the same.
    let _ = anstream::stdout().write_all(lines.as_bytes());
    if is_over(balance) && lost == 0 && failed == came_back && failed > 0 && uncommitted == 0 {
        Exit::Done
    } else {
        Exit::Failed
    }
}
