//! `[flows.stream]`.

use std::time::Duration;

use evenkeel_apps::stream::{AdaptConfig, Delivery, EncoderConfig, SendOptions};
use evenkeel_spec::document::{Fault, Node, Reader};
use evenkeel_spec::quantity::Unit;
use serde::Serialize;

/// Longest playout buffer and longest time until a frame is given up.
const MAX_TIME_MS: f64 = 60_000.0;

/// Live media: the source, its way, and the viewer's buffer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(in crate::scenario) struct StreamTable {
    delivery: Delivery,
    bitrate_bps: u64,
    fixed: bool,
    start_bps: u64,
    floor_bps: u64,
    headroom: f64,
    deadband: f64,
    rise_per_s: f64,
    frame_rate: f64,
    group: u32,
    key_ratio: f64,
    noise: f64,
    buffer_ms: f64,
    cancel_after_ms: f64,
}

impl StreamTable {
    pub(super) fn read(node: &Node) -> Result<Self, Fault> {
        const KEYS: &[&str] = &[
            "delivery",
            "bitrate_bps",
            "fixed",
            "start_bps",
            "floor_bps",
            "headroom",
            "deadband",
            "rise_per_s",
            "frame_rate",
            "group",
            "key_ratio",
            "noise",
            "buffer_ms",
            "cancel_after_ms",
        ];
        let stream = Reader::open(node, "[flows.stream]", KEYS)?;
        let (adapt, encoder) = (AdaptConfig::default(), EncoderConfig::default());
        let rate = |key, default| {
            let rate = stream.whole(key, Unit::BitsPerSecond, 1..=u64::from(u32::MAX))?;
            Ok::<u64, Fault>(rate.unwrap_or(default))
        };
        let quantity = |key, unit, range, default| {
            let number = stream.number(key, unit, range)?;
            Ok::<f64, Fault>(number.unwrap_or(default))
        };
        let number = |key, range, default| quantity(key, Unit::None, range, default);
        let milliseconds = |key, range, default| quantity(key, Unit::Milliseconds, range, default);
        let bitrate_bps = rate("bitrate_bps", adapt.ceiling_bps)?;
        let table = Self {
            delivery: stream.get("delivery")?.unwrap_or_default(),
            bitrate_bps,
            fixed: stream.get("fixed")?.unwrap_or(false),
            start_bps: rate("start_bps", adapt.start_bps)?,
            floor_bps: rate("floor_bps", adapt.floor_bps.min(bitrate_bps))?,
            headroom: number("headroom", 0.01..=1.0, adapt.headroom)?,
            deadband: number("deadband", 0.0..=0.5, adapt.deadband)?,
            rise_per_s: number("rise_per_s", 0.001..=10.0, adapt.rise_per_s)?,
            frame_rate: number("frame_rate", 1.0..=240.0, encoder.frame_rate)?,
            group: stream
                .whole("group", Unit::None, 1..=10_000)?
                .map_or(encoder.group, |group| group as u32),
            key_ratio: number("key_ratio", 1.0..=100.0, encoder.key_ratio)?,
            noise: number("noise", 0.0..=2.0, encoder.noise)?,
            buffer_ms: milliseconds("buffer_ms", 0.0..=MAX_TIME_MS, 200.0)?,
            cancel_after_ms: milliseconds("cancel_after_ms", 1.0..=MAX_TIME_MS, 1000.0)?,
        };
        table
            .send()
            .adapt
            .check()
            .map_err(|cause| Fault::new(stream.origin(), format!("{cause}; change it")))?;
        Ok(table)
    }

    /// How the sender sends.
    pub(in crate::scenario) fn send(&self) -> SendOptions {
        SendOptions {
            delivery: self.delivery,
            adapt: AdaptConfig {
                ceiling_bps: self.bitrate_bps,
                floor_bps: self.floor_bps,
                start_bps: self.start_bps,
                headroom: self.headroom,
                deadband: self.deadband,
                rise_per_s: self.rise_per_s,
                fixed: self.fixed,
            },
            cancel_after: Duration::from_secs_f64(self.cancel_after_ms / 1e3),
        }
    }

    /// What it encodes with, with noise from `seed`.
    pub(in crate::scenario) fn encoder(&self, seed: u64) -> EncoderConfig {
        EncoderConfig {
            frame_rate: self.frame_rate,
            group: self.group,
            key_ratio: self.key_ratio,
            noise: self.noise,
            seed,
        }
    }

    /// The viewer's playout buffer.
    pub(in crate::scenario) fn buffer(&self) -> Duration {
        Duration::from_secs_f64(self.buffer_ms / 1e3)
    }
}
