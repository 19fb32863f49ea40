//! Who is in a group, as a broker says it.

use arbitrary::{Result, Unstructured};
use rocketmq_consumer_core::ids::ClientId;

use super::dice::{pick, several};
use super::names::client_id;
use super::queues::shuffle;

/// Most members of a generated list.
pub const MEMBERS_MAX: usize = 16;

/// A member list: no order, one entry for each connection. `own` is there once as a rule, else missing
/// or several times; others repeat now and then too.
pub fn member_list(u: &mut Unstructured<'_>, own: &ClientId) -> Result<Vec<ClientId>> {
    let places = pick(u, &[1, 1, 1, 1, 0, 2, 3])?;
    let mut members: Vec<ClientId> = several(u, MEMBERS_MAX - 3, client_id)?;
    members.retain(|member| member != own);
    members.extend(std::iter::repeat_n(own.clone(), places));
    shuffle(u, &mut members)?;
    Ok(members)
}
