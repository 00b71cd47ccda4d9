//! What tests of several crates share; the tests beside it cross crates.

pub mod capture;
pub mod skip;
#[cfg(unix)]
pub mod terminal;
pub mod time;

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a test that compares what a kernel did in real time with what it should have done, up to three
/// times: one try must pass.
///
/// A machine that is busy otherwise delays packets and takes rates away, never the other way: it can spoil a
/// try, and a fault of ours spoils all three. Each failed try prints its message. Nothing but the lateness of
/// the machine may make a difference between tries, so tests that do not measure time or rates have no use
/// for this. Mark such a test `#[ignore = "compares real time; .ci/full runs it"]`: the gate must not depend on
/// how busy the machine is.
///
/// # Panics
/// As `test` does in the last try.
pub fn one_of_three_tries(test: impl Fn()) {
    for left in [2, 1] {
        if catch_unwind(AssertUnwindSafe(&test)).is_ok() {
            return;
        }
        eprintln!("this try failed, perhaps because the machine was busy; {left} left");
    }
    test();
}
