//! RoVegas by the mean of a round's samples, as ns-2's Vegas goes.

use evenkeel_congestion::ro_vegas::{Config, RoVegas, Samples};
use evenkeel_congestion::{Ack, Congestion, Controller, PathSample, Round};

use super::vegas::RttSum;

/// RoVegas whose rounds are judged by means: of the round's headers without their backward
/// queueing, or of its ACKs if no fresh header came.
#[derive(Debug, Clone)]
pub(super) struct MeanRoVegas {
    inner: RoVegas,
    headers: RttSum,
    acks: RttSum,
}

impl MeanRoVegas {
    /// A controller in slow start, for full-size packets of `mtu` bytes.
    pub(super) fn new(config: Config, mtu: u16) -> Self {
        Self {
            inner: RoVegas::new(config, mtu),
            headers: RttSum::default(),
            acks: RttSum::default(),
        }
    }
}

impl Controller for MeanRoVegas {
    fn on_path(&mut self, sample: &PathSample) {
        self.inner.on_path(sample);
        if sample.forward_queueing.is_some() || sample.backward_queueing.is_some() {
            let backward = sample.backward_queueing.unwrap_or_default();
            self.headers.add(sample.rtt.saturating_sub(backward));
        }
    }

    fn on_ack(&mut self, ack: &Ack) {
        if let Some(rtt) = ack.rtt {
            self.acks.add(rtt);
        }
        self.inner.on_ack(ack);
    }

    fn on_round(&mut self, round: &Round) {
        let acks = self.acks.end_round(round.rtt_min);
        let headers = self.headers.end_round(acks);
        self.inner.end_round(round, |samples| {
            let mean = samples.map_or(acks, |_| headers);
            Samples {
                least: mean,
                newest: mean,
            }
        });
    }

    fn on_congestion(&mut self, event: &Congestion) {
        self.inner.on_congestion(event);
    }

    fn on_persistent_congestion(&mut self) {
        self.inner.on_persistent_congestion();
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.inner.on_mtu(mtu);
    }

    fn window(&self) -> u64 {
        self.inner.window()
    }

    fn header_interval(&self) -> u32 {
        self.inner.header_interval()
    }

    fn slow_start_threshold(&self) -> Option<u64> {
        self.inner.slow_start_threshold()
    }
}
