//! The vocabulary of a script: who sends what, and what is waited for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::cluster::Node;

/// The version of 5.5.0, from which on servers assume a client that understands them.
const VERSION: i32 = 513;

/// A request, before the values that differ by run are filled in: `{physical:NAME.0}`, `{id:NAME.0}` and
/// `{stored:NAME.0}` stand for the position, the offset message id and the store time of a message learned under
/// a name ([`Step::learn`]); `{now}` is the cluster's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    pub(crate) code: i32,
    pub(crate) version: i32,
    pub(crate) ext: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
    pub(crate) is_one_way: bool,
    pub(crate) is_binary: bool,
}

impl Ask {
    /// A request with header fields, written `name=value name=value`.
    #[must_use]
    pub fn new(code: i32, fields: &str) -> Self {
        let pair = |word: &str| {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            (name.to_owned(), value.to_owned())
        };
        Self {
            code,
            version: VERSION,
            ext: fields.split_whitespace().map(pair).collect(),
            body: Vec::new(),
            is_one_way: false,
            is_binary: false,
        }
    }

    /// One more header field, whose value may hold anything.
    #[must_use]
    pub fn field(mut self, name: &str, value: &str) -> Self {
        self.ext.insert(name.into(), value.into());
        self
    }

    /// Leaves a header field out.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.ext.remove(name);
        self
    }

    /// Its body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Pretends to be a client of another version; 5.5.0 otherwise.
    #[must_use]
    pub const fn version(mut self, version: i32) -> Self {
        self.version = version;
        self
    }

    /// Writes the header in the binary form instead of JSON.
    #[must_use]
    pub const fn binary(mut self) -> Self {
        self.is_binary = true;
        self
    }

    /// Sets the bit that says that nobody waits for an answer.
    #[must_use]
    pub const fn one_way(mut self) -> Self {
        self.is_one_way = true;
        self
    }
}

/// What a step does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Do {
    /// Sends a request and reads up to its answer. Requests of the server that come before belong to the outcome.
    Ask(Ask),
    /// Sends a request and does not wait. Its answer, if there is one, is read by [`Do::Await`].
    Post(Ask),
    /// Writes bytes that need not be a frame.
    Raw(Vec<u8>),
    /// Reads up to the answer of the request that a [`Do::Post`] of this title sent.
    Await(String),
    /// Reads the next frame, whatever it is.
    Next,
    /// Shows that nothing comes for a while.
    Silence(Duration),
    /// Answers the last request of the server.
    Reply {
        /// Response code.
        code: i32,
        /// Remark.
        remark: Option<String>,
        /// Body.
        body: Vec<u8>,
    },
    /// Lets time pass, for what a server does later.
    Wait(Duration),
    /// Closes the connection.
    Close,
}

/// One step of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Chapter and what it shows; no two steps have the same.
    pub title: String,
    /// The connection; opened by its first step.
    pub conn: String,
    /// What is done.
    pub what: Do,
    /// Under which name the messages of the outcome are remembered.
    pub(crate) learns: Option<String>,
}

impl Step {
    /// Remembers the messages of the answer (those it stored, or those it brought) under a name, counted from 0.
    pub fn learn(&mut self, name: &str) {
        self.learns = Some(name.into());
    }

    /// Whom its connection goes to: names of connections to a name server begin with `n`.
    #[must_use]
    pub fn node(&self) -> Node {
        if self.conn.starts_with('n') {
            Node::NameServer
        } else {
            Node::Broker
        }
    }
}

/// Steps, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    steps: Vec<Step>,
    titles: BTreeSet<String>,
    chapter: &'static str,
}

impl Script {
    /// Begins a chapter; its name is the first word of the titles that follow.
    pub fn chapter(&mut self, name: &'static str) {
        self.chapter = name;
    }

    /// All steps.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Panics
    /// As all steps that have a title, when another step of the chapter has the same.
    pub fn ask(&mut self, conn: &str, title: &str, ask: Ask) -> &mut Step {
        self.push(conn, title, Do::Ask(ask))
    }

    /// Sends a request and goes on.
    pub fn post(&mut self, conn: &str, title: &str, ask: Ask) -> &mut Step {
        self.push(conn, title, Do::Post(ask))
    }

    /// Writes bytes and shows what comes within a second: nothing, an answer, or the end of the connection.
    pub fn raw(&mut self, conn: &str, title: &str, bytes: impl Into<Vec<u8>>) {
        self.push(conn, title, Do::Raw(bytes.into()));
        self.silence(conn, &format!("{title}: what comes of it"), 1_000);
    }

    /// Waits for the answer to a request posted in this chapter.
    pub fn answer(&mut self, conn: &str, posted: &str) -> &mut Step {
        let awaited = self.title(posted);
        self.push(conn, &format!("{posted}: answer"), Do::Await(awaited))
    }

    /// Reads the next frame.
    pub fn next(&mut self, conn: &str, title: &str) -> &mut Step {
        self.push(conn, title, Do::Next)
    }

    /// Shows that nothing comes for so many milliseconds.
    pub fn silence(&mut self, conn: &str, title: &str, ms: u64) {
        self.push(conn, title, Do::Silence(Duration::from_millis(ms)));
    }

    /// Answers the server's last request on a connection.
    pub fn reply(&mut self, conn: &str, title: &str, code: i32, remark: Option<&str>, body: &str) {
        let what = Do::Reply {
            code,
            remark: remark.map(str::to_owned),
            body: body.as_bytes().to_vec(),
        };
        self.push(conn, title, what);
    }

    /// Lets so many milliseconds pass.
    pub fn wait(&mut self, ms: u64) {
        let after = self.steps.last().map_or("", |step| step.title.as_str());
        let title = format!(
            "{}: wait",
            after.split_once(": ").map_or(after, |(_, title)| title)
        );
        self.push("", &title, Do::Wait(Duration::from_millis(ms)));
    }

    /// Closes a connection.
    pub fn close(&mut self, conn: &str) {
        let title = format!("{conn} closes");
        self.push(conn, &title, Do::Close);
    }

    fn title(&self, title: &str) -> String {
        format!("{}: {title}", self.chapter)
    }

    fn push(&mut self, conn: &str, title: &str, what: Do) -> &mut Step {
        let title = self.title(title);
        assert!(
            self.titles.insert(title.clone()),
            "two steps are called {title:?}"
        );
        self.steps.push(Step {
            title,
            conn: conn.into(),
            what,
            learns: None,
        });
        self.steps.last_mut().expect("it was pushed")
    }
}
