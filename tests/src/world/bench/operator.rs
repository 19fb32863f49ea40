//! Brokers that ask something of the machine on the bench, for themselves or for an operator.

use rocketmq_consumer_core::wire::command::Header;
use rocketmq_consumer_core::wire::frame::{FRAME_LEN_MAX, Frame, HeaderForm};
use rocketmq_consumer_core::wire::request::{AnswerError, Request, decode_answer, encode_request};

use super::{Bench, Bytes, address};

impl Bench {
    /// A broker asks the member something. The number of the question tells its answer from others.
    ///
    /// # Panics
    /// When no connection to the broker stands.
    pub fn ask_member<R: Request>(&mut self, broker: &str, request: &R) -> i32 {
        self.asked_of_member += 1;
        let opaque = self.asked_of_member;
        let frame = encode_request(HeaderForm::Json, opaque, false, request).expect("a small request");
        let conn = self.conn_to(&address(broker));
        self.receive(conn, frame);
        opaque
    }

    /// The same without waiting for an answer.
    ///
    /// # Panics
    /// When no connection to the broker stands.
    pub fn tell_member<R: Request>(&mut self, broker: &str, request: &R) {
        let frame = encode_request(HeaderForm::Json, 0, true, request).expect("a small request");
        let conn = self.conn_to(&address(broker));
        self.receive(conn, frame);
    }

    /// Takes the answer to a question, if it has come.
    pub fn take_answer<R: Request>(&mut self, opaque: i32) -> Option<Result<R::Answer, AnswerError>> {
        let number = |frame: &Frame| Header::of(frame).map(|header| header.opaque);
        let index = self
            .answers
            .iter()
            .position(|frame| number(frame) == Ok(opaque))?;
        Some(decode_answer::<R>(&self.answers.remove(index)))
    }

    /// Answers that nobody has taken yet.
    #[must_use]
    pub const fn answers(&self) -> usize {
        self.answers.len()
    }

    /// Keeps what is no request, but an answer.
    pub(super) fn note_answer(&mut self, bytes: Bytes) {
        let frame = Frame::parse(bytes, FRAME_LEN_MAX).expect("a machine sends whole frames");
        self.answers.push(frame);
    }
}
