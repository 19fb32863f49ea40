//! `dlq requeue`: sends dead letters again, one after the other.
//!
//! Each is sent once; when it is stored, the position behind it is stored too, before the next one. What a
//! kill between the two leaves behind is one message that the next run sends again.

use std::cell::Cell;

use rocketmq_consumer_core::ids::{ConsumerGroup, QueueOffset};
use rocketmq_consumer_core::message::Message;
use rocketmq_consumer_core::wire::message_id::OffsetMessageId;
use rocketmq_consumer_core::wire::request::find::ViewMessageRequest;
use rocketmq_consumer_core::wire::request::offsets::CommitOffsetRequest;
use rocketmq_consumer_core::wire::stored::{Record, Scanned, Scanner};

use super::copy::Copy;
use super::line::Line;
use super::queues::{TOOLS_GROUP, dead_queues, requeued};
use super::reader::{Letter, Reader};
use super::sender::{Sender, Stored};
use super::stretch::Stretch;
use super::{group, say_none};
use crate::admin::Consent;
use crate::args::{DlqRequeueArgs, RequeueTo, TableOutput};
use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::exit::{Exit, Failure};
use crate::offset::queue_ref;
use crate::output::Lines;
use crate::settings::Settings;
use crate::signals::{self, Signals};
use crate::talk::{Level, Talk};

/// Runs the command.
///
/// # Errors
/// What makes no sense, whoever does not answer, and a message that nobody knows to be stored.
pub(crate) fn run(
    args: &DlqRequeueArgs,
    settings: Settings,
    clock: Clock,
    talk: Talk,
) -> Result<Exit, Failure> {
    let group = group(&args.group)?;
    let consent = if args.dry_run {
        Consent::Given
    } else {
        Consent::of(args.yes, "send dead letters again", ", or --dry-run to see which")?
    };
    signals::run(async |mut signals| {
        let cluster = Cluster::new(settings).await?;
        let run = Run {
            args,
            cluster: &cluster,
            group: &group,
            clock,
            talk,
            is_over: Cell::new(false),
        };
        let exit = until_signal(&mut signals, &run, consent).await;
        cluster.close().await;
        exit
    })
}

/// A signal ends the run behind the message under way; a second one at once.
async fn until_signal(signals: &mut Signals, run: &Run<'_>, consent: Consent) -> Result<Exit, Failure> {
    let mut work = std::pin::pin!(run.all(consent));
    tokio::select! {
        exit = &mut work => exit,
        signal = signals.next() => {
            run.is_over.set(true);
            tokio::select! {
                done = &mut work => done.map(|_| signal.into()),
                _ = signals.next() => Ok(Exit::Interrupted),
            }
        }
    }
}

struct Run<'a> {
    args: &'a DlqRequeueArgs,
    cluster: &'a Cluster,
    group: &'a ConsumerGroup,
    clock: Clock,
    talk: Talk,
    /// Somebody wants it to end.
    is_over: Cell<bool>,
}

impl Run<'_> {
    async fn all(&self, consent: Consent) -> Result<Exit, Failure> {
        let stretches = self.stretches().await?;
        let there: u64 = stretches.iter().map(Stretch::messages).sum();
        let most = self.args.count.map_or(u64::MAX, std::num::NonZero::get);
        let count = there.min(most);
        if count == 0 {
            say_none_new(self.group, stretches.is_empty(), self.talk);
            return Ok(Exit::Done);
        }
        let place = match self.args.to {
            RequeueTo::Topic => "the topics they were sent to, for every group there",
            RequeueTo::Group => "the retry topic of the group",
        };
        let question = format!("Send {count} dead letters of {} to {place}?", self.group);
        if !self.args.dry_run {
            tokio::select! {
                yes = consent.get(String::new(), question) => yes?,
                () = self.over() => return Ok(Exit::Done),
            }
        }
        let mut sender = Sender::new(self.cluster, self.clock);
        let mut sent = 0;
        let mut result = Ok(());
        for stretch in &stretches {
            result = self.queue(stretch, &mut sender, &mut sent, most).await;
            if result.is_err() || sent >= most || self.is_over.get() {
                break;
            }
        }
        let would = if self.args.dry_run { "would be" } else { "are" };
        self.talk.say(
            Level::Info,
            format_args!("{sent} of {there} dead letters {would} sent again"),
        );
        result.map(|()| Exit::Done)
    }

    /// Ends when the run is to end; looked at often enough for a person.
    async fn over(&self) {
        while !self.is_over.get() {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }

    async fn stretches(&self) -> Result<Vec<Stretch>, Failure> {
        let mut stretches = Vec::new();
        for dead in dead_queues(self.cluster, self.group, self.args.queue.as_ref()).await? {
            let position = requeued(self.cluster, &dead).await?;
            let from = dead.within(self.args.from.map(QueueOffset).or(position).unwrap_or(dead.min));
            stretches.push(Stretch { dead, from, position });
        }
        Ok(stretches)
    }

    async fn queue(
        &self,
        stretch: &Stretch,
        sender: &mut Sender<'_>,
        sent: &mut u64,
        most: u64,
    ) -> Result<(), Failure> {
        let mut reader = Reader::new(self.cluster, self.group, &stretch.dead, stretch.from);
        while *sent < most
            && !self.is_over.get()
            && let Some(letter) = reader.next().await?
        {
            let message = match letter {
                Letter::Message(message) => message,
                Letter::Unreadable { offset, reason } => {
                    return Err(stretch.stopped(offset, &format!("cannot be read: {reason}")));
                }
            };
            self.message(stretch, &message, sender).await?;
            *sent += 1;
        }
        Ok(())
    }

    async fn message(
        &self,
        stretch: &Stretch,
        message: &Message,
        sender: &mut Sender<'_>,
    ) -> Result<(), Failure> {
        let offset = message.queue_offset();
        let copy = Copy::of(message, self.args.to, self.group)
            .map_err(|why| stretch.stopped(Some(offset), &format!("cannot be sent again: {why}")))?;
        let place = if self.args.dry_run {
            None
        } else {
            let place = sender.send(&copy, &stretch.dead.queue.broker).await;
            let place = place.map_err(|error| stretch.not_sent(message, &copy, error))?;
            self.remember(stretch, offset).await?;
            if self.args.to == RequeueTo::Group {
                self.check(stretch, offset, &copy, &place).await?;
            }
            Some(place)
        };
        self.write(stretch, message, &copy, place.as_ref())
    }

    /// Stores the position behind a message. Who sends old ones again does not go back.
    async fn remember(&self, stretch: &Stretch, sent: QueueOffset) -> Result<(), Failure> {
        let next = QueueOffset(sent.0.saturating_add(1));
        let known = stretch.position.filter(|known| *known <= stretch.dead.max);
        if known.is_some_and(|known| known >= next) {
            return Ok(());
        }
        let request = CommitOffsetRequest {
            group: TOOLS_GROUP.into(),
            queue: queue_ref(&stretch.dead.queue),
            offset: next,
        };
        let done = self.cluster.demand(&stretch.dead.addr, &request).await;
        done.map(|_| ()).map_err(|failure| {
            let why = failure.message.unwrap_or_default();
            let queue = &stretch.dead.queue;
            Failure::new(
                failure.exit,
                format_args!(
                    "the message is sent, but its position is not stored ({why}); go on with --queue {}:{} --from {next}",
                    queue.broker, queue.id
                ),
            )
        })
    }

    /// A broker buries a message at once again when it is for a group that consumes in order.
    async fn check(
        &self,
        stretch: &Stretch,
        offset: QueueOffset,
        copy: &Copy,
        place: &Stored,
    ) -> Result<(), Failure> {
        let Ok(id) = place.message_id.parse::<OffsetMessageId>() else {
            return Ok(());
        };
        let request = ViewMessageRequest {
            offset: id.physical_offset,
            topic: Some(copy.topic.clone()),
        };
        let Ok(found) = self.cluster.ask(&place.addr, &request).await else {
            return Ok(());
        };
        if topic_of(&found.message).is_none_or(|topic| topic == copy.topic.as_str()) {
            return Ok(());
        }
        let why = "came straight back: the group consumes in order, so use --to topic";
        Err(stretch.stopped(Some(offset), why))
    }

    fn write(
        &self,
        stretch: &Stretch,
        message: &Message,
        copy: &Copy,
        place: Option<&Stored>,
    ) -> Result<(), Failure> {
        let line = Line::new(self.group, stretch, message, copy, place);
        let mut lines = Lines::stdout();
        match self.args.output {
            TableOutput::Json => lines.json(&line)?,
            TableOutput::Table => lines.text(&line.words())?,
        }
        lines.finish()
    }
}

fn say_none_new(group: &ConsumerGroup, is_without: bool, talk: Talk) {
    if is_without {
        return say_none(group, talk);
    }
    talk.say(
        Level::Info,
        format_args!(
            "group {group} has no dead letters that were not sent again; --queue and --from go back"
        ),
    );
}

/// The topic of a stored message.
fn topic_of(stored: &[u8]) -> Option<String> {
    match Scanner::new(stored).next()? {
        Scanned::Message(entry) => Some(Record::new(stored, entry).topic().to_owned()),
        Scanned::Undecodable(_) | Scanned::Broken { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::record;

    #[test]
    fn the_topic_of_what_is_stored_is_read() {
        assert_eq!(topic_of(&record(1, 0)).as_deref(), Some("orders"));
        assert_eq!(topic_of(b""), None);
        assert_eq!(topic_of(b"xxxxxxxx"), None);
    }
}
