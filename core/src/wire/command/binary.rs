//! The binary form of a header.
//!
//! ```text
//! i16 code | u8 language | i16 version | i32 opaque | i32 flag | i32 n, remark | i32 n, ext fields
//! an ext field: i16 n, name | i32 n, value
//! ```
//!
//! Text of length 0 is Java's `null`. Unlike Java's reader this one never reads past the header, so
//! padding is refused instead of becoming the beginning of the body.

use alloc::borrow::Cow;
use alloc::string::String;

use super::error::HeaderError;
use super::ext::ExtFields;
use super::header::{Header, Language};

pub(super) fn decode(bytes: &[u8]) -> Result<Header<'_>, HeaderError> {
    let mut cursor = Cursor { bytes, at: 0 };
    let code = cursor.i16()?;
    let [language] = cursor.array()?;
    let version = cursor.i16()?;
    let opaque = cursor.i32()?;
    let flag = cursor.i32()?;
    let remark_len = cursor.i32()?;
    let remark = cursor.text(remark_len)?;
    let ext_len = cursor.i32()?;
    // Java takes a negative length for "none"; only text must not have one.
    let mut block = cursor.part(ext_len.max(0))?;
    if cursor.at < bytes.len() {
        return Err(HeaderError::Extra {
            extra: bytes.len() - cursor.at,
        });
    }
    let mut ext = ExtFields::new();
    while block.at < block.bytes.len() {
        let name_len = block.i16()?;
        let name = block.text(name_len.into())?;
        let value_len = block.i32()?;
        let value = block.text(value_len)?;
        match (name, value) {
            (Some(name), Some(value)) => ext.set(name, value)?,
            (Some(name), None) => ext.remove(&name),
            (None, _) => {}
        }
    }
    Ok(Header {
        code: code.into(),
        language: Language::from_code(language),
        version: version.into(),
        opaque,
        flag,
        remark,
        ext,
    })
}

/// Reads forward; `at` counts from the beginning of the header, in a part of it too.
struct Cursor<'a> {
    /// The header up to the end of the part.
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], HeaderError> {
        let bytes = self.bytes.get(self.at..).and_then(<[u8]>::first_chunk);
        let array = bytes.copied().ok_or(HeaderError::Length { at: self.at })?;
        self.at += N;
        Ok(array)
    }

    fn i16(&mut self) -> Result<i16, HeaderError> {
        self.array().map(i16::from_be_bytes)
    }

    fn i32(&mut self) -> Result<i32, HeaderError> {
        self.array().map(i32::from_be_bytes)
    }

    /// The next `len` bytes, which have to be there.
    fn part(&mut self, len: i32) -> Result<Self, HeaderError> {
        let at = self.at;
        let part = usize::try_from(len)
            .ok()
            .and_then(|len| at.checked_add(len))
            .and_then(|end| self.bytes.get(..end))
            .ok_or(HeaderError::Length { at })?;
        self.at = part.len();
        Ok(Self { bytes: part, at })
    }

    fn text(&mut self, len: i32) -> Result<Option<Cow<'a, str>>, HeaderError> {
        let part = self.part(len)?;
        let bytes = &part.bytes[part.at..];
        Ok((!bytes.is_empty()).then(|| String::from_utf8_lossy(bytes)))
    }
}
