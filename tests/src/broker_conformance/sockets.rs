//! A cluster behind real sockets: the real broker, or the embedded one.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::cluster::{Cluster, Node, Received};

/// The largest length word a Java peer accepts.
const FRAME_MAX: usize = 16_777_212;
/// How long opening and writing may take.
const IO_LIMIT: Duration = Duration::from_secs(5);
/// A read that waits this little cannot be asked for: zero means for ever.
const SHORTEST: Duration = Duration::from_millis(1);

/// A name server and a broker that listen on TCP.
#[derive(Debug)]
pub struct Sockets {
    name_server: String,
    broker: String,
    conns: BTreeMap<String, Socket>,
}

impl Sockets {
    /// Where both listen, `host:port`.
    #[must_use]
    pub fn new(name_server: &str, broker: &str) -> Self {
        Self {
            name_server: name_server.into(),
            broker: broker.into(),
            conns: BTreeMap::new(),
        }
    }
}

impl Cluster for Sockets {
    fn address(&self, node: Node) -> String {
        match node {
            Node::NameServer => self.name_server.clone(),
            Node::Broker => self.broker.clone(),
        }
    }

    #[allow(
        clippy::disallowed_methods,
        reason = "the other end is a real process with a real clock"
    )]
    fn wall(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    fn open(&mut self, conn: &str, node: Node) -> Result<String, String> {
        let address = self.address(node);
        let open = || {
            let stream = TcpStream::connect(&address)?;
            stream.set_nodelay(true)?;
            stream.set_write_timeout(Some(IO_LIMIT))?;
            let from = stream.local_addr()?;
            Ok((
                Socket {
                    stream,
                    buffer: Vec::new(),
                },
                from.to_string(),
            ))
        };
        let (socket, from) = open().map_err(|error: io::Error| format!("{address}: {error}"))?;
        self.conns.insert(conn.into(), socket);
        Ok(from)
    }

    fn close(&mut self, conn: &str) {
        self.conns.remove(conn);
    }

    fn send(&mut self, conn: &str, frame: &[u8]) {
        if let Some(socket) = self.conns.get_mut(conn) {
            // A server that has closed is noticed by the read that follows.
            let _ = socket.stream.write_all(frame);
        }
    }

    fn receive(&mut self, conn: &str, limit: Duration) -> Received {
        let socket = self.conns.get_mut(conn);
        socket.map_or(Received::Closed, |socket| socket.receive(limit))
    }

    fn wait(&mut self, time: Duration) {
        thread::sleep(time);
    }
}

#[derive(Debug)]
struct Socket {
    stream: TcpStream,
    /// What was read of a frame that is not whole yet; a time-out must not lose it.
    buffer: Vec<u8>,
}

impl Socket {
    fn receive(&mut self, limit: Duration) -> Received {
        let deadline = now() + limit;
        let mut chunk = [0; 16 * 1024];
        loop {
            match self.whole_frame() {
                Ok(Some(frame)) => return Received::Frame(frame),
                Ok(None) => {}
                Err(()) => return Received::Closed,
            }
            let left = deadline.saturating_duration_since(now());
            if left.is_zero() {
                return Received::Silence;
            }
            if self.stream.set_read_timeout(Some(left.max(SHORTEST))).is_err() {
                return Received::Closed;
            }
            match self.stream.read(&mut chunk) {
                Ok(0) => return Received::Closed,
                Ok(count) => self.buffer.extend(chunk.iter().take(count)),
                Err(error)
                    if [
                        io::ErrorKind::WouldBlock,
                        io::ErrorKind::TimedOut,
                        io::ErrorKind::Interrupted,
                    ]
                    .contains(&error.kind()) => {}
                Err(_) => return Received::Closed,
            }
        }
    }

    /// `Err` for a length that no peer may send.
    fn whole_frame(&mut self) -> Result<Option<Vec<u8>>, ()> {
        let Some(word) = self.buffer.first_chunk::<4>() else {
            return Ok(None);
        };
        let length = usize::try_from(u32::from_be_bytes(*word)).unwrap_or(usize::MAX);
        if length > FRAME_MAX {
            return Err(());
        }
        if self.buffer.len() < 4 + length {
            return Ok(None);
        }
        let rest = self.buffer.split_off(4 + length);
        Ok(Some(std::mem::replace(&mut self.buffer, rest)))
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "waiting for a real process is a driver's work"
)]
fn now() -> Instant {
    Instant::now()
}
