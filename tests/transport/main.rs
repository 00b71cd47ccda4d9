//! The shipping endpoint, on a network in virtual time and against other implementations.

mod lifetime;
mod pacing;
mod path_header;
mod support;
