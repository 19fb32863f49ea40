//! Which release of Apache RocketMQ a server is.

use std::env;
use std::fmt;
use std::str::FromStr;

/// A release of Apache RocketMQ, for example 5.5.0. Ordered by age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    major: u8,
    minor: u8,
    patch: u8,
}

/// Not three numbers with dots between them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a release such as 5.5.0")]
pub struct NotAVersion(String);

impl Version {
    /// The release everything here is written for, and that the Java clients always are.
    pub const CURRENT: Self = Self::new(5, 5, 0);

    /// The variable that [`Self::from_env`] reads.
    pub const VARIABLE: &'static str = "ROCKETMQ_VERSION";

    /// The release of these numbers, whether there is one or not.
    #[must_use]
    pub const fn new(major: u8, minor: u8, patch: u8) -> Self {
        Self { major, minor, patch }
    }

    /// What `ROCKETMQ_VERSION` says, or [`Self::CURRENT`] where it is not set or empty.
    ///
    /// # Panics
    /// When it is set to something else: a suite must not run on another release than it was told to.
    #[must_use]
    pub fn from_env() -> Self {
        match env::var(Self::VARIABLE) {
            Ok(text) if !text.is_empty() => text
                .parse()
                .unwrap_or_else(|error| panic!("{}: {error}", Self::VARIABLE)),
            Ok(_) | Err(env::VarError::NotPresent) => Self::CURRENT,
            Err(error @ env::VarError::NotUnicode(_)) => panic!("{}: {error}", Self::VARIABLE),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl FromStr for Version {
    type Err = NotAVersion;

    fn from_str(text: &str) -> Result<Self, NotAVersion> {
        let not = || NotAVersion(text.to_owned());
        let numbers: Vec<u8> = text
            .split('.')
            .map(|number| number.parse().map_err(|_| not()))
            .collect::<Result<_, _>>()?;
        match *numbers.as_slice() {
            [major, minor, patch] => Ok(Self::new(major, minor, patch)),
            _ => Err(not()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_three_numbers() {
        for text in ["5.5.0", "4.9.7", "4.10.0"] {
            assert_eq!(
                text.parse::<Version>().map(|version| version.to_string()),
                Ok(text.into())
            );
        }
        for text in ["", "5.5", "5.5.0.1", "v5.5.0", "5.-1.0", "5.5.256", "5..0"] {
            assert_eq!(text.parse::<Version>(), Err(NotAVersion(text.into())));
        }
    }

    #[test]
    fn releases_are_ordered_by_age_and_not_by_letters() {
        assert!(Version::new(4, 9, 7) < Version::new(4, 10, 0));
        assert!(Version::new(4, 10, 0) < Version::new(5, 0, 0));
        assert!(Version::new(5, 3, 3) < Version::CURRENT);
    }
}
