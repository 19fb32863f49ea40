//! Why a header cannot be read.

use super::super::fastjson::SyntaxError;

/// Why a header cannot be used. A peer that writes one is not one we understand, so the connection
/// is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// A JSON header that is not JSON, nor fastjson's dialect of it.
    #[error("header is not JSON: {0}")]
    Syntax(#[from] SyntaxError),
    /// A JSON header that is another value than an object.
    #[error("header is not a JSON object")]
    NotAnObject,
    /// A member of a JSON header is of a type, or outside the range, that can be understood.
    #[error("header member {member} is not usable")]
    Member {
        /// Its name.
        member: &'static str,
    },
    /// A length in a binary header is negative or exceeds what is left of the header, or the header
    /// ends too early.
    #[error("binary header is cut short or has a wrong length at byte {at}")]
    Length {
        /// Where, in bytes from the beginning of the header.
        at: usize,
    },
    /// Bytes are left over in a binary header.
    #[error("binary header has {extra} bytes too many")]
    Extra {
        /// How many.
        extra: usize,
    },
    /// More ext fields than anyone would send.
    #[error("header has more than {limit} ext fields")]
    TooManyFields {
        /// How many are allowed.
        limit: usize,
    },
}
