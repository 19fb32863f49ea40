use std::fmt::Write as _;
use std::str::FromStr;

/// The key of each message: text in which `%n` is the message's number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyFormat {
    /// The texts around the numbers: one more than there are numbers.
    texts: Vec<String>,
}

impl KeyFormat {
    /// The key of message `number`.
    pub(crate) fn of(&self, number: u64) -> String {
        let mut texts = self.texts.iter();
        let mut key = texts.next().cloned().unwrap_or_default();
        for text in texts {
            write!(key, "{number}{text}").expect("a string takes every write");
        }
        key
    }
}

impl FromStr for KeyFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut texts = vec![String::new()];
        let mut chars = text.chars();
        while let Some(char) = chars.next() {
            let plain = match (char, (char == '%').then(|| chars.next()).flatten()) {
                ('%', Some('n')) => {
                    texts.push(String::new());
                    continue;
                }
                ('%', Some('%')) => '%',
                ('%', other) => {
                    let other: String = other.into_iter().collect();
                    return Err(format!(
                        "%{other} means nothing in a key; known are %n (the message's number) and %%"
                    ));
                }
                (char, _) => char,
            };
            texts.last_mut().expect("there is always one").push(plain);
        }
        if texts.len() == 1 && texts.iter().all(String::is_empty) {
            return Err("a key must not be empty".into());
        }
        Ok(Self { texts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_stands_wherever_it_is_named() {
        for (format, key) in [
            ("order", "order"),
            ("%n", "7"),
            ("a%n-%n%%b", "a7-7%b"),
            ("k1 k%n", "k1 k7"),
        ] {
            assert_eq!(
                format.parse::<KeyFormat>().map(|format| format.of(7)),
                Ok(key.into())
            );
        }
    }

    #[test]
    fn what_means_nothing_is_refused_by_name() {
        for (format, part) in [("a%x", "%x means"), ("%", "% means"), ("", "empty")] {
            let error = format.parse::<KeyFormat>().unwrap_err();
            assert!(error.contains(part), "{format}: {error}");
        }
    }
}
