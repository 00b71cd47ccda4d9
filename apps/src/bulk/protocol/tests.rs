use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::bulk::checksum::Hashing;
use crate::bulk::job::{Amount, Direction, MAX_BYTES, MAX_DURATION, MAX_STREAMS};
use crate::bulk::throttle::OnOff;
use crate::message::{MAX_MESSAGE, checked_length, decode, encode};

fn any_verify() -> impl Strategy<Value = Option<Hashing>> {
    prop_oneof![
        Just(None),
        Just(Some(Hashing::Blake3)),
        Just(Some(Hashing::Sha256))
    ]
}

fn any_job() -> impl Strategy<Value = Job> {
    let amount = prop_oneof![
        any::<u64>().prop_map(Amount::Bytes),
        any::<u64>().prop_map(|us| Amount::Duration(Duration::from_micros(us))),
        ".{0,40}".prop_map(Amount::File),
    ];
    let direction = prop_oneof![Just(Direction::Up), Just(Direction::Down)];
    let period = || any::<u64>().prop_map(Duration::from_micros);
    let throttle = (
        any::<Option<u64>>(),
        proptest::option::of((period(), period()).prop_map(|(on, off)| OnOff(on, off))),
    );
    let rest = (
        any::<u16>(),
        any::<u64>(),
        any_verify(),
        any::<Option<String>>(),
    );
    (direction, amount, rest, throttle).prop_map(
        |(direction, amount, (streams, omit, verify, controller), (rate_bps, on_off))| Job {
            direction,
            amount,
            streams,
            omit: Duration::from_micros(omit),
            verify,
            controller,
            rate_bps,
            on_off,
        },
    )
}

proptest! {
    #[test]
    fn any_bytes_decode_or_are_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = decode::<Job>(&bytes);
        let _ = decode::<Answer>(&bytes);
        let _ = decode::<Sent>(&bytes);
        let _ = decode::<Received>(&bytes);
    }

    #[test]
    fn a_request_arrives_as_it_was_sent(job in any_job()) {
        let message = encode(&job);
        let length = checked_length([message[0], message[1]]).unwrap();
        prop_assert_eq!(length, message.len() - 2);
        prop_assert_eq!(decode::<Job>(&message[2..]).unwrap(), job);
    }

    #[test]
    fn a_checked_job_is_within_its_bounds(job in any_job()) {
        if job.check().is_ok() {
            prop_assert!((1..=MAX_STREAMS).contains(&job.streams));
            if let Amount::Duration(time) = job.amount {
                prop_assert!(job.omit < time && time <= MAX_DURATION);
            }
        }
    }

    #[test]
    fn any_mutilated_request_is_an_error_or_a_job(
        job in any_job(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut message = encode(&job);
        let at = 2 + at.index(message.len() - 2);
        message[at] = byte;
        if let Ok(job) = decode::<Job>(&message[2..]) {
            let _ = job.check();
        }
    }

    #[test]
    fn ranges_cover_the_whole_without_gap_or_overlap(
        total in 0..=MAX_BYTES,
        streams in 1..=MAX_STREAMS,
    ) {
        let job = Job {
            streams,
            ..Job::new(Direction::Up, Amount::Bytes(total))
        };
        let plan = Plan::new(&job, None).unwrap();
        let mut next = 0;
        for index in 0..streams {
            let range = plan.range(index).unwrap();
            prop_assert_eq!(range.start, next);
            prop_assert!((range.end - range.start).abs_diff(total / u64::from(streams)) <= 1);
            next = range.end;
        }
        prop_assert_eq!(next, total);
    }
}

proptest! {
    #[test]
    fn an_offered_file_arrives_as_it_was_described(
        bytes in any::<u64>(),
        mode in any::<u16>(),
        micros in any::<i64>(),
        controller in any::<Option<String>>(),
    ) {
        let json = format!(
            r#"{{"accepted":{{"file":{{"bytes":{bytes},"attributes":{{"mode":{mode},"modified_us":{micros}}}}}}}}}"#
        );
        let Answer::Accepted { file, .. } = decode::<Answer>(json.as_bytes()).unwrap() else {
            panic!("{json}")
        };
        let answer = Answer::Accepted { file, controller };
        prop_assert_eq!(decode::<Answer>(&encode(&answer)[2..]).unwrap(), answer);
        let plain = encode(&Answer::Accepted { file, controller: None });
        let text = String::from_utf8(plain[2..].to_vec()).unwrap();
        prop_assert_eq!(text, json);
    }
}

#[test]
fn unknown_fields_and_wrong_types_are_named() {
    for (json, word) in [
        (r#"{"direction":"sideways"}"#, "sideways"),
        (r#"{"direction":"up","amount":{"bytes":-1}}"#, "-1"),
        (r#"{"direction":"up","colour":1}"#, "colour"),
        ("[[[[", "line 1"),
        ("", "EOF"),
    ] {
        let error = decode::<Job>(json.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(word), "{json}: {error}");
    }
}

#[test]
fn the_checksums_of_all_streams_fit_in_a_message() {
    let sent = Sent {
        bytes: u64::MAX,
        checksums: vec![Hashing::Sha256.of(b""); usize::from(MAX_STREAMS)],
    };
    assert!(encode(&sent).len() <= MAX_MESSAGE);
}

fn patterned(rate_bps: Option<u64>, on_off_ms: Option<(u64, u64)>) -> Job {
    let ms = Duration::from_millis;
    Job {
        rate_bps,
        on_off: on_off_ms.map(|(on, off)| OnOff(ms(on), ms(off))),
        ..Job::new(Direction::Down, Amount::Bytes(1))
    }
}

#[test]
fn contradictory_jobs_are_refused() {
    let up = Job::new(Direction::Up, Amount::Bytes(1));
    let second = Duration::from_secs(1);
    for job in [
        Job {
            streams: 0,
            ..up.clone()
        },
        Job {
            streams: MAX_STREAMS + 1,
            ..up.clone()
        },
        Job {
            amount: Amount::Bytes(MAX_BYTES + 1),
            ..up.clone()
        },
        Job {
            amount: Amount::Duration(Duration::ZERO),
            ..up.clone()
        },
        Job {
            amount: Amount::Duration(second),
            omit: second,
            ..up.clone()
        },
        Job {
            amount: Amount::Duration(Duration::MAX),
            ..up.clone()
        },
        Job {
            amount: Amount::File("x".into()),
            ..up.clone()
        },
        Job {
            controller: Some("keel".into()),
            ..up.clone()
        },
        Job {
            controller: Some("k".repeat(301)),
            ..Job::new(Direction::Down, Amount::Bytes(1))
        },
        Job::new(Direction::Down, Amount::File(String::new())),
        patterned(Some(999), None),
        patterned(None, Some((0, 1000))),
        patterned(None, Some((1000, 20_001))),
        // 9600 bits are a packet, and 960 ms at 10 kb/s.
        patterned(Some(10_000), Some((959, 1000))),
    ] {
        assert!(matches!(job.check(), Err(AppError::Job(_))), "{job:?}");
    }
    up.check().unwrap();
    patterned(Some(1000), None).check().unwrap();
    patterned(Some(10_000), Some((960, 20_000)))
        .check()
        .unwrap();
}
