//! UDP cross traffic: constant rate, or ON/OFF with exponential or Pareto periods.

use std::net::SocketAddrV4;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quinn::Runtime;
use rand_pcg::Pcg64;

use crate::scenario::CrossSpec;

use super::executor::SimRuntime;
use super::network::HEADER_BYTES;
use super::random::PeriodLength;
use super::socket::SimSocket;

/// A UDP source's plan.
#[derive(Debug, Clone)]
pub(super) struct Source {
    /// Rate while ON, bits of IP packets per second.
    pub(super) rate_bps: u64,
    /// Size of each packet, IP bytes.
    pub(super) packet_bytes: u32,
    /// ON and OFF periods; none for a constant rate.
    pub(super) periods: Option<(PeriodLength, PeriodLength)>,
    pub(super) start: Duration,
    pub(super) stop: Duration,
}

impl Source {
    pub(super) fn from_spec(spec: &CrossSpec) -> Self {
        Self {
            rate_bps: spec.rate_bps,
            packet_bytes: spec.packet_bytes,
            periods: spec.periods.as_ref().map(PeriodLength::pair),
            start: spec.start,
            stop: spec.stop,
        }
    }

    /// Sends from `socket` to `destination` from `start` to `stop`.
    ///
    /// One packet leaves per `packet_bytes` worth of ON time. What is left of that time at
    /// the end of an ON period counts for the next one, so that the mean rate is the rate
    /// times the share of ON time, however short the periods are.
    pub(super) async fn run(
        self,
        runtime: SimRuntime,
        socket: Arc<SimSocket>,
        destination: SocketAddrV4,
        mut rng: Pcg64,
    ) {
        let contents = Bytes::from(vec![
            0;
            (self.packet_bytes as usize)
                .saturating_sub(HEADER_BYTES)
        ]);
        let interval =
            Duration::from_secs_f64(f64::from(self.packet_bytes) * 8.0 / self.rate_bps as f64);
        let stop = runtime.epoch() + self.stop;
        let mut now = runtime.epoch() + self.start;
        let mut until_packet = Duration::ZERO;
        while now < stop {
            let on = match &self.periods {
                Some((on, _)) => on.sample(&mut rng),
                None => stop - now,
            };
            let off_at = (now + on).min(stop);
            while now + until_packet < off_at {
                now += until_packet;
                runtime.sleep_until(now).await;
                socket.send_to(destination, contents.clone());
                until_packet = interval;
            }
            until_packet -= off_at - now;
            now = off_at;
            if let Some((_, off)) = &self.periods {
                now += off.sample(&mut rng);
            }
        }
        debug_assert!(runtime.now() <= stop);
    }
}
