//! Free ports below the ephemeral range.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::{Ipv4Addr, TcpListener};

use super::LaunchError;

/// Ports from here up are handed out by the kernel to outgoing connections, which would collide with a
/// broker that restarts on its old port.
const EPHEMERAL: u16 = 32_768;
const LOWEST: u16 = 12_000;
const TRIES: u32 = 200;

/// The lowest of `count` neighbouring ports of 127.0.0.1 that were free a moment ago. Another process can
/// still take one: the caller retries when the server says so.
pub(crate) fn free(count: u16) -> Result<u16, LaunchError> {
    for _ in 0..TRIES {
        let span = u64::from(EPHEMERAL - LOWEST - count);
        // A fresh `RandomState` is the randomness that std has.
        let offset = RandomState::new().build_hasher().finish() % span;
        let first = LOWEST + u16::try_from(offset).expect("smaller than a u16 span");
        let all: Result<Vec<TcpListener>, _> = (first..first + count)
            .map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)))
            .collect();
        if all.is_ok() {
            return Ok(first);
        }
    }
    Err(LaunchError::Ports { count, tries: TRIES })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_below_the_ephemeral_range_and_free() {
        for _ in 0..20 {
            let first = free(4).expect("there are thousands of ports");
            assert!(first >= LOWEST && first + 4 <= EPHEMERAL);
            assert!(TcpListener::bind((Ipv4Addr::LOCALHOST, first + 3)).is_ok());
        }
    }
}
