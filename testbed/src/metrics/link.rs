//! Figures of one direction of a link.

use super::{LinkObservation, Timing};

/// Bits forwarded / bits that the link could have carried, after the warm-up. It counts whatever
/// crossed the link, headers, retransmissions and cross traffic included. (AdaVegas, section IV,
/// counts acknowledged packets instead: a flow's goodput over the rate gives that.)
///
/// `None` for a link without a rate.
pub fn utilization(link: &LinkObservation, timing: &Timing) -> Option<f64> {
    let capacity_bits = link.rate_bps? as f64 * timing.measured().as_secs_f64();
    (capacity_bits > 0.0).then(|| link.forwarded_bytes as f64 * 8.0 / capacity_bits)
}

/// Packets that the queue refused / packets that came to it (AdaVegas, section IV). Random loss
/// and blackouts behind the queue do not count here. `None` if no packet came.
pub fn loss_rate(link: &LinkObservation) -> Option<f64> {
    (link.arrived > 0).then(|| link.dropped as f64 / link.arrived as f64)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn utilization_is_what_was_carried_over_what_could_have_been() {
        let timing = Timing {
            interval: Duration::from_millis(100),
            warmup: Duration::from_secs(20),
            duration: Duration::from_secs(100),
        };
        // 80 s at 1000 bit/s are 10,000 bytes.
        let mut link = LinkObservation {
            rate_bps: Some(1000),
            forwarded_bytes: 7500,
            ..LinkObservation::default()
        };
        assert_eq!(utilization(&link, &timing), Some(0.75));
        link.rate_bps = None;
        assert_eq!(utilization(&link, &timing), None);
    }

    #[test]
    fn the_loss_rate_is_dropped_over_arrived() {
        let mut link = LinkObservation::default();
        assert_eq!(loss_rate(&link), None);
        (link.arrived, link.dropped, link.lost) = (400, 6, 9);
        assert_eq!(loss_rate(&link), Some(0.015));
    }
}
