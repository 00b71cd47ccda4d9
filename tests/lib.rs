//! Tests that cross crates; there is no library code here.
