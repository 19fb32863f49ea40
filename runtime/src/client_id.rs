use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};

use rocketmq_consumer_core::ids::{ClientId, PeerAddr};
use rocketmq_consumer_core::time::WallTime;

/// `<local ip>@<instance or pid>#<unique>`: readable for an operator, and never the same twice, so that a
/// restarted process is not taken for its predecessor whose socket the broker still believes in.
pub(crate) fn unique(instance: Option<&str>, name_servers: &[PeerAddr], wall: WallTime) -> ClientId {
    let ip = local_ip(name_servers);
    let unique = entropy(wall);
    match instance {
        Some(name) => ClientId::from(format!("{ip}@{name}#{unique:016x}")),
        None => ClientId::from(format!("{ip}@{}#{unique:016x}", std::process::id())),
    }
}

/// A number nobody can guess and nobody draws twice: the hash map's random keys of this process, the
/// time, and a counter.
pub(crate) fn entropy(wall: WallTime) -> u64 {
    static DRAWN: AtomicU64 = AtomicU64::new(0);
    let drawn = DRAWN.fetch_add(1, Ordering::Relaxed);
    RandomState::new().hash_one((wall.as_unix_millis(), drawn))
}

/// The address this machine would use towards the first name server. Connecting a UDP socket asks
/// only the routing table; nothing is sent.
fn local_ip(name_servers: &[PeerAddr]) -> IpAddr {
    // A documentation address stands in for a name that nobody has looked up yet: any address that
    // takes the default route does.
    let towards = name_servers
        .iter()
        .find_map(|addr| Some(SocketAddr::new(addr.host().parse().ok()?, addr.port())))
        .unwrap_or_else(|| SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 9876)));
    let any = if towards.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    UdpSocket::bind(any)
        .and_then(|socket| socket.connect(towards).and_then(|()| socket.local_addr()))
        .map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |local| local.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_names_address_and_process_and_is_never_drawn_twice() {
        let servers = [PeerAddr::new("127.0.0.1", 9876)];
        let draw = |instance| unique(instance, &servers, WallTime::from_unix_millis(1));
        let (first, second) = (draw(None), draw(None));
        assert_ne!(first, second);
        assert!(
            first
                .as_str()
                .starts_with(&format!("127.0.0.1@{}#", std::process::id())),
            "{first}"
        );
        assert!(draw(Some("blue")).as_str().starts_with("127.0.0.1@blue#"));
    }
}
