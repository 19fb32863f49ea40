//! A member of the group, on a thread with a runtime of its own: so it can be killed as a process is.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rocketmq_consumer_core::action::ShutdownReport;
use rocketmq_consumer_core::notice::NoticeKind;
use rocketmq_consumer_tokio::{Consumer, Message, Notices, Outcome, StartAt};
use tokio::sync::oneshot;

use super::ledger::Ledger;
use super::narrator::{Teller, Told, Who};
use super::play::{FAILING, GROUP, TOPIC};
use crate::exit::Failure;

/// How long an order takes to handle.
const HANDLING: Duration = Duration::from_millis(10);

/// How long handlers may take to finish when a member leaves.
const DRAIN: Duration = Duration::from_secs(2);

/// What members share.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    /// Where the cluster is.
    pub(super) name_server: String,
    /// The books.
    pub(super) ledger: Arc<Mutex<Ledger>>,
    /// Who tells.
    pub(super) teller: Teller,
}

impl Stage {
    /// Writes or reads the books.
    pub(super) fn ledger<T>(&self, work: impl FnOnce(&mut Ledger) -> T) -> T {
        work(&mut self.ledger.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Tells something, if anybody still listens.
    pub(super) async fn tell(&self, told: Told) {
        let _deaf = self.teller.send(told).await;
    }
}

/// A running member.
#[derive(Debug)]
pub(super) struct Member {
    name: &'static str,
    /// Asks it to leave; dropped, it is killed.
    leave: oneshot::Sender<()>,
    ended: oneshot::Receiver<Result<Option<ShutdownReport>, Failure>>,
}

impl Member {
    /// Lets a member come.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub(super) fn start(name: &'static str, stage: Stage) -> Result<Self, Failure> {
        let (leave, fate) = oneshot::channel();
        let (report, ended) = oneshot::channel();
        let life = move || {
            let _forgotten = report.send(live(name, &stage, fate));
        };
        let thread = thread::Builder::new().name(name.into()).spawn(life);
        thread.map_err(|error| Failure::failed(format_args!("the system refuses a thread: {error}")))?;
        Ok(Self { name, leave, ended })
    }

    /// Its name.
    pub(super) const fn name(&self) -> &'static str {
        self.name
    }

    /// Kills it: its connections break, it says no farewell and commits nothing.
    ///
    /// # Errors
    /// It had not come to life.
    pub(super) async fn kill(self) -> Result<(), Failure> {
        drop(self.leave);
        self.ended.await.unwrap_or(Ok(None)).map(|_| ())
    }

    /// Lets it finish what it has begun, commit and leave.
    ///
    /// # Errors
    /// It had not come to life.
    pub(super) async fn leave(self) -> Result<Option<ShutdownReport>, Failure> {
        let _dead = self.leave.send(());
        self.ended.await.unwrap_or(Ok(None))
    }
}

fn live(
    name: &'static str,
    stage: &Stage,
    fate: oneshot::Receiver<()>,
) -> Result<Option<ShutdownReport>, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::failed(format_args!("the system refuses: {error}")))?;
    runtime.block_on(async {
        let handler = {
            let stage = stage.clone();
            move |message: Message| {
                let stage = stage.clone();
                async move { handle(name, &stage, &message).await }
            }
        };
        let consumer = Consumer::builder(GROUP)
            .name_server(stage.name_server.as_str())
            .instance_name(name)
            .subscribe(TOPIC, "*")
            .start_at(StartAt::Earliest)
            .start(handler)
            .await
            .map_err(|error| Failure::failed(format_args!("{name} cannot start: {error}")))?;
        tokio::spawn(hear(name, stage.clone(), consumer.notices()));
        // Whoever drops the other end kills us: what runs here ends with the runtime, in the middle of it.
        Ok(match fate.await {
            Ok(()) => Some(consumer.shutdown(DRAIN).await),
            Err(_) => None,
        })
    })
}

async fn handle(name: &'static str, stage: &Stage, message: &Message) -> Result<Outcome, String> {
    tokio::time::sleep(HANDLING).await;
    let body = message.body().map_err(|error| error.to_string())?;
    let number = std::str::from_utf8(&body).ok().and_then(|text| text.parse().ok());
    let number = number.ok_or("this is no order")?;
    let me = Who::Member(name);
    if number == FAILING && stage.ledger(|ledger| ledger.fails(number)) {
        let line = format!("fails order {number}: the card was declined");
        stage.tell(Told::Line(me, line)).await;
        return Err("the card was declined".into());
    }
    let tries = message.reconsume_times();
    let before = stage.ledger(|ledger| ledger.handled(number, tries > 0));
    if tries > 0 {
        let line = format!(
            "handles order {number}, which has come back: try {}, done",
            tries + 1
        );
        stage.tell(Told::Line(me, line)).await;
    } else if before > 0 {
        stage.tell(Told::Again(name)).await;
    }
    Ok(Outcome::Done)
}

/// Passes on what the member notices of itself.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "most notices are not for the audience"
)]
async fn hear(name: &'static str, stage: Stage, mut notices: Notices) {
    while let Some(notice) = notices.next().await {
        match notice.kind {
            NoticeKind::Assigned { queue, .. } => {
                stage
                    .tell(Told::Got(name, queue.topic.to_string(), queue.id))
                    .await;
            }
            NoticeKind::Revoked { queue, .. } => {
                stage
                    .tell(Told::Gave(name, queue.topic.to_string(), queue.id))
                    .await;
            }
            _ => {}
        }
    }
}
