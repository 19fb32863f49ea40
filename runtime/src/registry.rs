use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rocketmq_consumer_core::ids::{ClientId, ConsumerGroup};

use crate::error::StartError;
use crate::sync::lock;

/// Every consumer of this process that lives. A broker knows a member by client id and group; two of
/// them under one name would take each other's queues without noticing.
static LIVING: Mutex<BTreeSet<(ClientId, ConsumerGroup)>> = Mutex::new(BTreeSet::new());

/// One consumer of this process, from its start to its end; never used again. Its group's name would not do:
/// when the consumer has ended another one may have taken it, and an old handle must not stop that one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

static NEXT_TICKET: AtomicU64 = AtomicU64::new(0);

/// The right to be the only consumer of a group under a client id. Dropping it gives the name free.
#[derive(Debug)]
pub(crate) struct Registration {
    name: (ClientId, ConsumerGroup),
    ticket: Ticket,
}

impl Registration {
    /// # Errors
    /// `AlreadyRegistered` while another consumer holds the name.
    pub(crate) fn new(client_id: ClientId, group: ConsumerGroup) -> Result<Self, StartError> {
        let name = (client_id, group);
        if lock(&LIVING).insert(name.clone()) {
            let ticket = Ticket(NEXT_TICKET.fetch_add(1, Ordering::Relaxed));
            return Ok(Self { name, ticket });
        }
        let (client_id, group) = name;
        Err(StartError::AlreadyRegistered { client_id, group })
    }

    /// Who holds it.
    pub(crate) const fn ticket(&self) -> Ticket {
        self.ticket
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        lock(&LIVING).remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_while_its_holder_lives() {
        let register = |client: &str, group: &str| Registration::new(client.into(), group.into());
        let first = register("registry@1", "a").unwrap();
        assert!(matches!(
            register("registry@1", "a"),
            Err(StartError::AlreadyRegistered { .. })
        ));
        let _other_group = register("registry@1", "b").unwrap();
        let _other_client = register("registry@2", "a").unwrap();
        let old = first.ticket();
        drop(first);
        let again = register("registry@1", "a").unwrap();
        assert_ne!(again.ticket(), old, "the name is the same, the consumer is not");
    }
}
