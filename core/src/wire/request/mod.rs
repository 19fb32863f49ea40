//! Requests and their answers, one file per concern. Each type names its code, writes itself and
//! reads itself back, whichever side it is on: a consumer writes what a broker reads and the reverse.
//!
//! Unknown fields are ignored, absent optional ones are `None`, and what a peer may not say is a
//! [`Malformed`] of that one request or answer. A request keeps numbers as the peer sent them, since it
//! is for a broker to judge an offset or queue id; in an answer Java's −1 is `None` and anything below
//! it an error.
//!
//! Not here yet: pop and assignment.

pub mod check;
pub mod cluster;
pub mod find;
pub mod groups;
pub mod heartbeat;
pub mod locks;
pub mod members;
mod number;
pub mod offsets;
pub mod operator;
pub mod pull;
mod queue_table;
pub mod reset;
pub mod route;
pub mod running_info;
pub mod send;
pub mod send_back;
pub mod stats;
pub mod topics;

#[cfg(test)]
mod tests;

use alloc::string::String;
use core::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize};

use super::code::{RequestCode, ResponseCode};
use super::command::{
    Command, ExtFields, ExtWriter, FLAG_ONEWAY, FLAG_RESPONSE, FieldError, FieldFault, Header, HeaderError,
    Language, VERSION, WriteExt,
};
use super::fastjson::{BodyError, to_json};
use super::frame::{Frame, FrameError, HeaderForm};
use crate::ids::QueueOffset;

/// What one side asks of the other. Its ext fields are those of [`WriteExt`].
pub trait Request: WriteExt + Sized {
    /// The code it is usually sent with.
    const CODE: RequestCode;

    /// What comes back.
    type Answer: Answer;

    /// The code of this request; some have a second form with a code of its own.
    fn code(&self) -> RequestCode {
        Self::CODE
    }

    /// The body, empty for most.
    fn body(&self) -> Bytes {
        Bytes::new()
    }

    /// Reads the request.
    ///
    /// # Errors
    ///
    /// [`Malformed`] when a field it cannot do without is missing or not usable.
    fn decode(ext: &ExtFields<'_>, body: &Bytes) -> Result<Self, Malformed>;
}

/// What comes back when a request was understood.
pub trait Answer: WriteExt + Sized {
    /// The code that says it.
    fn code(&self) -> ResponseCode {
        ResponseCode::SUCCESS
    }

    /// The body, empty for most.
    fn body(&self) -> Bytes {
        Bytes::new()
    }

    /// What it says in words, where they mean something.
    fn remark(&self) -> Option<&str> {
        None
    }

    /// Reads the answer.
    ///
    /// # Errors
    ///
    /// [`AnswerError::Refused`] for a code that is none of this answer's,
    /// [`AnswerError::Malformed`] when it lacks what it has to say.
    fn decode(header: &Header<'_>, body: &Bytes) -> Result<Self, AnswerError>;
}

/// The answer to a request that returns nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done;

impl WriteExt for Done {
    fn write_ext(&self, _: &mut ExtWriter<'_>) {}
}

impl Answer for Done {
    fn decode(header: &Header<'_>, _: &Bytes) -> Result<Self, AnswerError> {
        expect_success(header).map(|()| Self)
    }
}

/// Writes the frame of a request, unsigned. `oneway` asks the peer not to answer.
///
/// # Errors
///
/// [`FrameError`] when the request is larger than a frame may be.
pub fn encode_request<R: Request>(
    form: HeaderForm,
    opaque: i32,
    oneway: bool,
    request: &R,
) -> Result<Bytes, FrameError> {
    let flag = if oneway { FLAG_ONEWAY } else { 0 };
    command(request.code().0, opaque, flag, None, request, &request.body()).encode(form)
}

/// Writes the frame of an answer to the request that carried `opaque`.
///
/// # Errors
///
/// [`FrameError`] when the answer is larger than a frame may be.
pub fn encode_answer<A: Answer>(form: HeaderForm, opaque: i32, answer: &A) -> Result<Bytes, FrameError> {
    let code = answer.code().0;
    command(
        code,
        opaque,
        FLAG_RESPONSE,
        answer.remark(),
        answer,
        &answer.body(),
    )
    .encode(form)
}

/// Writes the frame of a refusal of the request that carried `opaque`. `remark` tells people why.
///
/// # Errors
///
/// [`FrameError`] when the remark is larger than a frame may be.
pub fn encode_refusal(
    form: HeaderForm,
    opaque: i32,
    code: ResponseCode,
    remark: &str,
) -> Result<Bytes, FrameError> {
    command(code.0, opaque, FLAG_RESPONSE, Some(remark), &(), &[]).encode(form)
}

const fn command<'a, E: WriteExt>(
    code: i32,
    opaque: i32,
    flag: i32,
    remark: Option<&'a str>,
    ext: &'a E,
    body: &'a [u8],
) -> Command<'a, E> {
    Command {
        code,
        language: Language::Rust,
        version: VERSION,
        opaque,
        flag,
        remark,
        ext,
        body,
    }
}

/// Reads a frame as a request of one kind; its code has already told which.
///
/// # Errors
///
/// [`Malformed`]; only [`Malformed::Header`] is a reason to close the connection.
pub fn decode_request<R: Request>(frame: &Frame) -> Result<R, Malformed> {
    R::decode(&Header::of(frame)?.ext, &frame.body)
}

/// Reads a frame as the answer to a request of one kind.
///
/// # Errors
///
/// As [`Answer::decode`]; only a malformed header is a reason to close the connection.
pub fn decode_answer<R: Request>(frame: &Frame) -> Result<R::Answer, AnswerError> {
    let header = Header::of(frame).map_err(Malformed::from)?;
    R::Answer::decode(&header, &frame.body)
}

/// Why there is no answer although one came.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// The peer does not do it.
    #[error("refused with {code}: {remark}")]
    Refused {
        /// Its reason.
        code: ResponseCode,
        /// Its reason in words, empty when it gives none.
        remark: String,
    },
    /// The answer lacks what it has to say.
    #[error("the answer makes no sense: {0}")]
    Malformed(#[from] Malformed),
}

impl AnswerError {
    /// The refusal an answer consists of.
    fn refused(header: &Header<'_>) -> Self {
        Self::Refused {
            code: ResponseCode(header.code),
            remark: header.remark.as_deref().unwrap_or_default().into(),
        }
    }
}

impl From<FieldError> for AnswerError {
    fn from(error: FieldError) -> Self {
        Self::Malformed(error.into())
    }
}

impl From<BodyError> for AnswerError {
    fn from(error: BodyError) -> Self {
        Self::Malformed(error.into())
    }
}

/// What is wrong with a request or an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// The header cannot be read at all.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// A field is missing or not usable.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// The body is not usable.
    #[error(transparent)]
    Body(#[from] BodyError),
}

fn expect_success(header: &Header<'_>) -> Result<(), AnswerError> {
    if header.code == ResponseCode::SUCCESS.0 {
        Ok(())
    } else {
        Err(AnswerError::refused(header))
    }
}

/// An offset in an answer: −1 is none, anything below makes no sense.
fn offset(ext: &ExtFields<'_>, field: &'static str) -> Result<Option<QueueOffset>, FieldError> {
    match ext.get_i64(field)? {
        None | Some(-1) => Ok(None),
        Some(value @ 0..) => Ok(Some(QueueOffset(value))),
        Some(_) => Err(FieldError::new(field, FieldFault::OutOfRange)),
    }
}

/// An offset an answer cannot do without.
fn require_offset(ext: &ExtFields<'_>, field: &'static str) -> Result<QueueOffset, FieldError> {
    ext.require(field)?;
    offset(ext, field)?.ok_or(FieldError::new(field, FieldFault::OutOfRange))
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn json_body<T: Serialize>(value: &T) -> Bytes {
    to_json(value).into()
}

/// Makes a type an answer whose body is its JSON and which has no fields.
macro_rules! json_answer {
    ($type:ident) => {
        impl $crate::wire::command::WriteExt for $type {
            fn write_ext(&self, _: &mut $crate::wire::command::ExtWriter<'_>) {}
        }

        impl $crate::wire::request::Answer for $type {
            fn body(&self) -> bytes::Bytes {
                $crate::wire::request::json_body(self)
            }

            fn decode(
                header: &$crate::wire::command::Header<'_>,
                body: &bytes::Bytes,
            ) -> Result<Self, $crate::wire::request::AnswerError> {
                $crate::wire::request::expect_success(header)?;
                Ok($crate::wire::fastjson::from_slice(body)?)
            }
        }
    };
}
use json_answer;

/// An enum whose values are names on the wire.
trait WireName: Sized {
    fn from_name(name: &str) -> Option<Self>;
}

/// Reads such a name; one that nobody has defined is none, as in Java.
fn known_name<'de, D: Deserializer<'de>, T: WireName>(from: D) -> Result<Option<T>, D::Error> {
    let name = Option::<String>::deserialize(from)?;
    Ok(name.and_then(|name| T::from_name(&name)))
}

/// Defines an enum whose values are names on the wire.
macro_rules! wire_names {
    ($(#[$doc:meta])* $type:ident { $($(#[$why:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $type {
            $($(#[$why])* $variant,)*
        }

        impl $type {
            /// The name on the wire.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// What a name on the wire stands for, if anything.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }

        impl super::WireName for $type {
            fn from_name(name: &str) -> Option<Self> {
                Self::from_name(name)
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }
    };
}
use wire_names;
