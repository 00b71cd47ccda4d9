//! When flows begin their transfers, and when a source of UDP cross traffic sends: at a constant rate,
//! or ON/OFF with exponential or Pareto periods. Every backend sends at these times.

use std::time::Duration;

use evenkeel_apps::bulk::MAX_BYTES;
use evenkeel_wire::{
    CompactRate, CompactTime, HeaderTimestamp, PATH_HEADER_LEN, PathHeaderKind, PathHeaderRepr,
    Signals,
};
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64;

use crate::random::{Purpose, generator, pareto};
use crate::scenario::{App, CrossSpec, Payload, Periods, Scenario};

/// A transfer of a flow.
#[derive(Debug)]
pub(crate) struct Planned {
    /// When it begins.
    pub(crate) at: Duration,
    /// When it is broken off; `None`: at the end of the run.
    pub(crate) until: Option<Duration>,
    pub(crate) payload: Payload,
}

/// The transfers of a flow that is no stream, in order: one, one for each ON period, or short ones
/// that may overlap. Times are from the beginning of the run.
#[derive(Debug)]
pub(crate) struct Transfers {
    app: App,
    pub(crate) rng: Pcg64,
    /// When the next one begins, or from when on it may.
    pub(crate) now: Duration,
    /// `None`: at the end of the run.
    pub(crate) stop: Option<Duration>,
}

impl Transfers {
    /// Those of the flow `index` of the scenario.
    pub(crate) fn new(scenario: &Scenario, index: usize) -> Self {
        let spec = &scenario.flows[index];
        let mut rng = generator(scenario.seed, Purpose::Flow, index);
        let silence = match &spec.app {
            App::OnOff {
                periods, begins, ..
            } => periods.before_first(*begins, &mut rng),
            _ => Duration::ZERO,
        };
        Self {
            app: spec.app.clone(),
            rng,
            now: spec.start + silence,
            // A flow that lasts to the end of the run is not torn down in its last instant.
            stop: (spec.stop < scenario.duration).then_some(spec.stop),
        }
    }
}

impl Iterator for Transfers {
    type Item = Planned;

    fn next(&mut self) -> Option<Planned> {
        if let App::Short { arrivals_per_s, .. } = self.app {
            let gap: f64 = Exp1.sample(&mut self.rng);
            self.now += Duration::from_secs_f64(gap / arrivals_per_s);
        }
        let (at, stop) = (self.now, self.stop);
        if stop.is_some_and(|stop| at >= stop) {
            return None;
        }
        let (until, payload) = match &self.app {
            App::Bulk(payload) => {
                let payload = payload.clone();
                self.stop = Some(at);
                (stop, payload)
            }
            App::OnOff { periods, .. } => {
                let ends = at + periods.sample_on(&mut self.rng);
                let ends = stop.map_or(ends, |stop| ends.min(stop));
                self.now = ends + periods.sample_off(&mut self.rng);
                (Some(ends), Payload::Endless)
            }
            App::Short {
                mean_bytes, shape, ..
            } => {
                let bytes = pareto(&mut self.rng, *mean_bytes as f64, *shape).max(1.0);
                (None, Payload::Bytes((bytes as u64).min(MAX_BYTES)))
            }
            App::Tcp { bytes } => {
                let payload = bytes.map_or(Payload::Endless, Payload::Bytes);
                self.stop = Some(at);
                (stop, payload)
            }
            App::Stream(_) => return None,
        };
        Some(Planned { at, until, payload })
    }
}

/// `length` bytes that a source sends behind IPv4 and UDP headers: zeros, behind a path header of
/// kind ACP if it is to tell a round trip.
pub(crate) fn payload(length: usize, acp_rtt: Option<Duration>) -> Vec<u8> {
    let mut payload = vec![0; length];
    if let Some(rtt) = acp_rtt {
        let header = PathHeaderRepr {
            kind: PathHeaderKind::Acp,
            rtt: CompactTime::from_duration(rtt),
            signals: Signals::initial(CompactRate::NO_LIMIT, None),
            phase: false,
            timestamp: HeaderTimestamp::default(),
            echo: None,
            tag: [0; 4],
        };
        payload[..PATH_HEADER_LEN].copy_from_slice(&header.emit());
    }
    payload
}

/// The times at which a source sends its packets, from the beginning of the run; in order.
///
/// One packet leaves per `packet_bytes` worth of ON time. What is left of that time at the end of
/// an ON period counts for the next one, so that the mean rate is the rate times the share of ON
/// time, however short the periods are.
#[derive(Debug, Clone)]
pub(crate) struct SendTimes {
    rng: Pcg64,
    /// ON and OFF; `None` for a constant rate.
    periods: Option<Periods>,
    /// ON time per packet.
    interval: Duration,
    now: Duration,
    /// ON time until the next packet.
    until_packet: Duration,
    off_at: Duration,
    stop: Duration,
}

impl SendTimes {
    pub(crate) fn new(spec: &CrossSpec, rng: Pcg64) -> Self {
        let bits = f64::from(spec.packet_bytes) * 8.0;
        let mut times = Self {
            rng,
            periods: spec.periods,
            interval: Duration::from_secs_f64(bits / spec.rate_bps as f64),
            now: spec.start,
            until_packet: Duration::ZERO,
            off_at: spec.stop,
            stop: spec.stop,
        };
        times.turn_on();
        times
    }

    fn turn_on(&mut self) {
        self.off_at = match &self.periods {
            Some(periods) => self.stop.min(self.now + periods.sample_on(&mut self.rng)),
            None => self.stop,
        };
    }
}

impl Iterator for SendTimes {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        while self.now < self.stop {
            let at = self.now + self.until_packet;
            if at < self.off_at {
                self.now = at;
                self.until_packet = self.interval;
                return Some(at);
            }
            self.until_packet -= self.off_at - self.now;
            self.now = self.off_at;
            if let Some(periods) = &self.periods {
                self.now += periods.sample_off(&mut self.rng);
                self.turn_on();
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{IpVersion, NodeIndex, PeriodDistribution};

    fn source(periods: Option<Periods>) -> CrossSpec {
        CrossSpec {
            name: "udp".into(),
            group: "udp".into(),
            from: NodeIndex(0),
            to: NodeIndex(1),
            ip_version: IpVersion::V4,
            rate_bps: 1_000_000,
            packet_bytes: 1250,
            acp_rtt: None,
            periods,
            start: Duration::from_secs(1),
            stop: Duration::from_secs(3),
        }
    }

    #[test]
    fn a_source_that_is_to_tell_a_round_trip_has_a_path_header_that_routers_read() {
        assert!(payload(1200, None).iter().all(|byte| *byte == 0));
        let told = payload(1200, Some(Duration::from_millis(8)));
        assert_eq!(told.len(), 1200);
        let header = evenkeel_wire::PathHeaderView::parse(&told).expect("a header");
        assert_eq!(header.kind(), PathHeaderKind::Acp);
        assert_eq!(header.rtt().duration(), Duration::from_millis(8));
    }

    #[test]
    fn a_constant_rate_sends_at_even_distances_from_start_to_stop() {
        let rng = generator(1, Purpose::Cross, 0);
        let times: Vec<_> = SendTimes::new(&source(None), rng).collect();
        // 1250 bytes at 1 Mb/s take 10 ms.
        assert_eq!(times.len(), 200);
        assert_eq!(times[0], Duration::from_secs(1));
        assert!(
            times
                .windows(2)
                .all(|w| w[1] - w[0] == Duration::from_millis(10))
        );
    }

    #[test]
    fn periods_much_shorter_than_a_packet_still_give_the_mean_rate() {
        let periods = Periods {
            on: Duration::from_millis(2),
            off: Duration::from_millis(2),
            distribution: PeriodDistribution::Exponential,
        };
        let mut spec = source(Some(periods));
        spec.stop = Duration::from_secs(401);
        let times = SendTimes::new(&spec, generator(1, Purpose::Cross, 0)).count();
        // Half of 400 s is ON: 20,000 packets; 100,000 periods make 0.5 % of spread.
        assert!((19_500..=20_500).contains(&times), "{times} packets");
    }
}
