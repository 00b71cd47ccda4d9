//! Path headers as a QUIC endpoint uses them, on any QUIC stack.
//!
//! Internal to evenkeel: no promise, the API may change with every version.
//!
//! What an endpoint decides about headers (`docs/path-header.md`) is here; shells around QUIC
//! stacks, `evenkeel` on quinn and `evenkeel-noq` on noq, give it packets, time and keys.
//! [`Headers`] are those of one connection, and the functions of [`parameters`] read and write
//! the transport parameter by which two ends agree on them. [`Usage`] adds headers to datagrams that
//! leave, [`Received`] removes them from those that arrive. Nothing here does I/O, except that
//! [`Usage::on_socket`] sets an option of a socket.

mod arriving;
mod connections;
pub mod frames;
mod header;
mod hop_limit;
mod order;
pub mod parameters;
mod path;
mod sending;
mod session;
mod setup;
mod usage;

pub use arriving::{Filled, MOST_TRIED, Received};
pub use connections::{Connections, locked};
#[cfg(any(test, feature = "work"))]
pub use header::work;
pub use header::{
    ANSWERS, Agreement, Facts, Grease, HeaderCounters, HeaderState, Headers, Master, NotOurs,
    Prepared,
};
pub use order::{Allowance, Departures, LEAST_DATA, Order, Polled, StackPaced};
pub use path::{Kept, Owner, Part, PathFacts, PathHeaders};
pub use sending::Datagrams;
pub use session::{
    Failure, NewKeys, Session, Sessions, Shown, no_initial_suite, retry, tls_version,
};
pub use setup::SetupError;
pub use usage::{Usage, with_room_for_header};
