//! Names are looked up: what has an address is found, what has none is not.

use std::net::{IpAddr, Ipv4Addr};

use rocketmq_consumer::Runtime as _;

use crate::conformance::Host;
use crate::conformance::time::ends;

/// Ends in a domain that never has names (RFC 6761).
pub(super) const NOBODY: &str = "no-such-host.invalid";

/// Plays the case.
pub fn run<H: Host>() {
    let host = H::start();
    let runtime = host.runtime();
    host.block_on(async {
        let found = ends(&runtime, "a name", runtime.lookup("localhost")).await;
        let found = found.expect("every machine knows itself");
        assert!(found.iter().any(IpAddr::is_loopback), "{found:?}");

        let found = ends(&runtime, "an address", runtime.lookup("127.0.0.1")).await;
        assert_eq!(found.expect("it is one"), [IpAddr::V4(Ipv4Addr::LOCALHOST)]);

        for nobody in [NOBODY, "", "no host name"] {
            // A resolver may say that there is none, or give none.
            let found = ends(&runtime, "a name that nobody has", runtime.lookup(nobody)).await;
            let found = found.unwrap_or_default();
            assert!(found.is_empty(), "{nobody:?}: {found:?}");
        }
    });
}
