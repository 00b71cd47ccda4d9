//! The compact numbers of the path header: 24-bit times, and small floating-point codes.
//!
//! A code with `M` mantissa bits holds n below 2^(M+1) as n itself. Above that it holds the M + 1
//! leading bits of n, with the first of them implied, after the number of bits dropped. Codes rise
//! with their values, so routers may compare and merge codes without decoding.

use std::cmp::Ordering;
use std::fmt;
use std::time::Duration;

const RATE_MANTISSA_BITS: u32 = 11;
const TIME_MANTISSA_BITS: u32 = 12;
const COUNT_MANTISSA_BITS: u32 = 4;
const CHANGE_MANTISSA_BITS: u32 = 10;

/// A time spent in queues: whole microseconds in 24 bits, at most 16.777215 s. The greatest value
/// means "this much or more" (the AQT field of RoVegas, section 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct QueueingTime(u32);

impl QueueingTime {
    /// No queueing.
    pub const ZERO: Self = Self(0);
    /// 16.777215 s or more.
    pub const MAX: Self = Self(0x00ff_ffff);

    /// Rounds to the nearest microsecond, saturating.
    pub fn from_duration(time: Duration) -> Self {
        let micros = nearest_micros(time).min(u64::from(Self::MAX.0));
        Self(u32::try_from(micros).expect("the minimum with 24 bits has 24 bits"))
    }

    /// Returns the time; for [`QueueingTime::MAX`] a lower bound.
    pub fn duration(self) -> Duration {
        Duration::from_micros(self.0.into())
    }

    /// Adds, saturating.
    #[must_use]
    pub fn saturating_add(self, more: Self) -> Self {
        Self((self.0 + more.0).min(Self::MAX.0))
    }

    pub(super) fn from_bytes(bytes: [u8; 3]) -> Self {
        Self(u24(bytes))
    }

    pub(super) fn to_bytes(self) -> [u8; 3] {
        u24_bytes(self.0)
    }
}

/// A point of a sender's clock: microseconds modulo 2^24, which wrap every 16.777216 s. Only the
/// clock's owner can interpret it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct HeaderTimestamp(u32);

impl HeaderTimestamp {
    /// Takes the low 24 bits of a count of microseconds.
    pub fn from_micros(micros: u64) -> Self {
        Self(u32::try_from(micros & 0x00ff_ffff).expect("24 bits fit into 32"))
    }

    /// Returns microseconds, below 2^24.
    pub fn micros(self) -> u32 {
        self.0
    }

    /// Returns the time from `earlier` to this, modulo 16.777216 s.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::from(self.0.wrapping_sub(earlier.0) & 0x00ff_ffff))
    }

    pub(super) fn from_bytes(bytes: [u8; 3]) -> Self {
        Self(u24(bytes))
    }

    pub(super) fn to_bytes(self) -> [u8; 3] {
        u24_bytes(self.0)
    }
}

/// A time in sixteen bits: whole microseconds up to 8191, above that with an error of at most
/// 1/8192 either way; at most 134.2 s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CompactTime(u16);

impl CompactTime {
    /// No time.
    pub const ZERO: Self = Self(0);
    /// 134.2 s or more. The next code is no time.
    pub const MAX: Self = Self(0xfffe);

    /// Rounds to the nearest time that has a code, saturating.
    pub fn from_duration(time: Duration) -> Self {
        let code = encode_nearest(nearest_micros(time), TIME_MANTISSA_BITS);
        Self(saturate(code).min(Self::MAX.0))
    }

    /// Returns the time; for [`CompactTime::MAX`] a lower bound.
    pub fn duration(self) -> Duration {
        Duration::from_micros(decode(self.0.into(), TIME_MANTISSA_BITS))
    }

    /// Reads a code; `None` for the one that is no time.
    pub(super) fn from_bytes(bytes: [u8; 2]) -> Option<Self> {
        let code = u16::from_be_bytes(bytes);
        (code <= Self::MAX.0).then_some(Self(code))
    }

    pub(super) fn to_bytes(self) -> [u8; 2] {
        self.0.to_be_bytes()
    }
}

/// A rate in bytes per second, or "no limit", in sixteen bits: exact up to 4095 B/s, above that
/// less than 1/2048 too low, at most 4.396 TB/s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CompactRate(u16);

impl CompactRate {
    /// No limit: nobody has asked for less.
    pub const NO_LIMIT: Self = Self(0xffff);
    /// The greatest rate that is a limit: 4.396 TB/s.
    pub const MAX: Self = Self(0xfffe);

    /// Rounds down, so that nobody is granted more than was meant; saturates at
    /// [`CompactRate::MAX`].
    pub fn from_bytes_per_second(rate: u64) -> Self {
        Self(saturate(encode(rate, RATE_MANTISSA_BITS)).min(Self::MAX.0))
    }

    /// Returns bytes per second; `None` without a limit.
    pub fn bytes_per_second(self) -> Option<u64> {
        (self != Self::NO_LIMIT).then(|| decode(self.0.into(), RATE_MANTISSA_BITS))
    }
}

/// A size in bytes in sixteen bits: exact up to 4095, above that with an error of at most 1/4096
/// either way; at most 4.397 TB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CompactBytes(pub(super) u16);

impl CompactBytes {
    /// Rounds to the nearest size that has a code, saturating.
    pub fn from_bytes(bytes: u64) -> Self {
        Self(saturate(encode_nearest(bytes, RATE_MANTISSA_BITS)))
    }

    /// Returns the size in bytes.
    pub fn bytes(self) -> u64 {
        decode(self.0.into(), RATE_MANTISSA_BITS)
    }
}

/// A number of flows in eight bits: exact up to 31, above that with an error of at most 1/32 either
/// way; at most 507,904. 0 means that nobody counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CompactCount(pub(super) u8);

impl CompactCount {
    /// Nobody counted.
    pub const NONE: Self = Self(0);
    /// 507,904 flows or more.
    pub const MAX: Self = Self(0xff);

    /// Rounds to the nearest number that has a code, saturating.
    pub fn from_flows(flows: u32) -> Self {
        let code = encode_nearest(flows.into(), COUNT_MANTISSA_BITS);
        Self(u8::try_from(code).unwrap_or(u8::MAX))
    }

    /// Returns the number of flows.
    pub fn flows(self) -> u32 {
        u32::try_from(decode(self.0.into(), COUNT_MANTISSA_BITS)).expect("at most 31 << 14")
    }
}

/// A window change, as XCP's routers assign it: in 256ths of a byte, signed, in sixteen bits. Exact
/// up to 2047/256 bytes either way, above that with a relative error of at most 1/2048; at most
/// 8.586 GB either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct WindowChange(i16);

impl WindowChange {
    /// The greatest increase; a sender without a desired rate asks for it.
    pub const MAX: Self = Self(i16::MAX);
    /// The greatest decrease.
    pub const MIN: Self = Self(-i16::MAX);

    /// Rounds to the nearest change that has a code, saturating. In 256ths of a byte.
    pub fn from_256ths(change: i64) -> Self {
        let code = encode_nearest(change.unsigned_abs(), CHANGE_MANTISSA_BITS);
        let size = i16::try_from(code).unwrap_or(i16::MAX);
        Self(if change < 0 { -size } else { size })
    }

    /// Returns the change in 256ths of a byte.
    pub fn in_256ths(self) -> i64 {
        let size = decode(self.0.unsigned_abs().into(), CHANGE_MANTISSA_BITS);
        let size = i64::try_from(size).expect("at most 2047 << 30");
        if self.0 < 0 { -size } else { size }
    }
}

/// The feedback field: sixteen bits that mean what the header's kind says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Feedback(pub(super) [u8; 2]);

impl Feedback {
    /// Reads the field as a rate (kinds ACP and RCP).
    pub fn rate(self) -> CompactRate {
        CompactRate(u16::from_be_bytes(self.0))
    }

    /// Reads the field as a window change (kind XCP).
    pub fn window_change(self) -> WindowChange {
        // One code has no positive counterpart; it means the same as its neighbour.
        WindowChange(i16::from_be_bytes(self.0).max(-i16::MAX))
    }
}

impl From<CompactRate> for Feedback {
    fn from(rate: CompactRate) -> Self {
        Self(rate.0.to_be_bytes())
    }
}

impl From<WindowChange> for Feedback {
    fn from(change: WindowChange) -> Self {
        Self(change.0.to_be_bytes())
    }
}

impl fmt::Display for CompactRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bytes_per_second() {
            Some(rate) => write!(f, "{rate} B/s"),
            None => f.write_str("no limit"),
        }
    }
}

impl fmt::Display for WindowChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.cmp(&Self(0)) == Ordering::Less {
            '-'
        } else {
            '+'
        };
        let size = self.in_256ths().unsigned_abs();
        write!(f, "{sign}{}", size / 256)?;
        match size % 256 {
            0 => f.write_str(" B"),
            rest => write!(f, " {rest}/256 B"),
        }
    }
}

/// Returns the code of the greatest value that is not above `value`.
fn encode(value: u64, mantissa_bits: u32) -> u64 {
    let dropped = dropped_bits(value, mantissa_bits);
    // The implied leading bit, still in the second term, adds one to the exponent.
    (u64::from(dropped) << mantissa_bits) + (value >> dropped)
}

/// Returns the code of the value nearest to `value`; of two, the higher.
fn encode_nearest(value: u64, mantissa_bits: u32) -> u64 {
    let half_step = (1 << dropped_bits(value, mantissa_bits)) >> 1;
    encode(value.saturating_add(half_step), mantissa_bits)
}

fn dropped_bits(value: u64, mantissa_bits: u32) -> u32 {
    (u64::BITS - value.leading_zeros()).saturating_sub(mantissa_bits + 1)
}

fn decode(code: u64, mantissa_bits: u32) -> u64 {
    let leading = 1 << mantissa_bits;
    match code >> mantissa_bits {
        0 => code,
        exponent => (leading | code & (leading - 1)) << (exponent - 1),
    }
}

fn saturate(code: u64) -> u16 {
    u16::try_from(code).unwrap_or(u16::MAX)
}

fn nearest_micros(time: Duration) -> u64 {
    let micros = (time.as_nanos() + 500) / 1000;
    u64::try_from(micros).unwrap_or(u64::MAX)
}

fn u24(bytes: [u8; 3]) -> u32 {
    u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]])
}

fn u24_bytes(value: u32) -> [u8; 3] {
    let [_, bytes @ ..] = value.to_be_bytes();
    bytes
}

#[cfg(test)]
mod tests;
