//! The identity that every queue keeps.

use crate::packet::Amount;

/// What a part of a link has done since its creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeCounters {
    /// What was pushed.
    pub arrived: Amount,
    /// Copies that were made of it.
    pub duplicated: Amount,
    /// Of what was pushed, that which it changed, beyond delaying it.
    pub altered: Amount,
    /// What was popped.
    pub forwarded: Amount,
    /// What never comes out.
    pub dropped: Amount,
    /// What is inside.
    pub held: Amount,
}

/// Packets or bytes have appeared or disappeared: a bug in this crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{place}: {} arrived and {} duplicated, but {} forwarded, {} dropped and {} held",
    .counters.arrived, .counters.duplicated, .counters.forwarded, .counters.dropped, .counters.held
)]
pub struct ConservationError {
    /// Which part of the link.
    pub place: &'static str,
    /// What it has counted.
    pub counters: NodeCounters,
}

impl NodeCounters {
    /// Checks arrived + duplicated = forwarded + dropped + held, in packets and bytes.
    ///
    /// # Errors
    /// [`ConservationError`] with the figures and `place`.
    pub fn check(&self, place: &'static str) -> Result<(), ConservationError> {
        let counters = *self;
        let came = self.arrived + self.duplicated;
        if came == self.forwarded + self.dropped + self.held {
            return Ok(());
        }
        Err(ConservationError { place, counters })
    }
}
