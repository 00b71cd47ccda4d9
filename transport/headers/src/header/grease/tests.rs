use evenkeel_wire::{PathHeaderPrefix, split_path_header};

use super::*;

#[test]
fn the_same_seed_gives_the_same_choices_and_another_gives_others() {
    let choices = |seed: &[u8]| {
        let mut grease = Grease::new(seed);
        let headers: Vec<_> = (0..5_000).filter_map(|_| grease.header(true)).collect();
        (grease.versions(&[1]), headers)
    };
    assert_eq!(choices(b"a"), choices(b"a"));
    assert_ne!(choices(b"a").1, choices(b"b").1);
}

#[test]
fn every_second_connection_offers_a_version_that_nobody_has_beside_the_real_ones() {
    let mut seen = std::collections::HashSet::new();
    let mut first = 0;
    for seed in 0..1_000_u32 {
        let offered = Grease::new(&seed.to_le_bytes()).versions(&[1]);
        let unknown: Vec<_> = offered.iter().filter(|version| **version != 1).collect();
        assert_eq!(offered.len() - unknown.len(), 1, "{offered:?}");
        assert!(unknown.len() <= 1 && unknown.iter().all(|version| **version >= 4));
        first += usize::from(offered[0] != 1);
        seen.extend(unknown.into_iter().copied());
    }
    // 500 draws of 252 values leave 252 e^-2 = 34 out.
    assert!((200..=235).contains(&seen.len()), "{}", seen.len());
    // A quarter, +- 4 standard deviations of 13.7.
    assert!((195..=305).contains(&first), "{first}");
}

#[test]
fn now_and_then_a_header_is_of_kind_0_and_is_taken_off_whole() {
    let mut grease = Grease::new(b"seed");
    let mut lengths = std::collections::BTreeSet::new();
    let mut count = 0;
    for nth in 0..100_000 {
        let alone = nth % 2 == 0;
        let Some(mut header) = grease.header(alone) else {
            continue;
        };
        count += 1;
        assert!(alone || header.len() == PATH_HEADER_LEN);
        lengths.insert(header.len());
        header.extend([0x40; 30]);
        let (prefix, packet) = split_path_header(&header).expect("a header");
        assert_eq!(prefix, PathHeaderPrefix::Unknown);
        assert_eq!(packet, [0x40; 30]);
    }
    // One in 256.5, +- 4 standard deviations (their distances are uniform).
    assert!((344..=436).contains(&count), "{count}");
    assert_eq!(
        lengths.into_iter().collect::<Vec<_>>(),
        [8, 12, 16, 20, 24, 28, 32]
    );
}
