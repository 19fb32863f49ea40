//! Frames in both forms of header, and streams of them cut anywhere.

use arbitrary::{Result, Unstructured};
use bytes::Bytes;
use rocketmq_consumer_core::wire::command::{Command, ExtFields, Language};
use rocketmq_consumer_core::wire::frame::HeaderForm;

use super::dice::{bytes, maybe, pick, several};
use super::names::text;

/// How a header is written.
pub fn header_form(u: &mut Unstructured<'_>) -> Result<HeaderForm> {
    pick(u, &[HeaderForm::Json, HeaderForm::Rocketmq])
}

/// A whole frame, length word included: any code, flags, version and language, up to eight fields.
///
/// What the binary form cannot carry comes in JSON.
pub fn frame(u: &mut Unstructured<'_>) -> Result<Bytes> {
    let pairs: Vec<(String, String)> = several(u, 8, |u| Ok((text(u)?, text(u)?)))?;
    let mut ext = ExtFields::new();
    for (name, value) in &pairs {
        ext.set(name.as_str(), value.as_str())
            .expect("eight fields are allowed");
    }
    let (remark, body) = (maybe(u, text)?, bytes(u, 60)?);
    let command = Command {
        code: if u.arbitrary()? {
            u.arbitrary()?
        } else {
            u.int_in_range(0..=400)?
        },
        language: pick(
            u,
            &[Language::Java, Language::Rust, Language::Go, Language::NodeJs],
        )?,
        version: if u.arbitrary()? {
            u.arbitrary()?
        } else {
            u.int_in_range(0..=600)?
        },
        opaque: u.arbitrary()?,
        flag: u.arbitrary()?,
        remark: remark.as_deref(),
        ext: &ext,
        body: &body,
    };
    Ok(command
        .encode(header_form(u)?)
        .expect("a generated frame is small"))
}

/// Up to six frames, one behind the other; once in ten times with rubbish behind them.
pub fn stream(u: &mut Unstructured<'_>) -> Result<Bytes> {
    let frames: Vec<Bytes> = several(u, 6, frame)?;
    let mut stream = frames.concat();
    if super::dice::rarely(u, 10)? {
        stream.extend(bytes(u, 20)?);
    }
    Ok(stream.into())
}

/// Cuts bytes into the chunks a socket might deliver; in one piece when the bytes have run out.
pub fn split(u: &mut Unstructured<'_>, mut whole: Bytes) -> Result<Vec<Bytes>> {
    let mut chunks = Vec::new();
    while !whole.is_empty() && !u.is_empty() {
        let len = pick(u, &[1, 2, 3, 4, 5, 8, 13, 64, usize::MAX])?;
        chunks.push(whole.split_to(len.min(whole.len())));
    }
    if !whole.is_empty() {
        chunks.push(whole);
    }
    Ok(chunks)
}
