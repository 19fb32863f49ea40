use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rocketmq_consumer_core::ids::MessageQueue;
use rocketmq_consumer_core::notice::{Notice, NoticeKind};
use rocketmq_consumer_core::status::QueueState;
use rocketmq_consumer_core::wire::code::{RequestCode, ResponseCode};
use rocketmq_consumer_tokio::{
    Client, ClientBuilder, Consumer, Request, Runtime as _, StartError, Target, TokioRuntime,
};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::desk::{Desk, Duties};
use super::ends::Ends;
use super::face::Face;
use super::plan::{Plan, refuse};
use super::reporter::Reporter;
use super::stop::Stop;
use super::summary::Summary;
use super::watch::{Watch, connect_verdict};
use super::words;
use crate::args::ConsumeArgs;
use crate::clock::Clock;
use crate::exit::{Exit, Failure};
use crate::settings::Settings;
use crate::signals::{self, Signals};
use crate::talk::{Level, Talk};

/// How long what was begun may take to finish when the run ends. Below the 30 s after which
/// orchestrators kill, so that there is time left to commit.
const DRAIN: Duration = Duration::from_secs(20);

/// How long brokers may take to take failed messages back, and how often we look.
const SEND_BACK: Duration = Duration::from_secs(2);
const SEND_BACK_TICK: Duration = Duration::from_millis(10);

/// How often the watch is looked at.
const TICK: Duration = Duration::from_millis(100);

/// How long a broker may take to say where a queue ends, and the pause before it is asked again.
const END_TIMEOUT: Duration = Duration::from_secs(3);
const END_RETRY: Duration = Duration::from_millis(500);

/// Runs the command.
///
/// # Errors
/// What is wrong before anything was contacted. Later troubles are told and become the exit code.
pub(crate) fn run(args: &ConsumeArgs, settings: Settings, clock: Clock, talk: Talk) -> Result<Exit, Failure> {
    let plan = Plan::new(args, settings, clock.unix_ms())?;
    // One thread: handlers only format, and whatever blocks has a thread of its own.
    signals::run(async |signals| {
        let session = Session::start(plan, signals, clock, talk).await?;
        Ok(session.run().await)
    })
}

/// A run of the consumer, from its start to the summary.
struct Session {
    plan: Plan,
    clock: Clock,
    talk: Talk,
    signals: Signals,
    reporter: Reporter,
    client: Client,
    consumer: Consumer,
    desk: Arc<Desk>,
    /// Questions for the ends of queues that are not answered yet.
    asking: JoinSet<()>,
    /// Queues whose end was asked for.
    asked: BTreeSet<MessageQueue>,
    ready: bool,
}

impl Session {
    async fn start(mut plan: Plan, signals: Signals, clock: Clock, talk: Talk) -> Result<Self, Failure> {
        let runtime = TokioRuntime::new();
        let servers: Vec<String> = plan.name_servers.iter().map(ToString::to_string).collect();
        let map = plan.address_map.clone();
        let mut builder = ClientBuilder::new(runtime.clone())
            .name_server(servers.join(";"))
            .client_config(move |config| config.set_address_map(map));
        if let Some(id) = plan.client_id.clone() {
            builder = builder.client_id(id);
        }
        if let Some(name) = plan.instance.clone() {
            builder = builder.instance_name(name);
        }
        let client = builder.start().await.map_err(refused)?;
        let origin = clock
            .unix_ms()
            .saturating_sub(i64::try_from(runtime.now().as_millis()).unwrap_or(i64::MAX));
        let events_since = plan.events.then_some(origin);
        let reporter = Reporter::new(client.notices(), plan.name_servers.clone(), events_since, talk);

        let duties = Duties {
            output: plan.output.clone(),
            exec: plan.exec.take(),
            ends: plan.end.then(Ends::default),
            fail_first: plan.fail_first,
            limit: plan.count,
            repeats_max: plan.is_orderly().then(|| plan.group.max_reconsume()),
        };
        let has_command = duties.exec.is_some();
        let desk = Arc::new(Desk::new(duties, client.client_id().clone(), clock, talk));
        let face = Face::new(Arc::clone(&desk), &plan.output)?;
        let consumer = face
            .start(&plan, &client, runtime, has_command)
            .await
            .map_err(refused)?;
        Ok(Self {
            plan,
            clock,
            talk,
            signals,
            reporter,
            client,
            consumer,
            desk,
            asking: JoinSet::new(),
            asked: BTreeSet::new(),
            ready: false,
        })
    }

    async fn run(mut self) -> Exit {
        let stop = self.until_stop().await;
        // Whoever finishes later does not change the reason.
        self.desk.stop(stop.clone());
        let (stop, drained) = self.close(stop).await;
        let Self {
            plan,
            clock,
            talk,
            reporter,
            desk,
            ..
        } = self;
        let counts = desk.counts();
        let (exit, message) = match drained {
            Some(drained) => stop.end(
                plan.count
                    .map_or(0, |count| count.saturating_sub(counts.distinct)),
                drained,
            ),
            None => (
                Exit::Interrupted,
                Some("ended before everything was committed".to_owned()),
            ),
        };
        if let Some(message) = message {
            talk.error(message);
        }
        let elapsed = clock.elapsed();
        talk.say(
            Level::Info,
            format_args!(
                "{} messages consumed, {} of them failed, in {elapsed:.3?}",
                counts.consumed, counts.failed
            ),
        );
        if plan.output.has_summary() {
            talk.json(&Summary::new(counts, elapsed, reporter.committed()));
        }
        exit
    }

    async fn until_stop(&mut self) -> Stop {
        let (timeout, idle) = (self.plan.connect_timeout, self.plan.idle_exit);
        let mut watch = Watch::new(self.clock.elapsed(), timeout, idle);
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let stop = tokio::select! {
                stop = self.desk.stopped() => Some(stop),
                signal = self.signals.next() => Some(Stop::Signal(signal)),
                notice = self.reporter.next() => match notice {
                    Some(notice) => self.on_notice(&notice, &mut watch),
                    None => Some(Stop::Lost),
                },
                _ = tick.tick() => self.on_tick(&mut watch).await,
            };
            if let Some(stop) = stop {
                return stop;
            }
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "most notices change nothing here")]
    fn on_notice(&mut self, notice: &Notice, watch: &mut Watch) -> Option<Stop> {
        match &notice.kind {
            NoticeKind::Ready => {
                self.ready = true;
                watch.assigned(self.clock.elapsed());
            }
            NoticeKind::Assigned { queue, .. } => {
                watch.assigned(self.clock.elapsed());
                self.ask_end(queue);
            }
            NoticeKind::RequestRefused {
                by,
                request,
                code,
                remark,
            } if *code == ResponseCode::NO_PERMISSION.0 && self.desk.counts().consumed == 0 => {
                return Some(Stop::NotPermitted(format!(
                    "{by} does not permit {request}: {remark}"
                )));
            }
            NoticeKind::FilterRefused { by, code, remark, .. } => {
                return Some(Stop::FilterRefused(words::filter_refused(by, *code, remark)));
            }
            _ => {}
        }
        None
    }

    async fn on_tick(&mut self, watch: &mut Watch) -> Option<Stop> {
        let now = self.clock.elapsed();
        let is_due = watch.connect_is_due(now);
        if is_due || self.desk.ends().is_some() {
            let Ok(status) = self.client.status().await else {
                return Some(Stop::Lost);
            };
            if is_due
                && let Some(stop) = connect_verdict(&status, self.plan.topics(), &self.plan.name_servers)
            {
                return Some(stop);
            }
            let group = status
                .groups
                .iter()
                .find(|group| group.group == *self.plan.group.group());
            // Of many queues that come at once, some notices are lost; the status has them all.
            for queue in group.iter().flat_map(|group| &group.queues) {
                self.ask_end(&queue.queue);
            }
            if let (Some(ends), Some(group), true) = (self.desk.ends(), group, self.ready)
                && group
                    .queues
                    .iter()
                    .all(|queue| queue.state != QueueState::Acquiring)
                && ends.reached_by(&group.queues)
            {
                return Some(Stop::End);
            }
        }
        watch.idle(now, self.desk.counts().consumed, self.desk.running())
    }

    /// Asks the broker where a queue ends, until it says so. Asking twice changes nothing.
    fn ask_end(&mut self, queue: &MessageQueue) {
        if self.desk.ends().is_none() || self.asked.contains(queue) {
            return;
        }
        self.asked.insert(queue.clone());
        let (client, desk, queue) = (self.client.clone(), Arc::clone(&self.desk), queue.clone());
        self.asking.spawn(async move {
            loop {
                let request = Request::new(RequestCode::GET_MAX_OFFSET.0)
                    .field("topic", queue.topic.as_str())
                    .field("queueId", queue.id.to_string())
                    .timeout(END_TIMEOUT);
                if let Ok(answer) = client.call(Target::Master(queue.broker.clone()), request).await
                    && let Some((_, end)) = answer.fields.iter().find(|(name, _)| name == "offset")
                    && let (Ok(end), Some(ends)) = (end.parse(), desk.ends())
                {
                    ends.set(queue, end);
                    return;
                }
                tokio::time::sleep(END_RETRY).await;
            }
        });
    }

    /// Drains, commits and leaves. Says whether everything that was begun was finished in time, and
    /// nothing when a second signal cut it short.
    async fn close(&mut self, mut stop: Stop) -> (Stop, Option<bool>) {
        self.asking.abort_all();
        let (desk, client, consumer) = (&self.desk, &self.client, &self.consumer);
        let is_orderly = self.plan.is_orderly();
        let mut closing = std::pin::pin!(async {
            let drained = tokio::time::timeout(DRAIN, desk.drained()).await.is_ok();
            if !is_orderly {
                let _ = tokio::time::timeout(SEND_BACK, sent_back(desk, client, consumer)).await;
            }
            // What is still at a handler now does not belong to the run, so nobody waits for it.
            let report = consumer.shutdown(Duration::ZERO).await;
            client.shutdown(Duration::ZERO).await;
            (drained, report)
        });
        let (drained, report) = loop {
            tokio::select! {
                ended = &mut closing => break ended,
                signal = self.signals.next() => {
                    if matches!(stop, Stop::Signal(_)) {
                        return (stop, None);
                    }
                    stop = Stop::Signal(signal);
                }
                Some(_) = self.reporter.next() => {}
            }
        };
        self.reporter.finish(report.committed).await;
        (stop, Some(drained))
    }
}

/// Waits until the brokers have taken failed messages back: they are finished only then.
async fn sent_back(desk: &Desk, client: &Client, consumer: &Consumer) {
    let counts = desk.counts();
    while counts.failed > 0
        && let Ok(status) = client.status().await
        && let Some(group) = status
            .groups
            .iter()
            .find(|group| group.group == *consumer.group())
        && group.finished < counts.consumed
    {
        tokio::time::sleep(SEND_BACK_TICK).await;
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "what is not about settings is a failure"
)]
fn refused(error: StartError) -> Failure {
    match error {
        StartError::Config(error) => refuse(error),
        other => Failure::failed(other),
    }
}
