use std::fmt;
use std::str::FromStr;

const READ: i32 = 4;
const WRITE: i32 = 2;

/// What may be done with a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Perm(i32);

impl Perm {
    /// The permission of these bits on the wire; what else they say does not count.
    pub(crate) const fn of_bits(bits: i32) -> Self {
        Self(bits & (READ | WRITE))
    }

    /// The bits on the wire.
    pub(crate) const fn bits(self) -> i32 {
        self.0
    }
}

impl FromStr for Perm {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        match text {
            "rw" | "6" => Ok(Self(READ | WRITE)),
            "r" | "4" => Ok(Self(READ)),
            "w" | "2" => Ok(Self(WRITE)),
            _ => Err("use rw, r or w"),
        }
    }
}

impl fmt::Display for Perm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.0 & READ != 0, self.0 & WRITE != 0) {
            (true, true) => "rw",
            (true, false) => "r",
            (false, true) => "w",
            (false, false) => "-",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_have_letters() {
        for (text, bits) in [("rw", 6), ("r", 4), ("w", 2)] {
            let perm: Perm = text.parse().unwrap();
            assert_eq!((perm.bits(), perm.to_string().as_str()), (bits, text));
        }
        assert_eq!(Perm::of_bits(7), Perm::of_bits(6));
        assert_eq!(Perm::of_bits(0).to_string(), "-");
        for text in ["", "0", "x", "wr"] {
            assert!(text.parse::<Perm>().is_err(), "{text}");
        }
    }
}
