//! A part of `dialling`: a peer that does not answer. Only where the system answers nothing for a listener whose
//! backlog is full, as Linux does; others refuse, or take more than they were told to.

use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rocketmq_consumer::Runtime;
use socket2::{Domain, Socket, Type};

use crate::conformance::polls::Point;

/// The shortest that can be had; Linux takes one more.
const BACKLOG: i32 = 1;

/// Far more than fit.
const MORE_THAN_FIT: usize = 64;

/// How long an attempt takes at most that is answered, on loopback: far less.
const ANSWERED: Duration = Duration::from_millis(500);

/// After it, whoever still waits for the peer is let go: one that blocks has to fail, not to hang.
const BLOCKED: Duration = Duration::from_secs(6);

/// The first poll of an attempt that cannot go on comes back at once, and so does dropping it.
pub(super) async fn does_not_block<R: Runtime>(runtime: &R) {
    let peer = SilentPeer::listen();
    let addr = peer.addr;
    let (done, is_done) = mpsc::channel();
    let patience = thread::spawn(move || {
        let came_back = is_done.recv_timeout(BLOCKED).is_ok();
        drop(peer);
        came_back
    });
    let connected = Point::at_once(1).give_up(runtime, runtime.connect(addr)).await;
    // Nobody listens any more if it took too long.
    let _too_late = done.send(());
    let came_back = patience.join().expect("it waits and drops");
    assert!(came_back, "connecting blocks the task, for {BLOCKED:?} at least");
    assert!(connected.is_none(), "nobody has answered, and it is over");
}

/// Listens, accepts nothing, and has no room for one more.
struct SilentPeer {
    addr: SocketAddr,
    _listener: Socket,
    _waiting: Vec<TcpStream>,
}

impl SilentPeer {
    fn listen() -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).expect("sockets can be had");
        listener.bind(&any.into()).expect("ports are free");
        listener.listen(BACKLOG).expect("it is bound");
        let addr = listener.local_addr().expect("it is bound").as_socket();
        let addr = addr.expect("an address of IPv4");
        let dial = || TcpStream::connect_timeout(&addr, ANSWERED).ok();
        let waiting: Vec<_> = std::iter::from_fn(dial).take(MORE_THAN_FIT).collect();
        assert!(waiting.len() < MORE_THAN_FIT, "there is always room for one more");
        Self {
            addr,
            _listener: listener,
            _waiting: waiting,
        }
    }
}
