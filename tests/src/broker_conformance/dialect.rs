//! JSON as Java's library prints it: map keys that are not strings stand there without quotes.
//!
//! Such a key becomes a string that begins with `#`, so that the dialect stays visible in a comparison:
//! `{0:"a"}` is read as `{"#0":"a"}`, and `{{"queueId":0}:5}` as `{"#{\"queueId\":0}":5}`.

use serde_json::{Map, Value};

/// How deep values may lie in each other.
const DEPTH_MAX: u32 = 64;

/// The one value of a text; `None` when it is not JSON in this dialect, or something follows.
pub(crate) fn parse(text: &str) -> Option<Value> {
    let mut rest = text;
    let value = value(&mut rest, DEPTH_MAX)?;
    rest.trim_start().is_empty().then_some(value)
}

fn value(rest: &mut &str, depth: u32) -> Option<Value> {
    let depth = depth.checked_sub(1)?;
    *rest = rest.trim_start();
    match rest.as_bytes().first()? {
        b'{' => object(rest, depth),
        b'[' => array(rest, depth),
        b'"' => string(rest).map(Value::String),
        _ => scalar(rest),
    }
}

fn object(rest: &mut &str, depth: u32) -> Option<Value> {
    *rest = rest.strip_prefix('{')?;
    let mut out = Map::new();
    if eat(rest, '}') {
        return Some(Value::Object(out));
    }
    loop {
        *rest = rest.trim_start();
        let key = if rest.starts_with('"') {
            string(rest)?
        } else {
            format!("#{}", value(rest, depth)?)
        };
        if !eat(rest, ':') {
            return None;
        }
        out.insert(key, value(rest, depth)?);
        if eat(rest, '}') {
            return Some(Value::Object(out));
        }
        if !eat(rest, ',') {
            return None;
        }
    }
}

fn array(rest: &mut &str, depth: u32) -> Option<Value> {
    *rest = rest.strip_prefix('[')?;
    let mut out = Vec::new();
    if eat(rest, ']') {
        return Some(Value::Array(out));
    }
    loop {
        out.push(value(rest, depth)?);
        if eat(rest, ']') {
            return Some(Value::Array(out));
        }
        if !eat(rest, ',') {
            return None;
        }
    }
}

fn string(rest: &mut &str) -> Option<String> {
    let mut is_escaped = false;
    let end = rest.char_indices().skip(1).find(|(_, c)| {
        let is_end = *c == '"' && !is_escaped;
        is_escaped = *c == '\\' && !is_escaped;
        is_end
    })?;
    let (token, after) = rest.split_at(end.0 + 1);
    *rest = after;
    serde_json::from_str(token).ok()
}

fn scalar(rest: &mut &str) -> Option<Value> {
    let end = rest
        .find(|c: char| matches!(c, ',' | ':' | ']' | '}') || c.is_whitespace())
        .unwrap_or(rest.len());
    let (token, after) = rest.split_at(end);
    *rest = after;
    serde_json::from_str(token).ok()
}

fn eat(rest: &mut &str, wanted: char) -> bool {
    let trimmed = rest.trim_start();
    let after = trimmed.strip_prefix(wanted);
    *rest = after.unwrap_or(trimmed);
    after.is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_without_quotes_are_told_apart() {
        for (text, want) in [
            (
                r#"{"a":[1,-2.5,true,null,"x\"}"],"b":{}}"#,
                json!({"a": [1, -2.5, true, null, "x\"}"], "b": {}}),
            ),
            (r#"{0:"a",1:"b"}"#, json!({"#0": "a", "#1": "b"})),
            (
                r#" {"t":{{"queueId":1,"topic":"o"}:3 , {"queueId":0}:4}} "#,
                json!({"t": {"#{\"queueId\":1,\"topic\":\"o\"}": 3, "#{\"queueId\":0}": 4}}),
            ),
            ("[]", json!([])),
            ("\"\\\\\"", json!("\\")),
        ] {
            assert_eq!(parse(text), Some(want), "{text}");
        }
    }

    #[test]
    fn what_is_no_json_is_none() {
        for bad in [
            "",
            "{",
            "{0}",
            "{\"a\":}",
            "[1,]",
            "[1 2]",
            "{} x",
            "\"",
            "nope",
            &"[".repeat(100),
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
