use std::net::SocketAddr;
use std::ops::Range;

use rocketmq_consumer::{BrokerName, PeerAddr};

/// One name server and one broker, on which a case may create topics of its own.
///
/// Nothing here is asynchronous and all of it may block for a moment: a cluster lives outside of the runtime that
/// is examined.
pub trait Cluster: Sized + 'static {
    /// Starts one, or joins one that is shared.
    ///
    /// # Panics
    /// When there is none: the case fails then.
    fn start() -> Self;

    /// Where the name server listens.
    fn name_server(&self) -> SocketAddr;

    /// The broker's name.
    fn broker_name(&self) -> BrokerName;

    /// The address that the name server tells for it.
    fn broker(&self) -> PeerAddr;

    /// Creates a topic with so many queues.
    fn create_topic(&self, topic: &str, queues: u32);

    /// Stores messages: number `n` in queue `n % queues`, its body `<n>:` and padding to so many bytes.
    fn send(&self, topic: &str, queues: u32, numbers: Range<u64>, size: usize);
}

/// The body of a message.
pub(super) fn body(number: u64, size: usize) -> Vec<u8> {
    let mut body = format!("{number}:").into_bytes();
    body.resize(body.len().max(size), b'x');
    body
}

/// The number in a body; `None` when nobody of here has made it.
pub(super) fn number(body: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(body).ok()?;
    text.split_once(':')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_holds_its_number() {
        for (count, size) in [(0, 0), (7, 1), (12_345, 100)] {
            let body = body(count, size);
            assert_eq!((number(&body), body.len() >= size), (Some(count), true));
        }
        assert_eq!([number(b"7"), number(b"x:"), number(&[0xff, b':'])], [None; 3]);
    }
}
