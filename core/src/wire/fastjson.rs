//! The JSON that Java's fastjson writes and reads: maps named by bare integers or whole objects,
//! and the liberties older peers take.
//!
//! Bodies go through [`from_slice`]: strict JSON first, as nearly all of them are, then a rewrite of
//! the dialect into strict JSON. Headers that are not strict JSON are read token by token. Nothing
//! here recurses, so a body cannot overflow the stack by nesting.
//!
//! Accepted beyond JSON: names in single quotes or as bare integers, objects as names, comments,
//! single quoted strings, a comma before the closing brace, NULs after the end, raw control
//! characters, unpaired surrogates (read as `?`) and bytes that are not UTF-8 (read as U+FFFD).
//! Never accepted: anything else after the value, bare words as names, a byte order mark.
//= rocketmq: RemotingSerializable.decode

mod plain;
mod reader;
mod writer;

use alloc::string::String;
use alloc::vec::Vec;

use serde::de::DeserializeOwned;

pub(crate) use plain::first_special;
pub(crate) use reader::{Reader, Scalar, Token};
pub(crate) use writer::{ObjectWriter, to_json};

/// Why text is not even fastjson.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{expected} expected at byte {at}")]
pub struct SyntaxError {
    /// Where, in bytes from the beginning of the text.
    pub at: usize,
    /// What would have been legal there.
    pub expected: &'static str,
}

/// Why a JSON body cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// It is not JSON, nor fastjson's dialect of it.
    #[error("body is not JSON: {0}")]
    Syntax(#[from] SyntaxError),
    /// It is JSON of another shape: a member is missing, of another type or out of range.
    #[error("body does not have the expected members (noticed at line {line}, column {column})")]
    Shape {
        /// Line of the strict form of the body, from 1.
        line: usize,
        /// Column in that line, from 1; 0 when only the end of the body told.
        column: usize,
    },
}

/// Decodes a JSON body that a Java peer may have written, always an object.
///
/// A map named by objects arrives as a list of `[name, value]` pairs.
///
/// # Errors
///
/// [`BodyError`]; the body is then of no use, the connection still is.
pub fn from_slice<T: DeserializeOwned>(body: &[u8]) -> Result<T, BodyError> {
    let is_object = |text: &[u8]| text.trim_ascii_start().starts_with(b"{");
    if is_object(body)
        && let Ok(value) = serde_json::from_slice(body)
    {
        return Ok(value);
    }
    let strict = to_strict(body)?;
    if !is_object(strict.as_bytes()) {
        // serde would fill a struct from a list as well.
        return Err(BodyError::Shape { line: 1, column: 1 });
    }
    serde_json::from_str(&strict).map_err(|error| BodyError::Shape {
        line: error.line(),
        column: error.column(),
    })
}

/// Rewrites fastjson's dialect into strict JSON. Numbers stay as they were written.
///
/// # Errors
///
/// [`SyntaxError`] for text that fastjson would not read either.
pub fn to_strict(text: &[u8]) -> Result<String, SyntaxError> {
    let mut reader = Reader::new(text);
    let mut out = String::with_capacity(text.len());
    let mut levels: Vec<Level> = Vec::new();
    while let Some(token) = reader.next_token()? {
        let in_pairs = levels.last().is_some_and(|level| level.pairs);
        // Closes the pair whose value this is.
        let tail = if in_pairs { "]" } else { "" };
        if let Some(level) = levels.last_mut()
            && token.begins_item(level.list)
        {
            if !level.first {
                out.push(',');
            }
            level.first = false;
        }
        match token {
            Token::Key(name) => {
                out.push_str(if in_pairs { "[" } else { "" });
                push_text(&mut out, &name);
                out.push(if in_pairs { ',' } else { ':' });
            }
            Token::ObjectKey => {
                if !in_pairs {
                    return Err(reader.expected("a text or integer name"));
                }
                out.push('[');
                levels.push(Level::map(&mut reader, ",", &mut out));
            }
            Token::MapStart => levels.push(Level::map(&mut reader, tail, &mut out)),
            Token::ListStart => {
                out.push('[');
                levels.push(Level {
                    list: true,
                    pairs: false,
                    first: true,
                    close: "]",
                    tail,
                });
            }
            Token::MapEnd | Token::ListEnd => {
                if let Some(level) = levels.pop() {
                    out.push_str(level.close);
                    out.push_str(level.tail);
                }
            }
            Token::Scalar(scalar) => {
                match scalar {
                    Scalar::Text(value) => push_text(&mut out, &value),
                    Scalar::Number(digits) => out.push_str(digits),
                    Scalar::Bool(value) => out.push_str(if value { "true" } else { "false" }),
                    Scalar::Null => out.push_str("null"),
                }
                out.push_str(tail);
            }
        }
    }
    Ok(out)
}

/// A map or list of the output that is still open.
struct Level {
    list: bool,
    /// A map named by objects, written as a list of pairs.
    pairs: bool,
    /// Nothing is in it yet.
    first: bool,
    close: &'static str,
    /// What follows its end.
    tail: &'static str,
}

impl Level {
    fn map(reader: &mut Reader<'_>, tail: &'static str, out: &mut String) -> Self {
        let pairs = reader.names_are_objects();
        out.push(if pairs { '[' } else { '{' });
        Self {
            list: false,
            pairs,
            first: true,
            close: if pairs { "]" } else { "}" },
            tail,
        }
    }
}

/// Appends `text` as a JSON string.
pub(crate) fn push_text(out: &mut String, text: &str) {
    out.push('"');
    escape(text, |part| out.push_str(part));
    out.push('"');
}

/// Gives the contents of the JSON string that stands for `text`, without its quotes, piece by piece.
pub(crate) fn escape(text: &str, mut put: impl FnMut(&str)) {
    const HEX: [&str; 16] = [
        "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "a", "b", "c", "d", "e", "f",
    ];
    let mut rest = text;
    // A special byte is ASCII, so both cuts lie between characters.
    while let Some(at) = first_special(rest.as_bytes()) {
        let byte = rest.as_bytes()[at];
        put(&rest[..at]);
        rest = &rest[at + 1..];
        match byte {
            b'"' => put("\\\""),
            b'\\' => put("\\\\"),
            b'\n' => put("\\n"),
            b'\r' => put("\\r"),
            b'\t' => put("\\t"),
            control => {
                put("\\u00");
                put(if control < 16 { "0" } else { "1" });
                put(HEX[usize::from(control & 15)]);
            }
        }
    }
    put(rest);
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_dialect_becomes_strict_json() {
        for (dialect, strict) in [
            (r#"{"a":{0:"x:1",-7:"y"}}"#, r#"{"a":{"0":"x:1","-7":"y"}}"#),
            (
                r#"{"t":{{"q":1,"n":{2:3}}:5 , {"q":2}:{"v":[{}]}}}"#,
                r#"{"t":[[{"q":1,"n":{"2":3}},5],[{"q":2},{"v":[{}]}]]}"#,
            ),
            (r#"{{{"a":1}:2}:3}"#, r#"[[[[{"a":1},2]],3]]"#),
            (r#"{{"a":1}:2,"b":[3]}"#, r#"[[{"a":1},2],["b",[3]]]"#),
            (
                "/* c */{'a' : 'say \"x\"', // d\n 'b':[1 , 2],}\0\0",
                r#"{"a":"say \"x\"","b":[1,2]}"#,
            ),
            (
                "[true,false,null,-0.50,1e2,{},[]]",
                "[true,false,null,-0.50,1e2,{},[]]",
            ),
            ("\"a\u{1}\\u0002\\ud83d\"", r#""a\u0001\u0002?""#),
            (" 12 ", "12"),
        ] {
            assert_eq!(
                to_strict(dialect.as_bytes()).unwrap_or_default(),
                strict,
                "{dialect}"
            );
        }
    }

    #[test]
    fn text_that_fastjson_refuses_is_refused_with_its_place() {
        for (text, at, expected) in [
            ("", 0, "a value"),
            ("{a:1}", 1, "a name"),
            ("{\"a\" 1}", 5, "':'"),
            ("{\"a\":}", 5, "a value"),
            ("{\"a\":1", 6, "',' or the end of the map"),
            ("{\"a\":1}x", 7, "the end"),
            ("{\"a\":1}//", 7, "the end"),
            ("{\"a\":1,,}", 7, "a name"),
            ("[1,]", 3, "a value"),
            ("[1 2]", 3, "',' or the end of the list"),
            ("\u{feff}{}", 0, "a value"),
            ("\"abc", 0, "a closing quote"),
            ("\"\\x\"", 1, "an escape"),
            ("\"\\u00\"", 1, "an escape"),
            ("01", 1, "the end"),
            ("-", 0, "a number"),
            ("1.", 0, "a number"),
            ("nul", 0, "a value"),
            ("/* {", 0, "the end of the comment"),
            ("{\"a\":1,{\"b\":2}:3}", 8, "a text or integer name"),
            ("{{\"b\":2},3}", 8, "':'"),
        ] {
            assert_eq!(
                to_strict(text.as_bytes()),
                Err(SyntaxError { at, expected }),
                "{text}"
            );
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let deep = |n| [alloc::vec![b'['; n], alloc::vec![b']'; n]].concat();
        assert!(to_strict(&deep(2_048)).is_ok());
        assert!(to_strict(&deep(2_049)).is_err());
    }

    proptest! {
        #[test]
        fn strict_json_stays_what_it_is(text in "\\PC{0,20}", number in any::<i64>()) {
            let value = serde_json::json!({ text.clone(): [text, number, null, true], "o": { "e": {} } });
            let rewritten = to_strict(value.to_string().as_bytes()).unwrap();
            prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&rewritten).unwrap(), value);
        }

        #[test]
        fn whatever_is_accepted_is_json(bytes in prop::collection::vec(prop::sample::select(b"{}[]:,\"'\\u01 -.eE/*\0a\xc3\xff".to_vec()), 0..24)) {
            if let Ok(strict) = to_strict(&bytes) {
                prop_assert!(serde_json::from_str::<serde_json::Value>(&strict).is_ok(), "{}", strict);
            }
        }
    }
}
