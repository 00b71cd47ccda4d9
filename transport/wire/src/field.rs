//! Reading the fields of a header.

use std::ops::Range;

/// The bytes of a field.
///
/// # Panics
/// If the field has not `N` bytes, or the header does not hold it.
pub(crate) fn array<const N: usize>(header: &[u8], field: Range<usize>) -> [u8; N] {
    header[field]
        .try_into()
        .expect("a field is read as long as it is")
}

/// The value of a field of two bytes.
pub(crate) fn word(header: &[u8], field: Range<usize>) -> u16 {
    u16::from_be_bytes(array(header, field))
}
