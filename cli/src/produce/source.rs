//! Where bodies come from.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;
use std::thread;

use bytes::Bytes;
use tokio::sync::mpsc;

/// The longest line that is taken: more does not fit into a frame.
const LINE_MAX: usize = 16 << 20;

/// Lines that are read ahead.
const AHEAD: usize = 64;

/// Bodies, one after another.
#[derive(Debug)]
pub(crate) enum Source {
    /// `0:`, `1:`, …, each padded to a size in bytes.
    Numbers {
        /// The next number.
        next: u64,
        /// How many there are.
        count: u64,
        /// How long each body is at least.
        size: usize,
    },
    /// Lines of a file or of standard input.
    Lines(mpsc::Receiver<io::Result<Bytes>>),
}

impl Source {
    /// So many numbered bodies.
    pub(crate) const fn numbers(count: u64, size: usize) -> Self {
        Self::Numbers { next: 0, count, size }
    }

    /// The lines of a file, without the newline that ends them.
    ///
    /// # Errors
    /// It cannot be opened, or the system refuses a thread.
    pub(crate) fn file(path: &Path) -> io::Result<Self> {
        Self::lines(BufReader::new(File::open(path)?))
    }

    /// The lines of standard input.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub(crate) fn stdin() -> io::Result<Self> {
        Self::lines(BufReader::new(io::stdin()))
    }

    /// Reading blocks for as long as the writer of the pipe likes, so a thread of its own reads.
    fn lines(input: impl BufRead + Send + 'static) -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel(AHEAD);
        thread::Builder::new()
            .name("reader".into())
            .spawn(move || read_lines(input, &sender, LINE_MAX))?;
        Ok(Self::Lines(receiver))
    }

    /// The next body, or nothing at the end. Nothing is lost when the future is dropped.
    ///
    /// # Errors
    /// The input cannot be read on.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Bytes>> {
        match self {
            Self::Numbers { next, count, size } => {
                if next == count {
                    return Ok(None);
                }
                let body = numbered(*next, *size);
                *next += 1;
                Ok(Some(body))
            }
            Self::Lines(lines) => lines.recv().await.transpose(),
        }
    }
}

fn numbered(number: u64, size: usize) -> Bytes {
    let mut body = format!("{number}:").into_bytes();
    if body.len() < size {
        body.resize(size, b'x');
    }
    body.into()
}

/// Hands lines over until there is none, one cannot be read, or nobody wants them.
fn read_lines(mut input: impl BufRead, to: &mpsc::Sender<io::Result<Bytes>>, most: usize) {
    loop {
        let line = read_line(&mut input, most);
        let is_last = line.is_err();
        let Some(line) = line.transpose() else { return };
        if to.blocking_send(line).is_err() || is_last {
            return;
        }
    }
}

fn read_line(input: &mut impl BufRead, most: usize) -> io::Result<Option<Bytes>> {
    let mut line = Vec::new();
    let limit = u64::try_from(most).unwrap_or(u64::MAX);
    // One more for the newline.
    input.take(limit.saturating_add(1)).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if line.len() > most {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a line has more than {most} bytes"),
        ));
    }
    Ok(Some(line.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn numbered_bodies_begin_with_their_number() {
        let mut source = Source::numbers(3, 4);
        let mut bodies = Vec::new();
        while let Some(body) = source.next().await.unwrap() {
            bodies.push(body);
        }
        assert_eq!(bodies, ["0:xx", "1:xx", "2:xx"]);
        assert_eq!(numbered(123, 2), "123:");
    }

    #[tokio::test]
    async fn a_line_is_a_body_whatever_its_bytes_are() {
        let mut source = Source::lines(&b"one\n\n\xff\xfe\r\nlast"[..]).unwrap();
        let mut bodies = Vec::new();
        while let Some(body) = source.next().await.unwrap() {
            bodies.push(body);
        }
        assert_eq!(bodies, [&b"one"[..], b"", b"\xff\xfe\r", b"last"]);
    }

    #[test]
    fn a_line_without_an_end_costs_no_more_than_the_limit() {
        let mut input: &[u8] = b"abc\nabcd\n";
        assert_eq!(read_line(&mut input, 3).unwrap().unwrap(), "abc");
        let error = read_line(&mut input, 3).unwrap_err();
        assert_eq!(error.to_string(), "a line has more than 3 bytes");
    }
}
