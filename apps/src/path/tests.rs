use std::time::Duration;

use proptest::prelude::*;

use super::*;
use evenkeel_tests::time::epoch;

fn sample(now: Instant) -> PathSample {
    PathSample::new(now, Duration::from_micros(40_500))
}

proptest! {
    #[test]
    fn any_text_is_a_use_of_headers_or_an_error(text in "(off|echo|[0-9]{0,12}|\\PC{0,8})") {
        if let Ok(usage) = text.parse::<HeaderUse>() {
            prop_assert_eq!(usage.to_string().parse(), Ok(usage));
        }
    }
}

#[test]
fn a_header_on_every_zeroth_datagram_is_off() {
    assert_eq!("0".parse(), Ok(HeaderUse::Off));
    assert_eq!("3".parse(), Ok(HeaderUse::of_every(3)));
    assert_eq!("echo".parse(), Ok(HeaderUse::of_every(3).answer()));
    for text in ["", "-1", "on", "4294967296"] {
        assert!(text.parse::<HeaderUse>().is_err(), "{text}");
    }
}

#[test]
fn a_summary_has_the_last_and_the_mean_of_what_was_told() {
    let origin = epoch();
    let mut samples = Samples::default();
    assert_eq!(samples.summary().congested_share, None);
    let ms = Duration::from_millis;
    for (nth, forward) in [Some(ms(10)), None, Some(ms(4))].into_iter().enumerate() {
        let mut sample = sample(origin);
        sample.forward_queueing = forward;
        sample.grant = (nth == 2).then_some(Grant::Rate(1000));
        sample.congested = nth == 1;
        sample.flows = Some(nth as u32);
        samples.add(&SampleRecord::new(&sample, origin));
    }
    let summary = samples.summary();
    let forward = summary.forward_queueing_ms.unwrap();
    assert_eq!((forward.last, forward.mean), (4.0, 7.0));
    assert_eq!(summary.backward_queueing_ms, None);
    assert_eq!(summary.samples, 3);
    assert_eq!(summary.congested_share, Some(1.0 / 3.0));
    assert_eq!((summary.grant_bps, summary.flows), (Some(8000), Some(2)));
}

#[test]
fn a_record_reads_back_as_written() {
    let origin = epoch();
    let mut told = sample(origin + Duration::from_millis(250));
    told.forward_queueing = Some(Duration::from_micros(1_001));
    told.grant = Some(Grant::WindowChange(-128));
    told.flows = Some(30);
    let record = SampleRecord::new(&told, origin);
    assert_eq!((record.at_s, record.rtt_ms), (0.25, 40.5));
    assert_eq!(record.window_change_bytes, Some(-0.5));
    let json = serde_json::to_string(&record).unwrap();
    assert_eq!(serde_json::from_str::<SampleRecord>(&json).unwrap(), record);

    let report = HeaderReport {
        state: HeaderState::Confirmed,
        counts: HeaderCounters {
            sent: 3,
            ..HeaderCounters::default()
        },
    };
    let json = serde_json::to_string(&report).unwrap();
    assert!(
        json.starts_with(r#"{"state":"confirmed","sent":3,"#),
        "{json}"
    );
    assert_eq!(serde_json::from_str::<HeaderReport>(&json).unwrap(), report);
}
