//! The stamps of a port, as the port hosts them.

use std::time::Instant;

use evenkeel_wire::{CompactRate, PathHeaderKind, Skipped};

use super::{
    Arrival, CarriedHeader, Carrier, Departure, HeaderCounts, Stamp, StampConfig, StampFigures,
};
use crate::discipline::PortView;

/// All stamps of one port; none, for most ports.
#[derive(Debug, Default)]
pub(crate) struct Stamper {
    stamps: Vec<(&'static str, Box<dyn Stamp>)>,
    /// The earliest of the stamps' timers.
    timer: Option<Instant>,
    counts: HeaderCounts,
}

impl Stamper {
    /// Of a port that begins at `now`.
    pub(crate) fn new(now: Instant, configs: &[Box<dyn StampConfig>]) -> Self {
        let stamps: Vec<_> = configs
            .iter()
            .map(|config| (config.name(), config.build(now)))
            .collect();
        let mut stamper = Self {
            stamps,
            timer: None,
            counts: HeaderCounts::default(),
        };
        stamper.set_timer();
        stamper
    }

    /// Whether there is anything to be told.
    pub(crate) fn has_stamps(&self) -> bool {
        !self.stamps.is_empty()
    }

    /// Whether any stamp makes use of flows.
    pub(crate) fn tells_flows_apart(&self) -> bool {
        let mut stamps = self.stamps.iter();
        stamps.any(|(_, stamp)| stamp.tells_flows_apart())
    }

    /// A packet of `flow` arrives, with the header that it carries or why there is none; stamps see
    /// `port`, or leave the packet alone. Whether its header is to be stamped when it leaves.
    pub(crate) fn on_arrival(
        &mut self,
        now: Instant,
        bytes: u32,
        flow: Option<u64>,
        carried: Result<CarriedHeader<'_>, Skipped>,
        port: Option<&PortView>,
    ) -> bool {
        match &carried {
            Ok(_) => self.counts.recognised += 1,
            Err(reason) => self.counts.skipped(*reason),
        }
        let Some(port) = port else {
            return false;
        };
        let header = carried.as_ref().ok();
        let arrival = Arrival {
            bytes,
            header: header.map(|carried| carried.header.view()),
            flow,
        };
        for (_, stamp) in &mut self.stamps {
            stamp.on_arrival(now, &arrival, port);
        }
        self.set_timer();
        carried.is_ok()
    }

    /// A packet of `bytes` that had a header is about to be transmitted, after waiting `queued`.
    /// Returns the rate that it offers now, in bytes per second, if it offers one.
    pub(crate) fn on_departure(
        &mut self,
        now: Instant,
        bytes: u32,
        queued: std::time::Duration,
        carrier: &mut impl Carrier,
        port: &PortView,
    ) -> Option<u64> {
        let CarriedHeader {
            header,
            leaving_ttl,
        } = carrier.path_header().ok()?;
        let mut departure = Departure {
            bytes,
            header,
            queued,
            leaving_ttl,
        };
        for (_, stamp) in &mut self.stamps {
            stamp.on_departure(now, &mut departure, port);
        }
        self.counts.stamped += 1;
        let view = departure.header.view();
        let is_rate = matches!(view.kind(), PathHeaderKind::Acp | PathHeaderKind::Rcp);
        let rate = is_rate.then(|| view.signals().feedback.rate());
        rate.and_then(CompactRate::bytes_per_second)
    }

    /// The instant of [`Stamper::next_timer`] has come.
    pub(crate) fn on_timer(&mut self, now: Instant, port: &PortView) {
        for (_, stamp) in &mut self.stamps {
            let Some(due) = stamp.next_timer().filter(|timer| *timer <= now) else {
                continue;
            };
            stamp.on_timer(now, port);
            assert!(
                stamp.next_timer().is_none_or(|next| next > due),
                "a stamp's timer moves on when it fires"
            );
        }
        self.set_timer();
    }

    pub(crate) fn next_timer(&self) -> Option<Instant> {
        self.timer
    }

    pub(crate) fn counts(&self) -> HeaderCounts {
        self.counts
    }

    pub(crate) fn figures(&self) -> Vec<StampFigures> {
        let figures = |(name, stamp): &(&'static str, Box<dyn Stamp>)| StampFigures {
            stamp: name,
            figures: stamp.figures(),
        };
        self.stamps.iter().map(figures).collect()
    }

    fn set_timer(&mut self) {
        let timers = self.stamps.iter();
        self.timer = timers.filter_map(|(_, stamp)| stamp.next_timer()).min();
    }
}
