//! evenkeel endpoints on sockets of the operating system: with themselves, with stock quinn, and with
//! peers that are written by others.
//!
//! Tests with aioquic run if `EVENKEEL_AIOQUIC` names a Python that has it. `.ci/aioquic` sets one up.

mod aioquic;
mod http3;
mod quinn_order;
mod stock;
mod support;
