//! Frames of the remoting protocol, one behind the other as on a connection.

use std::collections::BTreeMap;

use bytes::Bytes;
use rocketmq_consumer_core::wire::command::Header;
use rocketmq_consumer_core::wire::frame::{FRAME_LEN_MAX, Frame, HeaderForm, frame_size};
use serde::Serialize;

use super::Undecodable;
use crate::exit::Failure;
use crate::output::{Lines, base64};

/// Writes a line for each frame and counts those that cannot be decoded. A header that cannot be read
/// spoils its own frame; a length that cannot be used ends the walk, because nobody knows where the
/// next frame begins.
pub(super) fn decode(bytes: &Bytes, lines: &mut Lines) -> Result<u64, Failure> {
    let mut undecodable = 0;
    let mut at = 0;
    while at < bytes.len() {
        let rest = bytes.slice(at..);
        let (line, size) = match cut(&rest) {
            Ok(whole) => (Line::of(&whole, at), whole.len()),
            Err(reason) => (Line::bad(reason, at), rest.len()),
        };
        undecodable += u64::from(matches!(line, Line::Undecodable(_)));
        line.write(lines)?;
        at += size;
    }
    Ok(undecodable)
}

/// The first frame of the bytes, or why there is none.
fn cut(rest: &Bytes) -> Result<Bytes, String> {
    match frame_size(rest, FRAME_LEN_MAX) {
        Ok(Some(size)) if size <= rest.len() => Ok(rest.slice(..size)),
        Ok(Some(size)) => Err(format!("the frame has {size} bytes, {} are here", rest.len())),
        Ok(None) => Err(format!("{} stray bytes behind the last frame", rest.len())),
        Err(error) => Err(error.to_string()),
    }
}

/// What is written for one frame.
enum Line {
    Frame(FrameLine),
    Undecodable(Undecodable),
}

impl Line {
    fn of(whole: &Bytes, at: usize) -> Self {
        let frame = match Frame::parse(whole.clone(), FRAME_LEN_MAX) {
            Ok(frame) => frame,
            Err(error) => return Self::bad(error, at),
        };
        match Header::of(&frame) {
            Ok(header) => Self::Frame(FrameLine::new(&frame, &header)),
            Err(error) => Self::bad(error, at),
        }
    }

    fn bad(reason: impl ToString, at: usize) -> Self {
        Self::Undecodable(Undecodable::new(reason, at, None))
    }

    fn write(&self, lines: &mut Lines) -> Result<(), Failure> {
        match self {
            Self::Frame(frame) => lines.json(frame),
            Self::Undecodable(bad) => lines.json(bad),
        }
    }
}

/// A frame. The keys and their order are stable.
#[derive(Serialize)]
struct FrameLine {
    code: i32,
    flag: i32,
    opaque: i32,
    language: Option<&'static str>,
    version: i32,
    serialize_type: &'static str,
    remark: Option<String>,
    ext_fields: BTreeMap<String, String>,
    body_len: usize,
    body_base64: String,
}

impl FrameLine {
    fn new(frame: &Frame, header: &Header<'_>) -> Self {
        Self {
            code: header.code,
            flag: header.flag,
            opaque: header.opaque,
            language: header.language.map(|language| language.name()),
            version: header.version,
            serialize_type: match frame.form {
                HeaderForm::Json => "JSON",
                HeaderForm::Rocketmq => "ROCKETMQ",
            },
            remark: header.remark.as_deref().map(Into::into),
            ext_fields: header
                .ext
                .iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            body_len: frame.body.len(),
            body_base64: base64(&frame.body),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn frame(form: u8, header: &[u8], body: &[u8]) -> Vec<u8> {
        let header_len = u32::try_from(header.len()).unwrap() | u32::from(form) << 24;
        let len = u32::try_from(4 + header.len() + body.len()).unwrap();
        [&len.to_be_bytes(), &header_len.to_be_bytes(), header, body].concat()
    }

    fn line(bytes: Vec<u8>) -> Value {
        match Line::of(&bytes.into(), 5) {
            Line::Frame(frame) => serde_json::to_value(frame),
            Line::Undecodable(bad) => serde_json::to_value(bad),
        }
        .unwrap()
    }

    #[test]
    fn every_key_is_there_whatever_the_header_says() {
        let want = json!({
            "code": 34, "flag": 0, "opaque": 0, "language": "JAVA", "version": 0, "serialize_type": "JSON",
            "remark": null, "ext_fields": {}, "body_len": 2, "body_base64": "//4=",
        });
        assert_eq!(line(frame(0, br#"{"code":34}"#, &[0xff, 0xfe])), want);
    }

    #[test]
    fn the_binary_form_says_so_and_an_unknown_language_is_null() {
        let header = [
            0, 11, 99, 2, 1, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 2, b'n', b'o', 0, 0, 0, 0,
        ];
        let line = line(frame(1, &header, b""));
        assert_eq!(
            (&line["serialize_type"], &line["language"]),
            (&json!("ROCKETMQ"), &Value::Null)
        );
        assert_eq!(
            (&line["opaque"], &line["remark"], &line["body_base64"]),
            (&json!(7), &json!("no"), &json!(""))
        );
    }

    #[test]
    fn a_header_that_cannot_be_read_names_its_place() {
        let line = line(frame(0, b"[]", b""));
        assert_eq!(
            (&line["undecodable"]["at"], &line["undecodable"]["queue_offset"]),
            (&json!(5), &Value::Null)
        );
    }

    #[test]
    fn a_frame_that_is_not_all_there_is_not_cut() {
        let whole = Bytes::from(frame(0, b"{}", b"body"));
        assert_eq!(cut(&whole).unwrap().len(), whole.len());
        assert!(cut(&whole.slice(..8)).unwrap_err().contains("8 are here"));
        assert!(cut(&whole.slice(..3)).unwrap_err().contains("3 stray"));
        assert!(cut(&Bytes::from_static(b"GET / HTTP/1.1")).is_err());
    }
}
