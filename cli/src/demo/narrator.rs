//! Tells what happens, a line at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Write as _;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use rocketmq_consumer_core::ids::QueueId;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::play::TOPIC;
use crate::clock::Clock;

/// Queues come and go one by one; what a member has is told when that has settled.
const SETTLED: Duration = Duration::from_millis(150);

/// Somebody in the play.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Who {
    /// The broker.
    Broker,
    /// The one who sends orders.
    Shop,
    /// A member of the group.
    Member(&'static str),
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// In words.
    Line(Who, String),
    /// A member has got a queue of a topic.
    Got(&'static str, String, QueueId),
    /// A member has given one back.
    Gave(&'static str, String, QueueId),
    /// A member is no more.
    Gone(&'static str),
    /// A member has handled an order that somebody had handled before.
    Again(&'static str),
}

/// Whom to tell. Telling waits while too much is untold.
pub(super) type Teller = mpsc::Sender<Told>;

/// Lines that wait.
const UNTOLD: usize = 1_024;

/// A teller, and what it tells.
pub(super) fn channel() -> (Teller, mpsc::Receiver<Told>) {
    mpsc::channel(UNTOLD)
}

/// Tells everything until nobody is left who could tell more.
pub(super) async fn narrate(mut told: mpsc::Receiver<Told>, began: Clock) {
    let mut changes = Changes::default();
    loop {
        let next = if changes.is_empty() {
            Ok(told.recv().await)
        } else {
            timeout(SETTLED, told.recv()).await
        };
        match next {
            Ok(Some(Told::Line(who, line))) => write(began, who, line),
            Ok(Some(told)) => changes.take(told),
            Ok(None) => break,
            Err(_) => changes
                .tell()
                .into_iter()
                .for_each(|(who, line)| write(began, who, line)),
        }
    }
    for (who, line) in changes.tell() {
        write(began, who, line);
    }
}

/// What has changed and was not told yet.
#[derive(Debug, Default)]
struct Changes {
    owned: BTreeMap<&'static str, BTreeSet<QueueId>>,
    changed: BTreeSet<&'static str>,
    again: BTreeMap<&'static str, u32>,
}

impl Changes {
    fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.again.is_empty()
    }

    fn take(&mut self, told: Told) {
        match told {
            Told::Line(..) => {}
            // The retry topic is not for the audience.
            Told::Got(_, topic, _) | Told::Gave(_, topic, _) if topic != TOPIC => {}
            Told::Got(member, _, queue) => {
                self.owned.entry(member).or_default().insert(queue);
                self.changed.insert(member);
            }
            Told::Gave(member, _, queue) => {
                self.owned.entry(member).or_default().remove(&queue);
                self.changed.insert(member);
            }
            Told::Gone(member) => {
                self.owned.remove(member);
                self.changed.remove(member);
            }
            Told::Again(member) => *self.again.entry(member).or_default() += 1,
        }
    }

    fn tell(&mut self) -> Vec<(Who, String)> {
        let mut lines = Vec::new();
        for member in std::mem::take(&mut self.changed) {
            let queues: Vec<_> = self
                .owned
                .get(member)
                .into_iter()
                .flatten()
                .map(ToString::to_string)
                .collect();
            let line = if queues.is_empty() {
                "has no queue any more".into()
            } else {
                format!("has queues {}", queues.join(" "))
            };
            lines.push((Who::Member(member), line));
        }
        for (member, times) in std::mem::take(&mut self.again) {
            let orders = if times == 1 { "order" } else { "orders" };
            let line = format!("handles {times} {orders} again, handled before and never committed");
            lines.push((Who::Member(member), line));
        }
        lines
    }
}

fn write(began: Clock, who: Who, line: impl fmt::Display) {
    let (name, colour) = match who {
        Who::Broker => ("broker", AnsiColor::Blue),
        Who::Shop => ("shop", AnsiColor::Yellow),
        Who::Member(name) => (name, AnsiColor::Green),
    };
    let (style, seconds) = (
        Style::new().fg_color(Some(colour.into())).bold(),
        began.elapsed().as_secs_f64(),
    );
    // A reader that went away does not miss anything: the exit code tells how it ended.
    let _ = writeln!(
        anstream::stdout(),
        "{seconds:6.2} s  {style}{name:<7}{style:#} {line}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn got(member: &'static str, id: i32) -> Told {
        Told::Got(member, TOPIC.into(), QueueId(id))
    }

    #[test]
    fn a_member_is_told_of_once_when_its_queues_have_settled() {
        let mut changes = Changes::default();
        for told in [
            got("anna", 0),
            got("anna", 1),
            got("ben", 2),
            Told::Gave("anna", TOPIC.into(), QueueId(0)),
            Told::Got("anna", "%RETRY%billing".into(), QueueId(0)),
            Told::Again("ben"),
            Told::Again("ben"),
        ] {
            changes.take(told);
        }
        let again = "handles 2 orders again, handled before and never committed";
        let want = [
            (Who::Member("anna"), "has queues 1"),
            (Who::Member("ben"), "has queues 2"),
            (Who::Member("ben"), again),
        ];
        assert_eq!(changes.tell(), want.map(|(who, line)| (who, line.to_owned())));
        assert!(changes.is_empty());
        changes.take(Told::Gave("ben", TOPIC.into(), QueueId(2)));
        assert_eq!(
            changes.tell(),
            [(Who::Member("ben"), "has no queue any more".to_owned())]
        );
        changes.take(got("ben", 1));
        changes.take(Told::Gone("ben"));
        assert!(changes.is_empty());
    }
}
