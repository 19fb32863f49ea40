//! Hex text, as people copy it from logs and packet dumps.

/// Reads pairs of hex digits, upper or lower case; white space does not count.
///
/// # Errors
/// Where something else stands.
pub(super) fn decode(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len() / 2);
    let mut high = None;
    for (at, &byte) in text.iter().enumerate() {
        if byte.is_ascii_whitespace() {
            continue;
        }
        let Some(digit) = char::from(byte)
            .to_digit(16)
            .and_then(|digit| u8::try_from(digit).ok())
        else {
            return Err(format!(
                "byte {at} of the input is not a hex digit; without --hex the input is raw bytes"
            ));
        };
        high = match high {
            None => Some(digit),
            Some(high) => {
                bytes.push(high << 4 | digit);
                None
            }
        };
    }
    match high {
        None => Ok(bytes),
        Some(_) => Err("the input has an odd number of hex digits".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_and_case_do_not_matter() {
        assert_eq!(decode(b" 0a F\nf\t").unwrap(), [0x0a, 0xff]);
        assert_eq!(decode(b"").unwrap(), [0_u8; 0]);
    }

    #[test]
    fn anything_else_is_refused() {
        assert!(decode(b"0x0a").unwrap_err().contains("byte 1"));
        assert!(decode(b"abc").unwrap_err().contains("odd"));
        assert!(decode("é".as_bytes()).is_err());
    }
}
