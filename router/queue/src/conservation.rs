//! The identity that every queue keeps.

use crate::Amount;

/// Packets or bytes have appeared or disappeared: a bug in this crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{place}: {arrived} arrived and {duplicated} duplicated, but {forwarded} forwarded, {dropped} dropped and {held} held"
)]
pub struct ConservationError {
    /// Which part of the link.
    pub place: &'static str,
    /// What came.
    pub arrived: Amount,
    /// Copies that were made of it.
    pub duplicated: Amount,
    /// What left on the other side.
    pub forwarded: Amount,
    /// What was dropped.
    pub dropped: Amount,
    /// What is inside.
    pub held: Amount,
}
