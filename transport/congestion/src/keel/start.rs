//! When START has filled the link although no queue shows.

/// START ends when the delivery rate has not grown by this factor for this many rounds
/// (draft-ietf-ccwg-bbr, section 5.3.1.2).
const GROWTH: f64 = 1.25;
const FLAT_ROUNDS: u32 = 3;

/// The delivery rate in START.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Start {
    /// The greatest rate so far, in bytes per second, and the rounds since it grew.
    best: f64,
    flat: u32,
}

impl Start {
    /// A round ends that delivered `bandwidth` bytes per second, with the window in use or not.
    /// Returns whether the rate no longer grows.
    pub(super) fn is_flat(&mut self, bandwidth: f64, is_used: bool) -> bool {
        if bandwidth > GROWTH * self.best {
            *self = Self {
                best: bandwidth,
                flat: 0,
            };
        } else if is_used {
            self.flat += 1;
        }
        self.flat >= FLAT_ROUNDS
    }
}
