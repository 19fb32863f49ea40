use std::collections::BTreeSet;
use std::sync::Mutex;

use rocketmq_consumer_core::ids::{ClientId, ConsumerGroup};

use crate::error::StartError;
use crate::sync::lock;

/// Every consumer of this process that lives. A broker knows a member by client id and group; two of
/// them under one name would take each other's queues without noticing.
static LIVING: Mutex<BTreeSet<(ClientId, ConsumerGroup)>> = Mutex::new(BTreeSet::new());

/// The right to be the only consumer of a group under a client id. Dropping it gives the name free.
#[derive(Debug)]
pub(crate) struct Registration {
    name: (ClientId, ConsumerGroup),
}

impl Registration {
    /// # Errors
    /// `AlreadyRegistered` while another consumer holds the name.
    pub(crate) fn new(client_id: ClientId, group: ConsumerGroup) -> Result<Self, StartError> {
        let name = (client_id, group);
        if lock(&LIVING).insert(name.clone()) {
            return Ok(Self { name });
        }
        let (client_id, group) = name;
        Err(StartError::AlreadyRegistered { client_id, group })
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
        drop(first);
        let _again = register("registry@1", "a").unwrap();
    }
}
