//! The program `evenkeel bulk` as its users run it: real processes, real files, UDP
//! over loopback.

mod errors;
mod headers;
mod program;
mod reports;
mod transfers;
mod trust;
