use std::io::{Read as _, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use super::super::sync::lock;
use super::link::Link;

/// Most bytes that are passed on at a time.
const PIECE: usize = 64 << 10;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Requests.
    FromConsumer,
    /// Answers.
    ToConsumer,
}

/// How a connection ends before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Which way is counted.
    pub side: Side,
    /// So many bytes are passed on.
    pub after: u64,
    /// What follows then.
    pub then: Then,
}

/// What becomes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It is closed in order: `FIN`.
    Close,
    /// It is reset: `RST`.
    Reset,
    /// Nothing comes this way any more, and the connection stands.
    Stall,
}

/// One way of all connections: what is asked of it, and what went it.
#[derive(Debug)]
pub(super) struct Way {
    manner: Mutex<Manner>,
    changed: Condvar,
    passed: AtomicU64,
}

#[derive(Clone, Copy, Debug)]
struct Manner {
    piece: usize,
    held: bool,
    ended: bool,
}

impl Way {
    pub(super) const fn new() -> Self {
        Self {
            manner: Mutex::new(Manner {
                piece: PIECE,
                held: false,
                ended: false,
            }),
            changed: Condvar::new(),
            passed: AtomicU64::new(0),
        }
    }

    pub(super) fn passed(&self) -> u64 {
        self.passed.load(Ordering::Acquire)
    }

    pub(super) fn pieces(&self, bytes: usize) {
        self.set(|manner| manner.piece = bytes.clamp(1, PIECE));
    }

    pub(super) fn hold(&self, held: bool) {
        self.set(|manner| manner.held = held);
    }

    /// Nobody waits here any more.
    pub(super) fn end(&self) {
        self.set(|manner| manner.ended = true);
    }

    fn set(&self, change: impl FnOnce(&mut Manner)) {
        change(&mut lock(&self.manner));
        self.changed.notify_all();
    }

    /// Passes on what comes, until one end closes or the cut is reached; tells how it is to end.
    pub(super) fn pump(&self, link: &Link, side: Side, cut: Option<Cut>) -> Then {
        let (mut from, mut to) = link.ends(side);
        let mut buffer = vec![0; PIECE];
        let mut left = cut.map_or(u64::MAX, |cut| cut.after);
        loop {
            if left == 0 {
                match cut.map_or(Then::Close, |cut| cut.then) {
                    Then::Stall => return drain(from),
                    then @ (Then::Close | Then::Reset) => return then,
                }
            }
            let most = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
            let read = match from.read(&mut buffer[..most]) {
                Ok(0) => return Then::Close,
                Ok(read) => read,
                Err(_) => return Then::Reset,
            };
            left -= read as u64;
            let mut bytes = &buffer[..read];
            while !bytes.is_empty() {
                // What is asked of this way may change at any time, also while it read.
                let (piece, rest) = bytes.split_at(self.piece().min(bytes.len()));
                self.passed.fetch_add(piece.len() as u64, Ordering::AcqRel);
                if to.write_all(piece).is_err() {
                    return Then::Reset;
                }
                bytes = rest;
            }
        }
    }

    /// How much may be passed on; waits while nothing may.
    fn piece(&self) -> usize {
        let mut manner = lock(&self.manner);
        while manner.held && !manner.ended {
            manner = self.changed.wait(manner).unwrap_or_else(PoisonError::into_inner);
        }
        manner.piece
    }
}

/// Reads and forgets, so that the end is still noticed.
fn drain(mut from: &std::net::TcpStream) -> Then {
    let mut forgotten = [0; 1024];
    loop {
        match from.read(&mut forgotten) {
            Ok(0) => return Then::Close,
            Ok(_) => {}
            Err(_) => return Then::Reset,
        }
    }
}
