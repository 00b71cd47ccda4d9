//! Congestion controllers for QUIC: facts in, answers out.
