//! The shipping endpoint, on a network in virtual time and against other implementations.

mod ecn;
mod feedback;
mod handshake;
mod joins;
mod lateness;
mod lifetime;
mod media;
mod pacing;
mod pair;
mod path_header;
mod servers;
mod support;
