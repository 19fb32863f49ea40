//! What carries a script out.

use std::time::Duration;

/// Who is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    /// The cluster's name server.
    NameServer,
    /// Its only broker.
    Broker,
}

/// What came, or did not, on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// One whole frame, its length word included.
    Frame(Vec<u8>),
    /// The server closed the connection.
    Closed,
    /// Nothing within the limit.
    Silence,
}

/// A name server and one broker, with a clock. Connections have names; those of the script.
pub trait Cluster {
    /// Where a node listens, as it tells others: `host:port`.
    fn address(&self, node: Node) -> String;

    /// Unix milliseconds by the cluster's clock.
    fn wall(&self) -> i64;

    /// Opens a connection and says where it comes from, `host:port`.
    ///
    /// # Errors
    /// In words, when it cannot be opened.
    fn open(&mut self, conn: &str, node: Node) -> Result<String, String>;

    /// Closes a connection; what was not yet read is lost.
    fn close(&mut self, conn: &str);

    /// Writes a frame. To a connection that the server has closed it is lost.
    fn send(&mut self, conn: &str, frame: &[u8]);

    /// The next frame of a connection, waiting for it at most this long.
    fn receive(&mut self, conn: &str, limit: Duration) -> Received;

    /// Lets time pass.
    fn wait(&mut self, time: Duration);
}
