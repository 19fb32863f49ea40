//! What the application of a member of ours wants while it runs, and that it wants nothing any more.

use rocketmq_consumer_core::event::{AppEvent, FlowScope, SeekTo};
use rocketmq_consumer_core::ids::{ConsumerGroup, QueueOffset, Topic};
use rocketmq_consumer_core::rate::Rate;
use rocketmq_consumer_core::status::QueueState;

use super::engine::World;
use super::invariant::View as _;
use super::process::Tenancy;
use super::seen::{Deed, Kind, MemberId};

/// What an application may want of its group, without the group's name.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Wanted {
    /// Nothing flows there.
    Pause(FlowScope),
    /// It flows again.
    Resume(FlowScope),
    /// So many handlers may run at once.
    Permits(u32),
    /// Messages of the group, or of a topic, are handed out no faster.
    Rate(Option<Topic>, Option<Rate>),
    /// The first queue that the member owns goes on at so many thousandths of what is there.
    Seek(u64),
}

impl World {
    /// The application of a member wants something, if its group has begun and does not leave; Java's has no ear for it.
    pub(crate) fn want(&mut self, member: MemberId, wanted: &Wanted) {
        let place = &self.places[member.0 as usize];
        let (host, group) = (place.host.unwrap_or(member), place.group.group().clone());
        let process = self.places[host.0 as usize].process.as_ref();
        let tenancy = process.and_then(|process| process.by_member(member));
        let is_ours = place.kind == Kind::Ours && process.is_some_and(|process| !process.leaving);
        let has_begun = |tenancy: &Tenancy| tenancy.key.is_some() && !tenancy.leaving;
        let Some(tenancy) = tenancy.filter(|tenancy| is_ours && has_begun(tenancy)) else {
            return;
        };
        let Some(event) = self.event(member, group, wanted) else {
            return;
        };
        self.deed(tenancy.life, Deed::Wished(&event));
        self.feed(host, event.into());
    }

    fn event(&mut self, member: MemberId, group: ConsumerGroup, wanted: &Wanted) -> Option<AppEvent> {
        Some(match wanted.clone() {
            Wanted::Pause(scope) => AppEvent::Pause { group, scope },
            Wanted::Resume(scope) => AppEvent::Resume { group, scope },
            Wanted::Permits(permits) => AppEvent::Concurrency { group, permits },
            Wanted::Rate(topic, rate) => AppEvent::RateLimit { group, topic, rate },
            Wanted::Seek(per_mille) => return self.seek(member, group, per_mille),
        })
    }

    /// What lies below the new place is nobody's any more.
    fn seek(&mut self, member: MemberId, group: ConsumerGroup, per_mille: u64) -> Option<AppEvent> {
        let place = &self.places[member.0 as usize];
        let (number, own_book) = (place.group_no, place.own_book);
        let host = place.host.unwrap_or(member);
        let process = self.places[host.0 as usize].process.as_ref()?;
        let status = self.facts().status(process.by_member(member)?.life)?;
        let mut queues = status.groups.into_iter().flat_map(|group| group.queues);
        let is_owned = |state: QueueState| matches!(state, QueueState::Pulling | QueueState::Held);
        let queue = queues.find(|queue| is_owned(queue.state))?.queue;
        let end = u64::try_from(self.cluster.max_offset(&queue).0).unwrap_or(0);
        let offset = QueueOffset(i64::try_from(end * per_mille / 1000).unwrap_or(0));
        let no = self.names.of_queue(&queue);
        for book in own_book.into_iter().chain([number]) {
            self.ledger.skip(book, no, offset.0);
        }
        let (queue, to) = (Box::new(queue), SeekTo::Offset(offset));
        Some(AppEvent::Seek { group, queue, to })
    }

    /// Whatever members were told while they ran is taken back.
    pub(crate) fn want_nothing(&mut self, member: MemberId) {
        let permits = *self.places[member.0 as usize].group.concurrency();
        let topics: Vec<Topic> = {
            let subscriptions = self.places[member.0 as usize].group.subscriptions();
            subscriptions.iter().map(|(topic, _)| topic.clone()).collect()
        };
        let queues: Vec<FlowScope> = self.topics.queues().map(FlowScope::from).collect();
        let scopes = topics.iter().cloned().map(FlowScope::from).chain(queues);
        for scope in scopes.chain([FlowScope::Group]).collect::<Vec<_>>() {
            self.want(member, &Wanted::Resume(scope));
        }
        for topic in topics.into_iter().map(Some).chain([None]) {
            self.want(member, &Wanted::Rate(topic, None));
        }
        self.want(member, &Wanted::Permits(permits));
    }
}
