//! Finds path headers in IP packets, changes what routers may change, and updates the checksum.

use std::time::Duration;

use super::compact::{CompactCount, CompactRate, Feedback, QueueingTime, WindowChange};
use super::header::{PathHeaderKind, PathHeaderView};
use super::layout::{self, HOP_LIMIT_MASK, PATH_HEADER_LEN, Skipped, field, flag};
use crate::checksum::update_udp_checksum;
use crate::ipv4::Ipv4View;
use crate::ipv6::{IPV6_HEADER_LEN, Ipv6View};
use crate::udp::{UDP_HEADER_LEN, UdpView};

/// The checksum's offset in a UDP header (RFC 768).
const CHECKSUM_AT: usize = 6;

/// The bytes that routers write, in whole 16-bit words of the datagram.
const WRITABLE: std::ops::Range<usize> = 4..14;

/// A path header that a router may stamp.
///
/// Each method obeys its field's merge rule whatever it finds and is given, changes no other field,
/// and updates the UDP checksum (RFC 1624) if the header was found in a packet.
#[derive(Debug)]
pub struct PathHeaderMut<'a> {
    header: &'a mut [u8; PATH_HEADER_LEN],
    /// The datagram's checksum; absent if the header was not found in a packet.
    checksum: Option<&'a mut [u8; 2]>,
}

impl<'a> PathHeaderMut<'a> {
    /// Finds the header in an IPv4 or IPv6 packet.
    ///
    /// # Errors
    /// [`Skipped`] if the packet holds none, or routers leave it alone.
    pub fn find(packet: &'a mut [u8]) -> Result<Self, Skipped> {
        let at = find(packet)?;
        let (udp, header) = packet[at - UDP_HEADER_LEN..].split_at_mut(UDP_HEADER_LEN);
        Ok(Self {
            header: header
                .first_chunk_mut()
                .expect("the header was found whole"),
            checksum: udp[CHECKSUM_AT..].first_chunk_mut(),
        })
    }

    /// Reads the header at the start of a UDP payload that has no checksum yet, or, in a simulator,
    /// never gets one.
    ///
    /// # Errors
    /// [`Skipped`] if there is none.
    pub fn parse(payload: &'a mut [u8]) -> Result<Self, Skipped> {
        layout::check(payload)?;
        Ok(Self {
            header: payload
                .first_chunk_mut()
                .expect("a known kind has this length, and the payload is not shorter"),
            checksum: None,
        })
    }

    /// Leaves the datagram's checksum alone from here on: the next device computes
    /// it (checksum offload).
    #[must_use]
    pub fn without_checksum(self) -> Self {
        Self {
            checksum: None,
            ..self
        }
    }

    /// Returns the header as it is now.
    pub fn view(&self) -> PathHeaderView<'_> {
        PathHeaderView {
            bytes: &*self.header,
        }
    }

    /// Adds the time this packet has waited here, to the nearest microsecond and saturating (AQT:
    /// RoVegas, section 3.1).
    pub fn add_queueing_time(&mut self, waited: Duration) {
        let total = self.view().signals().queueing_time;
        let total = total.saturating_add(QueueingTime::from_duration(waited));
        self.write(|header| {
            header[field::QUEUEING_TIME].copy_from_slice(&total.to_bytes());
            header[field::FLAGS] |= flag::STAMPED;
        });
    }

    /// Records the TTL or hop limit with which the packet leaves this host. If the previous
    /// stamping host sent it with more than one above this value, hops between the two have not
    /// stamped; if with less, somebody has raised it and hidden them.
    ///
    /// Two ports of one host may both stamp, so the same value twice is no gap.
    pub fn record_ttl(&mut self, leaving: u8) {
        let leaving = leaving & HOP_LIMIT_MASK;
        let hops = self.view().signals().hop_limit.wrapping_sub(leaving) & HOP_LIMIT_MASK;
        self.write(|header| {
            let octet = &mut header[field::PHASES_HOP_LIMIT];
            *octet = *octet & !HOP_LIMIT_MASK | leaving;
            if hops > 1 {
                header[field::FLAGS] |= flag::GAP;
            }
        });
    }

    /// Lowers the feedback to `rate` if it is higher (ACP, section II-C; RCP). Leaves an XCP header
    /// alone, because its feedback is no rate. Returns whether the feedback was a rate.
    ///
    /// ACP's and RCP's routers each ask [`PathHeaderView::kind`] and serve only their own.
    pub fn limit_rate(&mut self, rate: CompactRate) -> bool {
        if let PathHeaderKind::Xcp { .. } = self.view().kind() {
            return false;
        }
        let least = self.view().signals().feedback.rate().min(rate);
        self.write_feedback(least.into());
        true
    }

    /// Lowers the feedback to `change` if it is higher (XCP, section 3.5). Leaves headers of other
    /// kinds alone. Returns whether the feedback was a window change.
    pub fn limit_window_change(&mut self, change: WindowChange) -> bool {
        let PathHeaderKind::Xcp { .. } = self.view().kind() else {
            return false;
        };
        let least = self.view().signals().feedback.window_change().min(change);
        self.write_feedback(least.into());
        true
    }

    /// Sets H_congestion (ACP, section II-C).
    pub fn mark_congested(&mut self) {
        self.write(|header| header[field::FLAGS] |= flag::CONGESTED);
    }

    /// Raises the number of flows to `flows` if it is lower. Leaves an XCP header alone, because it
    /// has no such field. Returns whether the header has the field.
    pub fn raise_contention(&mut self, flows: CompactCount) -> bool {
        if !self.view().has_contention() {
            return false;
        }
        let most = self.view().signals().contention.max(flows);
        self.write(|header| header[field::CONTENTION] = most.0);
        true
    }

    fn write_feedback(&mut self, feedback: Feedback) {
        self.write(|header| {
            header[field::FEEDBACK].copy_from_slice(&feedback.0);
            header[field::FLAGS] |= flag::OFFERED;
        });
    }

    fn write(&mut self, change: impl FnOnce(&mut [u8; PATH_HEADER_LEN])) {
        let before: [u8; WRITABLE.end - WRITABLE.start] = self.header[WRITABLE]
            .try_into()
            .expect("the array has the range's length");
        change(self.header);
        if let Some(checksum) = &mut self.checksum {
            let updated = update_udp_checksum(
                u16::from_be_bytes(**checksum),
                &before,
                &self.header[WRITABLE],
            );
            **checksum = updated.to_be_bytes();
        }
    }
}

impl<'a> PathHeaderView<'a> {
    /// Finds the header in an IP packet, as a router reads it on arrival.
    ///
    /// # Errors
    /// [`Skipped`] as for [`PathHeaderMut::find`].
    pub fn find(packet: &'a [u8]) -> Result<Self, Skipped> {
        let at = find(packet)?;
        Self::parse(&packet[at..])
    }
}

/// Returns where in an IP packet the path header begins, if the header is whole, of a known kind,
/// and in a packet that routers may change.
fn find(packet: &[u8]) -> Result<usize, Skipped> {
    match packet.first().map(|byte| byte >> 4) {
        Some(4) => find_in_ipv4(packet),
        Some(6) => find_in_ipv6(packet),
        _ => Err(Skipped::Foreign),
    }
}

fn find_in_ipv4(packet: &[u8]) -> Result<usize, Skipped> {
    let view = Ipv4View::parse(packet).or(Err(Skipped::Foreign))?;
    let udp = view.udp().or(Err(Skipped::Foreign))?;
    let udp = udp.ok_or(Skipped::Foreign)?;
    check_in_udp(&udp, view.payload().len(), view.is_fragment())?;
    Ok(view.header_len() + UDP_HEADER_LEN)
}

fn find_in_ipv6(packet: &[u8]) -> Result<usize, Skipped> {
    let view = Ipv6View::parse(packet).or(Err(Skipped::Foreign))?;
    let udp = view.udp().or(Err(Skipped::Foreign))?;
    let udp = udp.ok_or(Skipped::Foreign)?;
    // An authentication header would cover the changed bytes; without a checksum the receiver
    // discards the datagram (RFC 8200, section 8.1).
    let untouchable =
        view.is_fragment() || view.header_len() != IPV6_HEADER_LEN || udp.checksum() == 0;
    check_in_udp(&udp, view.payload().len(), untouchable)?;
    Ok(view.header_len() + UDP_HEADER_LEN)
}

fn check_in_udp(udp: &UdpView<'_>, ip_payload: usize, untouchable: bool) -> Result<(), Skipped> {
    layout::check(udp.payload())?;
    // Bytes after the datagram are UDP options (RFC 9868), which routers must not modify.
    if untouchable || usize::from(udp.length()) != ip_payload {
        return Err(Skipped::Untouchable);
    }
    Ok(())
}
