//! The messages on the control stream, and how a transfer is cut into streams.
//!
//! `docs/bulk.md` describes the conversation.

use std::{ops::Range, time::Duration};

use serde::{Deserialize, Serialize};

use super::{Amount, AppError, Checksum, Direction, Job, MAX_BYTES, MAX_STREAMS, Pattern, Report};

/// The longest transfer that can be asked for, a day.
pub(super) const MAX_DURATION: Duration = Duration::from_secs(24 * 60 * 60);

/// The longest file name that can be asked for, in bytes: Linux's PATH_MAX.
const MAX_NAME: usize = 4096;

/// Client to server, first on the control stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    direction: Direction,
    amount: RequestedAmount,
    streams: u16,
    omit_us: u64,
    verify: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rate_bps: Option<u64>,
    /// Lengths of the ON and OFF periods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    on_off_us: Option<(u64, u64)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RequestedAmount {
    Bytes(u64),
    DurationUs(u64),
    File(String),
}

/// Server to client: whether the transfer takes place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Answer {
    /// It does; `bytes` is the length of the file that was asked for by name.
    Accepted { bytes: Option<u64> },
    /// It does not.
    Refused { reason: String },
}

/// Sender to receiver, when it has written all its data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sent {
    /// Application bytes over all streams.
    pub(super) bytes: u64,
    /// One for each stream in order, if the job asks for verification.
    pub(super) checksums: Vec<Checksum>,
}

/// Receiver to sender, when everything has arrived.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Received {
    /// Whether size and checksums are those of [`Sent`].
    pub(super) intact: bool,
    pub(super) report: Report,
}

/// A transfer both sides agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) extent: Extent,
    /// 1 to [`MAX_STREAMS`].
    pub(super) streams: u16,
    pub(super) omit: Duration,
    pub(super) verify: bool,
    pub(super) pattern: Pattern,
}

/// [`Amount`] once a file's length is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    Bytes(u64),
    Duration(Duration),
}

impl From<&Job> for Request {
    fn from(job: &Job) -> Self {
        Self {
            direction: job.direction,
            amount: match &job.amount {
                Amount::Bytes(bytes) => RequestedAmount::Bytes(*bytes),
                Amount::Duration(duration) => RequestedAmount::DurationUs(micros(*duration)),
                Amount::File(name) => RequestedAmount::File(name.clone()),
            },
            streams: job.streams,
            omit_us: micros(job.omit),
            verify: job.verify,
            rate_bps: job.pattern.rate_bps,
            on_off_us: job
                .pattern
                .on_off
                .map(|(on, off)| (micros(on), micros(off))),
        }
    }
}

impl From<Request> for Job {
    fn from(request: Request) -> Self {
        Self {
            direction: request.direction,
            amount: match request.amount {
                RequestedAmount::Bytes(bytes) => Amount::Bytes(bytes),
                RequestedAmount::DurationUs(us) => Amount::Duration(Duration::from_micros(us)),
                RequestedAmount::File(name) => Amount::File(name),
            },
            streams: request.streams,
            omit: Duration::from_micros(request.omit_us),
            verify: request.verify,
            pattern: Pattern {
                rate_bps: request.rate_bps,
                on_off: request
                    .on_off_us
                    .map(|(on, off)| (Duration::from_micros(on), Duration::from_micros(off))),
            },
        }
    }
}

impl Job {
    /// Checks what can be checked without the source; both sides do it.
    ///
    /// # Errors
    /// [`AppError::Job`] for no or too many streams, too many bytes, a time of zero,
    /// above a day or not above the warm-up, an upload of the server's file, and a pattern
    /// out of its ranges.
    pub fn check(&self) -> Result<(), AppError> {
        let complaint = match &self.amount {
            _ if self.streams == 0 || self.streams > MAX_STREAMS => {
                format!(
                    "{} streams are not between 1 and {MAX_STREAMS}",
                    self.streams
                )
            }
            _ if self.omit > MAX_DURATION => "the warm-up is longer than a day".into(),
            Amount::Bytes(bytes) if *bytes > MAX_BYTES => {
                format!("{bytes} bytes are more than {MAX_BYTES}")
            }
            Amount::Duration(time) if time.is_zero() => "the time to send is zero".into(),
            Amount::Duration(time) if *time > MAX_DURATION => {
                "the time to send is longer than a day".into()
            }
            Amount::Duration(time) if *time <= self.omit => {
                "the warm-up leaves nothing of the time to send".into()
            }
            Amount::File(_) if self.direction == Direction::Up => {
                "a server's file can be downloaded only".into()
            }
            Amount::File(name) if name.is_empty() || name.len() > MAX_NAME => {
                format!("the file name is empty or longer than {MAX_NAME} bytes")
            }
            _ => match self.pattern.complaint() {
                Some(complaint) => complaint,
                None => return Ok(()),
            },
        };
        Err(AppError::Job(complaint))
    }

    /// The agreed transfer; `file` is the length of the file, if one was asked for.
    pub(super) fn plan(&self, file: Option<u64>) -> Result<Plan, AppError> {
        let extent = match (&self.amount, file) {
            (Amount::Bytes(bytes), None) => Extent::Bytes(*bytes),
            (Amount::Duration(duration), None) => Extent::Duration(*duration),
            (Amount::File(_), Some(length)) if length <= MAX_BYTES => Extent::Bytes(length),
            _ => {
                return Err(AppError::Protocol("the answer does not fit the job".into()));
            }
        };
        Ok(Plan {
            extent,
            streams: self.streams,
            omit: self.omit,
            verify: self.verify,
            pattern: self.pattern,
        })
    }
}

impl Plan {
    /// The bytes that stream `index` carries; `None` if only time limits it.
    ///
    /// Stream `i` of `n` has the bytes from `total * i / n` up to the next one's start,
    /// so that lengths differ by at most one.
    pub(super) fn range(&self, index: u16) -> Option<Range<u64>> {
        let Extent::Bytes(total) = self.extent else {
            return None;
        };
        let bound = |i: u64| {
            let bound = u128::from(total) * u128::from(i) / u128::from(self.streams);
            u64::try_from(bound).expect("a part is not larger than the whole")
        };
        Some(bound(index.into())..bound(u64::from(index) + 1))
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::message::{MAX_MESSAGE, checked_length, decode, encode};

    fn any_job() -> impl Strategy<Value = Job> {
        let amount = prop_oneof![
            any::<u64>().prop_map(Amount::Bytes),
            any::<u64>().prop_map(|us| Amount::Duration(Duration::from_micros(us))),
            ".{0,40}".prop_map(Amount::File),
        ];
        let direction = prop_oneof![Just(Direction::Up), Just(Direction::Down)];
        let period = || any::<u64>().prop_map(Duration::from_micros);
        let pattern = (
            any::<Option<u64>>(),
            proptest::option::of((period(), period())),
        )
            .prop_map(|(rate_bps, on_off)| Pattern { rate_bps, on_off });
        let rest = (any::<u16>(), any::<u64>(), any::<bool>());
        (direction, amount, rest, pattern).prop_map(
            |(direction, amount, (streams, omit, verify), pattern)| Job {
                direction,
                amount,
                streams,
                omit: Duration::from_micros(omit),
                verify,
                pattern,
            },
        )
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_are_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = decode::<Request>(&bytes);
            let _ = decode::<Answer>(&bytes);
            let _ = decode::<Sent>(&bytes);
            let _ = decode::<Received>(&bytes);
        }

        #[test]
        fn a_request_arrives_as_it_was_sent(job in any_job()) {
            let message = encode(&Request::from(&job));
            let length = checked_length([message[0], message[1]]).unwrap();
            prop_assert_eq!(length, message.len() - 2);
            let request: Request = decode(&message[2..]).unwrap();
            prop_assert_eq!(Job::from(request), job);
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
            let mut message = encode(&Request::from(&job));
            let at = 2 + at.index(message.len() - 2);
            message[at] = byte;
            if let Ok(request) = decode::<Request>(&message[2..]) {
                let _ = Job::from(request).check();
            }
        }

        #[test]
        fn ranges_cover_the_whole_without_gap_or_overlap(
            total in 0..=MAX_BYTES,
            streams in 1..=MAX_STREAMS,
        ) {
            let plan = Plan {
                extent: Extent::Bytes(total),
                streams,
                omit: Duration::ZERO,
                verify: false,
                pattern: Pattern::NONE,
            };
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

    #[test]
    fn unknown_fields_and_wrong_types_are_named() {
        for (json, word) in [
            (r#"{"direction":"sideways"}"#, "sideways"),
            (r#"{"direction":"up","amount":{"bytes":-1}}"#, "-1"),
            (r#"{"direction":"up","colour":1}"#, "colour"),
            ("[[[[", "line 1"),
            ("", "EOF"),
        ] {
            let error = decode::<Request>(json.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(word), "{json}: {error}");
        }
    }

    #[test]
    fn the_checksums_of_all_streams_fit_in_a_message() {
        let sent = Sent {
            bytes: u64::MAX,
            checksums: vec![Checksum::of(b""); usize::from(MAX_STREAMS)],
        };
        assert!(encode(&sent).len() <= MAX_MESSAGE);
    }

    fn patterned(rate_bps: Option<u64>, on_off_ms: Option<(u64, u64)>) -> Job {
        let ms = Duration::from_millis;
        Job {
            pattern: Pattern {
                rate_bps,
                on_off: on_off_ms.map(|(on, off)| (ms(on), ms(off))),
            },
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
}
