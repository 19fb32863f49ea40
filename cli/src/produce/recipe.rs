use bytes::Bytes;
use rocketmq_consumer_core::wire::properties::{PropertiesWriter, PropertyError, name};

use super::key::KeyFormat;

/// Tells the broker to answer when the message is as safe as it is set to make it. Java always writes it.
const WAIT: &str = "WAIT";

/// What every message of a run carries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recipe {
    /// The tag.
    pub(crate) tag: Option<String>,
    /// The key.
    pub(crate) key: Option<KeyFormat>,
    /// The delay level.
    pub(crate) delay_level: Option<u32>,
    /// Properties of the user.
    pub(crate) properties: Vec<(String, String)>,
}

/// A message that is not sent yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outgoing {
    /// Its place in the run, from 0.
    pub(crate) number: u64,
    /// Its key.
    pub(crate) key: Option<String>,
    /// Its properties as they are stored.
    pub(crate) properties: String,
    /// The id it is known by.
    pub(crate) unique_key: String,
    /// Its body.
    pub(crate) body: Bytes,
}

impl Recipe {
    /// Message `number` with this body and this id.
    ///
    /// # Errors
    /// A property that no reader would get back. It shows at the first message.
    pub(crate) fn message(
        &self,
        number: u64,
        unique_key: String,
        body: Bytes,
    ) -> Result<Outgoing, PropertyError> {
        let key = self.key.as_ref().map(|key| key.of(number));
        let delay = self.delay_level.map(|level| level.to_string());
        let own = [
            (name::TAGS, self.tag.as_deref()),
            (name::KEYS, key.as_deref()),
            (name::DELAY_LEVEL, delay.as_deref()),
            (name::UNIQUE_KEY, Some(unique_key.as_str())),
            (WAIT, Some("true")),
        ];
        let mut writer = PropertiesWriter::new();
        for (name, value) in &self.properties {
            writer.push_new(name, value)?;
        }
        for (name, value) in own {
            if let Some(value) = value {
                writer.push_new(name, value)?;
            }
        }
        Ok(Outgoing {
            number,
            key,
            properties: writer.finish(),
            unique_key,
            body,
        })
    }
}

/// The flag that sets a property of a name, if there is one: the property itself is not to be set.
pub(crate) fn flag_of(name: &str) -> Option<&'static str> {
    match name {
        name::TAGS => Some("--tag"),
        name::KEYS => Some("--key"),
        name::DELAY_LEVEL => Some("--delay-level"),
        name::UNIQUE_KEY => Some("nothing: every message gets an id of its own"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_was_asked_for_is_written() {
        let recipe = Recipe {
            tag: Some("paid".into()),
            key: Some("k%n".parse().unwrap()),
            delay_level: Some(3),
            properties: vec![("colour".into(), "red".into())],
        };
        let message = recipe.message(7, "ID".into(), Bytes::from_static(b"x")).unwrap();
        assert_eq!(
            message.properties,
            "colour\u{1}red\u{2}TAGS\u{1}paid\u{2}KEYS\u{1}k7\u{2}DELAY\u{1}3\u{2}UNIQ_KEY\u{1}ID\u{2}WAIT\u{1}true\u{2}"
        );
        assert_eq!((message.number, message.key.as_deref()), (7, Some("k7")));
        let plain = Recipe::default().message(0, "ID".into(), Bytes::new()).unwrap();
        assert_eq!(plain.properties, "UNIQ_KEY\u{1}ID\u{2}WAIT\u{1}true\u{2}");
    }

    #[test]
    fn a_property_that_would_be_lost_is_refused() {
        for tag in ["a\u{1}b", "a\u{2}b"] {
            let recipe = Recipe {
                tag: Some(tag.into()),
                ..Recipe::default()
            };
            let refused = recipe.message(0, "ID".into(), Bytes::new());
            assert_eq!(refused, Err(PropertyError::Separator));
        }
    }
}
