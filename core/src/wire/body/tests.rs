use alloc::vec;
use alloc::vec::Vec;

use miniz_oxide::deflate::compress_to_vec_zlib;
use proptest::prelude::*;

use super::*;

const ZLIB: SysFlag = SysFlag(0x301);

fn open(stored: &[u8], flag: SysFlag) -> Result<Bytes, BodyError> {
    let stored = Bytes::copy_from_slice(stored);
    Body::decode(&stored, flag, 0, BodyLimits::default(), CrcPolicy::Ignore).map(|body| body.bytes)
}

#[test]
fn a_plain_body_is_a_slice_of_the_frame() {
    let frame = Bytes::from_static(b"..hello..");
    let stored = frame.slice(2..7);
    let body = Body::decode(
        &stored,
        SysFlag(0),
        0x3610_a686,
        BodyLimits::default(),
        CrcPolicy::Report,
    )
    .expect("a plain body");
    assert_eq!(body.bytes.as_ptr(), stored.as_ptr());
    assert_eq!(body.crc, CrcState::Match);
}

#[test]
fn formats_to_come_are_told_apart_from_damage() {
    let table = [
        (0x401, Unsupported::Compression(4)),
        (0x501, Unsupported::Compression(5)),
        (0x7C1, Unsupported::Compression(7)),
        #[cfg(not(feature = "zstd"))]
        (0x201, Unsupported::Zstd),
    ];
    for (flag, expected) in table {
        assert_eq!(
            open(b"data", SysFlag(flag)),
            Err(BodyError::Unsupported(expected))
        );
    }
    assert_eq!(open(b"data", ZLIB), Err(BodyError::Corrupt));
    assert_eq!(open(b"data", SysFlag(0x101)), Err(BodyError::Corrupt));
    #[cfg(feature = "zstd")]
    assert_eq!(open(b"data", SysFlag(0x201)), Err(BodyError::Corrupt));
    assert_eq!(open(b"", SysFlag(0x501)), Ok(Bytes::new()));
    // Neither the bits of an inner batch nor type bits alone change anything.
    for flag in [0x40, 0x80, 0x0C0, 0x2C0] {
        assert_eq!(open(b"data", SysFlag(flag)), Ok(Bytes::from_static(b"data")));
    }
}

#[test]
fn zlib_bytes_behind_the_end_are_ignored_and_a_cut_is_noticed() {
    let plain = b"hello rocketmq ".repeat(100);
    let stored = compress_to_vec_zlib(&plain, 5);
    assert_eq!(open(&stored, ZLIB), Ok(plain.clone().into()));
    assert_eq!(open(&stored, SysFlag(1)), Ok(plain.clone().into()));
    assert_eq!(open(&[&stored[..], b"tail"].concat(), ZLIB), Ok(plain.into()));
    assert_eq!(open(&stored[..stored.len() / 2], ZLIB), Err(BodyError::Corrupt));
}

#[test]
fn a_bomb_stops_at_the_limit() {
    let limits = BodyLimits {
        decompressed_max: 1000,
    };
    for (size, fits) in [(999, true), (1000, true), (1001, false), (1_000_000, false)] {
        let stored = Bytes::from(compress_to_vec_zlib(&vec![0; size], 9));
        let opened = Body::decode(&stored, ZLIB, 0, limits, CrcPolicy::Ignore);
        match opened {
            Ok(body) => assert!(fits && body.bytes.len() == size),
            Err(error) => {
                assert_eq!(error, BodyError::TooLarge { limit: 1000 });
                assert!(!fits);
            }
        }
    }
}

#[test]
fn the_checksum_is_of_the_stored_form_without_its_highest_bit() {
    assert!(crc_matches(b"hello", 0x3610_a686));
    assert!(crc_matches(b"hello", 0xb610_a686));
    assert!(!crc_matches(b"hello", 0x3610_a687));
    assert!(crc_matches(b"", 0));

    let stored = Bytes::from_static(b"hello");
    let decode = |policy| Body::decode(&stored, SysFlag(0), 1, BodyLimits::default(), policy);
    assert_eq!(
        decode(CrcPolicy::Ignore).map(|body| body.crc),
        Ok(CrcState::Unchecked)
    );
    assert_eq!(
        decode(CrcPolicy::Report).map(|body| body.crc),
        Ok(CrcState::Mismatch)
    );
    assert_eq!(decode(CrcPolicy::Reject), Err(BodyError::Crc));
}

proptest! {
    #[test]
    fn any_stored_body_is_survived(stored in proptest::collection::vec(any::<u8>(), 0..200), flag in any::<i32>()) {
        let _ = open(&stored, SysFlag(flag));
    }

    #[test]
    fn zlib_opens_to_what_was_sent(plain in proptest::collection::vec(any::<u8>(), 1..2000), level in 0..10_u8) {
        let stored: Vec<u8> = compress_to_vec_zlib(&plain, level);
        prop_assert_eq!(open(&stored, ZLIB), Ok(plain.into()));
    }
}
