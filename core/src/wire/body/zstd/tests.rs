//! Frames of the reference tool (`zstd` 1.5), and what damage does to them.

use alloc::vec;

use super::*;
use crate::wire::body::BodyError::{Corrupt, TooLarge};

fn hex(text: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex");
    (0..text.len()).step_by(2).map(byte).collect()
}

/// 1,500 bytes with their size and a checksum.
const CHECKED: &str = "28b52ffd64dc04b500007868656c6c6f20726f636b65746d71200100cac93feb39623a2a";
/// The same with a checksum alone.
const STREAMED: &str = "28b52ffd0458b500007868656c6c6f20726f636b65746d71200100cac93feb39623a2a";
/// 70,000 bytes, neither size nor checksum: what Java writes.
const PLAIN: &str = "28b52ffd0058e50000a0302c312c322c332c342c352c362c372c382c392c0100b2222e9f4c";
/// A million zeros in eight blocks.
const ZEROS: &str =
    "28b52ffd04585400001000000100fbff39c00202001000020010000200100002001000020010000200100003120a00ccaeca39";

fn hello() -> Vec<u8> {
    b"hello rocketmq ".repeat(100)
}

#[test]
fn frames_are_read_with_and_without_their_size() {
    assert_eq!(decompress(&hex(CHECKED), 1_500), Ok(hello()));
    assert_eq!(decompress(&hex(STREAMED), 1_500), Ok(hello()));
    assert!(decompress(&hex(PLAIN), 70_000) == Ok(b"0,1,2,3,4,5,6,7,8,9,".repeat(3_500)));
    assert!(decompress(&hex(ZEROS), 1 << 20) == Ok(vec![0; 1_000_000]));
}

#[test]
fn frames_follow_each_other_and_skippable_ones_are_skipped() {
    let skip = hex("5a2a4d1803000000aabbcc");
    let both = [hex(CHECKED), skip.clone(), hex(STREAMED), skip].concat();
    assert_eq!(decompress(&both, 3_000), Ok(hello().repeat(2)));
    assert_eq!(decompress(&both, 2_999), Err(TooLarge { limit: 2_999 }));
    for tail in ["00", "5a2a4d1804000000aabbcc", "5a2a4d18", "28b52ffd"] {
        assert_eq!(
            decompress(&[hex(PLAIN), hex(tail)].concat(), 80_000),
            Err(Corrupt)
        );
    }
}

#[test]
fn a_cut_is_noticed_wherever_it_is() {
    for whole in [hex(CHECKED), hex(STREAMED), hex(PLAIN), hex(ZEROS)] {
        for len in 1..whole.len() {
            assert_eq!(
                decompress(&whole[..len], 1 << 20),
                Err(Corrupt),
                "after {len} bytes"
            );
        }
    }
}

#[test]
fn a_wrong_checksum_or_size_is_damage() {
    let mut damaged = hex(CHECKED);
    *damaged.last_mut().expect("bytes") ^= 1;
    assert_eq!(decompress(&damaged, 2_000), Err(Corrupt));
    // The size in the header is two bytes, 256 less than they mean.
    let mut damaged = hex(CHECKED);
    damaged[5] ^= 1;
    assert_eq!(decompress(&damaged, 2_000), Err(Corrupt));
}

#[test]
fn a_bomb_stops_at_the_limit_wherever_that_is() {
    for frame in [CHECKED, STREAMED] {
        for limit in [0, 1, 1_499] {
            assert_eq!(decompress(&hex(frame), limit), Err(TooLarge { limit }));
        }
    }
    for limit in [0, 131_072, 999_999] {
        assert_eq!(decompress(&hex(ZEROS), limit), Err(TooLarge { limit }));
    }
    // A header that claims 16 EiB of content, or a window of 2 TiB, and has nothing.
    for claim in ["28b52ffde0ffffffffffffffff010000", "28b52ffd00f8010000"] {
        assert!(decompress(&hex(claim), 100).is_err());
    }
}
