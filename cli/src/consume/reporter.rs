use rocketmq_consumer_core::ids::{MessageQueue, PeerAddr, QueueOffset};
use rocketmq_consumer_core::notice::{Notice, NoticeKind};
use rocketmq_consumer_tokio::Notices;

use super::events::EventLine;
use super::summary::Committed;
use super::words;
use crate::talk::{Level, Talk};

/// Passes notices on to people and programs, and remembers what was committed.
#[derive(Debug)]
pub(crate) struct Reporter {
    notices: Notices,
    name_servers: Vec<PeerAddr>,
    /// The Unix time, in milliseconds, of the instant from which notices count; absent without
    /// `--events`.
    events_since: Option<i64>,
    talk: Talk,
    committed: Committed,
    /// Notices that came too fast, as far as that was told.
    missed: u64,
}

impl Reporter {
    /// A reporter of these notices.
    pub(crate) const fn new(
        notices: Notices,
        name_servers: Vec<PeerAddr>,
        events_since: Option<i64>,
        talk: Talk,
    ) -> Self {
        Self {
            notices,
            name_servers,
            events_since,
            talk,
            committed: Committed::new(),
            missed: 0,
        }
    }

    /// The next notice, already passed on; `None` when the client has ended. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<Notice> {
        let notice = self.notices.next().await?;
        self.report(&notice);
        Some(notice)
    }

    /// What every queue's broker acknowledged last.
    pub(crate) const fn committed(&self) -> &Committed {
        &self.committed
    }

    /// Passes on what is left and takes over the final offsets.
    pub(crate) async fn finish(&mut self, committed: Vec<(MessageQueue, Option<QueueOffset>)>) {
        // The client has ended, and its notices with it.
        while self.next().await.is_some() {}
        for (queue, offset) in committed {
            let last = self.committed.entry(queue).or_default();
            *last = offset.or(*last);
        }
    }

    fn report(&mut self, notice: &Notice) {
        self.remember(&notice.kind);
        let (level, text) = words::of(notice, &self.name_servers);
        self.talk.say(level, text);
        let at = i64::try_from(notice.at.as_millis()).unwrap_or(i64::MAX);
        let unix_ms = self.events_since.map(|since| since.saturating_add(at));
        self.report_missed(unix_ms);
        if let Some(unix_ms) = unix_ms {
            self.talk.json(&EventLine::new(notice, unix_ms));
        }
    }

    /// Whoever reads events must know when some are missing; they are told of before the next one.
    fn report_missed(&mut self, unix_ms: Option<i64>) {
        let count = self.notices.missed().saturating_sub(self.missed);
        if count == 0 {
            return;
        }
        self.missed += count;
        self.talk.say(
            Level::Warn,
            format_args!("{count} notices came too fast to be passed on"),
        );
        if let Some(unix_ms) = unix_ms {
            self.talk.json(&EventLine::missed(count, unix_ms));
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "only three kinds are about offsets"
    )]
    fn remember(&mut self, kind: &NoticeKind) {
        match kind {
            NoticeKind::Assigned { queue, .. } => {
                self.committed.entry(queue.clone()).or_default();
            }
            NoticeKind::Committed { queue, offset } => {
                self.committed.insert(queue.clone(), Some(*offset));
            }
            NoticeKind::Revoked {
                queue,
                committed: Some(offset),
                ..
            } => {
                self.committed.insert(queue.clone(), Some(*offset));
            }
            _ => {}
        }
    }
}
