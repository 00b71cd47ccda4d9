//! Keeps others used to unknown values: `docs/path-header.md`, sections 3.1 and 9.

use evenkeel_wire::{PATH_HEADER_LEN, PATH_HEADER_MAGIC, PATH_HEADER_VERSION};

use super::tag::siphash;

/// Random choices of one connection. They may be guessable.
#[derive(Debug, Clone)]
pub struct Grease {
    key: [u8; 16],
    drawn: u64,
    /// Replaceable headers to send before the next one is replaced.
    left: u64,
}

/// The shortest header: section 2.3.
const SHORTEST: usize = 8;

/// On average, one in half this many headers without news is of kind 0: often enough to be noticed
/// in any long transfer, and rare compared with loss.
const MOST_BETWEEN: u64 = 512;

/// Numbers that no version has: section 3.1.
const NO_VERSION: std::ops::RangeInclusive<u8> = 0x04..=0xff;

impl Grease {
    /// Derives all choices from `seed`.
    pub fn new(seed: &[u8]) -> Self {
        let mut key = [0; 16];
        for (half, block) in key.chunks_exact_mut(8).enumerate() {
            block.copy_from_slice(&siphash(&[half as u8; 16], seed));
        }
        let mut grease = Self {
            key,
            drawn: 0,
            left: 0,
        };
        grease.left = grease.below(MOST_BETWEEN);
        grease
    }

    /// Returns the versions to offer: `versions`, and on half the connections one that nobody has.
    pub fn versions(&mut self, versions: &[u8]) -> Vec<u8> {
        let mut offered = versions.to_vec();
        if self.below(2) == 1 {
            let known = u64::from(*NO_VERSION.start());
            let count = u64::from(*NO_VERSION.end()) - known + 1;
            let at = self.below(versions.len() as u64 + 1) as usize;
            offered.insert(at, (known + self.below(count)) as u8);
        }
        offered
    }

    /// Returns a header to send in place of a replaceable one, if it is time for one. A header that
    /// is not `alone` in its batch has to be as long as the others.
    pub(super) fn header(&mut self, alone: bool) -> Option<Vec<u8>> {
        if self.left > 0 {
            self.left -= 1;
            return None;
        }
        self.left = self.below(MOST_BETWEEN);
        let longest = PATH_HEADER_LEN / 4;
        let words = if alone {
            let shortest = SHORTEST / 4;
            shortest + self.below((longest - shortest + 1) as u64) as usize
        } else {
            longest
        };
        let mut header = PATH_HEADER_MAGIC.to_vec();
        // Kind 0.
        header.push(PATH_HEADER_VERSION << 6 | (words - 1) as u8);
        while header.len() < 4 * words {
            header.push(self.below(256) as u8);
        }
        Some(header)
    }

    /// Draws a number below `end`; the modulo favours low numbers by less than 2^-50.
    fn below(&mut self, end: u64) -> u64 {
        self.drawn += 1;
        u64::from_le_bytes(siphash(&self.key, &self.drawn.to_le_bytes())) % end
    }
}

#[cfg(test)]
mod tests;
