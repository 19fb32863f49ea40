//! What leaves the cluster: answers, requests of brokers, and what was put off.
//!
//! An [`Asker`] remembers what a rule has decided about its answer, so that a pull that is held for
//! long is answered late, or never, exactly as one that is answered at once.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;
use core::time::Duration;

use bytes::Bytes;

use super::config::Settings;
use super::event::BrokerAction;
use super::rule::{Effect, Rule};
use super::rules::Rules;
use crate::ids::{ConnId, PeerAddr};
use crate::step::Outbox;
use crate::time::Instant;
use crate::wire::code::{RequestCode, ResponseCode};
use crate::wire::command::{Command, ExtWriter, FLAG_RESPONSE, Header, Language, VERSION, WriteExt};
use crate::wire::frame::{Frame, FrameError, HeaderForm};
use crate::wire::request::{self, Answer, AnswerError, Request};

/// Brokers write their headers in JSON, whatever they are asked in.
const FORM: HeaderForm = HeaderForm::Json;

/// Who waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Asker {
    pub(super) conn: ConnId,
    pub(super) opaque: i32,
    pub(super) fate: Fate,
}

/// What becomes of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fate {
    Prompt,
    Late(Duration),
    /// Also that of a request which wants no answer.
    Lost,
}

/// Work that was put off.
#[derive(Clone, Debug)]
pub(super) enum Work {
    /// A request arrives only now.
    Serve { conn: ConnId, frame: Frame },
    /// A frame leaves only now.
    Send { conn: ConnId, frame: Bytes },
}

/// An answer that somebody has made up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Canned {
    pub(super) code: ResponseCode,
    pub(super) body: Bytes,
}

impl WriteExt for Canned {
    fn write_ext(&self, _: &mut ExtWriter<'_>) {}
}

impl Answer for Canned {
    fn code(&self) -> ResponseCode {
        self.code
    }

    fn body(&self) -> Bytes {
        self.body.clone()
    }

    fn decode(header: &Header<'_>, body: &Bytes) -> Result<Self, AnswerError> {
        Ok(Self {
            code: ResponseCode(header.code),
            body: body.clone(),
        })
    }
}

/// A refusal: a code, a reason in words, and the fields that a few of them have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: ResponseCode,
    pub(super) remark: String,
    fields: Vec<(&'static str, String)>,
}

/// What forbids a pull (`ForbiddenType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forbidden {
    Group = 2,
    Topic = 3,
    Broadcasting = 4,
}

impl Refusal {
    pub(super) fn new(code: ResponseCode, remark: impl Into<String>) -> Self {
        Self {
            code,
            remark: remark.into(),
            fields: Vec::new(),
        }
    }

    pub(super) fn field(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.fields.push((name, value.into()));
        self
    }

    /// The refusal of a pull that is not allowed.
    pub(super) fn forbidden(by: Forbidden, remark: String) -> Self {
        Self::new(ResponseCode::NO_PERMISSION, remark).field("forbiddenType", format!("{}", by as i32))
    }
}

impl WriteExt for Refusal {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        for (name, value) in &self.fields {
            out.text(name, value);
        }
    }
}

/// Everything on its way out.
#[derive(Clone, Debug)]
pub(super) struct Post {
    out: Outbox<BrokerAction>,
    rules: Rules,
    later: BTreeMap<(Instant, u64), Work>,
    /// How much work may be put off; what comes then is not put off.
    later_max: usize,
    /// Bytes of frames since the event that is being handled came.
    event_bytes: usize,
    event_bytes_max: usize,
    serial: u64,
    opaque: i32,
    closing: Vec<ConnId>,
}

impl Post {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            out: Outbox::new(),
            rules: Rules::default(),
            later: BTreeMap::new(),
            later_max: settings.delayed_max,
            event_bytes: 0,
            event_bytes_max: settings.event_bytes_max,
            serial: 0,
            opaque: 0,
            closing: Vec::new(),
        }
    }

    pub(super) fn poll(&mut self) -> Option<BrokerAction> {
        self.out.pop()
    }

    pub(super) fn add_rule(&mut self, rule: Rule, most: usize) {
        self.rules.add(rule, most);
    }

    pub(super) fn clear_rules(&mut self) {
        self.rules.clear();
    }

    /// What the rules say about a request that has come to `node`.
    pub(super) fn decide(&mut self, node: &PeerAddr, code: RequestCode) -> Effect {
        match self.rules.decide(node, code).cloned() {
            // Work that were put off until now would have to be woken for at once.
            Some(Effect::Delay(delay) | Effect::DelayAnswer(delay)) if delay.as_micros() == 0 => Effect::Pass,
            Some(effect) => effect,
            None => Effect::Pass,
        }
    }

    /// An event begins to be handled.
    pub(super) const fn begin(&mut self) {
        self.event_bytes = 0;
    }

    /// Writes a frame. The caller knows that the connection stands.
    ///
    /// A few bytes of questions are enough for gigabytes of answers, and no driver can stop a client by not
    /// reading from it before the event is over. So the event has a limit, and a frame that would pass it costs
    /// the connection. One frame is always written, however large it is.
    pub(super) fn send(&mut self, conn: ConnId, frame: Bytes) {
        let bytes = self.event_bytes.saturating_add(frame.len());
        if self.event_bytes > 0 && bytes > self.event_bytes_max {
            self.close(conn);
            return;
        }
        self.event_bytes = bytes;
        self.out.push(BrokerAction::Send { conn, frame });
    }

    /// Asks for a connection to be closed, at the end of this step.
    pub(super) fn close(&mut self, conn: ConnId) {
        self.closing.push(conn);
    }

    /// Whether a connection is about to be closed.
    pub(super) fn is_closing(&self, conn: ConnId) -> bool {
        self.closing.contains(&conn)
    }

    /// The connections to close now.
    pub(super) fn take_closing(&mut self) -> Vec<ConnId> {
        mem::take(&mut self.closing)
    }

    /// Says that a connection is closed.
    pub(super) fn closed(&mut self, conn: ConnId) {
        self.out.push(BrokerAction::Close { conn });
    }

    /// Puts work off.
    pub(super) fn put_off(&mut self, at: Instant, work: Work) -> Result<(), Work> {
        if self.later.len() >= self.later_max {
            return Err(work);
        }
        self.serial += 1;
        self.later.insert((at, self.serial), work);
        Ok(())
    }

    /// When the next work that was put off is due.
    pub(super) fn next_work(&self) -> Option<Instant> {
        self.later.keys().next().map(|(at, _)| *at)
    }

    /// Takes work that is due.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Work> {
        let first = self.later.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    /// Answers with a frame that is complete, as the rules have decided.
    pub(super) fn answer_with(&mut self, now: Instant, to: Asker, frame: Bytes) {
        match to.fate {
            Fate::Prompt => self.send(to.conn, frame),
            Fate::Late(delay) => self.send_at(now + delay, to.conn, frame),
            Fate::Lost => {}
        }
    }

    /// Answers.
    pub(super) fn answer<A: Answer>(&mut self, now: Instant, to: Asker, answer: &A) {
        if to.fate != Fate::Lost {
            let frame = request::encode_answer(FORM, to.opaque, answer);
            self.answer_encoded(now, to, frame);
        }
    }

    /// Refuses.
    pub(super) fn refuse(&mut self, now: Instant, to: Asker, refusal: &Refusal) {
        if to.fate != Fate::Lost {
            let command = Command {
                code: refusal.code.0,
                language: Language::Rust,
                version: VERSION,
                opaque: to.opaque,
                flag: FLAG_RESPONSE,
                remark: Some(&refusal.remark),
                ext: refusal,
                body: &[],
            };
            let frame = command.encode(FORM);
            self.answer_encoded(now, to, frame);
        }
    }

    /// Answers with records as they are stored.
    pub(super) fn answer_records(
        &mut self,
        now: Instant,
        to: Asker,
        (code, remark): (ResponseCode, &str),
        ext: &impl WriteExt,
        records: &[&Bytes],
    ) {
        if to.fate == Fate::Lost {
            return;
        }
        let command = Command {
            code: code.0,
            language: Language::Rust,
            version: VERSION,
            opaque: to.opaque,
            flag: FLAG_RESPONSE,
            remark: Some(remark),
            ext,
            body: &[],
        };
        let frame = command.encode_with(FORM, records);
        self.answer_encoded(now, to, frame);
    }

    /// An answer that is larger than a frame can be is a refusal.
    fn answer_encoded(&mut self, now: Instant, to: Asker, frame: Result<Bytes, FrameError>) {
        let too_large = || {
            let code = ResponseCode::SYSTEM_ERROR;
            request::encode_refusal(FORM, to.opaque, code, "the answer is larger than a frame")
        };
        if let Ok(frame) = frame.or_else(|_| too_large()) {
            self.answer_with(now, to, frame);
        }
    }

    /// The number of the next request of a broker.
    pub(super) const fn next_opaque(&mut self) -> i32 {
        self.opaque = self.opaque.wrapping_add(1);
        self.opaque
    }

    /// Passes an answer on to whoever waits for it, as it is.
    pub(super) fn pass_on(&mut self, now: Instant, to: Asker, header: &Header<'_>, body: &[u8]) {
        if to.fate != Fate::Lost {
            let command = Command {
                opaque: to.opaque,
                ..header.to_command(body)
            };
            let frame = command.encode(FORM);
            self.answer_encoded(now, to, frame);
        }
    }

    /// Sends a one-way request of a broker to a client, as the rules decide.
    pub(super) fn tell<R: Request>(&mut self, now: Instant, node: &PeerAddr, conn: ConnId, request: &R) {
        let opaque = self.next_opaque();
        let effect = self.decide(node, request.code());
        self.push(
            now,
            conn,
            effect,
            request::encode_request(FORM, opaque, true, request),
        );
    }

    /// Sends a request of a broker that a client is to answer; its number. What an operator has asked
    /// counts for the rules when it comes in, so only what comes from the broker itself counts here.
    pub(super) fn ask<R: Request>(
        &mut self,
        now: Instant,
        node: &PeerAddr,
        conn: ConnId,
        request: &R,
    ) -> i32 {
        let opaque = self.next_opaque();
        let effect = match request.code() {
            RequestCode::GET_CONSUMER_RUNNING_INFO | RequestCode::CONSUME_MESSAGE_DIRECTLY => Effect::Pass,
            code => self.decide(node, code),
        };
        self.push(
            now,
            conn,
            effect,
            request::encode_request(FORM, opaque, false, request),
        );
        opaque
    }

    fn push(&mut self, now: Instant, conn: ConnId, effect: Effect, frame: Result<Bytes, FrameError>) {
        let Ok(frame) = frame else {
            return;
        };
        match effect {
            Effect::Pass => self.send(conn, frame),
            Effect::Delay(delay) | Effect::DelayAnswer(delay) => self.send_at(now + delay, conn, frame),
            Effect::Twice => {
                self.send(conn, frame.clone());
                self.send(conn, frame);
            }
            Effect::Close => self.close(conn),
            // A client gives no answer that a rule could replace, so none of these arrives.
            Effect::Fail { .. } | Effect::Drop | Effect::LoseAnswer | Effect::Reply { .. } => {}
        }
    }

    fn send_at(&mut self, at: Instant, conn: ConnId, frame: Bytes) {
        if let Err(Work::Send { conn, frame }) = self.put_off(at, Work::Send { conn, frame }) {
            self.send(conn, frame);
        }
    }
}
