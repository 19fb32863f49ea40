use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use super::*;

/// A proxy, one connection through it, and its other end.
fn joined(proxy: &Proxy, cluster: &TcpListener) -> (TcpStream, TcpStream) {
    let consumer = TcpStream::connect(proxy.addr()).unwrap();
    let (cluster, _) = cluster.accept().unwrap();
    while proxy.standing() == 0 {
        thread::yield_now();
    }
    for socket in [&consumer, &cluster] {
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    }
    (consumer, cluster)
}

fn started() -> (Proxy, TcpListener) {
    let cluster = TcpListener::bind("127.0.0.1:0").unwrap();
    (Proxy::start(cluster.local_addr().unwrap()).unwrap(), cluster)
}

#[test]
fn bytes_pass_both_ways_in_pieces_of_any_size() {
    let (proxy, cluster) = started();
    let (mut consumer, mut broker) = joined(&proxy, &cluster);
    for piece in [1, 3, 1 << 20] {
        proxy.pieces(piece);
        let mut heard = [0; 9];
        consumer.write_all(b"a request").unwrap();
        broker.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"a request");
        broker.write_all(b"an answer").unwrap();
        consumer.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"an answer");
    }
    assert_eq!((proxy.accepted(), proxy.passed(Side::FromConsumer)), (1, 27));
}

#[test]
fn a_reset_is_one_and_a_close_is_the_end_of_the_stream() {
    let (proxy, cluster) = started();
    let (mut consumer, _broker) = joined(&proxy, &cluster);
    proxy.reset_all();
    assert_eq!(
        consumer.read(&mut [0]).unwrap_err().kind(),
        ErrorKind::ConnectionReset
    );
    for (then, end) in [
        (Then::Close, Ok(0)),
        (Then::Reset, Err(ErrorKind::ConnectionReset)),
    ] {
        let side = Side::ToConsumer;
        proxy.cut_next([Cut { side, after: 3, then }]);
        let (mut consumer, mut broker) = joined(&proxy, &cluster);
        broker.write_all(b"answer").unwrap();
        let mut heard = Vec::new();
        let ended = consumer.read_to_end(&mut heard).map(|_| 0);
        assert_eq!(ended.map_err(|error| error.kind()), end);
        // What a reset overtakes is lost.
        assert!(heard == b"ans" || then == Then::Reset, "{heard:?}");
    }
    assert_eq!(proxy.cuts_left(), 0);
}

#[test]
fn a_way_that_is_held_goes_on_where_it_was() {
    let (proxy, cluster) = started();
    let (mut consumer, mut broker) = joined(&proxy, &cluster);
    proxy.hold(Side::FromConsumer);
    consumer.write_all(b"late").unwrap();
    broker.write_all(b"!").unwrap();
    let mut heard = [0; 4];
    consumer.read_exact(&mut heard[..1]).unwrap();
    assert_eq!(proxy.passed(Side::FromConsumer), 0);
    proxy.go_on(Side::FromConsumer);
    broker.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"late");
}
