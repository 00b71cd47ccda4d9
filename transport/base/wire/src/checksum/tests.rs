use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

#[test]
fn the_sum_of_rfc_1071_section_3_is_ddf2() {
    let sum = Sum::default().bytes(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
    assert_eq!(sum.checksum(), !0xddf2);
}

#[test]
fn the_update_of_rfc_1624_section_4_gives_zero_and_not_ffff() {
    // HC = 0xDD2F, m = 0x5555 -> m' = 0x3285; equation 2 of RFC 1141 gave 0xFFFF.
    assert_eq!(
        update_checksum(0xdd2f, &[0x55, 0x55], &[0x32, 0x85]),
        0x0000
    );
}

#[test]
fn an_absent_udp_checksum_stays_absent() {
    assert_eq!(update_udp_checksum(0, &[1, 2], &[3, 4]), 0);
}

#[test]
fn a_udp_checksum_that_becomes_zero_is_written_as_all_ones() {
    assert_eq!(
        update_udp_checksum(0xdd2f, &[0x55, 0x55], &[0x32, 0x85]),
        0xffff
    );
}

proptest! {
    #[test]
    fn an_incremental_update_equals_a_full_computation(
        mut data in vec(any::<u8>(), 4..200),
        at in any::<prop::sample::Index>(),
        replacement in vec(any::<u8>(), 0..40),
    ) {
        // One word that stays and is not zero, like the version of IPv4 or UDP's protocol.
        data.splice(0..0, [0x45, 0x00]);
        let replacement = &replacement[..replacement.len() / 2 * 2];
        let room = data.len() - 2;
        let length = replacement.len().min(room / 2 * 2);
        let start = 2 + at.index((room - length) / 2 + 1) * 2;
        let before = Sum::default().bytes(&data).checksum();
        let old = data[start..start + length].to_vec();
        data[start..start + length].copy_from_slice(&replacement[..length]);
        let after = Sum::default().bytes(&data).checksum();
        prop_assert_eq!(update_checksum(before, &old, &replacement[..length]), after);
    }

    #[test]
    fn data_with_its_own_checksum_sums_to_zero(mut data in vec(any::<u8>(), 2..100)) {
        data.truncate(data.len() / 2 * 2);
        let checksum = Sum::default().bytes(&data).checksum();
        data.extend(checksum.to_be_bytes());
        prop_assert_eq!(Sum::default().bytes(&data).checksum(), 0);
    }
}
