//! Path headers and ECN on noq, in virtual time: beside quinn's, over honest and hostile paths.

mod bridge;
mod ecn;
mod ends;
mod figures;
mod hostile;
mod interop;
#[expect(dead_code, reason = "tests of quinn's endpoint use the rest")]
#[path = "../../../../tests/transport/support.rs"]
mod support;
