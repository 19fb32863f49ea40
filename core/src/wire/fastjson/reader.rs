//! Tokens of a JSON text, strict or of fastjson's dialect, with the grammar checked.

use alloc::borrow::Cow;
use alloc::string::String;

use smallvec::SmallVec;

use super::SyntaxError;

/// How deep maps and lists may lie within each other: fastjson's own limit.
const DEPTH_MAX: usize = 2_048;

/// One token. Commas and colons are not tokens: the reader has checked them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token<'a> {
    MapStart,
    MapEnd,
    ListStart,
    ListEnd,
    /// A member's name; its value follows.
    Key(Cow<'a, str>),
    /// The start of an object that serves as a name; ends with its `MapEnd`, then the value follows.
    ObjectKey,
    Scalar(Scalar<'a>),
}

/// A value without parts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scalar<'a> {
    Text(Cow<'a, str>),
    /// As it was written.
    Number(&'a str),
    Bool(bool),
    Null,
}

impl Token<'_> {
    /// Whether the token starts the next item of the list, or the next member of the map, it is in.
    pub(crate) const fn begins_item(&self, in_list: bool) -> bool {
        match self {
            Self::Key(_) | Self::ObjectKey => true,
            Self::MapEnd | Self::ListEnd => false,
            Self::MapStart | Self::ListStart | Self::Scalar(_) => in_list,
        }
    }
}

/// What may come next within an open map or list.
#[derive(Clone, Copy, PartialEq)]
enum At {
    /// A name or the end.
    Name,
    /// A colon, after an object that serves as a name.
    Colon,
    /// A member's value.
    Member,
    /// A comma or the end, after a member.
    MemberEnd,
    /// A value or the end, at the beginning of a list.
    FirstItem,
    /// A value, after a comma.
    Item,
    /// A comma or the end, after an item.
    ItemEnd,
}

/// Reads a text token by token.
pub(crate) struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    open: SmallVec<[At; 16]>,
    /// The outermost value has begun.
    begun: bool,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self {
            text,
            at: 0,
            open: SmallVec::new(),
            begun: false,
        }
    }

    /// The error of something else standing where the reader is.
    pub(crate) const fn expected(&self, expected: &'static str) -> SyntaxError {
        SyntaxError {
            at: self.at,
            expected,
        }
    }

    /// The next token, `None` at the end of the text.
    pub(crate) fn next_token(&mut self) -> Result<Option<Token<'a>>, SyntaxError> {
        if self.begun && self.open.is_empty() {
            return self.end().map(|()| None);
        }
        self.skip_space()?;
        let Some(&at) = self.open.last() else {
            self.begun = true;
            return self.value().map(Some);
        };
        let token = match at {
            At::Name => self.name()?,
            At::Colon | At::Member => {
                if at == At::Colon {
                    self.colon()?;
                }
                self.expect_next(At::MemberEnd);
                self.value()?
            }
            At::MemberEnd if self.eat(b',') => {
                self.expect_next(At::Name);
                self.skip_space()?;
                self.name()?
            }
            At::MemberEnd => self.close(b'}', "',' or the end of the map")?,
            At::FirstItem if self.peek() == Some(b']') => self.close(b']', "a value")?,
            At::ItemEnd if self.eat(b',') => {
                self.expect_next(At::Item);
                self.skip_space()?;
                self.expect_next(At::ItemEnd);
                self.value()?
            }
            At::ItemEnd => self.close(b']', "',' or the end of the list")?,
            At::FirstItem | At::Item => {
                self.expect_next(At::ItemEnd);
                self.value()?
            }
        };
        Ok(Some(token))
    }

    /// Reads past the next value, whatever it is.
    pub(crate) fn skip_value(&mut self) -> Result<(), SyntaxError> {
        let token = self.next_token()?.ok_or(self.expected("a value"))?;
        self.skip_rest(&token)
    }

    /// Reads past what `token` has begun.
    pub(crate) fn skip_rest(&mut self, token: &Token<'_>) -> Result<(), SyntaxError> {
        if matches!(token, Token::MapStart | Token::ListStart) {
            let outside = self.open.len().saturating_sub(1);
            while self.open.len() > outside {
                self.next_token()?;
            }
        }
        Ok(())
    }

    /// Whether the map that has just begun is named by objects.
    pub(crate) fn names_are_objects(&mut self) -> bool {
        // A broken comment shows itself again at the next token.
        self.skip_space().is_ok() && self.peek() == Some(b'{')
    }

    fn name(&mut self) -> Result<Token<'a>, SyntaxError> {
        let name = match self.peek() {
            Some(b'}') => return self.close(b'}', "a name"),
            Some(b'{') => {
                self.expect_next(At::Colon);
                self.open_in(b'{', At::Name)?;
                return Ok(Token::ObjectKey);
            }
            Some(quote @ (b'"' | b'\'')) => self.string(quote)?,
            Some(b'-' | b'0'..=b'9') => {
                let digits = self.number()?;
                if digits.bytes().any(|b| matches!(b, b'.' | b'e' | b'E')) {
                    return Err(self.expected("an integer name"));
                }
                Cow::Borrowed(digits)
            }
            _ => return Err(self.expected("a name")),
        };
        self.colon()?;
        self.expect_next(At::Member);
        Ok(Token::Key(name))
    }

    fn value(&mut self) -> Result<Token<'a>, SyntaxError> {
        match self.peek() {
            Some(b'{') => self.open_in(b'{', At::Name).map(|()| Token::MapStart),
            Some(b'[') => self.open_in(b'[', At::FirstItem).map(|()| Token::ListStart),
            Some(quote @ (b'"' | b'\'')) => self.string(quote).map(Scalar::Text).map(Token::Scalar),
            Some(b'-' | b'0'..=b'9') => self.number().map(Scalar::Number).map(Token::Scalar),
            _ => self.word(),
        }
    }

    fn word(&mut self) -> Result<Token<'a>, SyntaxError> {
        for (word, scalar) in [
            (&b"true"[..], Scalar::Bool(true)),
            (b"false", Scalar::Bool(false)),
            (b"null", Scalar::Null),
        ] {
            if self.rest().starts_with(word) {
                self.at += word.len();
                return Ok(Token::Scalar(scalar));
            }
        }
        Err(self.expected("a value"))
    }

    fn number(&mut self) -> Result<&'a str, SyntaxError> {
        let rest = self.rest();
        let not_a_number = self.expected("a number");
        let digits = |from: usize| {
            let count = rest[from..].iter().take_while(|b| b.is_ascii_digit()).count();
            if count == 0 {
                Err(not_a_number)
            } else {
                Ok(from + count)
            }
        };
        let sign = usize::from(rest.first() == Some(&b'-'));
        // No digit may follow a leading zero.
        let mut end = if rest.get(sign) == Some(&b'0') {
            sign + 1
        } else {
            digits(sign)?
        };
        if rest.get(end) == Some(&b'.') {
            end = digits(end + 1)?;
        }
        if matches!(rest.get(end), Some(b'e' | b'E')) {
            let signed = matches!(rest.get(end + 1), Some(b'+' | b'-'));
            end = digits(end + 1 + usize::from(signed))?;
        }
        self.at += end;
        core::str::from_utf8(&rest[..end]).map_err(|_| not_a_number)
    }

    /// The string that begins here; borrowed when nothing in it had to be changed.
    fn string(&mut self, quote: u8) -> Result<Cow<'a, str>, SyntaxError> {
        let unclosed = self.expected("a closing quote");
        self.at += 1;
        let mut owned: Option<String> = None;
        let mut plain_from = self.at;
        loop {
            let byte = self.peek().ok_or(unclosed)?;
            if byte == quote || byte == b'\\' {
                let plain = String::from_utf8_lossy(&self.text[plain_from..self.at]);
                if byte == b'\\' {
                    let out = owned.get_or_insert_default();
                    out.push_str(&plain);
                    let escaped = self.escape()?;
                    owned.get_or_insert_default().push(escaped);
                    plain_from = self.at;
                    continue;
                }
                self.at += 1;
                return Ok(match owned {
                    Some(mut out) => {
                        out.push_str(&plain);
                        Cow::Owned(out)
                    }
                    None => plain,
                });
            }
            // As fastjson steps: by what the first byte of a character promises, so that a cut
            // character swallows the quote and a text in another encoding may come through.
            self.at += match byte {
                0..=0x7f => 1,
                0xc0..=0xdf => 2,
                0xe0..=0xef => 3,
                0xf0..=0xf7 => 4,
                0x80..=0xbf | 0xf8..=0xff => return Err(self.expected("UTF-8 text")),
            };
        }
    }

    fn escape(&mut self) -> Result<char, SyntaxError> {
        let wrong = self.expected("an escape");
        let simple = match self.text.get(self.at + 1).ok_or(wrong)? {
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            &same @ (b'"' | b'\'' | b'\\' | b'/') => char::from(same),
            b'u' => {
                let first = self.code_unit().ok_or(wrong)?;
                // A pair only if the second half follows; half a pair is what Java prints as '?'.
                let (here, mut units) = (self.at, [first, 0]);
                if matches!(first, 0xd800..=0xdbff)
                    && let Some(second @ 0xdc00..=0xdfff) = self.code_unit()
                {
                    units[1] = second;
                } else {
                    self.at = here;
                }
                let width = if units[1] == 0 { 1 } else { 2 };
                return Ok(char::decode_utf16(units.into_iter().take(width))
                    .next()
                    .and_then(Result::ok)
                    .unwrap_or('?'));
            }
            _ => return Err(wrong),
        };
        self.at += 2;
        Ok(simple)
    }

    /// The code unit of a `\uXXXX` that begins here.
    fn code_unit(&mut self) -> Option<u16> {
        let digits = self.rest().strip_prefix(b"\\u")?.first_chunk::<4>()?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let unit = u16::from_str_radix(core::str::from_utf8(digits).ok()?, 16).ok()?;
        self.at += 6;
        Some(unit)
    }

    fn colon(&mut self) -> Result<(), SyntaxError> {
        self.skip_space()?;
        if self.eat(b':') {
            return self.skip_space();
        }
        Err(self.expected("':'"))
    }

    fn open_in(&mut self, bracket: u8, first: At) -> Result<(), SyntaxError> {
        if self.open.len() == DEPTH_MAX {
            return Err(self.expected("less nesting"));
        }
        self.eat(bracket);
        self.open.push(first);
        Ok(())
    }

    fn close(&mut self, bracket: u8, expected: &'static str) -> Result<Token<'a>, SyntaxError> {
        if !self.eat(bracket) {
            return Err(self.expected(expected));
        }
        self.open.pop();
        Ok(if bracket == b'}' {
            Token::MapEnd
        } else {
            Token::ListEnd
        })
    }

    /// White space and NULs may follow the value, as fastjson has it.
    fn end(&mut self) -> Result<(), SyntaxError> {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n' | 0)) {
            self.at += 1;
        }
        if self.at < self.text.len() {
            return Err(self.expected("the end"));
        }
        Ok(())
    }

    fn skip_space(&mut self) -> Result<(), SyntaxError> {
        loop {
            match self.rest() {
                [b' ' | b'\t' | b'\r' | b'\n', ..] => self.at += 1,
                [b'/', b'*', inside @ ..] => {
                    let len = inside.windows(2).position(|pair| pair == b"*/");
                    self.at += 4 + len.ok_or(self.expected("the end of the comment"))?;
                }
                [b'/', b'/', line @ ..] => {
                    self.at += 2 + line.iter().position(|&b| b == b'\n').unwrap_or(line.len());
                }
                _ => return Ok(()),
            }
        }
    }

    fn expect_next(&mut self, next: At) {
        if let Some(at) = self.open.last_mut() {
            *at = next;
        }
    }

    fn eat(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }
}
