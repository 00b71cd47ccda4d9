//! The program `evenkeel` as its users run it: real processes, real files, UDP
//! over loopback.

mod compare;
mod confinement;
mod errors;
mod files;
mod flood;
mod full_disk;
mod headers;
#[path = "../library/initials.rs"]
mod initials;
mod patterns;
mod program;
mod publish;
mod remember;
mod reports;
mod stream;
mod terminal;
mod transfers;
mod transport_stream;
mod trust;
