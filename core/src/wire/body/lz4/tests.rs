//! Frames of the reference tool (`lz4` 1.9), and what damage does to them.

use alloc::vec;

use super::*;
use crate::wire::body::BodyError::{Corrupt, TooLarge};

/// Hex text as bytes; a number stands for so many bytes of `ff`.
macro_rules! bytes {
    ($($part:expr),*) => {{
        let mut out = Vec::new();
        $($part.put(&mut out);)*
        out
    }};
}

trait Part {
    fn put(self, out: &mut Vec<u8>);
}

impl Part for usize {
    fn put(self, out: &mut Vec<u8>) {
        out.resize(out.len() + self, 0xff);
    }
}

impl Part for &str {
    fn put(self, out: &mut Vec<u8>) {
        let byte = |at| u8::from_str_radix(&self[at..at + 2], 16).expect("hex");
        out.extend((0..self.len()).step_by(2).map(byte));
    }
}

/// 70,000 bytes: two blocks of at most 64 KiB.
fn digits() -> Vec<u8> {
    b"0,1,2,3,4,5,6,7,8,9,".repeat(3_500)
}

/// The second block goes on with what the first one ends with.
fn linked() -> Vec<u8> {
    bytes!(
        "04224d184040c01f010000ff05302c312c322c332c342c352c362c372c382c392c1400",
        256_usize,
        "d4502c362c372c1b0000000ff0",
        18_usize,
        "69502c382c392c00000000"
    )
}

/// Linked blocks with a checksum each, the size of the content and its checksum.
fn checked() -> Vec<u8> {
    bytes!(
        "04224d185c407011010000000000e31f010000ff05302c312c322c332c342c352c362c372c382c392c1400",
        256_usize,
        "d4502c362c372c89a538281b0000000ff0",
        18_usize,
        "69502c382c392c7e2089f100000000d1c5930e"
    )
}

/// Independent blocks and a checksum of the content: what Java writes, but for the checksum.
fn independent() -> Vec<u8> {
    bytes!(
        "04224d186440a71f010000ff05302c312c322c332c342c352c362c372c382c392c1400",
        256_usize,
        "d4502c362c372c30000000ff05382c392c302c312c322c332c342c352c362c372c1400",
        17_usize,
        "55502c382c392c00000000d1c5930e"
    )
}

/// A frame whose only block is stored as it is.
fn as_it_is(content: &[u8]) -> Vec<u8> {
    let mut frame = bytes!("04224d1860408200000000");
    frame.truncate(7);
    frame.extend((content.len() as u32 | AS_IT_IS).to_le_bytes());
    frame.extend(content);
    frame.extend([0; 4]);
    frame
}

#[test]
fn every_kind_of_block_is_read() {
    for (what, frame) in [
        ("linked", linked()),
        ("checked", checked()),
        ("independent", independent()),
    ] {
        assert!(decompress(&frame, 70_000) == Ok(digits()), "{what}");
    }
    assert_eq!(decompress(&as_it_is(b"hello"), 5), Ok(b"hello".to_vec()));
    assert_eq!(decompress(&as_it_is(b""), 5), Ok(vec![]));
}

#[test]
fn frames_follow_each_other_and_skippable_ones_are_skipped() {
    let skip = bytes!("5f2a4d1803000000aabbcc");
    let both = [as_it_is(b"a"), skip.clone(), linked(), skip, as_it_is(b"b")].concat();
    let want = [b"a".to_vec(), digits(), b"b".to_vec()].concat();
    assert!(decompress(&both, want.len()) == Ok(want.clone()));
    assert_eq!(
        decompress(&both, want.len() - 1),
        Err(TooLarge {
            limit: want.len() - 1
        })
    );
    for tail in ["00", "5f2a4d1804000000aabbcc", "02214c18", "04224d18"] {
        assert_eq!(
            decompress(&[linked(), bytes!(tail)].concat(), 80_000),
            Err(Corrupt)
        );
    }
}

#[test]
fn a_cut_is_noticed_wherever_it_is() {
    for whole in [linked(), checked(), independent(), as_it_is(b"hello")] {
        for len in 1..whole.len() {
            assert_eq!(
                decompress(&whole[..len], 70_000),
                Err(Corrupt),
                "after {len} bytes"
            );
        }
    }
}

#[test]
fn with_checksums_no_byte_can_be_changed() {
    let whole = checked();
    for at in 0..whole.len() {
        for bit in [1, 0x80] {
            let mut damaged = whole.clone();
            damaged[at] ^= bit;
            assert_eq!(decompress(&damaged, 70_000), Err(Corrupt), "byte {at}");
        }
    }
}

#[test]
fn headers_with_what_nobody_writes_are_refused() {
    // A right header check each: version 00, the reserved bits, a dictionary, and sizes below 64 KiB.
    for (flags, sizes) in [
        (0x20, 0x40),
        (0x62, 0x40),
        (0x61, 0x40),
        (0x60, 0x30),
        (0x60, 0xC0),
        (0x60, 0x41),
    ] {
        let check = XxHash32::oneshot(0, &[flags, sizes]).to_le_bytes()[1];
        let frame = [&MAGIC.to_le_bytes()[..], &[flags, sizes, check, 0, 0, 0, 0]].concat();
        assert_eq!(decompress(&frame, 10), Err(Corrupt), "{flags:#x} {sizes:#x}");
    }
}

#[test]
fn a_block_is_no_larger_than_the_header_says() {
    let content = vec![7; 64 * 1024 + 1];
    assert_eq!(decompress(&as_it_is(&content), 1 << 20), Err(Corrupt));
    assert!(decompress(&as_it_is(&content[1..]), 1 << 20).is_ok());
    // A block that says 64 KiB and makes more: one literal, and a match of as much as it can say.
    let data = [&[0x1f, 7, 1, 0][..], &[0xff; 300], &[0, 0x00]].concat();
    let mut frame = as_it_is(b"");
    frame.truncate(7);
    frame.extend((data.len() as u32).to_le_bytes());
    frame.extend(data);
    frame.extend([0; 4]);
    assert_eq!(decompress(&frame, 1 << 20), Err(Corrupt));
}

#[test]
fn a_bomb_stops_at_the_limit_wherever_that_is() {
    for frame in [linked(), checked(), independent()] {
        for limit in [0, 1, 19, 65_535, 65_536, 65_537, 69_999] {
            assert_eq!(decompress(&frame, limit), Err(TooLarge { limit }), "{limit}");
        }
    }
    assert_eq!(decompress(&as_it_is(b"hello"), 4), Err(TooLarge { limit: 4 }));
}
