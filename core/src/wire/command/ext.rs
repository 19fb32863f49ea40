//! The ext fields of a header: the parameters of a request, the results of an answer. All values are
//! text on the wire; the accessors turn them into types and say which field was wrong.

use alloc::borrow::Cow;
use core::str::FromStr;

use smallvec::SmallVec;

use super::error::HeaderError;
use super::writer::{ExtWriter, WriteExt};

/// How many ext fields a header may have. The largest known request has about 20.
pub const EXT_FIELDS_MAX: usize = 128;

type Field<'a> = (Cow<'a, str>, Cow<'a, str>);

/// The ext fields of one header, in the order they came in. Names are unique: the last one counts,
/// as in Java's map.
///
/// A field whose value is `null` in Java is absent here. Twelve fields, more than any answer on the
/// way of a message has, are kept without an allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtFields<'a> {
    fields: SmallVec<[Field<'a>; 12]>,
}

impl<'a> ExtFields<'a> {
    /// No fields.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a field, replacing an earlier one of the same name.
    ///
    /// # Errors
    ///
    /// [`HeaderError::TooManyFields`] beyond [`EXT_FIELDS_MAX`].
    pub fn set(
        &mut self,
        name: impl Into<Cow<'a, str>>,
        value: impl Into<Cow<'a, str>>,
    ) -> Result<(), HeaderError> {
        let (name, value) = (name.into(), value.into());
        if let Some((_, old)) = self.fields.iter_mut().find(|(known, _)| *known == name) {
            *old = value;
        } else if self.fields.len() < EXT_FIELDS_MAX {
            self.fields.push((name, value));
        } else {
            return Err(HeaderError::TooManyFields {
                limit: EXT_FIELDS_MAX,
            });
        }
        Ok(())
    }

    /// Sets a field of a name that is not there yet.
    ///
    /// # Errors
    ///
    /// As [`ExtFields::set`].
    pub(super) fn push(&mut self, name: &'a str, value: &'a str) -> Result<(), HeaderError> {
        if self.fields.len() >= EXT_FIELDS_MAX {
            return Err(HeaderError::TooManyFields {
                limit: EXT_FIELDS_MAX,
            });
        }
        self.fields.push((name.into(), value.into()));
        Ok(())
    }

    /// Removes all fields.
    pub(super) fn clear(&mut self) {
        self.fields.clear();
    }

    /// Removes a field, if it is there.
    pub(super) fn remove(&mut self, name: &str) {
        self.fields.retain(|(known, _)| *known != name);
    }

    /// How many fields there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether there is no field.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// All fields, name and value.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.fields.iter().map(|(name, value)| (&**name, &**value))
    }

    /// The text of a field, if it is there.
    #[must_use]
    pub fn get(&self, field: &str) -> Option<&str> {
        self.iter()
            .find(|(name, _)| *name == field)
            .map(|(_, value)| value)
    }

    /// A field as an integer, if it is there.
    ///
    /// # Errors
    ///
    /// [`FieldError`] when it is something else, or does not fit into 32 bits.
    pub fn get_i32(&self, field: &'static str) -> Result<Option<i32>, FieldError> {
        self.number(field)
    }

    /// A field as a long integer, if it is there.
    ///
    /// # Errors
    ///
    /// [`FieldError`] when it is something else, or does not fit into 64 bits.
    pub fn get_i64(&self, field: &'static str) -> Result<Option<i64>, FieldError> {
        self.number(field)
    }

    /// A field as a truth value, if it is there. As in Java, whatever is not `true` in any case is
    /// false.
    #[must_use]
    pub fn get_bool(&self, field: &str) -> Option<bool> {
        self.get(field).map(|value| value.eq_ignore_ascii_case("true"))
    }

    /// The text of a field that has to be there.
    ///
    /// # Errors
    ///
    /// [`FieldError`] when it is not.
    pub fn require(&self, field: &'static str) -> Result<&str, FieldError> {
        self.get(field).ok_or(FieldError::missing(field))
    }

    /// A field that has to be there, as an integer.
    ///
    /// # Errors
    ///
    /// [`FieldError`] when it is missing, something else, or does not fit into 32 bits.
    pub fn require_i32(&self, field: &'static str) -> Result<i32, FieldError> {
        self.get_i32(field)?.ok_or(FieldError::missing(field))
    }

    /// A field that has to be there, as a long integer.
    ///
    /// # Errors
    ///
    /// [`FieldError`] when it is missing, something else, or does not fit into 64 bits.
    pub fn require_i64(&self, field: &'static str) -> Result<i64, FieldError> {
        self.get_i64(field)?.ok_or(FieldError::missing(field))
    }

    fn number<T: FromStr>(&self, field: &'static str) -> Result<Option<T>, FieldError> {
        self.get(field)
            .map(|text| {
                text.parse()
                    .map_err(|_| FieldError::new(field, FieldFault::NotANumber))
            })
            .transpose()
    }
}

impl WriteExt for ExtFields<'_> {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        for (name, value) in self.iter() {
            out.text(name, value);
        }
    }
}

/// An ext field that cannot be used. It spoils this request or answer, not the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("field {field} {why}")]
pub struct FieldError {
    /// The field's name on the wire.
    pub field: &'static str,
    /// What is wrong with it.
    pub why: FieldFault,
}

impl FieldError {
    /// A fault of a field.
    #[must_use]
    pub const fn new(field: &'static str, why: FieldFault) -> Self {
        Self { field, why }
    }

    /// The fault of not being there.
    #[must_use]
    pub const fn missing(field: &'static str) -> Self {
        Self::new(field, FieldFault::Missing)
    }
}

/// What can be wrong with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FieldFault {
    /// It has to be there and is not.
    #[error("is missing")]
    Missing,
    /// It is not a number, or not one of the width the field has.
    #[error("is not a number of the right size")]
    NotANumber,
    /// It is a number that makes no sense here, such as a negative offset.
    #[error("is out of range")]
    OutOfRange,
    /// It is a name nobody has defined.
    #[error("is not a known name")]
    Unknown,
}
