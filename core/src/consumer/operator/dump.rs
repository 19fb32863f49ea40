//! The status of one group as text, for operators who ask a member how it is (`mqadmin consumerStatus -s`). Java
//! members give stack traces in its place.

use alloc::string::String;
use core::fmt::{self, Write as _};
use core::time::Duration;

use crate::ids::ConsumerGroup;
use crate::status::{GroupStatus, LinkStatus, QueueStatus, Status};
use crate::time::Instant;

/// What a client knows of itself and one of its groups.
pub(crate) fn dump(status: &Status, group: &ConsumerGroup) -> String {
    let mut out = String::new();
    write_all(&mut out, status, group).expect("text takes whatever is written");
    out
}

fn write_all(out: &mut String, status: &Status, group: &ConsumerGroup) -> fmt::Result {
    let ago = Ago(status.at);
    writeln!(
        out,
        "client {}, up {:?}",
        status.client_id,
        rounded(ago.of(Instant::ZERO))
    )?;
    for group in status.groups.iter().filter(|status| &status.group == group) {
        write_group(out, &ago, group)?;
    }
    for link in &status.links {
        write_link(out, &ago, link)?;
    }
    writeln!(out, "{:?}, {} timers", status.counters, status.timers)
}

fn write_group(out: &mut String, ago: &Ago, group: &GroupStatus) -> fmt::Result {
    let (permits, in_use) = group.permits;
    writeln!(
        out,
        "group {} is {:?}: {} members, {} of {permits} handlers in use ({} past their deadline), {} finished, {} of them \
         retried, {} being retried, {} bytes held, lag {}",
        group.group,
        group.phase,
        group.members.len(),
        in_use,
        group.past_deadline,
        group.finished,
        group.retried,
        group.retrying,
        group.buffer_bytes,
        group.lag,
    )?;
    group
        .queues
        .iter()
        .try_for_each(|queue| write_queue(out, ago, queue))
}

fn write_queue(out: &mut String, ago: &Ago, queue: &QueueStatus) -> fmt::Result {
    write!(out, "queue {} is {:?}", queue.queue, queue.state)?;
    if let Some(hold) = queue.hold {
        write!(out, " ({hold:?})")?;
    }
    write!(out, " for {:?}:", rounded(ago.of(queue.since)))?;
    for (what, offset) in [
        ("lowest unfinished", queue.lowest_unfinished),
        ("committed", queue.committed),
        ("next", queue.next_offset),
        ("end", queue.max_offset),
        ("held record", queue.held_record),
    ] {
        if let Some(offset) = offset {
            write!(out, " {what} {offset},")?;
        }
    }
    write!(
        out,
        " {} unfinished ({} bytes), {} with handlers, {} being retried",
        queue.unfinished, queue.bytes, queue.delivered, queue.retrying
    )?;
    if let Some(since) = queue.stalled_since {
        write!(out, "; stalled for {:?}", rounded(ago.of(since)))?;
    }
    if let Some(error) = &queue.last_error {
        let since = rounded(ago.of(error.at));
        write!(out, "; {} failed {since:?} ago: {}", error.request, error.why)?;
    }
    writeln!(out)
}

fn write_link(out: &mut String, ago: &Ago, link: &LinkStatus) -> fmt::Result {
    write!(
        out,
        "link {} is {:?} for {:?}: {} requests",
        link.addr,
        link.state,
        rounded(ago.of(link.since)),
        link.requests
    )?;
    if let Some(trouble) = link.trouble {
        write!(out, ", {trouble:?}")?;
    }
    writeln!(out)
}

/// A moment to look back from.
struct Ago(Instant);

impl Ago {
    const fn of(&self, then: Instant) -> Duration {
        self.0.saturating_since(then)
    }
}

/// Nobody wants microseconds here.
const fn rounded(time: Duration) -> Duration {
    Duration::from_millis(time.as_secs() * 1000 + time.subsec_millis() as u64)
}
