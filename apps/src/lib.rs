//! Applications that move real data over evenkeel and measure it.
//!
//! [`bulk`] is the application itself, on any [`quinn::Runtime`]; [`tls`] makes and
//! checks certificates; [`cli`] is the program `evenkeel` around both, on tokio.

pub mod bulk;
pub mod cli;
pub mod tls;
