use super::*;

fn frames(config: EncoderConfig, viewer: u64, count: usize) -> Vec<Encoded> {
    let mut encoder = Encoder::new(config, viewer);
    (0..count).map(|_| encoder.next(3_000_000, false)).collect()
}

#[test]
fn a_group_has_the_bitrate_and_its_key_frame_is_as_much_larger_as_asked_for() {
    let config = EncoderConfig {
        noise: 0.0,
        ..EncoderConfig::default()
    };
    let group = frames(config, 0, 60);
    let bytes: usize = group.iter().map(|frame| frame.length).sum();
    // Two seconds at 3 Mb/s are 750 kB; each frame is rounded.
    assert!(bytes.abs_diff(750_000) <= 30, "{bytes}");
    assert!(group[0].key && group[1..].iter().all(|frame| !frame.key));
    let ratio = group[0].length as f64 / group[1].length as f64;
    assert!((ratio - 5.0).abs() < 0.001, "{ratio}");
}

#[test]
fn the_noise_keeps_the_mean() {
    let config = EncoderConfig {
        noise: 0.5,
        ..EncoderConfig::default()
    };
    let bytes: usize = frames(config, 0, 60 * 500).iter().map(|f| f.length).sum();
    let mean = bytes as f64 / 500.0;
    assert!((mean / 750_000.0 - 1.0).abs() < 0.02, "{mean}");
}

#[test]
fn the_same_seed_and_viewer_give_the_same_frames_and_others_do_not() {
    let config = EncoderConfig::default();
    assert_eq!(frames(config, 3, 200), frames(config, 3, 200));
    assert_ne!(frames(config, 3, 200), frames(config, 4, 200));
    let other = EncoderConfig { seed: 2, ..config };
    assert_ne!(frames(config, 3, 200), frames(other, 3, 200));
}

#[test]
fn a_restart_begins_a_new_group() {
    let mut encoder = Encoder::new(
        EncoderConfig {
            group: 4,
            ..EncoderConfig::default()
        },
        0,
    );
    let keys: Vec<bool> = (0..9)
        .map(|nth| encoder.next(1_000_000, nth == 6).key)
        .collect();
    assert_eq!(
        keys,
        [true, false, false, false, true, false, true, false, false]
    );
}

#[test]
fn absurd_settings_are_refused_and_absurd_rates_bounded() {
    let fine = EncoderConfig::default();
    for wrong in [
        EncoderConfig {
            frame_rate: f64::NAN,
            ..fine
        },
        EncoderConfig {
            frame_rate: 0.0,
            ..fine
        },
        EncoderConfig { group: 0, ..fine },
        EncoderConfig {
            key_ratio: 0.5,
            ..fine
        },
        EncoderConfig {
            noise: -1.0,
            ..fine
        },
    ] {
        assert!(wrong.check().is_err(), "{wrong:?}");
    }
    fine.check().unwrap();
    assert_eq!(
        Encoder::new(fine, 0).next(u64::MAX, false).length,
        MAX_FRAME
    );
    assert_eq!(Encoder::new(fine, 0).next(0, false).length, 1);
}
