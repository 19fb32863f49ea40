//! What a header says, whatever form it was written in.

use alloc::borrow::Cow;

use super::ext::ExtFields;

/// Bit of [`Header::flag`]: this frame answers another.
pub const FLAG_RESPONSE: i32 = 1;

/// Bit of [`Header::flag`]: no answer is wanted, not even an error.
pub const FLAG_ONEWAY: i32 = 2;

/// The version we state: that of RocketMQ 5.5.0. From 401 on name servers write routes in standard
/// JSON; above 475 a peer may answer `GO_AWAY`.
pub const VERSION: i32 = 513;

/// What Java calls [`VERSION`].
pub const VERSION_NAME: &str = "V5_5_0";

/// A decoded header.
#[derive(Clone, Debug, PartialEq)]
pub struct Header<'a> {
    /// A request or response code, depending on [`Header::is_response`].
    pub code: i32,
    /// The sender's language; `None` for one this build does not know.
    pub language: Option<Language>,
    /// The sender's version, as the ordinal of its release.
    pub version: i32,
    /// Ties an answer to its request. Each side numbers its own requests, so it means nothing before
    /// the response bit has been looked at.
    pub opaque: i32,
    /// [`FLAG_RESPONSE`] and [`FLAG_ONEWAY`]; other bits are nobody's.
    pub flag: i32,
    /// Text for people. It may be set on success too.
    pub remark: Option<Cow<'a, str>>,
    /// The fields of the particular request or answer.
    pub ext: ExtFields<'a>,
}

impl Header<'_> {
    /// Whether this frame answers a request of ours.
    #[must_use]
    pub const fn is_response(&self) -> bool {
        self.flag & FLAG_RESPONSE != 0
    }

    /// Whether the sender wants no answer.
    #[must_use]
    pub const fn is_oneway(&self) -> bool {
        self.flag & FLAG_ONEWAY != 0
    }
}

macro_rules! languages {
    ($($(#[$doc:meta])* $variant:ident = $code:literal $name:literal,)*) => {
        /// The language a peer is written in, as it says itself. Only statistics use it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Language {
            $($(#[$doc])* $variant,)*
        }

        impl Language {
            /// The byte that stands for it in the binary header.
            #[must_use]
            pub const fn code(self) -> u8 {
                match self {
                    $(Self::$variant => $code,)*
                }
            }

            /// The name that stands for it in the JSON header.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// The language of a byte, if it is one this build knows.
            #[must_use]
            pub const fn from_code(code: u8) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The language of a name in any case, if it is one this build knows.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                $(if name.eq_ignore_ascii_case($name) {
                    return Some(Self::$variant);
                })*
                None
            }
        }
    };
}

languages! {
    /// Java, what an unstated language is taken for.
    Java = 0 "JAVA",
    /// C++.
    Cpp = 1 "CPP",
    /// .NET.
    Dotnet = 2 "DOTNET",
    /// Python.
    Python = 3 "PYTHON",
    /// Delphi.
    Delphi = 4 "DELPHI",
    /// Erlang.
    Erlang = 5 "ERLANG",
    /// Ruby.
    Ruby = 6 "RUBY",
    /// None of the others.
    Other = 7 "OTHER",
    /// A gateway from HTTP.
    Http = 8 "HTTP",
    /// Go.
    Go = 9 "GO",
    /// PHP.
    Php = 10 "PHP",
    /// The OpenMessaging interface.
    Oms = 11 "OMS",
    /// Rust, what we state.
    Rust = 12 "RUST",
    /// Node.js.
    NodeJs = 13 "NODE_JS",
}
