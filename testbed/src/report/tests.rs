//! Tests of a whole result.
