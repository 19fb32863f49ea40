//! Carries a script out, step by step.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::canon::{Canon, messages};
use super::cluster::{Cluster, Node, Received};
use super::frame::{self, Frame, ONE_WAY, Outgoing};
use super::step::{Ask, Do, Script, Step};

/// Longer than anything in the script takes: a hold is ended 5 s after its time at the latest, a relayed request
/// 10 s after it was sent.
const ANSWER_LIMIT: Duration = Duration::from_secs(25);

/// What one step showed.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The step's title.
    pub step: String,
    /// What was sent or done, for a reader.
    pub sent: String,
    /// What came, in order, each frame in its comparable form; `"closed"`, `"silence"` and `"nothing to
    /// answer"` stand for themselves.
    pub came: Vec<Value>,
}

/// Carries out a script.
///
/// # Errors
/// In words, when a connection cannot be opened, a frame cannot be read, or a step refers to something that never
/// happened.
pub fn run(script: &Script, cluster: &mut impl Cluster) -> Result<Vec<Outcome>, String> {
    let mut canon = Canon::new(cluster.wall());
    canon.address(cluster.address(Node::NameServer), "name server");
    canon.address(cluster.address(Node::Broker), "broker");
    let mut run = Run {
        cluster,
        canon,
        conns: BTreeMap::new(),
        posted: BTreeMap::new(),
        learned: BTreeMap::new(),
        opaque: 0,
    };
    script
        .steps()
        .iter()
        .map(|step| run.step(step).map_err(|why| format!("{}: {why}", step.title)))
        .collect()
}

struct Run<'a, C> {
    cluster: &'a mut C,
    canon: Canon,
    conns: BTreeMap<String, Conn>,
    /// Requests sent and not waited for: title and opaque.
    posted: BTreeMap<String, i64>,
    learned: BTreeMap<String, String>,
    opaque: i64,
}

#[derive(Default)]
struct Conn {
    /// The opaque of the server's last request.
    asked: Option<i64>,
    /// Answers that came while another was awaited.
    early: BTreeMap<i64, Frame>,
}

impl<C: Cluster> Run<'_, C> {
    fn step(&mut self, step: &Step) -> Result<Outcome, String> {
        let conn = step.conn.as_str();
        if !matches!(step.what, Do::Wait(_)) && !self.conns.contains_key(conn) {
            let from = self.cluster.open(conn, step.node())?;
            self.canon.address(from, conn);
            self.conns.insert(conn.into(), Conn::default());
        }
        let mut came = Vec::new();
        match &step.what {
            Do::Ask(ask) => {
                let opaque = self.send(conn, ask);
                self.read_answer(step, opaque, &mut came)?;
            }
            Do::Post(ask) => {
                let opaque = self.send(conn, ask);
                self.posted.insert(step.title.clone(), opaque);
            }
            Do::Raw(bytes) => self.cluster.send(conn, bytes),
            Do::Await(title) => {
                let opaque = *self.posted.get(title).ok_or("nothing of this title was posted")?;
                self.read_answer(step, opaque, &mut came)?;
            }
            Do::Next => {
                self.read(step, ANSWER_LIMIT, &mut came)?;
            }
            Do::Silence(time) => {
                self.read(step, *time, &mut came)?;
            }
            Do::Reply { code, remark, body } => {
                if !self.reply(conn, *code, remark.as_deref(), body) {
                    came.push("nothing to answer".into());
                }
            }
            Do::Wait(time) => self.cluster.wait(*time),
            Do::Close => {
                self.cluster.close(conn);
                self.conns.remove(conn);
            }
        }
        Ok(Outcome {
            step: step.title.clone(),
            sent: describe(step),
            came,
        })
    }

    fn send(&mut self, conn: &str, ask: &Ask) -> i64 {
        self.opaque += 1;
        let fill = |text: &str| self.fill(text);
        let ext = ask
            .ext
            .iter()
            .map(|(name, value)| (name.clone(), fill(value)))
            .collect();
        let out = Outgoing {
            code: ask.code,
            flag: if ask.is_one_way { ONE_WAY } else { 0 },
            opaque: self.opaque,
            version: ask.version,
            remark: None,
            ext: &ext,
            body: &ask.body,
        };
        let bytes = if ask.is_binary {
            out.encode_binary()
        } else {
            out.encode()
        };
        self.cluster.send(conn, &bytes);
        self.opaque
    }

    fn fill(&self, text: &str) -> String {
        if !text.contains('{') {
            return text.into();
        }
        let now = text.replace("{now}", &self.cluster.wall().to_string());
        self.learned
            .iter()
            .fold(now, |text, (name, value)| text.replace(name, value))
    }

    /// Answers the server's last request, if it made one.
    fn reply(&mut self, conn: &str, code: i32, remark: Option<&str>, body: &[u8]) -> bool {
        let Some(opaque) = self.conns.get_mut(conn).and_then(|conn| conn.asked.take()) else {
            return false;
        };
        let bytes = Outgoing {
            code,
            flag: Outgoing::ANSWER,
            opaque,
            version: 513,
            remark,
            ext: &BTreeMap::new(),
            body,
        }
        .encode();
        self.cluster.send(conn, &bytes);
        true
    }

    /// Reads until the answer to `opaque`, or nothing more comes.
    fn read_answer(&mut self, step: &Step, opaque: i64, came: &mut Vec<Value>) -> Result<(), String> {
        let early = self
            .conns
            .get_mut(&step.conn)
            .and_then(|conn| conn.early.remove(&opaque));
        if let Some(frame) = early {
            self.note(step, &frame, came);
            return Ok(());
        }
        while let Some(frame) = self.receive(&step.conn, ANSWER_LIMIT, came)? {
            let is_answer = frame.is_answer();
            if is_answer && frame.opaque != opaque {
                if let Some(conn) = self.conns.get_mut(&step.conn) {
                    conn.early.insert(frame.opaque, frame);
                }
                continue;
            }
            self.note(step, &frame, came);
            if is_answer {
                break;
            }
        }
        Ok(())
    }

    fn read(&mut self, step: &Step, limit: Duration, came: &mut Vec<Value>) -> Result<(), String> {
        if let Some(frame) = self.receive(&step.conn, limit, came)? {
            self.note(step, &frame, came);
        }
        Ok(())
    }

    fn receive(
        &mut self,
        conn: &str,
        limit: Duration,
        came: &mut Vec<Value>,
    ) -> Result<Option<Frame>, String> {
        match self.cluster.receive(conn, limit) {
            Received::Frame(bytes) => frame::decode(&bytes).map(Some),
            Received::Closed => {
                came.push("closed".into());
                Ok(None)
            }
            Received::Silence => {
                came.push("silence".into());
                Ok(None)
            }
        }
    }

    fn note(&mut self, step: &Step, frame: &Frame, came: &mut Vec<Value>) {
        if !frame.is_answer()
            && let Some(conn) = self.conns.get_mut(&step.conn)
        {
            conn.asked = Some(frame.opaque);
        }
        if let Some(name) = &step.learns {
            for (index, message) in messages(frame).into_iter().enumerate() {
                for (what, value) in message {
                    self.learned.insert(format!("{{{what}:{name}.{index}}}"), value);
                }
            }
        }
        came.push(self.canon.frame(frame));
    }
}

/// A step in one line.
fn describe(step: &Step) -> String {
    let ask = |ask: &Ask| {
        let ext: Vec<String> = ask
            .ext
            .iter()
            .map(|(name, value)| {
                let short: String = value.chars().take(80).collect();
                format!(" {name}={}", short.escape_debug())
            })
            .collect();
        let body = match ask.body.len() {
            0 => String::new(),
            length @ 1..=2_000 => {
                let text = String::from_utf8_lossy(&ask.body).into_owned();
                format!(" | {} ({length})", text.escape_debug())
            }
            length => format!(" | ({length})"),
        };
        let version = json!(ask.version);
        let mark = if ask.is_one_way { " one-way" } else { "" };
        let form = if ask.is_binary { " binary" } else { "" };
        format!("{}{mark}{form} v{version}{}{body}", ask.code, ext.concat())
    };
    let what = match &step.what {
        Do::Ask(one) => format!("ask {}", ask(one)),
        Do::Post(one) => format!("post {}", ask(one)),
        Do::Raw(bytes) => format!("raw {}", bytes.escape_ascii()),
        Do::Await(title) => format!("await {title}"),
        Do::Next => "next".into(),
        Do::Silence(time) => format!("silence {time:?}"),
        Do::Reply { code, remark, body } => {
            format!("reply {code} {remark:?} {}", String::from_utf8_lossy(body))
        }
        Do::Wait(time) => format!("wait {time:?}"),
        Do::Close => "close".into(),
    };
    format!("{} {what}", step.conn).trim_start().to_owned()
}
