//! Connections of clients: a reader and a writer for each.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use rocketmq_consumer_core::ids::ConnId;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::outbox::{Outbox, Waiting};

/// Bytes of one read.
const READ: usize = 64 << 10;

/// Frames of one write.
const SLICES: usize = 64;

/// How long a connection that is closed may take to write what waits.
const LINGER: Duration = Duration::from_secs(1);

/// What readers tell the driver.
#[derive(Debug)]
pub(super) enum LinkEvent {
    /// Bytes have come.
    Received {
        /// From where.
        conn: ConnId,
        /// What.
        bytes: Bytes,
    },
    /// The client has closed it, or it broke.
    Closed {
        /// Which one.
        conn: ConnId,
    },
}

/// Every connection that stands.
#[derive(Debug)]
pub(super) struct Links {
    by_conn: BTreeMap<ConnId, Link>,
    opened: u64,
    events: mpsc::Sender<LinkEvent>,
    waiting: Arc<Waiting>,
}

#[derive(Debug)]
struct Link {
    outbox: Arc<Outbox>,
    reader: AbortHandle,
    writer: AbortHandle,
}

impl Links {
    /// No connections. Their readers will talk to `events`.
    pub(super) fn new(events: mpsc::Sender<LinkEvent>) -> Self {
        Self {
            by_conn: BTreeMap::new(),
            opened: 0,
            events,
            waiting: Arc::default(),
        }
    }

    /// Starts to read from and write to a client.
    pub(super) fn open(&mut self, stream: TcpStream) -> ConnId {
        let conn = ConnId {
            slot: (self.opened & 0xffff_ffff) as u32,
            generation: (self.opened >> 32) as u32,
        };
        self.opened += 1;
        let outbox = Arc::new(Outbox::among(&self.waiting));
        let (input, output) = stream.into_split();
        let reader = read(conn, input, Arc::clone(&outbox), self.events.clone());
        let link = Link {
            reader: tokio::spawn(reader).abort_handle(),
            writer: tokio::spawn(write(output, Arc::clone(&outbox))).abort_handle(),
            outbox,
        };
        self.by_conn.insert(conn, link);
        conn
    }

    /// Whether a connection stands. What its reader said before it was closed may still arrive.
    pub(super) fn stands(&self, conn: ConnId) -> bool {
        self.by_conn.contains_key(&conn)
    }

    /// Queues a frame. False when the client was cut off because it does not read.
    pub(super) fn send(&mut self, conn: ConnId, frame: Bytes) -> bool {
        let Some(link) = self.by_conn.get(&conn) else {
            return true;
        };
        if link.outbox.push(frame).is_ok() {
            return true;
        }
        if let Some(link) = self.by_conn.remove(&conn) {
            link.cut();
        }
        false
    }

    /// Closes a connection after what waits for its client is written, and after [`LINGER`] at the latest.
    /// Until then what it sends is read and thrown away: a socket that is closed with unread input is reset, and
    /// the client would lose what was written to it last.
    pub(super) fn close(&mut self, conn: ConnId) {
        if let Some(link) = self.by_conn.remove(&conn) {
            link.outbox.close();
            tokio::spawn(async move {
                tokio::time::sleep(LINGER).await;
                link.cut();
            });
        }
    }

    /// Cuts all connections off.
    pub(super) fn cut_all(&mut self) {
        for link in std::mem::take(&mut self.by_conn).into_values() {
            link.cut();
        }
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.cut_all();
    }
}

impl Link {
    fn cut(self) {
        self.reader.abort();
        self.writer.abort();
    }
}

async fn read(conn: ConnId, mut input: OwnedReadHalf, outbox: Arc<Outbox>, events: mpsc::Sender<LinkEvent>) {
    let mut buffer = vec![0; READ];
    while outbox.room().await {
        let read = match input.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(read) => read,
        };
        // Copied, so that nothing pins more than what came.
        let bytes = Bytes::copy_from_slice(buffer.get(..read).unwrap_or_default());
        if events.send(LinkEvent::Received { conn, bytes }).await.is_err() {
            return;
        }
    }
    let _ended = events.send(LinkEvent::Closed { conn }).await;
    // Whoever closes the connection ends this.
    while input.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
}

/// Writes until the connection is closed and nothing waits.
async fn write(mut output: OwnedWriteHalf, outbox: Arc<Outbox>) {
    while let Some(frames) = outbox.take().await {
        if write_all(&mut output, frames, &outbox).await.is_err() {
            // The reader tells the driver, even while it is kept from reading.
            outbox.close();
            return;
        }
    }
    // The client has gone already if this fails.
    let _gone = output.shutdown().await;
}

async fn write_all(
    output: &mut OwnedWriteHalf,
    mut frames: VecDeque<Bytes>,
    outbox: &Outbox,
) -> io::Result<()> {
    while !frames.is_empty() {
        let mut slices = [IoSlice::new(&[]); SLICES];
        for (slice, frame) in slices.iter_mut().zip(&frames) {
            *slice = IoSlice::new(frame);
        }
        let filled = frames.len().min(SLICES);
        let mut left = output
            .write_vectored(slices.get(..filled).unwrap_or_default())
            .await?;
        if left == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        outbox.written(left);
        while let Some(frame) = frames.front_mut() {
            let taken = frame.len().min(left);
            frame.advance(taken);
            left -= taken;
            if !frame.is_empty() {
                break;
            }
            frames.pop_front();
        }
    }
    Ok(())
}
