use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn bytes<const N: usize>(value: &Value) -> [u8; N] {
    let text = value.as_str().expect("hexadecimal text");
    let bytes: Vec<u8> = (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal"))
        .collect();
    bytes.try_into().expect("the right length")
}

#[test]
fn siphash_is_that_of_its_authors() {
    // The example of the paper's appendix A.
    let key: [u8; 16] = std::array::from_fn(|i| i as u8);
    let message: [u8; 15] = std::array::from_fn(|i| i as u8);
    assert_eq!(
        u64::from_le_bytes(siphash(&key, &message)),
        0xa129_ca61_49be_45e5
    );
}

#[test]
fn keys_and_tags_are_those_of_the_vectors() {
    let vectors: Value = serde_json::from_str(include_str!(
        "../../../../base/wire/vectors/path-header.json"
    ))
    .expect("the vectors are JSON");
    let vectors = vectors["tags"].as_array().expect("an array of tags");
    assert!(vectors.len() >= 3);
    for vector in vectors {
        let keys = Keys::new(
            &bytes(&vector["master"]),
            vector["generation"].as_u64().expect("a number"),
        );
        let time = vector["sent_us"].as_u64().expect("a number");
        assert_eq!(keys.key, bytes(&vector["key"]));
        assert_eq!(Some(keys.offset), vector["offset"].as_u64());
        let tag = keys.tag(time, &bytes(&vector["covered"]));
        assert!(same(tag, bytes(&vector["tag"])));
        let header: [u8; 32] = bytes(&vector["header"]);
        assert_eq!(
            header[16..19],
            keys.timestamp(time).micros().to_be_bytes()[1..]
        );
    }
}

proptest! {
    #[test]
    fn a_time_is_found_again_from_its_timestamp(
        master: Master, generation: u64, time in 0_u64..1 << 60, wrong in -8_000_000_i64..8_000_000,
    ) {
        let keys = Keys::new(&master, generation);
        let expected = time.saturating_add_signed(wrong);
        prop_assert_eq!(keys.time(keys.timestamp(time), expected), Some(time));
    }

    #[test]
    fn any_flip_of_a_covered_bit_makes_another_tag(
        master: Master, time: u64, covered: [u8; 28], bit in 0_usize..224,
    ) {
        let keys = Keys::new(&master, 0);
        let mut flipped = covered;
        flipped[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(!same(keys.tag(time, &covered), keys.tag(time, &flipped)));
    }
}
