//! The queueing time that keel aims at.

use std::time::Duration;

use super::row::Switches;

/// Packets of the target at [`TARGET_RATE`], more in proportion to the root of the rate, and the
/// fewest. Their time falls as the rate grows: flows that see the same queue come to the same rate.
const TARGET_PACKETS: f64 = 4.0;
const LEAST_TARGET_PACKETS: f64 = 2.5;

/// 5 Mb/s in bytes per second.
const TARGET_RATE: f64 = 625_000.0;

/// The target before a rate is known.
pub(super) const FIRST: Duration = Duration::from_millis(20);

/// The target without jitter, at `bandwidth` bytes per second, for packets of `packet` bytes;
/// `None` before a rate is known.
pub(super) fn own(
    bandwidth: f64,
    base: Duration,
    packet: f64,
    switches: Switches,
) -> Option<Duration> {
    if bandwidth <= 0.0 {
        return None;
    }
    let packet = packet / bandwidth;
    let at_5_mbps = switches.target_packets(TARGET_PACKETS);
    let packets = at_5_mbps * (bandwidth / TARGET_RATE).sqrt();
    let own = packets.max(LEAST_TARGET_PACKETS) * packet;
    let own = own.min((base.as_secs_f64() / 2.0).max(at_5_mbps * packet));
    Some(Duration::from_secs_f64(own.min(1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: Duration = Duration::from_millis(40);

    #[test]
    fn four_packets_wait_at_5_mbps_and_their_time_falls_as_the_rate_grows() {
        let at =
            |mbps: f64| own(mbps * 125_000.0, BASE, 1250.0, Switches::default()).expect("a rate");
        assert_eq!(at(5.0), Duration::from_millis(8));
        // Four times the rate, half the time.
        assert_eq!(at(20.0), Duration::from_millis(4));
        // Never fewer than 2.5 packets.
        assert_eq!(at(1.0), Duration::from_millis(25));
        assert_eq!(own(0.0, BASE, 1250.0, Switches::default()), None);
    }
}
