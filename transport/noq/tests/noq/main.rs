//! Tests of evenkeel-noq beside noq, quinn and the testbed: one program, linked once.

mod beside_quinn;
mod headers;
mod loopback;
