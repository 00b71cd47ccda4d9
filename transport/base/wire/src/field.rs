//! Reads the fields of a header.

use std::ops::Range;

/// Returns the bytes of a field.
///
/// # Panics
/// If the field does not have `N` bytes, or lies outside the header.
pub(crate) fn array<const N: usize>(header: &[u8], field: Range<usize>) -> [u8; N] {
    header[field]
        .try_into()
        .expect("a field is read as long as it is")
}

/// Returns the value of a two-byte field.
pub(crate) fn word(header: &[u8], field: Range<usize>) -> u16 {
    u16::from_be_bytes(array(header, field))
}
