//! The cases, one file each: `run` plays it, and panics where something is not as it has to be.

pub mod back_pressure;
pub mod blocking_jobs;
pub mod cancelled_calls;
pub mod cancelled_changes;
pub mod cancelled_next;
pub mod cancelled_shutdown;
pub mod cancelled_start;
pub mod cancelled_waits;
pub mod clock;
pub mod dialling;
#[cfg(target_os = "linux")]
mod full_backlog;
pub mod full_sockets;
pub mod half_frames;
pub mod handler_hangs;
pub mod handler_panics;
pub mod journey;
pub mod lookup;
pub mod peer_stops_reading;
pub mod resets;
pub mod shutdown_under_load;
pub mod slow_sockets;
pub mod sockets;
pub mod tasks;
pub mod thousand_reconnects;
pub mod timers;
pub mod unresolvable_names;
