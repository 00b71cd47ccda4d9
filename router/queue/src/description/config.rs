//! What the keys of a link make.

use std::num::NonZeroU32;
use std::time::Duration;

use evenkeel_spec::SpecError;
use evenkeel_spec::document::Fault;

use super::{CellularKeys, ChangeKeys, GilbertElliottKeys, LinkDescription};
use crate::discipline::discipline;
use crate::impairment::{Aggregation, GilbertElliott, Policer};
use crate::limit::Limit;
use crate::link::{Change, LinkConfig};
use crate::rate::Rate;
use crate::server::{Cellular, Service};
use crate::stamp::stamp_set;
use crate::trace::DeliveryTrace;

impl LinkDescription {
    /// What the link is made of; `trace` is what its trace file holds.
    ///
    /// # Errors
    /// A discipline or stamp that does not exist, or not with these parameters, with its origin.
    pub fn config(&self, trace: Option<DeliveryTrace>) -> Result<LinkConfig, Fault> {
        if let Some(fault) = self.misnamed().into_iter().next() {
            return Err(fault);
        }
        let limit = self.limit();
        let known = "the names have just been checked";
        let stamps = self.stamps.iter().map(|stamp| &stamp.value);
        let seconds = Duration::from_secs_f64;
        let blackouts = self.blackouts.iter().map(|keys| &keys.value);
        let changes = self.changes.iter().map(|keys| keys.value);
        Ok(LinkConfig {
            service: match (trace, self.cellular, self.rate_bps) {
                (Some(trace), ..) => Service::Trace(trace),
                (None, Some(keys), _) => Service::Cellular(keys.cellular()),
                (None, None, Some(rate_bps)) => Service::Rate(rate(rate_bps)),
                (None, None, None) => Service::Unlimited,
            },
            overhead_bytes: self.overhead_bytes.unwrap_or(0),
            watches_flows: false,
            limit,
            discipline: discipline(&self.discipline.value, limit).expect(known),
            stamps: stamp_set(stamps).expect(known),
            flow_hash_key: None,
            mtu: self.mtu,
            policer: self
                .police_bps
                .and_then(Rate::new)
                .map(|rate| Policer::new(rate, self.police_burst_bytes.unwrap_or(0))),
            delay: self.delay(),
            jitter: milliseconds(self.jitter_ms),
            wifi_jitter: milliseconds(self.wifi_jitter_ms.unwrap_or(0.0)),
            aggregation: self.aggregate_ms.filter(|time| *time > 0.0).map(|time_ms| {
                let packets = self.aggregate_packets.and_then(NonZeroU32::new);
                Aggregation::new(milliseconds(time_ms), packets)
            }),
            reorder: self.reorder.unwrap_or(0.0),
            loss: self.loss,
            recoding: self.recoding(),
            mark: self.mark.unwrap_or(0.0),
            corrupt: self.corrupt.unwrap_or(0.0),
            gilbert_elliott: self.gilbert_elliott.map(GilbertElliottKeys::model),
            duplicate: self.duplicate.unwrap_or(0.0),
            blackouts: blackouts
                .map(|blackout| (seconds(blackout.start_s), seconds(blackout.length_s)))
                .collect(),
            changes: changes.flat_map(|keys| keys.changes(limit)).collect(),
            changes_period: self.period_s().map(seconds),
        })
    }

    /// What makes a link of this description one of `after` while it goes on: another rate, delay
    /// or loss. `None` if another link must take its place.
    pub fn changes_to(&self, after: &Self) -> Option<Vec<Change>> {
        let altered = Self {
            rate_bps: after.rate_bps,
            delay_ms: after.delay_ms,
            loss: after.loss,
            ..self.clone()
        };
        let keeps_service = self.rate_bps.is_some() == after.rate_bps.is_some();
        // Changes of its own begin with the link.
        let is_steady = self.changes.is_empty() && self.gilbert_elliott.is_none();
        if !(keeps_service && is_steady && altered == *after) {
            return None;
        }
        let mut changes = Vec::new();
        if let Some(rate_bps) = after.rate_bps.filter(|_| self.rate_bps != after.rate_bps) {
            changes.push(Change::Rate(rate(rate_bps)));
        }
        if self.delay_ms != after.delay_ms {
            changes.push(Change::Delay(after.delay()));
        }
        if self.loss != after.loss {
            changes.push(Change::Loss(after.loss));
        }
        Some(changes)
    }

    /// The discipline and the stamps that do not exist, or not with these parameters, with their
    /// origins.
    pub fn misnamed(&self) -> Vec<Fault> {
        let discipline = discipline(&self.discipline.value, self.limit());
        let fault = |error: SpecError| self.discipline.fault(error.to_string());
        let mut faults: Vec<_> = discipline.map_err(fault).err().into_iter().collect();
        let mut right = Vec::new();
        for stamp in &self.stamps {
            right.push(&stamp.value);
            if let Err(error) = stamp_set(&right) {
                faults.push(stamp.fault(error.to_string()));
                right.pop();
            }
        }
        faults
    }

    /// The queue's limit.
    fn limit(&self) -> Limit {
        Limit {
            packets: self.queue_packets.map(u64::from),
            bytes: self.queue_bytes,
        }
    }

    /// The propagation delay, before any change.
    pub fn delay(&self) -> Duration {
        milliseconds(self.delay_ms)
    }

    /// The rate after `elapsed`, in bits per second; 0 while suspended; `None` if the link has none,
    /// or follows a trace or a cellular walk.
    pub fn rate_bps_after(&self, elapsed: Duration) -> Option<u64> {
        let (elapsed_s, period_s) = (elapsed.as_secs_f64(), self.period_s().unwrap_or(0.0));
        let begins_again = period_s > 0.0 && elapsed_s >= period_s;
        let since_s = if begins_again {
            elapsed_s % period_s
        } else {
            elapsed_s
        };
        let rates = || {
            let changes = self.changes.iter().rev().map(|keys| keys.value);
            changes.filter_map(|keys| Some((keys.at_s, keys.rate_bps?)))
        };
        let past = rates().find(|(at_s, _)| *at_s <= since_s);
        let last = rates().next().filter(|_| begins_again);
        past.or(last).map(|(_, rate)| rate).or(self.rate_bps)
    }

    /// Every change of the rate by `until`, in order: when, in seconds, and to how many bits per
    /// second.
    pub fn rate_changes(&self, until: Duration) -> impl Iterator<Item = (f64, u64)> {
        let (until_s, period_s) = (until.as_secs_f64(), self.period_s().unwrap_or(0.0));
        let again = if period_s > 0.0 {
            (until_s / period_s) as u64
        } else {
            0
        };
        let changes = (0..=again).flat_map(move |round| {
            let changes = self.changes.iter().map(|keys| keys.value);
            let begins_s = round as f64 * period_s;
            changes.filter_map(move |keys| Some((begins_s + keys.at_s, keys.rate_bps?)))
        });
        changes.take_while(move |(at_s, _)| *at_s <= until_s)
    }
}

impl CellularKeys {
    /// The rate that these keys describe.
    pub fn cellular(&self) -> Cellular {
        let seconds = Duration::from_secs_f64;
        let every = (self.outage_every_s > 0.0).then(|| seconds(self.outage_every_s));
        let bounds = (rate(self.min_bps), rate(self.max_bps));
        Cellular::new(bounds, self.volatility, every, seconds(self.outage_s))
            .expect("reading the keys has checked them")
    }
}

impl GilbertElliottKeys {
    /// What these keys describe.
    fn model(self) -> GilbertElliott {
        let Self { p, r, bad, good } = self;
        GilbertElliott { p, r, bad, good }
    }
}

impl ChangeKeys {
    /// What changes on a link whose queue has `limit`.
    fn changes(self, limit: Limit) -> impl Iterator<Item = (Duration, Change)> {
        let at = Duration::from_secs_f64(self.at_s);
        let packets = self.queue_packets.map(|packets| Limit {
            packets: Some(packets.into()),
            ..limit
        });
        let changes = [
            self.rate_bps
                .map(|rate_bps| Rate::new(rate_bps).map_or(Change::Suspend, Change::Rate)),
            self.delay_ms
                .map(|delay_ms| Change::Delay(milliseconds(delay_ms))),
            self.wifi_jitter_ms
                .map(|target_ms| Change::WifiJitter(milliseconds(target_ms))),
            self.loss.map(Change::Loss),
            self.mtu.map(Change::Mtu),
            packets.map(Change::Limit),
        ];
        changes
            .into_iter()
            .flatten()
            .map(move |change| (at, change))
    }
}

fn rate(rate_bps: u64) -> Rate {
    Rate::new(rate_bps).expect("the range begins at 1")
}

fn milliseconds(milliseconds: f64) -> Duration {
    Duration::from_secs_f64(milliseconds / 1e3)
}
