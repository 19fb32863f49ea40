use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures_channel::oneshot;
use rocketmq_consumer_core::action::ShutdownReport;
use rocketmq_consumer_core::config::{FilterExpression, GroupConfig};
use rocketmq_consumer_core::ids::{ConsumerGroup, GroupKey, Topic};

use crate::allocate::Strategy;
use crate::desk::Desk;
use crate::driver::inbox::StartGroup;
use crate::driver::subscribing::SubscriptionChanges;
use crate::error::{FilterRefusal, StartError};
use crate::notices::NoticeHub;
use crate::registry::{Registration, Ticket};
use crate::store::Storage;

/// The groups of one client, in the order they were started.
#[derive(Default)]
pub(crate) struct Groups {
    living: Vec<Group>,
}

/// One group and everyone who waits for something of it.
pub(crate) struct Group {
    config: Arc<GroupConfig>,
    /// What the machine calls it, once it runs.
    key: Option<GroupKey>,
    pub(crate) allocate: Option<Strategy>,
    pub(crate) storage: Option<Storage>,
    pub(crate) desk: Box<dyn Desk>,
    pub(crate) notices: Arc<NoticeHub>,
    ready: bool,
    started: Option<oneshot::Sender<Result<(), StartError>>>,
    awaiting_ready: Vec<oneshot::Sender<Result<(), FilterRefusal>>>,
    /// Why the group does not join.
    refusal: Option<FilterRefusal>,
    pub(crate) changes: SubscriptionChanges,
    pub(crate) awaiting_stop: Vec<oneshot::Sender<ShutdownReport>>,
    /// Given free when the group is dropped.
    registration: Registration,
}

impl Group {
    pub(crate) fn name(&self) -> &ConsumerGroup {
        self.config.group()
    }

    /// Tells the starter how it went, the first time.
    pub(crate) fn started(&mut self, result: Result<(), StartError>) {
        if let Some(reply) = self.started.take() {
            // A starter that does not wait any more has stopped the group by now.
            let _gone = reply.send(result);
        }
    }

    /// Lets go of everything the group has. Its handler goes too, and what a user's destructor does must not
    /// end the task that carries the other groups.
    pub(crate) fn end(self) {
        let name = self.name().clone();
        if catch_unwind(AssertUnwindSafe(move || drop(self))).is_err() {
            tracing::error!(target: "rocketmq", group = %name, "a handler panicked when it was dropped");
        }
    }

    pub(crate) const fn is_starting(&self) -> bool {
        self.started.is_some()
    }

    pub(crate) fn await_ready(&mut self, reply: oneshot::Sender<Result<(), FilterRefusal>>) {
        if self.ready {
            let _gone = reply.send(Ok(()));
        } else if let Some(refusal) = &self.refusal {
            let _gone = reply.send(Err(refusal.clone()));
        } else {
            self.awaiting_ready.push(reply);
        }
    }

    pub(crate) fn set_ready(&mut self) {
        self.ready = true;
        self.refusal = None;
        for reply in self.awaiting_ready.drain(..) {
            let _gone = reply.send(Ok(()));
        }
    }

    /// A broker does not take a filter: whoever wished for it is told, and whoever waits for the group to join if
    /// it does not because of that.
    pub(crate) fn filter_refused(&mut self, refusal: FilterRefusal) {
        let was_wished = self.changes.filter_refused(&refusal);
        let former = self.refusal.as_ref().map(|former| &former.topic);
        // In place of a filter that was good the former one stays.
        if self.ready || (was_wished && former != Some(&refusal.topic)) {
            return;
        }
        for reply in self.awaiting_ready.drain(..) {
            let _gone = reply.send(Err(refusal.clone()));
        }
        self.refusal = Some(refusal);
    }

    /// A change of a subscription is in force.
    pub(crate) fn subscription_changed(&mut self, topic: &Topic, filter: Option<&FilterExpression>) {
        self.refusal.take_if(|refusal| &refusal.topic == topic);
        self.changes.in_force(topic, filter);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.notices.end();
    }
}

impl Groups {
    /// Takes a group in, unless one of that name is here: then the newcomer is told, and dropped.
    pub(crate) fn admit(&mut self, newcomer: StartGroup) -> Option<Arc<GroupConfig>> {
        let StartGroup {
            config,
            allocate,
            store,
            desk,
            notices,
            registration,
            reply,
        } = newcomer;
        let mut group = Group {
            config: Arc::clone(&config),
            key: None,
            allocate: allocate.map(Strategy::new),
            storage: store.map(Storage::new),
            desk,
            notices,
            ready: false,
            started: Some(reply),
            awaiting_ready: Vec::new(),
            refusal: None,
            changes: SubscriptionChanges::default(),
            awaiting_stop: Vec::new(),
            registration,
        };
        if self.by_name(config.group()).is_some() {
            use rocketmq_consumer_core::action::RefusalReason::AlreadyRegistered;
            group.started(Err(StartError::Refused(AlreadyRegistered)));
            group.end();
            return None;
        }
        self.living.push(group);
        Some(config)
    }

    pub(crate) fn by_name(&mut self, name: &ConsumerGroup) -> Option<&mut Group> {
        self.living.iter_mut().find(|group| group.name() == name)
    }

    /// The group of this very consumer, if it lives.
    pub(crate) fn by_ticket(&mut self, who: Ticket) -> Option<&mut Group> {
        let mut living = self.living.iter_mut();
        living.find(|group| group.registration.ticket() == who)
    }

    /// The machine has taken the group in; its runs carry this key.
    pub(crate) fn started(&mut self, name: &ConsumerGroup, key: GroupKey) {
        if let Some(group) = self.by_name(name) {
            group.key = Some(key);
            group.started(Ok(()));
        }
    }

    /// Whose run this is.
    pub(crate) fn by_key(&mut self, key: GroupKey) -> Option<&mut Group> {
        self.living.iter_mut().find(|group| group.key == Some(key))
    }

    pub(crate) fn remove(&mut self, name: &ConsumerGroup) -> Option<Group> {
        let index = self.living.iter().position(|group| group.name() == name)?;
        Some(self.living.remove(index))
    }

    /// All of them end.
    pub(crate) fn end(self) {
        self.living.into_iter().for_each(Group::end);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Group> {
        self.living.iter()
    }
}
