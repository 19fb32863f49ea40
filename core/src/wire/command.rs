//! The header of a frame, in both of its forms, and the frame that is written around one.
//!
//! Reading: [`Header::decode`] borrows from the frame; a typical answer is decoded without an
//! allocation. Writing: a [`Command`] writes its header on the stack and then fills one buffer of exactly the
//! size of the frame.
//! A header that was read can be written again with more fields ([`Header::to_command`]), which is how
//! a signature, the last step before sending, gets into a finished frame.
//!
//! Never decided here: what a code means, and which answer belongs to which request.
//= rocketmq: RemotingCommand, RemotingSerializable, RocketMQSerializable

mod binary;
mod error;
mod ext;
mod header;
mod json;
mod writer;

pub use error::HeaderError;
pub use ext::{EXT_FIELDS_MAX, ExtFields, FieldError, FieldFault};
pub use header::{FLAG_ONEWAY, FLAG_RESPONSE, Header, Language, VERSION, VERSION_NAME};
pub use writer::{Command, ExtWriter, WriteExt};

use super::frame::{Frame, HeaderForm};

impl<'a> Header<'a> {
    /// Reads a header written in `form`, borrowing from its bytes where it can.
    ///
    /// A JSON header may use fastjson's dialect and give numbers as text; an absent member is what
    /// Java makes of it: zero, or the language `JAVA`.
    ///
    /// # Errors
    ///
    /// [`HeaderError`] for whatever a Java peer would close the connection for, and for a little
    /// more; do the same.
    pub fn decode(form: HeaderForm, bytes: &'a [u8]) -> Result<Self, HeaderError> {
        match form {
            HeaderForm::Json => json::decode(bytes),
            HeaderForm::Rocketmq => binary::decode(bytes),
        }
    }

    /// Reads the header of a frame.
    ///
    /// # Errors
    ///
    /// As [`Header::decode`].
    pub fn of(frame: &'a Frame) -> Result<Self, HeaderError> {
        Self::decode(frame.form, &frame.header)
    }

    /// The command that says the same, to be written with `body`.
    #[must_use]
    pub fn to_command<'c>(&'c self, body: &'c [u8]) -> Command<'c, ExtFields<'a>> {
        Command {
            code: self.code,
            language: self.language.unwrap_or(Language::Other),
            version: self.version,
            opaque: self.opaque,
            flag: self.flag,
            remark: self.remark.as_deref(),
            ext: &self.ext,
            body,
        }
    }
}

#[cfg(test)]
mod tests;
