//! Output ports, queue disciplines and link impairments without I/O.
