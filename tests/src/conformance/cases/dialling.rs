//! Connecting works, is refused by its own kind, leaves nothing behind when it is given up, and never blocks.

use std::io::{ErrorKind, Read as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use rocketmq_consumer::Runtime as _;

#[cfg(target_os = "linux")]
use super::full_backlog;
use crate::conformance::Host;
use crate::conformance::polls::Point;
use crate::conformance::time::ends;

/// Attempts that are given up.
const GIVEN_UP: usize = 50;

/// Plays the case.
pub fn run<H: Host>() {
    let host = H::start();
    let runtime = host.runtime();
    let listener = TcpListener::bind("127.0.0.1:0").expect("ports are free");
    let addr = listener.local_addr().expect("it is bound");
    host.block_on(async {
        let socket = ends(&runtime, "a connection", runtime.connect(addr)).await;
        let socket = socket.expect("somebody listens");
        let (peer, _) = listener.accept().expect("it was made");
        drop(socket);
        is_closed(peer);

        let mut made = 0;
        for attempt in 0..GIVEN_UP {
            let point = if attempt % 2 == 0 {
                Point::at_once(1)
            } else {
                Point::late(1)
            };
            // One that is made at once is dropped as well.
            made += usize::from(point.give_up(&runtime, runtime.connect(addr)).await.is_some());
        }
        drop(
            ends(&runtime, "one more", runtime.connect(addr))
                .await
                .expect("somebody listens"),
        );
        listener.set_nonblocking(true).expect("a socket of ours");
        let mut accepted = 0;
        while let Ok((peer, _)) = listener.accept() {
            peer.set_nonblocking(false).expect("a socket of ours");
            is_closed(peer);
            accepted += 1;
        }
        assert!(
            (made + 1..=GIVEN_UP + 1).contains(&accepted),
            "{accepted}, {made} of them made"
        );

        drop(listener);
        let Err(error) = ends(&runtime, "an address where nobody listens", runtime.connect(addr)).await
        else {
            panic!("nobody listens there");
        };
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");

        #[cfg(target_os = "linux")]
        full_backlog::does_not_block(&runtime).await;
    });
}

/// The other end has closed, in whichever way.
fn is_closed(mut peer: TcpStream) {
    peer.set_read_timeout(Some(Duration::from_secs(20)))
        .expect("a time that can be waited");
    match peer.read(&mut [0]) {
        Ok(0) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        other => panic!("it is still open: {other:?}"),
    }
}
