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
    reader.object(|reader, name| ext.set(name, reader.text()?).ok())
}

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

    fn take(&mut self, len: usize) -> Option<&'a str> {
        let taken = self.text.get(self.at..self.at + len)?;
        self.at += len;
        Some(taken)
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
        let text = self.take(first_special(self.rest())?)?;
        self.eat(b'"')?;
        Some(text)
    }

    /// An integer as it is written out: no plus, no leading zero, no minus zero.
    fn integer(&mut self) -> Option<i32> {
        let rest = self.rest();
        let sign = usize::from(rest.first() == Some(&b'-'));
        let digits = rest.iter().skip(sign);
        let len = sign + digits.take_while(|byte| byte.is_ascii_digit()).count();
        if len > 1 && rest.get(sign) == Some(&b'0') {
            return None;
        }
        self.take(len)?.parse().ok()
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
