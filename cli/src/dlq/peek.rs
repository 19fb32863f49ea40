use rocketmq_consumer_core::ids::QueueOffset;
use rocketmq_consumer_core::message::Message;

use super::queues::dead_queues;
use super::reader::{Letter, Reader};
use super::{group, say_none};
use crate::admin::with_cluster;
use crate::args::DlqPeekArgs;
use crate::cluster::Cluster;
use crate::exit::{Exit, Failure};
use crate::output::{Lines, Output, RecordView};
use crate::settings::Settings;
use crate::talk::{Level, Talk};

/// Runs the command.
///
/// # Errors
/// What makes no sense, and whoever does not answer.
pub(crate) fn run(args: &DlqPeekArgs, settings: Settings, talk: Talk) -> Result<Exit, Failure> {
    let group = group(&args.group)?;
    with_cluster(settings, async |cluster| {
        let queues = dead_queues(cluster, &group, args.queue.as_ref()).await?;
        let there: u64 = queues.iter().map(|dead| dead.messages()).sum();
        if there == 0 {
            say_none(&group, talk);
        }
        let mut left = args.count.get();
        let mut unread = 0_u64;
        for dead in &queues {
            let from = dead.within(args.from.map_or(dead.min, QueueOffset));
            let mut reader = Reader::new(cluster, &group, dead, from);
            while left > 0
                && let Some(letter) = reader.next().await?
            {
                left -= 1;
                if let Err(reason) = show(args, cluster, &letter)? {
                    unread += 1;
                    let place = letter
                        .offset()
                        .map_or_else(|| "?".into(), |offset| offset.to_string());
                    let queue = &dead.queue;
                    talk.say(
                        Level::Warn,
                        format_args!(
                            "{}:{} at offset {place} cannot be read: {reason}",
                            queue.broker, queue.id
                        ),
                    );
                }
            }
        }
        if left == 0 && there > args.count.get() {
            talk.say(
                Level::Info,
                format_args!("there are {there} in all; -c N shows more"),
            );
        }
        Ok(if unread == 0 { Exit::Done } else { Exit::Failed })
    })
}

/// Writes a letter, or says why it cannot be shown.
fn show(args: &DlqPeekArgs, cluster: &Cluster, letter: &Letter) -> Result<Result<(), String>, Failure> {
    let message = match letter {
        Letter::Message(message) => message,
        Letter::Unreadable { reason, .. } => return Ok(Err(reason.clone())),
    };
    let body = match message.body() {
        Ok(body) => body,
        Err(error) => return Ok(Err(error.to_string())),
    };
    write(&args.output, message, &body, cluster.client_id().as_str())?;
    Ok(Ok(()))
}

fn write(output: &Output, message: &Message, body: &[u8], client: &str) -> Result<(), Failure> {
    let mut lines = Lines::stdout();
    match output {
        Output::None => {}
        Output::Text => {
            lines.bytes(body)?;
            lines.text("\n")?;
        }
        Output::Json => lines.json(&RecordView::consumed(message, 0, body, client))?,
        Output::Format(format) => {
            let mut line = Vec::new();
            format.write(&mut line, message, body);
            lines.bytes(&line)?;
        }
    }
    lines.finish()
}
