//! Not a test: says in one line what the tests before it skipped, and how to get what they need.
//!
//! Cargo runs test targets by the names of their packages and then by their own, which is why this one
//! sorts last; after it come only `evenkeel-wire`, which skips nothing, and the doc tests.

fn main() {
    println!("\n{}", evenkeel_tests::skip::summary());
}
