//! What the unit tests of several modules share.

pub(crate) use evenkeel_tests::time::{epoch, ms};
