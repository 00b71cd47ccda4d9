//! Applications that move real data over evenkeel and measure it.
