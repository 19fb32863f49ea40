//! One client: who it is, whom it asks, and the clocks that its groups share.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use super::check::check_range;
use super::{ConfigError, MIB, millis, secs};
use crate::ids::{ClientId, PeerAddr};
use crate::wire::frame::HeaderForm;

settings! {
    /// One client instance: its identity, its name servers, and the clocks of everything its groups
    /// share.
    ClientConfig { client_id: ClientId, name_servers: Vec<PeerAddr> }

    /// Rewrites addresses that a name server hands out but this machine cannot reach:
    /// `(registered, reachable)`. Default: none.
    address_map / set_address_map: Vec<(PeerAddr, PeerAddr)> = Vec::new();
    /// How often the route of a known topic is asked again. Default 30 s (`pollNameServerInterval`).
    route_interval / set_route_interval: Duration = secs(30);
    /// How often the route of a topic is asked that is unknown, has lost a broker or whose broker's
    /// link failed, during the first two minutes. Default 1 s; afterwards five times as long.
    route_retry / set_route_retry: Duration = secs(1);
    /// Gap between heartbeats to a broker. Default 30 s (`heartbeatBrokerInterval`); a broker forgets
    /// a member after 120 s.
    heartbeat_interval / set_heartbeat_interval: Duration = secs(30);
    /// How long a request may take unless it has a time of its own. Default 3 s (`mqClientApiTimeout`).
    request_timeout / set_request_timeout: Duration = secs(3);
    /// How long an offset query, an offset commit and a send back may take. Default 5 s.
    offset_timeout / set_offset_timeout: Duration = secs(5);
    /// How long one attempt to connect may take. Default 3 s.
    dial_timeout / set_dial_timeout: Duration = secs(3);
    /// First pause between two attempts to connect; doubles up to [`Self::set_dial_backoff_max`].
    /// Default 100 ms, ± 20 %.
    dial_backoff / set_dial_backoff: Duration = millis(100);
    /// Longest pause between attempts during the first five minutes of an outage. Default 1 s.
    dial_backoff_max / set_dial_backoff_max: Duration = secs(1);
    /// Longest pause between attempts after five minutes of outage. Default 10 s.
    dial_backoff_long / set_dial_backoff_long: Duration = secs(10);
    /// A link is closed when a request of it is past its deadline and no byte came since it was sent,
    /// at the earliest this long after sending. Default 10 s.
    silence_min / set_silence_min: Duration = secs(10);
    /// How long a master is out of reach before a slave is read in its place, and within reach again before it
    /// is read again, unless the slave sends us back. Default 3 s. Java reads a slave only when the name servers
    /// miss the master; 1 h comes close to that.
    slave_read_after / set_slave_read_after: Duration = secs(3);
    /// Largest value of a frame's length word, in bytes. Default and largest: 16,777,212, what a
    /// Java peer accepts.
    frame_len_max / set_frame_len_max: u32 = 16_777_212;
    /// How the headers of what we send are written, answers to a broker's requests among it
    /// (`rocketmq.serialize.type`). Default JSON. What the binary form cannot carry, such as a code of more than
    /// 16 bits, is written in JSON all the same: every peer looks at each frame. What peers send is read in
    /// either form.
    header_form / set_header_form: HeaderForm = HeaderForm::Json;
    /// Requests that may wait for answers on one link. Default 4,096; one more fails at once.
    requests_per_link_max / set_requests_per_link_max: u32 = 4_096;
    /// Bytes that may wait to be written to one slow peer. Default 16 MiB; a request beyond it fails
    /// at once.
    send_queue_bytes_max / set_send_queue_bytes_max: u64 = 16 * MIB;
    /// Groups the client may hold at once, those that are leaving included. Default 64, 1..=1024: every
    /// heartbeat names all of them, and one task carries them.
    groups_max / set_groups_max: u32 = 64;
    /// Names what this member stores for itself; has to be the same after a restart, and another one for each
    /// process that stores in the same place (`instanceName`). Default `DEFAULT`; 1 to 128 bytes. Only groups that
    /// broadcast store anything.
    instance / set_instance: String = String::from("DEFAULT");
    /// The same notice about the same subject is repeated no more often than this, that a request is refused six
    /// times more rarely. Default 10 s.
    notice_interval / set_notice_interval: Duration = secs(10);
}

impl ClientConfig {
    /// A client with its id, unique among all members of its groups, and the name servers to ask.
    #[must_use]
    pub fn new(client_id: ClientId, name_servers: Vec<PeerAddr>) -> Self {
        Self::with_defaults(client_id, name_servers)
    }

    /// This member's id.
    #[must_use]
    pub const fn client_id(&self) -> &ClientId {
        &self.client_id
    }

    /// The name servers.
    #[must_use]
    pub fn name_servers(&self) -> &[PeerAddr] {
        &self.name_servers
    }

    /// # Errors
    /// The first setting that cannot work, and why.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.client_id.as_str().trim().is_empty() {
            return Err(ConfigError::new("client_id", "must not be blank"));
        }
        if self.client_id.as_str().len() > 1024 {
            return Err(ConfigError::new("client_id", "must be at most 1024 bytes long"));
        }
        if self.name_servers.is_empty() {
            return Err(ConfigError::new("name_servers", "give at least one as host:port"));
        }
        for (key, value) in [
            ("route_interval", self.route_interval),
            ("route_retry", self.route_retry),
            ("heartbeat_interval", self.heartbeat_interval),
            ("request_timeout", self.request_timeout),
            ("offset_timeout", self.offset_timeout),
            ("dial_timeout", self.dial_timeout),
            ("dial_backoff", self.dial_backoff),
            ("silence_min", self.silence_min),
            ("slave_read_after", self.slave_read_after),
        ] {
            if value < millis(1) || value > secs(3600) {
                return Err(ConfigError::new(key, "must lie between 1 ms and 1 h"));
            }
        }
        if self.heartbeat_interval > secs(60) {
            return Err(ConfigError::new(
                "heartbeat_interval",
                "must be at most 60 s: a broker forgets a member after 120 s of silence",
            ));
        }
        if self.dial_backoff > self.dial_backoff_max || self.dial_backoff_max > self.dial_backoff_long {
            return Err(ConfigError::new(
                "dial_backoff",
                "dial_backoff, dial_backoff_max and dial_backoff_long must not decrease",
            ));
        }
        if !(1024..=16_777_212).contains(&self.frame_len_max) {
            return Err(ConfigError::new(
                "frame_len_max",
                "must lie between 1024 and 16777212",
            ));
        }
        if self.requests_per_link_max == 0 || self.send_queue_bytes_max < 64 * 1024 {
            return Err(ConfigError::new(
                "requests_per_link_max",
                "must be at least 1, and send_queue_bytes_max at least 65536",
            ));
        }
        if self.instance.trim().is_empty() || self.instance.len() > 128 {
            return Err(ConfigError::new(
                "instance",
                "must not be blank, and have at most 128 bytes",
            ));
        }
        check_range("groups_max", self.groups_max, 1, 1024)
    }
}
