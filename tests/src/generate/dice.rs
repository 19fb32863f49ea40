//! Choices. When the bytes have run out, each falls on its first case.

use arbitrary::{Result, Unstructured};

/// One of several, most often; the list is never empty.
pub(super) fn pick<T: Copy>(u: &mut Unstructured<'_>, from: &[T]) -> Result<T> {
    u.choose(from).copied()
}

/// True once in `n` times, and not when the bytes have run out.
pub(super) fn rarely(u: &mut Unstructured<'_>, n: u8) -> Result<bool> {
    Ok(!u.ratio(n - 1, n)?)
}

/// Something or nothing.
pub(super) fn maybe<'a, T>(
    u: &mut Unstructured<'a>,
    make: impl FnOnce(&mut Unstructured<'a>) -> Result<T>,
) -> Result<Option<T>> {
    if u.arbitrary()? {
        make(u).map(Some)
    } else {
        Ok(None)
    }
}

/// Up to `most` of something, one after another.
pub(super) fn several<'a, T, C: FromIterator<T>>(
    u: &mut Unstructured<'a>,
    most: usize,
    mut make: impl FnMut(&mut Unstructured<'a>) -> Result<T>,
) -> Result<C> {
    let count = u.int_in_range(0..=most)?;
    (0..count).map(|_| make(u)).collect()
}

/// Up to `most` bytes.
pub(super) fn bytes(u: &mut Unstructured<'_>, most: usize) -> Result<Vec<u8>> {
    let count = u.int_in_range(0..=most)?;
    Ok(u.bytes(count.min(u.len()))?.to_vec())
}

/// An offset as brokers have them, small more often than large.
pub(super) fn offset(u: &mut Unstructured<'_>) -> Result<i64> {
    match u.int_in_range(0..=3_u8)? {
        0 | 1 => u.int_in_range(0..=300),
        2 => u.int_in_range(0..=1 << 40),
        _ => pick(u, &[i64::MAX, i64::MAX - 1, i64::from(i32::MAX) + 1, 0]),
    }
}
