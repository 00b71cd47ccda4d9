//! Views of the packet fields that evenkeel endpoints and routers read and write.
//!
//! Internal to evenkeel: no promise, the API may change with every version.
//!
//! Each format has two types. A *view* (`Ipv4View`, `Ipv6View`, `UdpView`) borrows bytes and checks
//! them once in `parse`; after that no accessor panics, whatever the bytes. A *repr* (`Ipv4Repr`,
//! `Ipv6Repr`, `UdpRepr`) holds the subset that evenkeel sends, and `emit` writes it. A third,
//! [`PathHeaderMut`], lets routers change a path header inside a packet.
//!
//! All bytes may be hostile. Nothing here allocates, does I/O or keeps state.

mod checksum;
mod ecn;
mod error;
mod field;
mod ipv4;
mod ipv6;
mod path_header;
mod udp;

pub use checksum::{PROTOCOL_UDP, PseudoHeader, Sum, update_checksum, update_udp_checksum};
pub use ecn::Ecn;
pub use error::{Malformed, NotRepresentable};
pub use ipv4::{IPV4_HEADER_LEN, Ipv4Repr, Ipv4View};
pub use ipv6::{IPV6_HEADER_LEN, Ipv6Repr, Ipv6View};
pub use path_header::{
    CompactBytes, CompactCount, CompactRate, CompactTime, ECHO_LIFETIME, Echo, Feedback,
    HeaderTimestamp, PATH_HEADER_LEN, PATH_HEADER_MAGIC, PATH_HEADER_VERSION, PathHeaderKind,
    PathHeaderMut, PathHeaderPrefix, PathHeaderRepr, PathHeaderTemplate, PathHeaderView,
    QueueingTime, SignalFlags, Signals, Skipped, WindowChange, split_path_header,
};
pub use udp::{UDP_HEADER_LEN, UdpRepr, UdpView};
