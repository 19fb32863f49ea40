//! The one generator: everything a consumer may meet, built out of bytes.
//!
//! Each function takes an [`Unstructured`] and is total: when the bytes run out, choices fall on the
//! first and plainest case, so shorter input means a simpler result. Property tests
//! (`strategies`), fuzzers and simulations draw from the same functions and so explore one space; what
//! one of them finds, the others can be given as bytes.
//!
//! Nine in ten of the choices about peers make sense where they are made, one in ten is nonsense. Lists
//! of names hold traps on purpose: ids that sort otherwise than they look, tags with equal hashes,
//! surrogates, odd blanks.
//!
//! ```
//! use arbitrary::Unstructured;
//! use rocketmq_consumer_testing::generate;
//!
//! let mut u = Unstructured::new(b"any bytes at all");
//! let queues = generate::queue_set(&mut u)?;
//! let members = generate::member_list(&mut u, &"10.0.0.1@7".into())?;
//! assert!(queues.len() <= generate::QUEUES_MAX && members.len() <= generate::MEMBERS_MAX);
//! # Ok::<(), arbitrary::Error>(())
//! ```

mod answers;
mod dice;
mod driver;
mod events;
mod frames;
mod members;
mod messages;
mod names;
mod operator;
mod queues;
mod replies;
mod requests;
mod routes;
mod shelf;
mod subscriptions;
mod tool_answers;
mod tools;

pub use answers::{
    consume_directly_answer, consumer_status, heartbeat_answer, offset_answer, pull_answer, running_info,
    send_answer, stored_offset,
};
pub use arbitrary::{Result, Unstructured};
pub use driver::{Driver, OpenRun, Seen};
pub use events::{Step, View, step};
pub use frames::{frame, header_form, split, stream};
pub use members::{MEMBERS_MAX, member_list};
pub use messages::{Stored, StoredRecord, stored, stored_list, stored_record, torn_list};
pub use names::{broker_name, client_id, consumer_group, text, topic, word};
pub use operator::{
    consume_directly_request, consumer_status_request, offset_table, reset_offset_request,
    running_info_request,
};
pub use queues::{QUEUES_MAX, queue_set, shuffle};
pub use replies::reply;
pub use requests::{
    commit_offset_request, heartbeat_request, max_offset_request, member_list_request, members_changed,
    min_offset_request, pull_request, query_offset_request, route_request, search_offset_request,
    send_back_request, send_request, unregister_request,
};
pub use routes::topic_route;
pub use shelf::{Log, Shelf};
pub use subscriptions::{expression, subscription};
pub use tool_answers::{
    cluster_info, consume_stats, consumer_connections, consumer_running_info, earliest_store_time,
    found_messages, group_list, group_status, group_table, lock_answer, reset_offsets, topic_config,
    topic_list, topic_stats, viewed_message,
};
pub use tools::{
    check_subscription_request, cluster_topics_request, connections_request, consume_stats_request,
    delete_group_request, delete_topic_request, earliest_store_time_request, forget_topic_request,
    group_config_request, group_list_request, group_status_request, lock_request, operator_reset_request,
    query_message_request, subscription_group_config, topic_config_request, topic_groups_request,
    topic_stats_request, unlock_request, update_group_request, update_topic_request, view_message_request,
};
