//! Members of a group in processes of their own, the load they share, and a journal of what each of
//! them was given.
#![allow(dead_code, unused_imports, reason = "every suite uses a part of it")]

mod clock;
mod crowd;
mod java_member;
mod journal;
mod load;
mod member;

pub(crate) use clock::{now, wait_until};
pub(crate) use crowd::{AGREE, Crowd};
pub(crate) use java_member::JavaMember;
pub(crate) use journal::{Delivery, Journal, Queue};
pub(crate) use load::{Load, Loads, Sent};
pub(crate) use member::{Ended, Member};
