//! Writing a frame: the header on the stack first, then everything into one buffer of exactly the frame's size.

use alloc::vec::Vec;

use bytes::Bytes;
use smallvec::SmallVec;

use super::super::fastjson::escape;
use super::super::frame::{FRAME_LEN_MAX, FrameError, HeaderForm, PREAMBLE};
use super::header::Language;

/// Where a header is written: on the stack, unless it is longer than any that consumers and brokers exchange all day.
type Scratch = SmallVec<[u8; 512]>;

/// Something that has ext fields to write: a request, an answer, or the fields of a decoded header.
pub trait WriteExt {
    /// Writes the fields. Called again for a frame whose fields do not fit into the binary form, so it has to write
    /// the same each time.
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
        let mut header = Scratch::new();
        let form = self.write_header(form, &mut header);
        let parts_len = parts.iter().map(|part| part.as_ref().len());
        let body_len = parts_len.fold(self.body.len(), usize::saturating_add);
        let (word, header_word) = lengths(header.len(), body_len)?;
        let mut out = Vec::with_capacity(PREAMBLE + header.len() + body_len);
        out.extend_from_slice(&word.to_be_bytes());
        let [_, high, middle, low] = header_word.to_be_bytes();
        out.extend_from_slice(&[form.to_byte(), high, middle, low]);
        out.extend_from_slice(&header);
        out.extend_from_slice(self.body);
        for part in parts {
            out.extend_from_slice(part.as_ref());
        }
        Ok(out.into())
    }

    /// Writes the header in this form if it fits into it. The form it is written in.
    fn write_header(&self, form: HeaderForm, out: &mut Scratch) -> HeaderForm {
        if form == HeaderForm::Rocketmq && self.write_binary(out) {
            return form;
        }
        out.clear();
        self.write_json(out);
        HeaderForm::Json
    }

    fn write_json(&self, out: &mut Scratch) {
        for (name, value) in [
            ("{\"code\":", self.code),
            (",\"version\":", self.version),
            (",\"opaque\":", self.opaque),
            (",\"flag\":", self.flag),
        ] {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
        }
        out.extend_from_slice(b",\"language\":\"");
        out.extend_from_slice(self.language.name().as_bytes());
        out.push(b'"');
        if let Some(remark) = self.remark.filter(|remark| !remark.is_empty()) {
            out.extend_from_slice(b",\"remark\":\"");
            escaped(out, remark);
            out.push(b'"');
        }
        let mut fields = ExtWriter::new(HeaderForm::Json, out);
        self.ext.write_ext(&mut fields);
        let close: &[u8] = if fields.any { b"}}" } else { b"}" };
        out.extend_from_slice(close);
    }

    /// Whether all of it fits into this form; if not, what is written is of no use.
    fn write_binary(&self, out: &mut Scratch) -> bool {
        let (Ok(code), Ok(version)) = (i16::try_from(self.code), i16::try_from(self.version)) else {
            return false;
        };
        let remark = self.remark.unwrap_or_default();
        out.extend_from_slice(&code.to_be_bytes());
        out.push(self.language.code());
        out.extend_from_slice(&version.to_be_bytes());
        out.extend_from_slice(&self.opaque.to_be_bytes());
        out.extend_from_slice(&self.flag.to_be_bytes());
        out.extend_from_slice(&word(remark.len()));
        out.extend_from_slice(remark.as_bytes());
        let ext_at = out.len() + word(0).len();
        out.extend_from_slice(&word(0));
        let mut fields = ExtWriter::new(HeaderForm::Rocketmq, out);
        self.ext.write_ext(&mut fields);
        let fits = fields.fits;
        let ext_len = word(out.len() - ext_at);
        out[ext_at - ext_len.len()..ext_at].copy_from_slice(&ext_len);
        fits
    }
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
    out: &'a mut Scratch,
    /// A field has been written.
    any: bool,
    /// Everything so far fits into the binary form.
    fits: bool,
}

impl<'a> ExtWriter<'a> {
    const fn new(form: HeaderForm, out: &'a mut Scratch) -> Self {
        Self {
            form,
            out,
            any: false,
            fits: true,
        }
    }

    /// Writes a text field. An empty one exists in the JSON form only: in the other it would be
    /// Java's `null`.
    pub fn text(&mut self, name: &str, value: &str) {
        self.field(name, value, escaped);
    }

    /// Writes a field; `json` writes its value between the quotes of the JSON form.
    fn field(&mut self, name: &str, value: &str, json: impl Fn(&mut Scratch, &str)) {
        match self.form {
            HeaderForm::Json => {
                let before: &[u8] = if self.any { b",\"" } else { b",\"extFields\":{\"" };
                self.out.extend_from_slice(before);
                escaped(self.out, name);
                self.out.extend_from_slice(b"\":\"");
                json(self.out, value);
                self.out.push(b'"');
            }
            HeaderForm::Rocketmq if value.is_empty() || name.is_empty() => {}
            HeaderForm::Rocketmq => {
                let name_len = i16::try_from(name.len());
                self.fits &= name_len.is_ok();
                self.out
                    .extend_from_slice(&name_len.unwrap_or_default().to_be_bytes());
                self.out.extend_from_slice(name.as_bytes());
                self.out.extend_from_slice(&word(value.len()));
                self.out.extend_from_slice(value.as_bytes());
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
        self.field(name, itoa::Buffer::new().format(value.into()), plain);
    }

    /// Writes an integer field if there is a value.
    pub fn opt_int(&mut self, name: &str, value: Option<impl Into<i64>>) {
        if let Some(value) = value {
            self.int(name, value);
        }
    }

    /// Writes a truth value.
    pub fn bool(&mut self, name: &str, value: bool) {
        self.field(name, if value { "true" } else { "false" }, plain);
    }

    /// Writes a truth value if there is one.
    pub fn opt_bool(&mut self, name: &str, value: Option<bool>) {
        if let Some(value) = value {
            self.bool(name, value);
        }
    }
}

/// Text as it stands between the quotes of a JSON string.
fn escaped(out: &mut Scratch, text: &str) {
    escape(text, |part| out.extend_from_slice(part.as_bytes()));
}

/// Text that has nothing to be escaped.
fn plain(out: &mut Scratch, text: &str) {
    out.extend_from_slice(text.as_bytes());
}
