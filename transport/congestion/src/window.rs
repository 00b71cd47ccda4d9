//! Bounds the window of every controller.

use evenkeel_spec::{SpecParameter, SpecValues};

/// Bytes that RFC 9002, section 7.2, allows into an idle path, if ten packets are more.
const INITIAL_BYTES: u64 = 14_720;

/// Packets to which RFC 9002, section 7.2, limits the initial window.
const INITIAL_PACKETS: u64 = 10;

/// Packets in the smallest window (RFC 9002, section 7.2): two, so that an acknowledgement need not
/// wait for the peer's timer.
const MINIMUM_PACKETS: u64 = 2;

/// Packets by which a window grows in a round trip at most. What a queue cannot hold of them is lost in
/// scattered pieces, and QUIC receivers bound how many gaps they keep: quinn-proto 0.11 ends the
/// connection beyond 1024 in a stream. Two such rounds leave before a loss is noticed. RFC 3742 has
/// 50 for TCP.
const MOST_RISKED_PACKETS: u64 = 400;

/// The parameter `iw` of most controllers. At most a thousand packets: a megabyte into a path that
/// nobody has measured.
pub(crate) const INITIAL_WINDOW: SpecParameter = SpecParameter::count(
    "iw",
    "initial window in packets; not given, that of RFC 9002: 10, in at most 14720 bytes",
    INITIAL_PACKETS,
    1000,
    None,
);

/// The window before anything is known about the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InitialWindow {
    /// Ten packets, but at most 14720 bytes or two packets, whichever is more
    /// (RFC 9002, section 7.2).
    #[default]
    Rfc9002,
    /// A number of full-size packets.
    Packets(u16),
}

impl InitialWindow {
    /// Reads the parameter `name`, in packets; RFC 9002's window without it.
    pub fn read(values: &SpecValues, name: &str) -> Self {
        values
            .optional_count(name)
            .map_or(Self::Rfc9002, Self::Packets)
    }

    /// Returns the window in bytes for full-size packets of `mtu` bytes.
    pub fn bytes(self, mtu: u16) -> u64 {
        let mtu = u64::from(mtu);
        match self {
            Self::Rfc9002 => (INITIAL_PACKETS * mtu).min(INITIAL_BYTES.max(MINIMUM_PACKETS * mtu)),
            Self::Packets(packets) => u64::from(packets) * mtu,
        }
    }
}

/// Returns the smallest window in bytes for full-size packets of `mtu` bytes.
pub(crate) fn minimum_window(mtu: u16) -> u64 {
    MINIMUM_PACKETS * u64::from(mtu)
}

/// Returns the most bytes by which a window grows in a round trip, for full-size packets of `mtu`
/// bytes.
pub(crate) fn most_risked(mtu: u16) -> u64 {
    MOST_RISKED_PACKETS * u64::from(mtu)
}

/// Returns the bytes of `packets` full-size packets of `mtu` bytes, rounded down.
pub(crate) fn packets_to_bytes(packets: f64, mtu: u16) -> u64 {
    (packets * f64::from(mtu)) as u64
}

/// Multiplies `bytes` by a factor of at least 0, rounded down.
pub(crate) fn scale(bytes: u64, factor: f64) -> u64 {
    (bytes as f64 * factor) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_initial_window_is_that_of_rfc_9002() {
        // Ten packets are fewer than 14720 bytes.
        assert_eq!(InitialWindow::Rfc9002.bytes(1200), 12_000);
        assert_eq!(InitialWindow::Rfc9002.bytes(1472), 14_720);
        // 14720 bytes are fewer than ten packets, but not than two.
        assert_eq!(InitialWindow::Rfc9002.bytes(1500), 14_720);
        assert_eq!(InitialWindow::Rfc9002.bytes(9000), 18_000);
        assert_eq!(InitialWindow::Packets(4).bytes(1200), 4800);
    }
}
