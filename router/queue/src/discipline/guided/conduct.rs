//! What a flow or a host has done, and for how long it is not believed.

/// A flow whose excess exceeds 60 fair shares of a period, 6 s at twice its share, ignores feedback and
/// only claims to be guided. Honest flows that make room for others need some dozens of round trips.
pub(super) const PROVEN: f64 = 60.0;

/// It then belongs to the others for 300 periods (30 s), and for twice the time at each repeat ...
pub(super) const BANNED: u64 = 300;

/// ... up to the fourth repeat (8 min).
const MOST_DOUBLED: u8 = 4;

/// What is known against a flow or a host.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Conduct {
    /// What it got above its share while the class was overloaded, in shares of a period; less one for
    /// each period in which it did not.
    excess: f64,
    /// Until this period it is one of the others.
    banned_until: u64,
    bans: u8,
}

impl Conduct {
    pub(super) fn is_banned(&self, period: u64) -> bool {
        period < self.banned_until
    }

    /// A period is over in which it got `above` fair shares beyond its own; 0 if it kept to its share.
    /// An excess of `proven` shares proves that it ignores feedback.
    pub(super) fn judge(&mut self, above: f64, proven: f64, period: u64) {
        if above > 0.0 {
            self.excess += above;
        } else {
            self.excess = (self.excess - 1.0).max(0.0);
        }
        if self.excess >= proven {
            self.ban(period);
        }
    }

    pub(super) fn ban(&mut self, period: u64) {
        self.excess = 0.0;
        self.banned_until = period + (BANNED << self.bans);
        self.bans = (self.bans + 1).min(MOST_DOUBLED);
    }
}
