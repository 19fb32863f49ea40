//! What machines want, carried out.

use std::sync::Arc;

use bytes::Bytes;
use rocketmq_consumer_core::action::{
    AllocateQuestion, AppAction, NetAction, Refusal, RefusalReason, ShutdownReport,
};
use rocketmq_consumer_core::config::ConsumeMode;
use rocketmq_consumer_core::event::{AppEvent, Event, NetCause, NetEvent, Report, RunRange, Verdict};
use rocketmq_consumer_core::ids::{AllocateId, ConnId, ConsumeId, ConsumerGroup, PeerAddr};
use rocketmq_consumer_core::message::{Batch, Message};
use rocketmq_consumer_core::notice::{Notice, NoticeKind};

use rocketmq_consumer_core::wire::code::RequestCode;
use rocketmq_consumer_core::wire::command::Header;
use rocketmq_consumer_core::wire::frame::{FRAME_LEN_MAX, Frame};

use super::agenda::Due;
use super::engine::World;
use super::invariant::Broken;
use super::machine::Wish;
use super::network::{End, LinkNo, Parcel, Unanswered, Way};
use super::observe;
use super::process::{Process, Run, Tenancy};
use super::seen::{Ask, Deed, GroupNo, Life, MemberId, QueueNo, is_success};
use super::sharing;
use super::trace::Entry;

impl World {
    fn process(&mut self, member: MemberId) -> Option<&mut Process> {
        self.places[member.0 as usize].process.as_mut()
    }

    /// Gives a machine an event, and carries out what it wants because of it.
    pub(crate) fn feed(&mut self, member: MemberId, event: Event) {
        let now = self.now;
        let Some(process) = self.process(member) else {
            return;
        };
        let life = process.life;
        process.machine.handle(now, event);
        self.steps += 1;
        let mut actions = 0;
        loop {
            while let Some(action) = self.process(member).and_then(|process| process.machine.poll()) {
                actions += 1;
                self.perform(member, life, action);
            }
            if !self.report_written(member) {
                break;
            }
        }
        let Some(process) = self.process(member) else {
            return;
        };
        let wake_at = process.machine.wake_at();
        process.wake_at = wake_at;
        self.client_deed(member, Deed::StepEnd { actions, wake_at });
    }

    /// Something happens to a client: every group of it sees it.
    pub(crate) fn client_deed(&mut self, host: MemberId, deed: Deed<'_>) {
        let mut index = 0;
        while let Some(tenancy) = self
            .process(host)
            .and_then(|process| process.tenancies.get(index).copied())
        {
            self.deed(tenancy.life, deed);
            index += 1;
        }
    }

    /// Something concerns one group of a client, or all of them.
    fn deed_about(&mut self, host: MemberId, group: Option<GroupNo>, deed: Deed<'_>) {
        let Some(group) = group else {
            return self.client_deed(host, deed);
        };
        let tenancy = self.process(host).and_then(|process| process.by_group(group));
        if let Some(tenancy) = tenancy {
            self.deed(tenancy.life, deed);
        }
    }

    fn perform(&mut self, member: MemberId, life: Life, wish: Wish) {
        let group = self.places[member.0 as usize].group_no;
        match wish {
            Wish::Net(action) => self.on_net(member, life, action),
            Wish::Deliver {
                id,
                batch,
                range,
                attempt,
            } => self.deliver(member, life, id, batch, range, attempt),
            Wish::App(action) => self.on_app(member, life, action),
            Wish::Store(action) => self.on_store(member, life, action),
            Wish::Assigned { queue, epoch, from } => {
                let queue = self.names.of_queue(&queue);
                let deed = Deed::Assigned {
                    group,
                    queue,
                    epoch,
                    from,
                };
                self.deed(life, deed);
            }
            Wish::Revoked {
                queue,
                epoch,
                committed,
            } => {
                let queue = self.names.of_queue(&queue);
                let deed = Deed::Revoked {
                    group,
                    queue,
                    epoch,
                    committed,
                };
                self.deed(life, deed);
            }
            Wish::Closed => {
                self.trace.enter(self.now, Entry::Life, life.0.into());
                self.client_deed(member, Deed::Closed);
                self.bury(member, true);
            }
            Wish::Unknown(action) => self.unknown(&action),
        }
    }

    pub(crate) fn unknown(&mut self, what: &dyn std::fmt::Debug) {
        let words = format!("an action that nobody knows: {what:?}");
        self.broken("actions_are_known", Broken(words));
    }

    // ---- the network ----------------------------------------------------------------------------

    fn on_net(&mut self, member: MemberId, life: Life, action: NetAction) {
        match action {
            NetAction::Connect { conn, addr, .. } => self.dial(member, life, conn, &addr),
            NetAction::Send { conn, frame } => self.send(member, life, conn, frame),
            NetAction::Close { conn } => {
                let Some(link) = self.process(member).and_then(|process| process.link(conn)) else {
                    return;
                };
                let stood = self.network.link(link).at_member == End::Open;
                self.close(member, link);
                if stood {
                    let by_itself = true;
                    self.client_deed(member, Deed::Disconnected { conn, by_itself });
                }
            }
            // Nodes have addresses, no names.
            other @ (NetAction::Lookup { .. } | _) => self.unknown(&other),
        }
    }

    fn dial(&mut self, member: MemberId, life: Life, conn: ConnId, addr: &PeerAddr) {
        let Some(node) = self.nodes.find(addr) else {
            return self.unknown(addr);
        };
        let (link, arrival) = self.network.dial(self.now, member, life, conn, node);
        self.trace.enter(self.now, Entry::Dial, link.0.into());
        self.expect(arrival);
        if let Some(process) = self.process(member) {
            process.conns.push((conn, link));
        }
        self.client_deed(member, Deed::Dialled { conn, node });
    }

    /// The member closes a link; the node learns of it.
    fn close(&mut self, member: MemberId, link: LinkNo) {
        self.trace.enter(self.now, Entry::Close, link.0.into());
        self.lose(member, link);
        let end = Parcel::End(NetCause::EndOfStream);
        let end = self.network.put(self.now, link, Way::ToNode, end);
        self.expect(end);
    }

    fn send(&mut self, member: MemberId, life: Life, conn: ConnId, frame: Bytes) {
        let link = self.process(member).and_then(|process| process.link(conn));
        let Some(link) = link.filter(|link| self.network.link(*link).at_member == End::Open) else {
            let words = format!("{life:?} writes on {conn:?}, which does not stand");
            return self.broken("writes_only_where_connected", Broken(words));
        };
        self.trace.enter(self.now, Entry::Frame, link.0.into());
        self.trace.bytes(&frame);
        let node = self.network.link(link).node;
        let broker = self.nodes.get(node).broker();
        let request = observe::request(&mut self.names, &self.ledger, broker, &frame);
        let state = self.network.link(link);
        state.unreported += u32::try_from(frame.len()).unwrap_or(u32::MAX);
        if let Some(request) = request {
            if !request.oneway {
                state.pending.push(Unanswered {
                    opaque: request.opaque,
                    ask: request.ask,
                    locks: request.locks.clone(),
                    at: self.now,
                });
            }
            let asked = Deed::Asked {
                conn,
                node,
                opaque: request.opaque,
                oneway: request.oneway,
                ask: request.ask,
            };
            self.deed_about(member, request.ask.group(), asked);
            for queue in request.locks {
                self.show_lock(member, request.ask, queue);
            }
        }
        let arrivals = self.network.send(self.now, link, Way::ToNode, frame);
        self.expect(arrivals.into_iter().flatten());
    }

    fn show_lock(&mut self, member: MemberId, ask: Ask, queue: QueueNo) {
        let deed = if let Ask::Lock { group } = ask {
            Deed::Locking { group, queue }
        } else if let Ask::Unlock { group } = ask {
            Deed::Unlocking { group, queue }
        } else {
            return;
        };
        self.deed_about(member, ask.group(), deed);
    }

    /// Tells the machine what has left its buffers. Whether there was anything to tell.
    fn report_written(&mut self, member: MemberId) -> bool {
        let now = self.now;
        let Some(process) = self.places[member.0 as usize].process.as_mut() else {
            return false;
        };
        let mut any = false;
        for (conn, link) in &process.conns {
            let state = self.network.link(*link);
            if state.unreported > 0 && state.writes_pass() {
                let bytes = std::mem::take(&mut state.unreported);
                let sent = NetEvent::Sent { conn: *conn, bytes };
                process.machine.handle(now, sent.into());
                any = true;
            }
        }
        any
    }

    pub(crate) fn observe_arrived(&mut self, member: MemberId, link: LinkNo, frame: &Bytes) {
        let Ok(frame) = Frame::parse(frame.clone(), FRAME_LEN_MAX) else {
            return;
        };
        let Ok(header) = Header::of(&frame) else {
            return;
        };
        if !header.is_response() {
            let code = RequestCode(header.code);
            return self.client_deed(member, Deed::Requested { code });
        }
        let state = self.network.link(link);
        let (conn, opaque) = (state.conn, header.opaque);
        let asked = state.pending.iter().position(|of| of.opaque == opaque);
        if let Some(index) = asked {
            let asked = state.pending.swap_remove(index);
            let node = self.network.link(link).node;
            let by_slave = matches!(self.nodes.get(node).replica, Some((_, id)) if id != 0);
            let answer = observe::answer(&header, &frame.body, asked.ask, by_slave);
            let group = asked.ask.group();
            self.deed_about(
                member,
                group,
                Deed::Answered {
                    conn,
                    opaque,
                    asked: &asked.ask,
                    answer,
                },
            );
            if let Ask::Lock { group } = asked.ask
                && let Some(locked) = observe::locked(&mut self.names, answer, &frame.body)
            {
                self.show_locked(member, group, &asked, &locked);
            }
        }
    }

    fn show_locked(&mut self, member: MemberId, group: GroupNo, asked: &Unanswered, locked: &[QueueNo]) {
        for queue in &asked.locks {
            let deed = Deed::Locked {
                group,
                queue: *queue,
                granted: locked.contains(queue),
                asked_at: asked.at,
            };
            self.deed_about(member, Some(group), deed);
        }
    }

    // ---- the application ------------------------------------------------------------------------

    fn on_app(&mut self, member: MemberId, life: Life, action: AppAction) {
        match action {
            AppAction::Withdraw { id } => {
                let life = self
                    .process(member)
                    .map_or(life, |process| process.by_key(id.group).life);
                self.deed(life, Deed::Withdrawn { run: id });
                self.end(member, id, Run::withdraw);
            }
            AppAction::Cancel { id, position } => self.end(member, id, |run, now| run.cancel(now, position)),
            AppAction::Abandon { id, position } => {
                self.show_abandoned(member, id, position);
                self.end(member, id, |run, now| run.abandon(now, position));
            }
            AppAction::Allocate(question) => self.ask_share(member, life, &question),
            AppAction::Notice(notice) => self.tell(member, &notice),
            AppAction::GroupStopped { group, report } => self.left(member, &group, &report),
            AppAction::GroupStarted { group, key } => {
                let group = self.names.group(group.as_str());
                let tenancy = self
                    .process(member)
                    .and_then(|process| process.tenancy_mut(group));
                if let Some(tenancy) = tenancy {
                    tenancy.key = Some(key);
                }
            }
            AppAction::Refused(refusal) => {
                if !self.never_began(member, &refusal) && !self.has_not_begun(member, &refusal) {
                    self.unknown(&refusal);
                }
            }
            other @ (AppAction::Answer { .. } | _) => self.unknown(&other),
        }
    }

    fn show_abandoned(&mut self, member: MemberId, run: ConsumeId, position: u32) {
        let Some(process) = self.process(member) else {
            return;
        };
        let life = process.by_key(run.group).life;
        let Some(batch) = process.runs.get(&run).map(|run| Arc::clone(&run.batch)) else {
            return;
        };
        if let Some(entry) = batch.entry(position) {
            let (queue, offset) = (self.names.of_queue(batch.queue()), entry.queue_offset());
            self.deed(life, Deed::Abandoned { queue, offset, run });
        }
    }

    /// A group that keeps its offsets itself is asked to leave before it has read them: it never began.
    fn never_began(&mut self, member: MemberId, refusal: &Refusal) -> bool {
        let Some(name) = refusal
            .group
            .clone()
            .filter(|_| refusal.why == RefusalReason::ShuttingDown)
        else {
            return false;
        };
        let group = self.names.group(name.as_str());
        let tenancy = self.process(member).and_then(|process| process.by_group(group));
        let is_it = tenancy.is_some_and(|tenancy| tenancy.leaving && tenancy.key.is_none());
        if is_it {
            self.left(member, &name, &ShutdownReport::default());
        }
        is_it
    }

    /// What is wished of a group that has not read its offsets yet is refused: an application has no hold of it before.
    fn has_not_begun(&mut self, member: MemberId, refusal: &Refusal) -> bool {
        let Some(name) = &refusal.group else { return false };
        let group = self.names.group(name.as_str());
        let tenancy = self.process(member).and_then(|process| process.by_group(group));
        refusal.why == RefusalReason::UnknownGroup && tenancy.is_some_and(|tenancy| tenancy.key.is_none())
    }

    fn ask_share(&mut self, member: MemberId, life: Life, question: &AllocateQuestion) {
        let answer = sharing::answer(&mut self.dice, question);
        let now = self.now;
        if let (Some((after, share)), Some(process)) = (answer, self.process(member)) {
            process.shares.insert(question.id, share);
            self.agenda
                .put(now + after, Due::Share(member, life, question.id));
        }
    }

    /// The application has computed a share.
    pub(crate) fn tell_share(&mut self, member: MemberId, id: AllocateId) {
        let share = self
            .process(member)
            .and_then(|process| process.shares.remove(&id));
        if let Some(share) = share {
            self.feed(member, AppEvent::Allocated { id, share: Ok(share) }.into());
        }
    }

    fn deliver(
        &mut self,
        member: MemberId,
        life: Life,
        id: ConsumeId,
        batch: Arc<Batch>,
        range: RunRange,
        attempt: u32,
    ) {
        let queue = self.names.of_queue(batch.queue());
        let Some(tenancy) = self.process(member).map(|process| process.by_key(id.group)) else {
            return;
        };
        let Tenancy { group, .. } = tenancy;
        self.deliveries += u64::from(range.len());
        self.trace
            .enter(self.now, Entry::Deliver, u64::from(queue.0) << 32 ^ id.run);
        self.trace
            .word(u64::from(range.start) << 32 | u64::from(range.end));
        self.deed(
            tenancy.life,
            Deed::Delivered {
                group,
                queue,
                run: id,
                batch: &batch,
                range,
                attempt,
            },
        );
        let place = &mut self.places[tenancy.member.0 as usize];
        if let Some(calls) = &mut place.calls {
            let messages = (range.start..range.end).filter_map(|at| Message::new(Arc::clone(&batch), at));
            for message in messages {
                *calls.entry(message.body().unwrap_or_default()).or_default() += 1;
            }
        }
        let (run, extensions) = Run::begin(
            self.now,
            tenancy.member,
            &mut place.handler,
            batch,
            range,
            attempt,
        );
        let is_orderly = *place.group.mode() == ConsumeMode::Orderly;
        let run = if is_orderly { run.in_order() } else { run };
        for at in run.ends() {
            self.agenda.put(at, Due::Handled(member, life, id));
        }
        for extension in extensions {
            let due = Due::Extend {
                member,
                life,
                run: id,
                position: extension.position,
                by: extension.by,
            };
            self.agenda.put(extension.at, due);
        }
        if let Some(process) = self.process(member) {
            process.runs.insert(id, run);
        }
    }

    /// Lets something of a run end now: a driver reports when its lane comes round, not within the same step.
    fn end(
        &mut self,
        member: MemberId,
        id: ConsumeId,
        how: impl FnOnce(&mut Run, rocketmq_consumer_core::time::Instant) -> bool,
    ) {
        let now = self.now;
        let Some(process) = self.process(member) else {
            return;
        };
        let life = process.life;
        if process.runs.get_mut(&id).is_some_and(|run| how(run, now)) {
            self.agenda.put(now, Due::Handled(member, life, id));
        }
    }

    /// Reports what has ended of a run.
    pub(crate) fn settle(&mut self, member: MemberId, id: ConsumeId) {
        let now = self.now;
        loop {
            let Some(process) = self.process(member) else {
                return;
            };
            let tenancy = process.by_key(id.group);
            let Some(run) = process.runs.get_mut(&id) else {
                return;
            };
            let Some((range, verdict)) = run.take_ended(now) else {
                if run.is_over() {
                    process.runs.remove(&id);
                }
                return;
            };
            let batch = Arc::clone(&run.batch);
            self.note_settled(tenancy, id, &batch, range, verdict);
            let report = Report::All(verdict);
            self.feed(member, AppEvent::Consumed { id, range, report }.into());
        }
    }

    fn note_settled(
        &mut self,
        tenancy: Tenancy,
        run: ConsumeId,
        batch: &Batch,
        range: RunRange,
        verdict: Verdict,
    ) {
        let Tenancy { life, group, .. } = tenancy;
        let queue = self.names.of_queue(batch.queue());
        self.trace
            .enter(self.now, Entry::Settle, u64::from(queue.0) << 32 ^ run.run);
        self.trace
            .word(u64::from(range.start) << 32 | u64::from(range.end));
        for position in range.start..range.end {
            let Some(entry) = batch.entry(position) else {
                continue;
            };
            let offset = entry.queue_offset();
            if let Some(origin) = self.ledger.origin(queue, offset.0) {
                if is_success(verdict) {
                    self.ledger.finish(group, origin);
                }
                // What fails where everybody has everything is dropped.
                let own_book = self.places[tenancy.member.0 as usize].own_book;
                if let Some(book) = own_book.filter(|_| verdict != Verdict::NotStarted) {
                    self.ledger.finish(book, origin);
                    self.ledger.finish(group, origin);
                }
            }
            self.deed(
                life,
                Deed::Settled {
                    group,
                    queue,
                    offset,
                    run,
                    position,
                    verdict,
                },
            );
        }
    }

    fn tell(&mut self, member: MemberId, notice: &Notice) {
        let Some(life) = self.process(member).map(|process| process.life) else {
            return;
        };
        self.trace.enter(self.now, Entry::Notice, life.0.into());
        let group = notice
            .group
            .as_ref()
            .map(|group| self.names.group(group.as_str()));
        let deed = match (&notice.kind, group) {
            (NoticeKind::Assigned { queue, epoch, from }, Some(group)) => Deed::Assigned {
                group,
                queue: self.names.of_queue(queue),
                epoch: *epoch,
                from: *from,
            },
            (
                NoticeKind::Revoked {
                    queue,
                    epoch,
                    committed,
                },
                Some(group),
            ) => Deed::Revoked {
                group,
                queue: self.names.of_queue(queue),
                epoch: *epoch,
                committed: *committed,
            },
            _ => Deed::Told(notice),
        };
        self.deed_about(member, group, deed);
    }

    // ---- lives ----------------------------------------------------------------------------------

    /// A group has left. The first one of a client stays as long as its process; another one's life is over, and
    /// its handlers are dropped.
    fn left(&mut self, member: MemberId, group: &ConsumerGroup, report: &ShutdownReport) {
        let group = self.names.group(group.as_str());
        let Some(tenancy) = self.process(member).and_then(|process| process.by_group(group)) else {
            return;
        };
        self.deed(tenancy.life, Deed::Left(report));
        if tenancy.member == member {
            return;
        }
        self.deed(tenancy.life, Deed::Closed);
        self.alive.retain(|of| *of != tenancy.life);
        if let Some(process) = self.process(member) {
            process.tenancies.retain(|of| of.life != tenancy.life);
            process.runs.retain(|run, _| Some(run.group) != tenancy.key);
        }
    }

    /// A process is gone; its links with it. `told` says whether the nodes learn of that.
    pub(crate) fn bury(&mut self, member: MemberId, told: bool) {
        let Some(mut process) = self.places[member.0 as usize].process.take() else {
            return;
        };
        self.drop_stored(&mut process);
        self.alive.retain(|of| !process.has(*of));
        for (_, link) in process.conns {
            if told {
                self.close(member, link);
            } else {
                self.lose(member, link);
            }
        }
    }
}
