//! A peer that does not read makes writing wait, and nothing else: the task is woken for either way.

use std::future::poll_fn;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use futures_io::{AsyncRead as _, AsyncWrite as _};
use rocketmq_consumer::Runtime;

use super::sockets::joined;
use crate::conformance::Host;
use crate::conformance::time::{at_most, ends};

/// More than the system keeps for a peer that does not read.
const MORE_THAN_FITS: usize = 256 << 20;

/// Plays the case.
pub fn run<H: Host>() {
    let host = H::start();
    let runtime = host.runtime();
    let listener = TcpListener::bind("127.0.0.1:0").expect("ports are free");
    host.block_on(async {
        let (mut socket, peer) = joined(&runtime, &listener).await;
        let mut sent = fill(&runtime, &mut socket).await;
        let (reader, reads) = answer_and_count(peer);
        // One task waits for both ways, as the consumer's does.
        let (mut asked, mut answered) = (false, false);
        let both = poll_fn(|cx| {
            let mut buffer = [0; 8];
            if !answered && let Poll::Ready(read) = Pin::new(&mut socket).poll_read(cx, &mut buffer) {
                assert_eq!(read.expect("the peer is there"), 1);
                // From now on the peer reads too.
                reads.store(true, Ordering::Release);
                answered = true;
            }
            if !asked && let Poll::Ready(written) = Pin::new(&mut socket).poll_write(cx, &[1; 64]) {
                sent += written.expect("the peer is there");
                asked = answered;
                if !asked {
                    // What was full has found more room by itself, on a busy machine say: it has to be full to count.
                    cx.waker().wake_by_ref();
                }
            }
            if asked && answered {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        });
        ends(&runtime, "an answer, and room", both).await;
        drop(socket);
        let heard = reader.join().expect("the peer does not panic");
        assert_eq!(heard, sent, "not one byte is lost");
    });
}

/// Writes until there is no room for a while.
async fn fill<R: Runtime>(runtime: &R, socket: &mut R::Socket) -> usize {
    let mut sent = 0;
    let piece = vec![0; 64 << 10];
    loop {
        let write = poll_fn(|cx| Pin::new(&mut *socket).poll_write(cx, &piece));
        match at_most(runtime, Duration::from_millis(100), write).await {
            Some(written) => sent += written.expect("the peer is there"),
            None => return sent,
        }
        assert!(sent < MORE_THAN_FITS, "nobody reads, and there is no end of room");
    }
}

/// Sends a byte after a moment, and reads all there is as soon as it may.
fn answer_and_count(mut peer: TcpStream) -> (JoinHandle<usize>, Arc<AtomicBool>) {
    let may_read = Arc::<AtomicBool>::default();
    let may = Arc::clone(&may_read);
    let reader = thread::spawn(move || {
        // So that the other end waits already.
        thread::sleep(Duration::from_millis(20));
        peer.write_all(b"!").expect("the socket is there");
        while !may.load(Ordering::Acquire) {
            thread::sleep(Duration::from_millis(1));
        }
        let mut buffer = vec![0; 64 << 10];
        let mut heard = 0;
        loop {
            match peer.read(&mut buffer).expect("it was closed in order") {
                0 => return heard,
                read => heard += read,
            }
        }
    });
    (reader, may_read)
}
