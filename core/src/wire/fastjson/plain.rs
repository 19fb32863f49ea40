//! How far text can be taken as it stands, looked at eight bytes at a time: names and values of headers are
//! short, many, and hardly ever need an escape.

const ONES: u64 = u64::MAX / 0xFF;
const HIGHS: u64 = ONES << 7;

/// Where the first byte is that a JSON string cannot have as it stands: a quote, a backslash or a control
/// character. All of them are ASCII, so text can be cut before and behind it.
pub(crate) fn first_special(bytes: &[u8]) -> Option<usize> {
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let marks = marks(u64::from_le_bytes(*word));
        if marks != 0 {
            return Some(index * 8 + marks.trailing_zeros() as usize / 8);
        }
    }
    let Some(last) = bytes.last_chunk() else {
        let is_special = |byte: &u8| *byte < b' ' || matches!(byte, b'"' | b'\\');
        return rest.iter().position(is_special);
    };
    // Of the last eight, those that are looked at twice are known to be ordinary.
    match marks(u64::from_le_bytes(*last)) {
        0 => None,
        marks => Some(bytes.len() - 8 + marks.trailing_zeros() as usize / 8),
    }
}

/// The high bit of each special byte. A borrow only ever comes from a byte that is marked itself, so the lowest
/// mark is never a false one; those above it may be.
const fn marks(word: u64) -> u64 {
    let quotes = word ^ (ONES * b'"' as u64);
    let backslashes = word ^ (ONES * b'\\' as u64);
    let controls = word.wrapping_sub(ONES * b' ' as u64) & !word;
    let quotes = quotes.wrapping_sub(ONES) & !quotes;
    let backslashes = backslashes.wrapping_sub(ONES) & !backslashes;
    (controls | quotes | backslashes) & HIGHS
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_first_special_byte_is_found_wherever_it_is(
            bytes in prop::collection::vec(
                prop_oneof![any::<u8>(), prop::sample::select(b"\"\\\0\x1f !#[]ab\x7f\x80\xff".to_vec())],
                0..40,
            ),
        ) {
            // Most drawn bytes are special; these are few.
            let sparse: Vec<u8> = bytes.iter().map(|byte| if *byte < 0x30 { byte | 0x40 } else { *byte }).collect();
            for bytes in [&bytes, &sparse] {
                let one_by_one = bytes.iter().position(|byte| *byte < b' ' || *byte == b'"' || *byte == b'\\');
                prop_assert_eq!(first_special(bytes), one_by_one);
            }
        }
    }
}
