//! Applications that move real data over evenkeel and measure it.
//!
//! [`bulk`] is the application itself, on any [`quinn::Runtime`].

pub mod bulk;
