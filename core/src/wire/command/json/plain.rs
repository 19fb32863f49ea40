//! The first look at a JSON header: what peers in fact write, Java's fastjson and this library alike. Nothing
//! stands between the members, numbers are integers, text has no escapes.
//!
//! It decides nothing: whatever it does not expect it leaves, as a whole, to the passes behind it, so it may be
//! narrow. What it takes, the strict pass takes for the same.

use super::super::super::fastjson::first_special;
use super::super::ext::ExtFields;
use super::super::header::{Header, Language};

/// Fills a header in place, which spares moving it about. `None` leaves it half filled.
pub(super) fn read<'a>(text: &'a str, header: &mut Header<'a>) -> Option<()> {
    let mut reader = Reader { text, at: 0 };
    reader.object(|reader, name| {
        match name {
            "code" => header.code = reader.integer()?,
            "version" => header.version = reader.integer()?,
            "opaque" => header.opaque = reader.integer()?,
            "flag" => header.flag = reader.integer()?,
            "language" => header.language = Language::from_name(reader.text()?),
            "remark" => header.remark = Some(reader.text()?.into()),
            "extFields" => ext_fields(reader, &mut header.ext)?,
            _ => return None,
        }
        Some(())
    })?;
    reader.rest().is_empty().then_some(())
}

fn ext_fields<'a>(reader: &mut Reader<'a>, ext: &mut ExtFields<'a>) -> Option<()> {
    ext.clear();
    let mut marks = 0;
    reader.object(|reader, name| {
        let (mark, value) = (mark(name), reader.text()?);
        let is_new = marks & mark == 0;
        marks |= mark;
        if is_new {
            ext.push(name, value).ok()
        } else {
            ext.set(name, value).ok()
        }
    })
}

/// One of 64 bits for a name, told by its length and its ends: most names of a header have one of their own, and
/// need not be compared with all the others.
fn mark(name: &str) -> u64 {
    let [first, last] =
        [name.as_bytes().first(), name.as_bytes().last()].map(|byte| byte.map_or(0, |byte| *byte));
    1 << ((name.len() ^ usize::from(first) << 1 ^ usize::from(last) << 2) % 64)
}

/// Digits of the longest integer of 32 bits.
const DIGITS_MAX: usize = 10;

/// Reads forward, one byte of punctuation or one whole value at a time.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    fn eat(&mut self, byte: u8) -> Option<()> {
        if self.text.as_bytes().get(self.at) != Some(&byte) {
            return None;
        }
        self.at += 1;
        Some(())
    }

    /// An object; `member` reads the value of each name.
    fn object(&mut self, mut member: impl FnMut(&mut Self, &'a str) -> Option<()>) -> Option<()> {
        self.eat(b'{')?;
        if self.eat(b'}').is_some() {
            return Some(());
        }
        loop {
            let name = self.text()?;
            self.eat(b':')?;
            member(self, name)?;
            if self.eat(b'}').is_some() {
                return Some(());
            }
            self.eat(b',')?;
        }
    }

    /// Text without escapes and control characters.
    fn text(&mut self) -> Option<&'a str> {
        self.eat(b'"')?;
        let rest = self.rest();
        let len = first_special(rest)?;
        if rest.get(len) != Some(&b'"') {
            return None;
        }
        let text = self.text.get(self.at..self.at + len)?;
        self.at += len + 1;
        Some(text)
    }

    /// An integer as it is written out: no plus, no leading zero, no minus zero.
    fn integer(&mut self) -> Option<i32> {
        let is_negative = self.eat(b'-').is_some();
        let digits = self.rest();
        let (mut value, mut len) = (0, 0);
        // What has more digits fails for the next one, which is no punctuation.
        while let Some(digit @ b'0'..=b'9') = digits.get(len)
            && len < DIGITS_MAX
        {
            value = value * 10 + i64::from(digit - b'0');
            len += 1;
        }
        let begins_with_zero = digits.first() == Some(&b'0');
        if len == 0 || begins_with_zero && (is_negative || len > 1) {
            return None;
        }
        self.at += len;
        i32::try_from(if is_negative { -value } else { value }).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::super::unstated;
    use super::*;

    #[test]
    fn what_peers_write_is_taken_at_the_first_look() {
        let mut header = unstated();
        let text = r#"{"code":11,"version":513,"opaque":-7,"flag":0,"language":"RUST","remark":"ä","extFields":{"topic":"t","":""}}"#;
        assert_eq!(read(text, &mut header), Some(()));
        assert_eq!((header.code, header.opaque, header.version), (11, -7, 513));
        assert_eq!(header.language, Some(Language::Rust));
        assert_eq!(header.remark.as_deref(), Some("ä"));
        let fields: alloc::vec::Vec<_> = header.ext.iter().collect();
        assert_eq!(fields, [("topic", "t"), ("", "")]);
    }

    #[test]
    fn whatever_else_is_left_to_the_passes_behind() {
        for text in [
            "",
            "{",
            r#"{"code":1}x"#,
            r#"{"code":1,}"#,
            r#"{ "code":1}"#,
            r#"{"code":"1"}"#,
            r#"{"code":01}"#,
            r#"{"code":-0}"#,
            r#"{"code":-}"#,
            r#"{"code":1.5}"#,
            r#"{"code":2147483648}"#,
            r#"{"remark":null}"#,
            r#"{"remark":"a\nb"}"#,
            "{\"remark\":\"a\nb\"}",
            r#"{"remark":"a"#,
            r#"{"extFields":null}"#,
            r#"{"extFields":{"a":1}}"#,
            r#"{"other":1}"#,
            "[]",
        ] {
            assert_eq!(read(text, &mut unstated()), None, "{text}");
        }
    }
}
