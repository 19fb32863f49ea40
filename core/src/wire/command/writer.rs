//! Writing a frame: measured first, then filled into one buffer of exactly that size.

use alloc::vec::Vec;

use bytes::Bytes;

use super::super::fastjson::escape;
use super::super::frame::{FRAME_LEN_MAX, FrameError, HeaderForm, PREAMBLE};
use super::header::Language;

/// Bytes of a binary header without remark and ext fields.
const BINARY_LEN: usize = 21;

/// Something that has ext fields to write: a request, an answer, or the fields of a decoded header.
pub trait WriteExt {
    /// Writes the fields. Called more than once for a frame, so it has to write the same each time.
    fn write_ext(&self, out: &mut ExtWriter<'_>);
}

/// No fields.
impl WriteExt for () {
    fn write_ext(&self, _: &mut ExtWriter<'_>) {}
}

/// The fields of both, for what is added to a finished request. A name that both write must not occur.
impl<A: WriteExt + ?Sized, B: WriteExt + ?Sized> WriteExt for (&A, &B) {
    fn write_ext(&self, out: &mut ExtWriter<'_>) {
        self.0.write_ext(out);
        self.1.write_ext(out);
    }
}

/// A frame to be written.
#[derive(Debug)]
pub struct Command<'a, E: ?Sized> {
    /// A request or response code.
    pub code: i32,
    /// The language we state.
    pub language: Language,
    /// The version we state.
    pub version: i32,
    /// The request's number.
    pub opaque: i32,
    /// [`FLAG_RESPONSE`](super::FLAG_RESPONSE) and [`FLAG_ONEWAY`](super::FLAG_ONEWAY).
    pub flag: i32,
    /// Text for people; an empty one is not written.
    pub remark: Option<&'a str>,
    /// The ext fields.
    pub ext: &'a E,
    /// The body.
    pub body: &'a [u8],
}

impl<E: WriteExt + ?Sized> Command<'_, E> {
    /// The complete frame, length word included, in one allocation of its exact size.
    ///
    /// What the binary form cannot carry, such as a code of more than 16 bits, is written in JSON: the
    /// form is chosen for each frame, and every peer reads both.
    ///
    /// # Errors
    ///
    /// [`FrameError::Length`] for a frame that no peer would take.
    pub fn encode(&self, form: HeaderForm) -> Result<Bytes, FrameError> {
        self.encode_with::<&[u8]>(form, &[])
    }

    /// The same with further parts behind the body, each copied once: for an answer that consists of many
    /// records.
    ///
    /// # Errors
    ///
    /// As [`Command::encode`].
    pub fn encode_with<P: AsRef<[u8]>>(&self, form: HeaderForm, parts: &[P]) -> Result<Bytes, FrameError> {
        let binary = match form {
            HeaderForm::Json => None,
            HeaderForm::Rocketmq => self.measure_binary(),
        };
        let (form, header_len) = match binary {
            Some(ext_len) => (
                HeaderForm::Rocketmq,
                BINARY_LEN + self.remark.map_or(0, str::len) + ext_len,
            ),
            None => (HeaderForm::Json, self.measure_json()),
        };
        let parts_len = parts.iter().map(|part| part.as_ref().len());
        let body_len = parts_len.fold(self.body.len(), usize::saturating_add);
        let (word, header_word) = lengths(header_len, body_len)?;
        let mut out = Vec::with_capacity(PREAMBLE + header_len + body_len);
        out.extend_from_slice(&word.to_be_bytes());
        let [_, high, middle, low] = header_word.to_be_bytes();
        out.extend_from_slice(&[form.to_byte(), high, middle, low]);
        match binary {
            Some(ext_len) => self.fill_binary(&mut out, ext_len),
            None => self.write_json(Out::Bytes(&mut out)),
        }
        debug_assert_eq!(out.len(), PREAMBLE + header_len, "measured and written alike");
        out.extend_from_slice(self.body);
        for part in parts {
            out.extend_from_slice(part.as_ref());
        }
        Ok(out.into())
    }

    fn measure_json(&self) -> usize {
        let mut len = 0;
        self.write_json(Out::Count(&mut len));
        len
    }

    fn write_json(&self, mut out: Out<'_>) {
        for (name, value) in [
            ("{\"code\":", self.code),
            (",\"version\":", self.version),
            (",\"opaque\":", self.opaque),
            (",\"flag\":", self.flag),
        ] {
            out.put(name.as_bytes());
            out.put(itoa::Buffer::new().format(value).as_bytes());
        }
        out.put(b",\"language\":\"");
        out.put(self.language.name().as_bytes());
        out.put(b"\"");
        if let Some(remark) = self.remark.filter(|remark| !remark.is_empty()) {
            out.put(b",\"remark\":");
            out.json_text(remark);
        }
        let mut fields = ExtWriter {
            form: HeaderForm::Json,
            out,
            any: false,
            fits: true,
        };
        self.ext.write_ext(&mut fields);
        let close: &[u8] = if fields.any { b"}}" } else { b"}" };
        fields.out.put(close);
    }

    /// The length of the ext fields in binary form; `None` when something does not fit into it.
    fn measure_binary(&self) -> Option<usize> {
        let numbers_fit = i16::try_from(self.code).is_ok() && i16::try_from(self.version).is_ok();
        let mut len = 0;
        let mut fields = ExtWriter {
            form: HeaderForm::Rocketmq,
            out: Out::Count(&mut len),
            any: false,
            fits: numbers_fit,
        };
        self.ext.write_ext(&mut fields);
        fields.fits.then_some(len)
    }

    /// Only after [`Command::measure_binary`] has found that all numbers fit.
    fn fill_binary(&self, out: &mut Vec<u8>, ext_len: usize) {
        let mut out = Out::Bytes(out);
        let remark = self.remark.unwrap_or_default();
        out.put(&short(self.code));
        out.put(&[self.language.code()]);
        out.put(&short(self.version));
        out.put(&self.opaque.to_be_bytes());
        out.put(&self.flag.to_be_bytes());
        out.put(&word(remark.len()));
        out.put(remark.as_bytes());
        out.put(&word(ext_len));
        self.ext.write_ext(&mut ExtWriter {
            form: HeaderForm::Rocketmq,
            out,
            any: false,
            fits: true,
        });
    }
}

fn short(value: i32) -> [u8; 2] {
    let [_, _, high, low] = value.to_be_bytes();
    [high, low]
}

/// A length that [`lengths`] has already bounded.
fn word(len: usize) -> [u8; 4] {
    u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes()
}

/// The length words of a frame and its header. The limit of a frame is below what the 24 bits of a
/// header's length can say, so one check does for both.
fn lengths(header_len: usize, body_len: usize) -> Result<(u32, u32), FrameError> {
    let whole = header_len
        .checked_add(body_len)
        .and_then(|len| u32::try_from(len).ok())
        .and_then(|len| len.checked_add(4))
        .filter(|&len| len <= FRAME_LEN_MAX)
        .ok_or(FrameError::Length {
            len: i32::try_from(header_len.saturating_add(body_len)).unwrap_or(i32::MAX),
            limit: FRAME_LEN_MAX,
            looks_like: None,
        })?;
    Ok((whole, u32::try_from(header_len).unwrap_or(u32::MAX)))
}

/// Takes the ext fields of a frame that is being written.
#[derive(Debug)]
pub struct ExtWriter<'a> {
    form: HeaderForm,
    out: Out<'a>,
    /// A field has been written.
    any: bool,
    /// Everything so far fits into the binary form.
    fits: bool,
}

impl ExtWriter<'_> {
    /// Writes a text field. An empty one exists in the JSON form only: in the other it would be
    /// Java's `null`.
    pub fn text(&mut self, name: &str, value: &str) {
        match self.form {
            HeaderForm::Json => {
                let before: &[u8] = if self.any { b"," } else { b",\"extFields\":{" };
                self.out.put(before);
                self.out.json_text(name);
                self.out.put(b":");
                self.out.json_text(value);
            }
            HeaderForm::Rocketmq if value.is_empty() || name.is_empty() => {}
            HeaderForm::Rocketmq => {
                let name_len = i16::try_from(name.len());
                self.fits &= name_len.is_ok();
                self.out.put(&name_len.unwrap_or_default().to_be_bytes());
                self.out.put(name.as_bytes());
                self.out.put(&word(value.len()));
                self.out.put(value.as_bytes());
            }
        }
        self.any = true;
    }

    /// Writes a text field if there is a value.
    pub fn opt_text(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.text(name, value);
        }
    }

    /// Writes an integer field.
    pub fn int(&mut self, name: &str, value: impl Into<i64>) {
        self.text(name, itoa::Buffer::new().format(value.into()));
    }

    /// Writes an integer field if there is a value.
    pub fn opt_int(&mut self, name: &str, value: Option<impl Into<i64>>) {
        if let Some(value) = value {
            self.int(name, value);
        }
    }

    /// Writes a truth value.
    pub fn bool(&mut self, name: &str, value: bool) {
        self.text(name, if value { "true" } else { "false" });
    }

    /// Writes a truth value if there is one.
    pub fn opt_bool(&mut self, name: &str, value: Option<bool>) {
        if let Some(value) = value {
            self.bool(name, value);
        }
    }
}

/// Where writing goes: first only its length, then its bytes.
#[derive(Debug)]
enum Out<'a> {
    Count(&'a mut usize),
    Bytes(&'a mut Vec<u8>),
}

impl Out<'_> {
    fn put(&mut self, bytes: &[u8]) {
        match self {
            Self::Count(len) => **len += bytes.len(),
            Self::Bytes(out) => out.extend_from_slice(bytes),
        }
    }

    fn json_text(&mut self, text: &str) {
        self.put(b"\"");
        escape(text, |part| self.put(part.as_bytes()));
        self.put(b"\"");
    }
}
