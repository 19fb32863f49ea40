//! The JSON form of a header. Two passes over the same members: a strict one, which is what every
//! Java, C++ and Go peer writes and which borrows all its text, and, only if that fails, one that
//! takes what fastjson takes. Before them comes a quick look that knows nothing but the usual case
//! ([`plain`]) and gives the same answer where it gives one.

mod plain;

use alloc::borrow::Cow;
use core::fmt;

use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::super::fastjson::{Reader, Scalar, Token};
use super::error::HeaderError;
use super::ext::ExtFields;
use super::header::{Header, Language};

pub(super) fn decode(bytes: &[u8]) -> Result<Header<'_>, HeaderError> {
    let Ok(text) = core::str::from_utf8(bytes) else {
        return lenient(bytes);
    };
    let mut header = unstated();
    if plain::read(text, &mut header).is_some() {
        return Ok(header);
    }
    match serde_json::from_str(text) {
        Ok(Strict(header)) => Ok(header),
        Err(_) => lenient(bytes),
    }
}

/// What Java has in mind before it reads the first member.
fn unstated<'a>() -> Header<'a> {
    Header {
        code: 0,
        language: Some(Language::Java),
        version: 0,
        opaque: 0,
        flag: 0,
        remark: None,
        ext: ExtFields::new(),
    }
}

/// A header whose members have exactly the types Java writes.
struct Strict<'a>(Header<'a>);

impl<'de> Deserialize<'de> for Strict<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Strict<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a header")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
                let mut header = unstated();
                while let Some(Text(name)) = members.next_key()? {
                    match &*name {
                        "code" => header.code = members.next_value()?,
                        "language" => {
                            let name: Option<Text<'_>> = members.next_value()?;
                            header.language = name.and_then(|Text(name)| Language::from_name(&name));
                        }
                        "version" => header.version = members.next_value()?,
                        "opaque" => header.opaque = members.next_value()?,
                        "flag" => header.flag = members.next_value()?,
                        "remark" => {
                            let text: Option<Text<'_>> = members.next_value()?;
                            header.remark = text.map(|Text(text)| text);
                        }
                        "extFields" => header.ext = members.next_value_seed(StrictExt)?,
                        _ => {
                            members.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(Strict(header))
            }
        }

        deserializer.deserialize_map(Members)
    }
}

/// Text, borrowed unless it has escapes.
struct Text<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text")
            }

            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.into())))
            }
        }

        deserializer.deserialize_str(Either)
    }
}

/// Ext fields whose values are all text.
struct StrictExt;

impl<'de> DeserializeSeed<'de> for StrictExt {
    type Value = ExtFields<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for StrictExt {
    type Value = ExtFields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ext fields")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut ext = ExtFields::new();
        while let Some((Text(name), Text(value))) = members.next_entry()? {
            ext.set(name, value).map_err(de::Error::custom)?;
        }
        Ok(ext)
    }
}

fn lenient(bytes: &[u8]) -> Result<Header<'_>, HeaderError> {
    let mut reader = Reader::new(bytes);
    let mut header = unstated();
    if reader.next_token()? != Some(Token::MapStart) {
        return Err(HeaderError::NotAnObject);
    }
    while let Some(token) = reader.next_token()? {
        let name = match token {
            Token::Key(name) => name,
            // The header's own end; what follows it is for the reader to judge.
            Token::MapEnd => continue,
            Token::ObjectKey | Token::MapStart | Token::ListStart | Token::ListEnd | Token::Scalar(_) => {
                return Err(HeaderError::NotAnObject);
            }
        };
        match &*name {
            "code" => header.code = integer(&mut reader, "code")?,
            "version" => header.version = integer(&mut reader, "version")?,
            "opaque" => header.opaque = integer(&mut reader, "opaque")?,
            "flag" => header.flag = integer(&mut reader, "flag")?,
            "language" => header.language = language(&mut reader)?,
            "remark" => header.remark = into_text(scalar(&mut reader, "remark")?),
            "extFields" => ext_fields(&mut reader, &mut header.ext)?,
            _ => reader.skip_value()?,
        }
    }
    Ok(header)
}

fn scalar<'a>(reader: &mut Reader<'a>, member: &'static str) -> Result<Scalar<'a>, HeaderError> {
    match reader.next_token()? {
        Some(Token::Scalar(scalar)) => Ok(scalar),
        _ => Err(HeaderError::Member { member }),
    }
}

/// An integer as fastjson takes one: a fraction is cut off, text is parsed, `true` is 1.
fn integer(reader: &mut Reader<'_>, member: &'static str) -> Result<i32, HeaderError> {
    let value = match scalar(reader, member)? {
        Scalar::Number(digits) => digits.parse().ok().or_else(|| whole_part(digits)),
        Scalar::Text(digits) => digits.parse().ok(),
        Scalar::Bool(value) => Some(i32::from(value)),
        Scalar::Null => Some(0),
    };
    value.ok_or(HeaderError::Member { member })
}

fn whole_part(digits: &str) -> Option<i32> {
    // Only fractions and exponents: an integer that did not parse is out of range.
    if !digits.bytes().any(|b| matches!(b, b'.' | b'e' | b'E')) {
        return None;
    }
    let value: f64 = digits.parse().ok()?;
    // The cast saturates, so what lies outside 32 bits still does after it.
    i32::try_from(value as i64).ok()
}

fn language(reader: &mut Reader<'_>) -> Result<Option<Language>, HeaderError> {
    Ok(match scalar(reader, "language")? {
        Scalar::Text(name) => Language::from_name(&name),
        Scalar::Number(code) => code.parse().ok().and_then(Language::from_code),
        Scalar::Bool(_) | Scalar::Null => None,
    })
}

fn into_text(scalar: Scalar<'_>) -> Option<Cow<'_, str>> {
    match scalar {
        Scalar::Text(text) => Some(text),
        Scalar::Number(digits) => Some(digits.into()),
        Scalar::Bool(value) => Some(if value { "true" } else { "false" }.into()),
        Scalar::Null => None,
    }
}

fn ext_fields<'a>(reader: &mut Reader<'a>, ext: &mut ExtFields<'a>) -> Result<(), HeaderError> {
    const MEMBER: HeaderError = HeaderError::Member { member: "extFields" };
    ext.clear();
    match reader.next_token()? {
        Some(Token::Scalar(Scalar::Null)) => return Ok(()),
        Some(Token::MapStart) => {}
        _ => return Err(MEMBER),
    }
    loop {
        let name = match reader.next_token()? {
            Some(Token::Key(name)) => name,
            Some(Token::MapEnd) => return Ok(()),
            _ => return Err(MEMBER),
        };
        let token = reader.next_token()?.ok_or(MEMBER)?;
        reader.skip_rest(&token)?;
        // `null`, and a map or list, which no request has, count as absent.
        let value = match token {
            Token::Scalar(scalar) => into_text(scalar),
            Token::MapStart
            | Token::MapEnd
            | Token::ListStart
            | Token::ListEnd
            | Token::Key(_)
            | Token::ObjectKey => None,
        };
        match value {
            Some(value) => ext.set(name, value)?,
            None => ext.remove(&name),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;

    use proptest::prelude::*;

    use super::super::super::fastjson::push_text;
    use super::*;

    fn quoted(text: &str) -> String {
        let mut out = String::new();
        push_text(&mut out, text);
        out
    }

    proptest! {
        #[test]
        fn all_passes_agree_on_what_peers_write(
            code in any::<i32>(),
            flag in any::<i32>(),
            language in prop::sample::select(["JAVA", "go", "RUST", "KLINGON"].to_vec()),
            remark in prop::option::of("\\PC{0,9}"),
            fields in prop::collection::vec(("[a-c\u{1}]{0,2}", "\\PC{0,6}"), 0..9),
        ) {
            let fields: alloc::vec::Vec<_> = fields.iter().map(|(name, value)| format!("{}:{}", quoted(name), quoted(value))).collect();
            let remark = remark.map_or("null".into(), |text| quoted(&text));
            let text = format!(
                r#"{{"code":{code},"extFields":{{{}}},"flag":{flag},"language":"{language}","remark":{remark},"other":[{{"x":1}}]}}"#,
                fields.join(",")
            );
            let usual = text.replace(r#","other":[{"x":1}]"#, "");
            let Strict(strict) = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(&lenient(text.as_bytes()).unwrap(), &strict);
            let mut looked = unstated();
            if plain::read(&usual, &mut looked).is_some() {
                prop_assert_eq!(&looked, &strict);
            } else {
                let is_unusual = usual.contains('\\') || usual.contains("null");
                prop_assert!(is_unusual, "{}", usual);
            }
        }
    }
}
