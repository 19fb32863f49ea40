//! Bodies in each of their containers, alone and as lists of an inner batch.

use bytes::Bytes;
use rocketmq_consumer_core::wire::body::{Body, BodyError, BodyLimits, CrcPolicy};
use rocketmq_consumer_core::wire::send_batch::BatchEntries;
use rocketmq_consumer_core::wire::stored::SysFlag;

/// The largest body here, in bytes: small enough to be reached, and larger than a block of some formats.
const BODY_MAX: usize = 100_000;

/// Opens bytes as a body. The first byte says which compression there is, as the system flag does; the rest is
/// what is stored.
///
/// A body opens within the limit or is refused, and says the same each time. With a smaller limit it is the
/// same body or too large, never another one. What opens may be a list of messages, which ends somewhere.
///
/// # Panics
///
/// When one of these does not hold.
pub fn bodies(data: &[u8]) {
    let Some((&kind, stored)) = data.split_first() else {
        return;
    };
    let stored = Bytes::copy_from_slice(stored);
    let flag = SysFlag(SysFlag::COMPRESSED | i32::from(kind & 7) << 8);
    let whole = open(&stored, flag, BODY_MAX);
    assert_eq!(open(&stored, flag, BODY_MAX), whole, "once like twice");
    let smaller = usize::from(kind >> 3) * 100;
    match (&whole, open(&stored, flag, smaller)) {
        (Ok(body), Ok(again)) => assert!(*body == again && body.len() <= smaller),
        (Ok(body), Err(BodyError::TooLarge { limit })) => assert!(limit == smaller && body.len() > smaller),
        // What is damaged behind the limit is not always reached.
        (Err(_), Err(_)) => {}
        (whole, again) => panic!(
            "{:?} with {smaller} bytes, {:?} with more",
            again.err(),
            whole.as_ref().err()
        ),
    }
    if let Ok(list) = whole {
        assert!(list.len() <= BODY_MAX, "the limit holds");
        let read = BatchEntries::new(&list).take_while(Result::is_ok).count();
        assert!(read <= list.len(), "an entry has bytes");
    }
}

fn open(stored: &Bytes, flag: SysFlag, decompressed_max: usize) -> Result<Bytes, BodyError> {
    let limits = BodyLimits { decompressed_max };
    Body::decode(stored, flag, 0, limits, CrcPolicy::Ignore).map(|body| body.bytes)
}
