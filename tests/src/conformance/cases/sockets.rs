//! A socket carries bytes both ways, vectored too, and tells how the other end has closed.

use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::pin::Pin;
use std::time::Duration;

use futures_io::{AsyncRead, AsyncWrite};
use rocketmq_consumer::Runtime;
use socket2::SockRef;

use crate::conformance::Host;
use crate::conformance::time::{ends, pause};

/// Slices of one vectored write: as many as the consumer gives, one more, and far more than any system takes.
const SLICES: [usize; 4] = [1, 32, 33, 3_000];

/// Plays the case.
pub fn run<H: Host>() {
    let host = H::start();
    let runtime = host.runtime();
    let listener = TcpListener::bind("127.0.0.1:0").expect("ports are free");
    host.block_on(async {
        both_ways(&runtime, &listener).await;
        for slices in SLICES {
            vectored(&runtime, &listener, slices).await;
        }
        ends_of_a_socket(&runtime, &listener).await;
    });
}

/// Both ends of a new connection.
pub(super) async fn joined<R: Runtime>(runtime: &R, listener: &TcpListener) -> (R::Socket, TcpStream) {
    let addr = listener.local_addr().expect("it is bound");
    let socket = ends(runtime, "a connection", runtime.connect(addr)).await;
    let (peer, _) = listener.accept().expect("it was made");
    peer.set_read_timeout(Some(Duration::from_secs(20)))
        .expect("a time that can be waited");
    (socket.expect("somebody listens"), peer)
}

pub(super) async fn read(socket: &mut (impl AsyncRead + Unpin), buffer: &mut [u8]) -> io::Result<usize> {
    poll_fn(|cx| Pin::new(&mut *socket).poll_read(cx, buffer)).await
}

async fn write_all(socket: &mut (impl AsyncWrite + Unpin), mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = poll_fn(|cx| Pin::new(&mut *socket).poll_write(cx, bytes)).await?;
        assert!(
            (1..=bytes.len()).contains(&written),
            "{written} of {} written",
            bytes.len()
        );
        bytes = &bytes[written..];
    }
    poll_fn(|cx| Pin::new(&mut *socket).poll_flush(cx)).await
}

async fn both_ways<R: Runtime>(runtime: &R, listener: &TcpListener) {
    let (mut socket, mut peer) = joined(runtime, listener).await;
    let mut heard = [0; 16];
    for _ in 0..100 {
        let written = write_all(&mut socket, b"ping");
        ends(runtime, "a write", written)
            .await
            .expect("the peer is there");
        peer.read_exact(&mut heard[..4]).expect("it was flushed");
        assert_eq!(&heard[..4], b"ping");
        peer.write_all(b"pong!").expect("the socket is there");
        let mut got = 0;
        while got < 5 {
            let more = ends(runtime, "a read", read(&mut socket, &mut heard[got..])).await;
            got += more.expect("the peer is there");
        }
        assert_eq!(&heard[..got], b"pong!");
    }
}

/// Every slice arrives in its order, or the count says what is left; empty ones are no end.
async fn vectored<R: Runtime>(runtime: &R, listener: &TcpListener, count: usize) {
    let (mut socket, mut peer) = joined(runtime, listener).await;
    let parts: Vec<Vec<u8>> = (0..count).map(|number| vec![number as u8; number % 5]).collect();
    let whole: Vec<u8> = parts.concat();
    let mut left: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
    let mut left = &mut left[..];
    let mut sent = 0;
    while sent < whole.len() {
        let written = poll_fn(|cx| Pin::new(&mut socket).poll_write_vectored(cx, left));
        let written = ends(runtime, "a vectored write", written)
            .await
            .expect("the peer is there");
        assert!(
            written > 0 && sent + written <= whole.len(),
            "{written} after {sent}"
        );
        sent += written;
        IoSlice::advance_slices(&mut left, written);
    }
    drop(socket);
    let mut heard = Vec::new();
    peer.read_to_end(&mut heard).expect("it was closed in order");
    assert_eq!(heard, whole);
}

async fn ends_of_a_socket<R: Runtime>(runtime: &R, listener: &TcpListener) {
    let mut buffer = [0; 16];
    // The peer closes: what it has sent comes first.
    let (mut socket, mut peer) = joined(runtime, listener).await;
    peer.write_all(b"last").expect("the socket is there");
    drop(peer);
    let mut got = 0;
    loop {
        let read = ends(runtime, "the end", read(&mut socket, &mut buffer[got..])).await;
        match read.expect("it was closed in order") {
            0 => break,
            more => got += more,
        }
    }
    assert_eq!(&buffer[..got], b"last");

    // The peer resets.
    let (mut socket, peer) = joined(runtime, listener).await;
    SockRef::from(&peer)
        .set_linger(Some(Duration::ZERO))
        .expect("a socket of ours");
    drop(peer);
    let read = ends(runtime, "a reset", read(&mut socket, &mut buffer)).await;
    assert_eq!(
        read.map_err(|error| error.kind()),
        Err(ErrorKind::ConnectionReset)
    );

    // Writing to a peer that is gone fails at last.
    until_it_fails(runtime, listener).await;

    // This end is closed, and dropped: the peer is told, at the latest by the second. The consumer only drops, so
    // more is not asked of a runtime.
    let (mut socket, mut peer) = joined(runtime, listener).await;
    let closed = poll_fn(|cx| Pin::new(&mut socket).poll_close(cx));
    ends(runtime, "a close", closed).await.expect("the peer is there");
    drop(socket);
    assert_eq!(peer.read(&mut buffer).expect("it was closed in order"), 0);

    // This end is dropped: the peer is told.
    let (socket, mut peer) = joined(runtime, listener).await;
    drop(socket);
    assert_eq!(peer.read(&mut buffer).expect("it was closed in order"), 0);
}

async fn until_it_fails<R: Runtime>(runtime: &R, listener: &TcpListener) {
    let (mut socket, peer) = joined(runtime, listener).await;
    drop(peer);
    let failed = async {
        while write_all(&mut socket, b"hello?").await.is_ok() {
            pause(runtime, Duration::from_millis(1)).await;
        }
    };
    ends(runtime, "writing to nobody", failed).await;
}
