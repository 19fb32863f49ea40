use std::io::Write as _;
use std::str::FromStr;

use rocketmq_consumer_core::message::Message;

/// A compiled output format: `%t` topic, `%b` broker, `%q` queue, `%o` offset, `%k` keys, `%g` tags,
/// `%v` body; `\n`, `\t`, `\\` and `%%`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Topic,
    Broker,
    Queue,
    Offset,
    Keys,
    Tags,
    Body,
}

impl Format {
    /// Appends a message. Keys and tags that are absent are empty.
    pub(crate) fn write(&self, out: &mut Vec<u8>, message: &Message, body: &[u8]) {
        for part in &self.parts {
            match part {
                Part::Text(text) => out.extend_from_slice(text.as_bytes()),
                Part::Topic => out.extend_from_slice(message.topic().as_bytes()),
                Part::Broker => out.extend_from_slice(message.broker().as_str().as_bytes()),
                Part::Queue => write_number(out, message.queue_id().0.into()),
                Part::Offset => write_number(out, message.queue_offset().0),
                Part::Keys => out.extend_from_slice(message.keys().unwrap_or_default().as_bytes()),
                Part::Tags => out.extend_from_slice(message.tags().unwrap_or_default().as_bytes()),
                Part::Body => out.extend_from_slice(body),
            }
        }
    }

    fn push_text(&mut self, char: char) {
        if let Some(Part::Text(text)) = self.parts.last_mut() {
            text.push(char);
        } else {
            self.parts.push(Part::Text(char.into()));
        }
    }
}

fn write_number(out: &mut Vec<u8>, number: i64) {
    write!(out, "{number}").expect("memory takes every write");
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut format = Self { parts: Vec::new() };
        let mut chars = text.chars();
        while let Some(char) = chars.next() {
            match char {
                '%' => match chars.next() {
                    Some('%') => format.push_text('%'),
                    Some('t') => format.parts.push(Part::Topic),
                    Some('b') => format.parts.push(Part::Broker),
                    Some('q') => format.parts.push(Part::Queue),
                    Some('o') => format.parts.push(Part::Offset),
                    Some('k') => format.parts.push(Part::Keys),
                    Some('g') => format.parts.push(Part::Tags),
                    Some('v') => format.parts.push(Part::Body),
                    other => return Err(unknown('%', other, "%t %b %q %o %k %g %v and %%")),
                },
                '\\' => match chars.next() {
                    Some('n') => format.push_text('\n'),
                    Some('t') => format.push_text('\t'),
                    Some('\\') => format.push_text('\\'),
                    other => return Err(unknown('\\', other, "\\n \\t and \\\\")),
                },
                _ => format.push_text(char),
            }
        }
        Ok(format)
    }
}

fn unknown(mark: char, found: Option<char>, known: &str) -> String {
    match found {
        Some(char) => format!("{mark}{char} means nothing in a format; known are {known}"),
        None => format!("the format ends with a lone {mark}; known are {known}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::message;

    fn written(format: &str) -> String {
        let format: Format = format.parse().unwrap();
        let mut out = Vec::new();
        format.write(&mut out, &message(7), b"hello");
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_field_is_filled_in() {
        assert_eq!(
            written("%t|%b|%q|%o|%k|%g|%v|%%|\\t|\\\\|\\n"),
            "orders|broker-a|3|7|k1 k2|paid|hello|%|\t|\\|\n"
        );
    }

    #[test]
    fn neighbouring_text_is_one_part() {
        let format: Format = "a%%b\\n%v".parse().unwrap();
        assert_eq!(format.parts, [Part::Text("a%b\n".into()), Part::Body]);
    }

    #[test]
    fn unknown_fields_are_refused_by_name() {
        for (format, part) in [("%x", "%x"), ("%", "lone %"), ("\\r", "\\r"), ("a\\", "lone \\")] {
            let error = format.parse::<Format>().unwrap_err();
            assert!(error.contains(part), "{format}: {error}");
        }
    }
}
