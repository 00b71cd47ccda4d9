//! Packet-delivery traces in mahimahi's format.

use std::sync::Arc;
use std::time::Duration;

use crate::rate::Rate;

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
    pub fn opportunities_until(&self, elapsed: Duration) -> u64 {
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
mod tests;
