//! Frames of the remoting protocol, written with JSON headers and read in both forms.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// Bit 0 of `flag`: an answer.
const RESPONSE: i64 = 1;
/// Bit 1 of `flag`: nobody waits for an answer.
pub(crate) const ONE_WAY: i64 = 2;

const JSON: u32 = 0;
const BINARY: u32 = 1;
/// Our language in a binary header.
const RUST: u8 = 12;

/// One frame of a server, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    /// `json` or `binary`: how its header is written.
    pub(crate) form: &'static str,
    pub(crate) code: i64,
    pub(crate) flag: i64,
    pub(crate) opaque: i64,
    /// The name in a JSON header, the number in a binary one.
    pub(crate) language: String,
    pub(crate) version: i64,
    pub(crate) remark: Option<String>,
    /// `None` when the header has no such member, which is not the same as an empty one.
    pub(crate) ext: Option<BTreeMap<String, String>>,
    pub(crate) body: Vec<u8>,
}

impl Frame {
    pub(crate) const fn is_answer(&self) -> bool {
        self.flag & RESPONSE != 0
    }
}

/// What a client writes.
pub(crate) struct Outgoing<'a> {
    pub(crate) code: i32,
    pub(crate) flag: i64,
    pub(crate) opaque: i64,
    pub(crate) version: i32,
    pub(crate) remark: Option<&'a str>,
    pub(crate) ext: &'a BTreeMap<String, String>,
    pub(crate) body: &'a [u8],
}

impl Outgoing<'_> {
    /// The answer to a request of the server.
    pub(crate) const ANSWER: i64 = RESPONSE;

    pub(crate) fn encode(&self) -> Vec<u8> {
        let ext: Map<String, Value> = self
            .ext
            .iter()
            .map(|(name, value)| (name.clone(), Value::String(value.clone())))
            .collect();
        let mut header = json!({
            "code": self.code, "language": "RUST", "version": self.version, "opaque": self.opaque,
            "flag": self.flag, "extFields": ext,
        });
        if let Some(remark) = self.remark {
            header["remark"] = remark.into();
        }
        self.around(JSON, header.to_string().as_bytes())
    }

    /// The same with a binary header, which holds codes of 16 bits and this client's number for its language.
    pub(crate) fn encode_binary(&self) -> Vec<u8> {
        let code = i16::try_from(self.code).expect("a code of the script that fits");
        let version = i16::try_from(self.version).expect("versions are small");
        let opaque = i32::try_from(self.opaque).expect("a script is short");
        let mut header = Vec::new();
        header.extend(code.to_be_bytes());
        header.push(RUST);
        header.extend(version.to_be_bytes());
        header.extend(opaque.to_be_bytes());
        header.extend(i32::try_from(self.flag).expect("two bits").to_be_bytes());
        let remark = self.remark.unwrap_or_default();
        header.extend(length(remark.len()).to_be_bytes());
        header.extend(remark.as_bytes());
        let mut ext = Vec::new();
        for (name, value) in self.ext {
            ext.extend(i16::try_from(name.len()).expect("a short name").to_be_bytes());
            ext.extend(name.as_bytes());
            ext.extend(length(value.len()).to_be_bytes());
            ext.extend(value.as_bytes());
        }
        header.extend(length(ext.len()).to_be_bytes());
        header.extend(ext);
        self.around(BINARY, &header)
    }

    fn around(&self, form: u32, header: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(8 + header.len() + self.body.len());
        out.extend((4 + length(header.len()) + length(self.body.len())).to_be_bytes());
        // The upper byte of this word says how the header is written.
        out.extend((length(header.len()) | form << 24).to_be_bytes());
        out.extend(header);
        out.extend(self.body);
        out
    }
}

fn length(length: usize) -> u32 {
    u32::try_from(length).expect("a frame of the script is below 8 MiB")
}

/// A whole frame, its length word included.
pub(crate) fn decode(frame: &[u8]) -> Result<Frame, String> {
    let mut rest = frame.get(4..).ok_or("a frame without its length word")?;
    let word = u32::from_be_bytes(take(&mut rest).ok_or("a frame without header length")?);
    let length = usize::try_from(word & 0xff_ffff).unwrap_or(usize::MAX);
    let (header, body) = rest
        .split_at_checked(length)
        .ok_or("a header longer than its frame")?;
    let mut frame = match word >> 24 {
        JSON => json_header(header)?,
        BINARY => binary_header(header).ok_or("a binary header that ends early")?,
        other => return Err(format!("a header of unknown type {other}")),
    };
    frame.body = body.to_vec();
    Ok(frame)
}

fn json_header(bytes: &[u8]) -> Result<Frame, String> {
    let value: Value =
        serde_json::from_slice(bytes).map_err(|error| format!("a header that is not JSON: {error}"))?;
    let number = |name: &str| value[name].as_i64().unwrap_or_default();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let ext = value["extFields"].as_object().map(|fields| {
        fields
            .iter()
            .map(|(name, value)| (name.clone(), text(value)))
            .collect()
    });
    Ok(Frame {
        form: "json",
        code: number("code"),
        flag: number("flag"),
        opaque: number("opaque"),
        language: value["language"].as_str().unwrap_or_default().into(),
        version: number("version"),
        remark: value["remark"].as_str().map(str::to_owned),
        ext,
        body: Vec::new(),
    })
}

fn binary_header(mut bytes: &[u8]) -> Option<Frame> {
    let code = i64::from(i16::from_be_bytes(take(&mut bytes)?));
    let [language] = take(&mut bytes)?;
    let version = i64::from(i16::from_be_bytes(take(&mut bytes)?));
    let opaque = i64::from(i32::from_be_bytes(take(&mut bytes)?));
    let flag = i64::from(i32::from_be_bytes(take(&mut bytes)?));
    let length = u32::from_be_bytes(take(&mut bytes)?);
    let remark = text(&mut bytes, length)?;
    let length = u32::from_be_bytes(take(&mut bytes)?);
    let mut block = bytes.get(..usize::try_from(length).ok()?)?;
    let mut ext = BTreeMap::new();
    while !block.is_empty() {
        let length = u32::from(u16::from_be_bytes(take(&mut block)?));
        let name = text(&mut block, length)?;
        let length = u32::from_be_bytes(take(&mut block)?);
        ext.insert(name, text(&mut block, length)?);
    }
    Some(Frame {
        form: "binary",
        code,
        flag,
        opaque,
        language: language.to_string(),
        version,
        remark: (!remark.is_empty()).then_some(remark),
        ext: Some(ext),
        body: Vec::new(),
    })
}

/// The next `N` bytes.
pub(crate) fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*head)
}

/// The next `length` bytes as text.
pub(crate) fn text(bytes: &mut &[u8], length: u32) -> Option<String> {
    let (head, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
    *bytes = rest;
    Some(String::from_utf8_lossy(head).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_of_ours_reads_back() {
        let ext = [("topic".to_owned(), "t".to_owned())].into();
        let bytes = Outgoing {
            code: 17,
            flag: ONE_WAY,
            opaque: 3,
            version: 513,
            remark: Some("why"),
            ext: &ext,
            body: b"body",
        }
        .encode();
        let frame = decode(&bytes).unwrap();
        assert_eq!(
            (frame.code, frame.opaque, frame.flag, frame.version),
            (17, 3, 2, 513)
        );
        assert_eq!(
            (frame.form, frame.language.as_str(), frame.is_answer()),
            ("json", "RUST", false)
        );
        assert_eq!(
            (frame.remark.as_deref(), frame.ext, frame.body),
            (Some("why"), Some(ext), b"body".to_vec())
        );
    }

    #[test]
    fn both_forms_of_a_request_say_the_same() {
        let ext = [
            ("topic".to_owned(), "t".to_owned()),
            ("empty".to_owned(), String::new()),
        ]
        .into();
        let out = Outgoing {
            code: -7,
            flag: 0,
            opaque: 70_000,
            version: 513,
            remark: None,
            ext: &ext,
            body: b"body",
        };
        let json = decode(&out.encode()).unwrap();
        let binary = decode(&out.encode_binary()).unwrap();
        assert_eq!(binary.language, RUST.to_string());
        let same = Frame {
            form: json.form,
            language: json.language.clone(),
            ..binary
        };
        assert_eq!(same, json);
    }

    #[test]
    fn a_binary_header_reads_too_and_not_when_it_is_cut() {
        let mut header = vec![0, 17, 12, 2, 1, 0, 0, 0, 3, 0, 0, 0, 1];
        header.extend([0, 0, 0, 2, b'o', b'k']);
        header.extend([0, 0, 0, 12, 0, 5]);
        header.extend(b"topic");
        header.extend([0, 0, 0, 1, b't']);
        let mut bytes = vec![0, 0, 0, 0, 1, 0, 0, u8::try_from(header.len()).unwrap()];
        bytes.extend(&header);
        let frame = decode(&bytes).unwrap();
        assert_eq!(
            (frame.form, frame.code, frame.opaque, frame.version),
            ("binary", 17, 3, 513)
        );
        assert!(frame.is_answer() && frame.remark.as_deref() == Some("ok"));
        for cut in 0..header.len() {
            assert_eq!(binary_header(&header[..cut]), None, "cut at {cut}");
        }
    }

    #[test]
    fn lengths_of_a_peer_are_checked() {
        for bad in [
            &b""[..],
            &[0, 0, 0, 0],
            &[0, 0, 0, 0, 0, 0, 0, 9, b'{', b'}'],
            &[0, 0, 0, 0, 7, 0, 0, 0],
            &[0, 0, 0, 0, 0, 0, 0, 1, b'['],
        ] {
            assert!(decode(bad).is_err(), "{bad:?}");
        }
    }
}
