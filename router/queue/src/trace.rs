//! Packet-delivery traces in mahimahi's format.

use std::sync::Arc;
use std::time::Duration;

use crate::Rate;

/// Bytes that one line of a trace lets through (mahimahi, mm-link(1): an MTU-sized packet).
pub const OPPORTUNITY_BYTES: u32 = 1500;

/// The largest timestamp, in milliseconds (49 days): a trace is a recording, not a counter.
const MAX_TIMESTAMP_MS: u64 = u32::MAX as u64;

/// When a link of varying rate can deliver.
///
/// Text, one line per delivery opportunity: the time since the beginning, in whole milliseconds,
/// not decreasing. Each lets [`OPPORTUNITY_BYTES`] through; several lines may carry the same
/// time. After the last line the trace begins again, with the last time as its period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryTrace {
    /// Milliseconds, not decreasing, the last positive. Shared: links that use the same trace
    /// do not copy it.
    opportunities: Arc<[u32]>,
}

/// Why a text is not a delivery trace. Lines count from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// No line at all.
    #[error("the trace is empty; write one line of milliseconds per delivery opportunity")]
    Empty,
    /// The period would be zero.
    #[error(
        "the last line, {line}, is 0, but it is the period of the trace; end with a positive time"
    )]
    NoPeriod {
        /// The last line.
        line: usize,
    },
    /// Something else than decimal digits.
    #[error("line {line}: expected whole milliseconds, found {found:?}")]
    NotANumber {
        /// Where.
        line: usize,
        /// The beginning of the line.
        found: String,
    },
    /// A time beyond any recording.
    #[error(
        "line {line}: {found} is more than {MAX_TIMESTAMP_MS} ms (49 days); count from the trace's beginning"
    )]
    TooLarge {
        /// Where.
        line: usize,
        /// The digits, cut off after the first ones.
        found: String,
    },
    /// A time before the one above it.
    #[error("line {line}: {found} ms comes after {previous} ms; sort the times")]
    Decreasing {
        /// Where.
        line: usize,
        /// This line's time in milliseconds.
        found: u32,
        /// The line before, in milliseconds.
        previous: u32,
    },
}

impl DeliveryTrace {
    /// Reads a trace.
    ///
    /// # Errors
    /// [`TraceError`] names the line and what is wrong with it. Empty lines, signs and blanks are
    /// errors too.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let mut opportunities: Vec<u32> = Vec::new();
        for (line, text) in (1..).zip(text.lines()) {
            let time = parse_line(line, text)?;
            if let Some(&previous) = opportunities.last()
                && time < previous
            {
                return Err(TraceError::Decreasing {
                    line,
                    found: time,
                    previous,
                });
            }
            opportunities.push(time);
        }
        match opportunities.last() {
            None => Err(TraceError::Empty),
            Some(0) => Err(TraceError::NoPeriod {
                line: opportunities.len(),
            }),
            Some(_) => Ok(Self {
                opportunities: opportunities.into(),
            }),
        }
    }

    /// Time after which the trace begins again.
    pub fn period(&self) -> Duration {
        Duration::from_millis(self.period_ms())
    }

    /// Delivery opportunities in one period.
    pub fn opportunities(&self) -> u64 {
        self.opportunities.len() as u64
    }

    /// What the opportunities of a period come to, at least one bit per second.
    pub fn mean_rate(&self) -> Rate {
        const BITS_PER_OPPORTUNITY: u64 = OPPORTUNITY_BYTES as u64 * 8;
        let bits = u128::from(self.opportunities()) * u128::from(BITS_PER_OPPORTUNITY);
        let per_second = bits * 1000 / u128::from(self.period_ms());
        let per_second = u64::try_from(per_second).unwrap_or(u64::MAX).max(1);
        Rate::new(per_second).expect("at least one")
    }

    /// How many opportunities there are from the beginning to `elapsed`, both included.
    pub(crate) fn opportunities_until(&self, elapsed: Duration) -> u64 {
        let elapsed_ms = whole_milliseconds(elapsed);
        let within = elapsed_ms % self.period_ms();
        let begun = self
            .opportunities
            .partition_point(|&time| u64::from(time) <= within);
        (elapsed_ms / self.period_ms()) * self.opportunities() + begun as u64
    }

    /// When the opportunity with this number (from 0) comes, since the beginning.
    pub(crate) fn time_of(&self, opportunity: u64) -> Duration {
        let period = opportunity / self.opportunities();
        let index = usize::try_from(opportunity % self.opportunities())
            .expect("an index into a slice in memory");
        let within = u64::from(self.opportunities[index]);
        Duration::from_millis(period * self.period_ms() + within)
    }

    fn period_ms(&self) -> u64 {
        u64::from(
            *self
                .opportunities
                .last()
                .expect("parse refuses empty traces"),
        )
    }
}

fn parse_line(line: usize, text: &str) -> Result<u32, TraceError> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(TraceError::NotANumber {
            line,
            found: beginning(text),
        });
    }
    // Digits alone fail to parse only by their number.
    text.parse().map_err(|_| TraceError::TooLarge {
        line,
        found: beginning(text),
    })
}

/// As much of a hostile line as an error message should show.
fn beginning(text: &str) -> String {
    text.chars().take(20).collect()
}

fn whole_milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::testing::ms;

    #[test]
    fn a_trace_repeats_with_its_last_time_as_period() {
        let trace = DeliveryTrace::parse("2\n5\n5\n10\n").unwrap();
        assert_eq!(trace.period(), ms(10));
        assert_eq!(trace.opportunities(), 4);
        let times: Vec<_> = (0..9).map(|number| trace.time_of(number)).collect();
        assert_eq!(times, [2, 5, 5, 10, 12, 15, 15, 20, 22].map(ms));
    }

    #[test]
    fn a_trace_that_begins_at_zero_begins_again_at_the_instant_it_ends() {
        let trace = DeliveryTrace::parse("0\n10").unwrap();
        let times: Vec<_> = (0..5).map(|number| trace.time_of(number)).collect();
        assert_eq!(times, [0, 10, 10, 20, 20].map(ms));
        assert_eq!(trace.opportunities_until(ms(10)), 3);
    }

    #[test]
    fn the_mean_rate_is_the_bits_of_a_period_over_its_length() {
        // Four opportunities of 12,000 bits in 10 ms; one in 49 days.
        let mean = |text| DeliveryTrace::parse(text).unwrap().mean_rate();
        assert_eq!(mean("3\n3\n7\n10\n").bits_per_second(), 4_800_000);
        assert_eq!(mean("4294967295\n").bits_per_second(), 1);
    }

    #[test]
    fn lines_may_end_as_on_windows() {
        assert_eq!(
            DeliveryTrace::parse("1\r\n2\r\n"),
            DeliveryTrace::parse("1\n2")
        );
    }

    #[test]
    fn what_is_no_trace_is_refused_with_its_line_and_cause() {
        let error = |text: &str| DeliveryTrace::parse(text).unwrap_err().to_string();
        assert!(error("").starts_with("the trace is empty"));
        assert!(error("0\n0\n").starts_with("the last line, 2, is 0"));
        assert_eq!(
            error("1\n2x\n"),
            r#"line 2: expected whole milliseconds, found "2x""#
        );
        assert_eq!(
            error("1\n\n2\n"),
            r#"line 2: expected whole milliseconds, found """#
        );
        assert_eq!(
            error("+1\n"),
            r#"line 1: expected whole milliseconds, found "+1""#
        );
        assert_eq!(
            error("1\n 2\n"),
            r#"line 2: expected whole milliseconds, found " 2""#
        );
        assert_eq!(
            error("3\n1\n"),
            "line 2: 1 ms comes after 3 ms; sort the times"
        );
        assert!(error("4294967296").starts_with("line 1: 4294967296 is more than 4294967295 ms"));
        assert!(
            error(&"9".repeat(1000)).len() < 200,
            "a hostile line is not echoed whole"
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,200}") {
            let _ = DeliveryTrace::parse(&text);
        }

        #[test]
        fn counting_and_dating_opportunities_agree(
            mut times in vec(0u32..100, 1..20), elapsed in 0u64..1000, microseconds in 0u64..1000,
        ) {
            times.sort_unstable();
            times.push(times[times.len() - 1].max(1));
            let text: String = times.iter().map(|time| format!("{time}\n")).collect();
            let trace = DeliveryTrace::parse(&text).unwrap();
            let elapsed = ms(elapsed) + Duration::from_micros(microseconds);
            let begun = trace.opportunities_until(elapsed);
            prop_assert!(trace.time_of(begun) > elapsed);
            if let Some(last) = begun.checked_sub(1) {
                prop_assert!(trace.time_of(last) <= elapsed);
            }
        }
    }
}
