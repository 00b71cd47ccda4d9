//! noq-proto's own connections in virtual time: with every controller of the table, and beside the
//! testbed's, which run on quinn.
//!
//! `cargo test -p evenkeel-noq --test noq beside_quinn -- --nocapture` prints the figures.

mod bbr3;
mod figures;
mod network;
mod table;
