//! What comes out on standard output.

mod format;
mod lines;
mod record;
mod table;
mod time;

use std::str::FromStr;

pub(crate) use format::Format;
pub(crate) use lines::Lines;
pub(crate) use record::{RecordView, base64};
pub(crate) use table::Table;
pub(crate) use time::shown_time;

/// How records are written: the value of `-o`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Output {
    /// The body and a newline.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
    /// Not at all.
    None,
    /// As the user says.
    Format(Format),
}

impl Output {
    /// Whether the summary is printed for programs.
    pub(crate) const fn has_summary(&self) -> bool {
        matches!(self, Self::Json | Self::None)
    }
}

impl FromStr for Output {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            "none" => Ok(Self::None),
            // A format without any field prints the same line for every record; that is a typing
            // error, most likely in one of the three names.
            _ if !text.contains('%') => Err(format!(
                "{text:?} is no output; use text, json, none or a format with fields such as '%t %v\\n'"
            )),
            _ => text.parse().map(Self::Format),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_names_and_everything_with_a_field() {
        assert_eq!("text".parse(), Ok(Output::Text));
        assert_eq!("json".parse(), Ok(Output::Json));
        assert_eq!("none".parse(), Ok(Output::None));
        assert!(matches!("%v\\n".parse(), Ok(Output::Format(_))));
        for text in ["jsno", "", "%x"] {
            assert!(text.parse::<Output>().is_err(), "{text}");
        }
    }
}
