//! What servers received, shared out to the run's intervals.

use std::time::{Duration, Instant};

/// What a server received in one of its own intervals.
#[derive(Debug)]
pub(super) struct Received {
    /// When its record came, and how long the interval was.
    pub(super) at: Instant,
    pub(super) length: Duration,
    pub(super) ip_bytes: u64,
    pub(super) app_bytes: u64,
}

/// Shares out what came in intervals of the server's own to the run's intervals, by overlap.
pub(super) fn spread(
    received: &[Received],
    epoch: Instant,
    interval: Duration,
    buckets: usize,
    bytes: fn(&Received) -> u64,
) -> Vec<u64> {
    let mut shares = vec![0.0; buckets];
    let width = interval.as_secs_f64();
    for record in received {
        let end = record.at.saturating_duration_since(epoch).as_secs_f64();
        let length = record.length.as_secs_f64().max(1e-6);
        let start = (end - length).max(0.0);
        let last = (end / width) as usize;
        for (bucket, share) in shares
            .iter_mut()
            .enumerate()
            .take(last + 1)
            .skip((start / width) as usize)
        {
            let overlap = end.min((bucket + 1) as f64 * width) - start.max(bucket as f64 * width);
            *share += bytes(record) as f64 * (overlap / (end - start).max(1e-6)).clamp(0.0, 1.0);
        }
    }
    shares
        .into_iter()
        .map(|share: f64| share.round() as u64)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::wall_clock;
    use super::*;

    fn received(epoch: Instant, end_ms: u64, length_ms: u64, bytes: u64) -> Received {
        Received {
            at: epoch + Duration::from_millis(end_ms),
            length: Duration::from_millis(length_ms),
            ip_bytes: bytes,
            app_bytes: bytes / 2,
        }
    }

    #[test]
    fn bytes_are_shared_out_by_overlap_and_none_is_lost() {
        let epoch = wall_clock();
        let records = [
            received(epoch, 150, 100, 1000),
            received(epoch, 260, 110, 1100),
        ];
        let shares = spread(&records, epoch, Duration::from_millis(100), 3, |r| {
            r.ip_bytes
        });
        // 50..150 ms: half and half. 150..260 ms: 50 ms and 60 ms of 110.
        assert_eq!(shares, [500, 1000, 600]);
    }

    #[test]
    fn what_came_before_the_run_or_after_it_does_not_count() {
        let epoch = wall_clock();
        let records = [
            received(epoch, 50, 100, 1000),
            received(epoch, 900, 100, 1000),
        ];
        let shares = spread(&records, epoch, Duration::from_millis(100), 2, |r| {
            r.ip_bytes
        });
        assert_eq!(shares.iter().sum::<u64>(), 1000);
    }
}
