//! Bytes. Frames, headers, requests and answers of the remoting protocol, stored messages, bodies
//! and subscription expressions. This floor knows no role: whatever one side writes the other side
//! can read, so consumer, broker and tests share it.

pub mod body;
pub mod code;
pub mod command;
pub mod fastjson;
pub mod frame;
pub mod kept_offsets;
pub mod link;
pub mod message_id;
pub mod properties;
pub mod request;
pub mod send_batch;
pub mod stored;
pub mod subscription;
