//! Smooth, low-delay congestion control for quinn.
