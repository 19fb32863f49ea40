//! The whole story of a world, for the one who looks for a cause.

use std::fmt;
use std::io::Write;

use rocketmq_consumer_core::time::Instant;

use super::invariant::{Broken, Invariant, View};
use super::seen::{Answer, Ask, BrokerDeed, Deed, QueueNo, Seen, What};

/// Writes down everything that is seen, a line each: a rule that is never broken.
///
/// For the one who looks for the cause of a violation; steps without a deed are left out.
pub struct Narrator<W> {
    out: W,
}

impl<W: Write> Narrator<W> {
    /// One that writes there. When writing fails it goes on in silence.
    pub const fn new(out: W) -> Self {
        Self { out }
    }

    fn say(&mut self, at: Instant, words: fmt::Arguments<'_>) {
        // A world does not depend on who listens.
        let _ = writeln!(self.out, "{at:>14?} {words}");
    }
}

impl<W> fmt::Debug for Narrator<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Narrator")
    }
}

impl<W: Write> Invariant for Narrator<W> {
    fn name(&self) -> &'static str {
        "narrator"
    }

    fn see(&mut self, seen: &Seen<'_>, view: &dyn View) -> Result<(), Broken> {
        let at = seen.at;
        let name = |queue: QueueNo| view.queue(queue).to_string();
        match seen.what {
            What::Member {
                deed: Deed::StepEnd { .. } | Deed::Woken,
                ..
            } => {}
            What::Member { life, deed } => match deed {
                Deed::Asked {
                    node, opaque, ask, ..
                } => {
                    let queue = match ask {
                        Ask::Pull { queue, .. }
                        | Ask::Commit { queue, .. }
                        | Ask::QueryOffset { queue, .. } => name(queue),
                        Ask::SendBack { .. }
                        | Ask::Copy { .. }
                        | Ask::Members { .. }
                        | Ask::Lock { .. }
                        | Ask::Unlock { .. }
                        | Ask::Heartbeat
                        | Ask::Unregister { .. }
                        | Ask::Other(_) => String::new(),
                    };
                    self.say(
                        at,
                        format_args!("{life:?} #{opaque} to {node:?}: {ask:?} {queue}"),
                    );
                }
                Deed::Answered { opaque, answer, .. } => match answer {
                    Answer::Pulled { status, next, .. } => {
                        self.say(at, format_args!("{life:?} #{opaque} is {status:?}, next {next}"));
                    }
                    Answer::Offset(_) | Answer::Done | Answer::Refused(_) => {
                        self.say(at, format_args!("{life:?} #{opaque} is {answer:?}"));
                    }
                },
                Deed::Locking { queue, .. } => {
                    let queue = name(queue);
                    self.say(at, format_args!("{life:?} wants the lock of {queue}"));
                }
                Deed::Unlocking { queue, .. } => {
                    let queue = name(queue);
                    self.say(at, format_args!("{life:?} gives the lock of {queue} back"));
                }
                Deed::Locked { queue, granted, .. } => {
                    let (queue, not) = (name(queue), if granted { "" } else { "not " });
                    self.say(at, format_args!("{life:?} is {not}granted the lock of {queue}"));
                }
                Deed::Found { queue, offset } => {
                    let queue = name(queue);
                    self.say(
                        at,
                        format_args!("{life:?} finds that it kept {offset} of {queue}"),
                    );
                }
                Deed::Keeping { queue, offset } => {
                    let queue = name(queue);
                    self.say(at, format_args!("{life:?} keeps {offset} of {queue}"));
                }
                Deed::Kept { queue, offset } => {
                    let queue = name(queue);
                    self.say(at, format_args!("{life:?} has kept {offset} of {queue}"));
                }
                Deed::Delivered {
                    queue,
                    run,
                    batch,
                    range,
                    attempt,
                    ..
                } => {
                    let queue = name(queue);
                    let run = run.run;
                    self.say(
                        at,
                        format_args!("{life:?} delivers {range:?} of {batch:?} as run {run}, attempt {attempt}, {queue}"),
                    );
                }
                Deed::Settled {
                    queue,
                    offset,
                    verdict,
                    ..
                } => {
                    let queue = name(queue);
                    self.say(at, format_args!("{life:?} settles {queue} {offset}: {verdict:?}"));
                }
                Deed::Assigned {
                    queue, epoch, from, ..
                } => {
                    let queue = name(queue);
                    self.say(at, format_args!("{life:?} owns {queue} as {epoch:?} from {from}"));
                }
                Deed::Revoked {
                    queue,
                    epoch,
                    committed,
                    ..
                } => {
                    let queue = name(queue);
                    self.say(
                        at,
                        format_args!("{life:?} gave up {queue} of {epoch:?}, committed {committed:?}"),
                    );
                }
                Deed::Told(notice) => {
                    self.say(at, format_args!("{life:?} says {:?}", notice.kind));
                }
                Deed::Begun { .. }
                | Deed::AskedToLeave { .. }
                | Deed::Wished(_)
                | Deed::Left(_)
                | Deed::Closed
                | Deed::Killed
                | Deed::Woken
                | Deed::Connected { .. }
                | Deed::Disconnected { .. }
                | Deed::Dialled { .. }
                | Deed::DialFailed { .. }
                | Deed::Requested { .. }
                | Deed::Withdrawn { .. }
                | Deed::Abandoned { .. }
                | Deed::StoreAsked
                | Deed::StoreAnswered
                | Deed::StepEnd { .. } => self.say(at, format_args!("{life:?} {deed:?}")),
            },
            What::Broker(deed) => {
                let (BrokerDeed::Stored { queue, .. }
                | BrokerDeed::SentBack { queue, .. }
                | BrokerDeed::Committed { queue, .. }
                | BrokerDeed::Reset { queue, .. }
                | BrokerDeed::Locked { queue, .. }
                | BrokerDeed::Unlocked { queue, .. }) = deed;
                let queue = name(queue);
                self.say(at, format_args!("broker {deed:?} {queue}"));
            }
            What::Fault(upheaval) => self.say(at, format_args!("---- {upheaval:?}")),
        }
        Ok(())
    }
}
