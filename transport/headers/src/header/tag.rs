//! Keys and tags of path headers: `docs/path-header.md`, sections 3.2 and 6.

use std::time::Instant;

use evenkeel_wire::{HeaderTimestamp, PATH_HEADER_LEN};

/// The secret of all headers of one connection in one direction.
pub type Master = [u8; 16];

/// The tag covers all bytes before it.
const COVERED: usize = PATH_HEADER_LEN - 4;

/// The period of timestamps, in microseconds.
const PERIOD: u64 = 1 << 24;

/// The keys of one generation.
#[derive(Clone, Copy)]
pub(super) struct Keys {
    key: [u8; 16],
    /// Microseconds below 2^24.
    offset: u64,
}

impl Keys {
    pub(super) fn new(master: &Master, generation: u64) -> Self {
        #[cfg(any(test, feature = "work"))]
        work::DERIVED.set(work::DERIVED.get() + 1);
        let block = |i| {
            let mut message = [0; 9];
            message[..8].copy_from_slice(&generation.to_be_bytes());
            message[8] = i;
            siphash(master, &message)
        };
        let mut key = [0; 16];
        key[..8].copy_from_slice(&block(0));
        key[8..].copy_from_slice(&block(1));
        let [a, b, c, ..] = block(2);
        Self {
            key,
            offset: u64::from(u32::from_be_bytes([0, a, b, c])),
        }
    }

    /// Computes the tag of a header sent at `time`, in microseconds of its sender's clock.
    pub(super) fn tag(&self, time: u64, covered: &[u8; COVERED]) -> [u8; 4] {
        #[cfg(any(test, feature = "work"))]
        work::TAGS.set(work::TAGS.get() + 1);
        let (words, rest) = covered.as_chunks();
        // SipHash reads message words low byte first; the time stands in it high byte first.
        let mut sip = SipHash::new(&self.key);
        sip.compress(time.swap_bytes());
        for word in words {
            sip.compress(u64::from_le_bytes(*word));
        }
        let [a, b, c, d, ..] = sip.finish(rest, 8 + COVERED);
        [a, b, c, d]
    }

    /// Returns the timestamp of a header sent at `time`.
    pub(super) fn timestamp(&self, time: u64) -> HeaderTimestamp {
        HeaderTimestamp::from_micros(time.wrapping_add(self.offset))
    }

    /// Returns the time nearest to `expected` at which a header with `timestamp` can have been
    /// sent; `None` before the clock began.
    pub(super) fn time(&self, timestamp: HeaderTimestamp, expected: u64) -> Option<u64> {
        let shown = u64::from(timestamp.micros()).wrapping_sub(self.offset);
        let behind = expected.wrapping_sub(shown) % PERIOD;
        if behind < PERIOD / 2 {
            expected.checked_sub(behind)
        } else {
            expected.checked_add(PERIOD - behind)
        }
    }
}

/// Returns the microseconds from `from` to `to`.
pub(super) fn micros(to: Instant, from: Instant) -> u64 {
    let time = to.saturating_duration_since(from);
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Compares two tags in constant time.
pub(super) fn same(a: [u8; 4], b: [u8; 4]) -> bool {
    u32::from_ne_bytes(a) ^ u32::from_ne_bytes(b) == 0
}

/// Computes SipHash-2-4 of a message.
pub(super) fn siphash(key: &[u8; 16], message: &[u8]) -> [u8; 8] {
    let mut sip = SipHash::new(key);
    let (words, rest) = message.as_chunks();
    for word in words {
        sip.compress(u64::from_le_bytes(*word));
    }
    sip.finish(rest, message.len())
}

/// SipHash-2-4 (Aumasson, Bernstein, INDOCRYPT 2012, section 2). Inlined: each header needs one,
/// and a message of known length becomes straight-line code.
struct SipHash {
    v0: u64,
    v1: u64,
    v2: u64,
    v3: u64,
}

impl SipHash {
    #[inline]
    fn new(key: &[u8; 16]) -> Self {
        let ([k0, k1], []) = key.as_chunks::<8>() else {
            unreachable!("16 bytes are two times 8")
        };
        let (k0, k1) = (u64::from_le_bytes(*k0), u64::from_le_bytes(*k1));
        Self {
            v0: k0 ^ 0x736f_6d65_7073_6575,
            v1: k1 ^ 0x646f_7261_6e64_6f6d,
            v2: k0 ^ 0x6c79_6765_6e65_7261,
            v3: k1 ^ 0x7465_6462_7974_6573,
        }
    }

    #[inline]
    fn compress(&mut self, word: u64) {
        self.v3 ^= word;
        self.round();
        self.round();
        self.v0 ^= word;
    }

    /// Returns the hash of a message of `len` bytes that ends with `rest`, less than a word.
    #[inline]
    fn finish(mut self, rest: &[u8], len: usize) -> [u8; 8] {
        // The last word holds the rest, with the length's low byte on top.
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        last[7] = len as u8;
        self.compress(u64::from_le_bytes(last));
        self.v2 ^= 0xff;
        for _ in 0..4 {
            self.round();
        }
        (self.v0 ^ self.v1 ^ self.v2 ^ self.v3).to_le_bytes()
    }

    #[inline]
    fn round(&mut self) {
        self.v0 = self.v0.wrapping_add(self.v1);
        self.v2 = self.v2.wrapping_add(self.v3);
        self.v1 = self.v1.rotate_left(13) ^ self.v0;
        self.v3 = self.v3.rotate_left(16) ^ self.v2;
        self.v0 = self.v0.rotate_left(32).wrapping_add(self.v3);
        self.v2 = self.v2.wrapping_add(self.v1);
        self.v3 = self.v3.rotate_left(21) ^ self.v0;
        self.v1 = self.v1.rotate_left(17) ^ self.v2;
        self.v2 = self.v2.rotate_left(32);
    }
}

/// Counts what this thread has computed.
#[cfg(any(test, feature = "work"))]
pub mod work {
    use std::cell::Cell;

    thread_local! {
        /// Keys of generations.
        pub static DERIVED: Cell<u64> = const { Cell::new(0) };
        /// Tags of headers.
        pub static TAGS: Cell<u64> = const { Cell::new(0) };
    }
}

#[cfg(test)]
mod tests;
