//! The path header carries routers' signals to endpoints, before the QUIC packet in a UDP payload.
//!
//! `docs/path-header.md` is the specification: layout, procedures, security. This is the codec:
//! [`PathHeaderView`] reads a header, [`PathHeaderRepr`] writes one, [`PathHeaderMut`] changes the
//! fields that routers may change, each in its one direction. The codec knows no keys: it carries
//! the tag, and [`PathHeaderRepr::covered_by_tag`] returns the bytes that the tag covers.

mod compact;
mod header;
mod layout;
mod packet;
#[cfg(test)]
mod tests;

pub use compact::{
    CompactBytes, CompactCount, CompactRate, CompactTime, Feedback, HeaderTimestamp, QueueingTime,
    WindowChange,
};
pub use header::{
    Echo, PathHeaderKind, PathHeaderPrefix, PathHeaderRepr, PathHeaderTemplate, PathHeaderView,
    SignalFlags, Signals, split_path_header,
};
pub use layout::{ECHO_LIFETIME, PATH_HEADER_LEN, PATH_HEADER_MAGIC, PATH_HEADER_VERSION, Skipped};
pub use packet::PathHeaderMut;
