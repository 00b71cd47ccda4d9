//! Applications that move real data over evenkeel and measure it.
//!
//! [`bulk`] is the application itself, on any [`quinn::Runtime`]; [`tls`] makes and
//! checks certificates; [`path`] reports what path headers told; [`cli`] is the program
//! `evenkeel` around them, on tokio.

pub mod bulk;
pub mod cli;
pub mod path;
pub mod tls;
