use alloc::vec::Vec;

use miniz_oxide::inflate::{TINFLStatus, decompress_to_vec_zlib_with_limit};

use super::BodyError;

/// Opens a zlib stream. Bytes behind its end are ignored, as Java ignores them.
pub(super) fn decompress(stored: &[u8], limit: usize) -> Result<Vec<u8>, BodyError> {
    decompress_to_vec_zlib_with_limit(stored, limit).map_err(|error| {
        if error.status == TINFLStatus::HasMoreOutput {
            BodyError::TooLarge { limit }
        } else {
            BodyError::Corrupt
        }
    })
}
