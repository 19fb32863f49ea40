use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rocketmq_consumer_core::config::{ClientConfig, GroupConfig};
use rocketmq_consumer_core::event::{RunRange, Verdict};
use rocketmq_consumer_core::ids::{AllocateId, ConnId, ConsumeId, GroupKey, MessageQueue};
use rocketmq_consumer_core::message::{Batch, Message, Outcome};
use rocketmq_consumer_core::time::Instant;

use super::agenda::Due;
use super::handler::{Delivery, End, Handler, in_order};
use super::keep::Keep;
use super::machine::Machine;
use super::network::LinkNo;
use super::seen::{GroupNo, Kind, Life, MemberId};
use super::storing::Stored;

/// A member's place: what its processes are made of, one after another. Or, if it has a host, a group that
/// lives on the client of another member and never has a process of its own.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) kind: Kind,
    /// Whose client the group lives on.
    pub(crate) host: Option<MemberId>,
    /// Whether it begins again with its host.
    pub(crate) wanted: bool,
    pub(crate) client: ClientConfig,
    pub(crate) group: GroupConfig,
    pub(crate) group_no: GroupNo,
    pub(crate) handler: Handler,
    /// How late its wake-ups are.
    pub(crate) timer_lag: Duration,
    /// Whether a wake-up that is due goes before what has arrived by then. Drivers do the opposite, but a
    /// machine has to bear both.
    pub(crate) timers_first: bool,
    pub(crate) process: Option<Process>,
    /// What survives it.
    pub(crate) keep: Keep,
    /// Whose account in the ledger is its own: of a group that broadcasts, each member has one.
    pub(crate) own_book: Option<GroupNo>,
    /// How often the handler was called with each body, if that is wanted.
    pub(crate) calls: Option<BTreeMap<Bytes, u32>>,
}

/// One group on the client of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tenancy {
    pub(crate) member: MemberId,
    pub(crate) life: Life,
    pub(crate) group: GroupNo,
    /// What its machine calls it, once it has said so.
    pub(crate) key: Option<GroupKey>,
    pub(crate) leaving: bool,
}

/// One operating system process: a machine, and the handlers that run in it.
#[derive(Debug)]
pub(crate) struct Process {
    /// The life of its first group, which goes by the process's name.
    pub(crate) life: Life,
    /// Its groups; the first one is here as long as the process is.
    pub(crate) tenancies: Vec<Tenancy>,
    pub(crate) machine: Machine,
    pub(crate) conns: Vec<(ConnId, LinkNo)>,
    pub(crate) wake_at: Option<Instant>,
    pub(crate) runs: BTreeMap<ConsumeId, Run>,
    /// Shares of its own strategy that are not told yet.
    pub(crate) shares: BTreeMap<AllocateId, Box<[MessageQueue]>>,
    /// What its store was asked and has not answered.
    pub(crate) stored: BTreeMap<u64, Stored>,
    /// Stopped until then, as by a debugger or a long collection; what comes meanwhile waits in `waiting`.
    pub(crate) stalled: bool,
    pub(crate) waiting: Vec<Due>,
    pub(crate) leaving: bool,
}

impl Tenancy {
    pub(crate) const fn new(member: MemberId, life: Life, group: GroupNo) -> Self {
        Self {
            member,
            life,
            group,
            key: None,
            leaving: false,
        }
    }
}

impl Process {
    pub(crate) fn new(first: Tenancy, machine: Machine) -> Self {
        Self {
            life: first.life,
            tenancies: vec![first],
            machine,
            conns: Vec::new(),
            wake_at: None,
            runs: BTreeMap::new(),
            shares: BTreeMap::new(),
            stored: BTreeMap::new(),
            stalled: false,
            waiting: Vec::new(),
            leaving: false,
        }
    }

    /// The group that runs of this name belong to. A machine without names has one group.
    pub(crate) fn by_key(&self, key: GroupKey) -> Tenancy {
        let mut all = self.tenancies.iter();
        *all.find(|tenancy| tenancy.key == Some(key))
            .unwrap_or(&self.tenancies[0])
    }

    pub(crate) fn by_group(&self, group: GroupNo) -> Option<Tenancy> {
        let mut all = self.tenancies.iter();
        all.find(|tenancy| tenancy.group == group).copied()
    }

    pub(crate) fn by_member(&self, member: MemberId) -> Option<Tenancy> {
        let mut all = self.tenancies.iter();
        all.find(|tenancy| tenancy.member == member).copied()
    }

    pub(crate) fn tenancy_mut(&mut self, group: GroupNo) -> Option<&mut Tenancy> {
        self.tenancies.iter_mut().find(|tenancy| tenancy.group == group)
    }

    pub(crate) fn has(&self, life: Life) -> bool {
        self.tenancies.iter().any(|tenancy| tenancy.life == life)
    }

    pub(crate) fn link(&self, conn: ConnId) -> Option<LinkNo> {
        let found = self.conns.iter().find(|(of, _)| *of == conn);
        found.map(|(_, link)| *link)
    }

    pub(crate) fn forget(&mut self, conn: ConnId) {
        self.conns.retain(|(of, _)| *of != conn);
    }
}

/// Messages that were handed over in one action.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) batch: Arc<Batch>,
    /// Whether its handlers consume in order.
    in_order: bool,
    /// The first position of the run within its batch.
    start: u32,
    slots: Vec<Slot>,
}

/// One message with a handler.
#[derive(Clone, Copy, Debug)]
struct Slot {
    begins_at: Instant,
    /// When it ends and how; `None` if it never does.
    ends: Option<(Instant, Verdict)>,
    listens: bool,
    is_over: bool,
}

/// More time that a handler will ask for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extension {
    pub(crate) at: Instant,
    pub(crate) position: u32,
    pub(crate) by: Duration,
}

impl Run {
    /// Asks the handler what it does with each message. Returns the run and what the handlers will ask for.
    pub(crate) fn begin(
        now: Instant,
        member: MemberId,
        handler: &mut Handler,
        batch: Arc<Batch>,
        range: RunRange,
        attempt: u32,
    ) -> (Self, Vec<Extension>) {
        let mut extensions = Vec::new();
        let slots = (range.start..range.end).filter_map(|position| {
            let message = Message::new(Arc::clone(&batch), position)?;
            let handling = handler.handle(&Delivery {
                at: now,
                member,
                message: &message,
                attempt,
            });
            let begins_at = now + handling.waits;
            if let Some((after, by)) = handling.extension {
                extensions.push(Extension {
                    at: begins_at + after,
                    position,
                    by,
                });
            }
            Some(Slot {
                begins_at,
                ends: match handling.end {
                    End::With(verdict) => Some((begins_at + handling.takes, verdict)),
                    End::Never => None,
                },
                listens: handling.listens,
                is_over: false,
            })
        });
        let slots = slots.collect();
        let run = Self {
            batch,
            in_order: false,
            start: range.start,
            slots,
        };
        (run, extensions)
    }

    /// Its handlers speak of order.
    pub(crate) const fn in_order(mut self) -> Self {
        self.in_order = true;
        self
    }

    /// The moments at which something ends.
    pub(crate) fn ends(&self) -> Vec<Instant> {
        let ends = self.slots.iter().filter(|slot| !slot.is_over);
        let mut ends: Vec<Instant> = ends.filter_map(|slot| Some(slot.ends?.0)).collect();
        ends.sort_unstable();
        ends.dedup();
        ends
    }

    /// Takes the next stretch of neighbours that have ended alike by now.
    pub(crate) fn take_ended(&mut self, now: Instant) -> Option<(RunRange, Verdict)> {
        let ended = |slot: &Slot| match slot.ends {
            Some((at, verdict)) if at <= now && !slot.is_over => Some(verdict),
            Some(_) | None => None,
        };
        let first = self.slots.iter().position(|slot| ended(slot).is_some())?;
        let verdict = ended(&self.slots[first])?;
        let alike = self.slots[first..].iter_mut();
        let mut len = 0;
        for slot in alike.take_while(|slot| ended(slot) == Some(verdict)) {
            slot.is_over = true;
            len += 1;
        }
        let start = self.start + u32::try_from(first).ok()?;
        let end = start + len;
        let verdict = if self.in_order { in_order(verdict) } else { verdict };
        Some((RunRange { start, end }, verdict))
    }

    /// What no handler has begun ends now, unstarted. Whether there was anything.
    pub(crate) fn withdraw(&mut self, now: Instant) -> bool {
        let unbegun = |slot: &&mut Slot| !slot.is_over && slot.begins_at > now;
        let mut any = false;
        for slot in self.slots.iter_mut().filter(unbegun) {
            slot.ends = Some((now, Verdict::NotStarted));
            any = true;
        }
        any
    }

    /// The token of a message is cancelled: a handler that listens ends with an error.
    pub(crate) fn cancel(&mut self, now: Instant, position: u32) -> bool {
        self.end_if(now, position, |slot| slot.listens)
    }

    /// The future of a handler is dropped.
    pub(crate) fn abandon(&mut self, now: Instant, position: u32) -> bool {
        self.end_if(now, position, |_| true)
    }

    fn end_if(&mut self, now: Instant, position: u32, wanted: fn(&Slot) -> bool) -> bool {
        let index = position.checked_sub(self.start).map(|index| index as usize);
        let slot = index.and_then(|index| self.slots.get_mut(index));
        let Some(slot) = slot.filter(|slot| !slot.is_over && wanted(slot)) else {
            return false;
        };
        slot.ends = Some((now, Verdict::Handled(Outcome::Retry)));
        true
    }

    /// Whether every message has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.slots.iter().all(|slot| slot.is_over)
    }
}
