//! `[flows.stream]`.

use std::time::Duration;

use evenkeel_apps::stream::{AdaptConfig, Delivery, EncoderConfig, SendOptions, SyntheticTrack};
use evenkeel_spec::document::{Fault, Located};
use evenkeel_spec::keys;
use evenkeel_spec::quantity::Unit;
use serde::{Deserialize, Serialize};

/// Longest playout buffer and longest time until a frame is given up.
const MAX_TIME_MS: f64 = 60_000.0;

/// Live media: the source, its way, and the viewer's buffer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, rename = "[flows.stream]")]
pub(in crate::scenario) struct StreamTable {
    delivery: Delivery,
    #[serde(skip_serializing_if = "is_default")]
    sound_delivery: Delivery,
    /// Tracks of fixed sizes instead of the encoder.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tracks: Vec<String>,
    #[serde(deserialize_with = "rate_bps")]
    bitrate_bps: u64,
    fixed: bool,
    #[serde(deserialize_with = "rate_bps")]
    start_bps: u64,
    #[serde(deserialize_with = "rate_bps")]
    floor_bps: Option<u64>,
    #[serde(deserialize_with = "headroom")]
    headroom: f64,
    #[serde(deserialize_with = "deadband")]
    deadband: f64,
    #[serde(deserialize_with = "rise_per_s")]
    rise_per_s: f64,
    #[serde(deserialize_with = "frame_rate")]
    frame_rate: f64,
    #[serde(deserialize_with = "group")]
    group: u32,
    #[serde(deserialize_with = "key_ratio")]
    key_ratio: f64,
    #[serde(deserialize_with = "noise")]
    noise: f64,
    #[serde(deserialize_with = "buffer_ms")]
    buffer_ms: f64,
    #[serde(
        deserialize_with = "latency_ms",
        skip_serializing_if = "Option::is_none"
    )]
    latency_ms: Option<f64>,
    #[serde(deserialize_with = "cancel_after_ms")]
    cancel_after_ms: f64,
}

keys! {
    rate_bps: u64 = whole(Unit::BitsPerSecond, 1..=u64::from(u32::MAX));
    headroom: f64 = number(Unit::None, 0.01..=1.0);
    deadband: f64 = number(Unit::None, 0.0..=0.5);
    rise_per_s: f64 = number(Unit::None, 0.001..=10.0);
    frame_rate: f64 = number(Unit::None, 1.0..=240.0);
    group: u32 = whole(Unit::None, 1..=10_000);
    key_ratio: f64 = number(Unit::None, 1.0..=100.0);
    noise: f64 = number(Unit::None, 0.0..=2.0);
    buffer_ms: f64 = number(Unit::Milliseconds, 0.0..=MAX_TIME_MS);
    latency_ms: f64 = number(Unit::Milliseconds, 1.0..=MAX_TIME_MS);
    cancel_after_ms: f64 = number(Unit::Milliseconds, 1.0..=MAX_TIME_MS);
}

impl Default for StreamTable {
    fn default() -> Self {
        let (adapt, encoder) = (AdaptConfig::default(), EncoderConfig::default());
        Self {
            delivery: Delivery::default(),
            sound_delivery: Delivery::default(),
            tracks: Vec::new(),
            bitrate_bps: adapt.ceiling_bps,
            fixed: false,
            start_bps: adapt.start_bps,
            floor_bps: None,
            headroom: adapt.headroom,
            deadband: adapt.deadband,
            rise_per_s: adapt.rise_per_s,
            frame_rate: encoder.frame_rate,
            group: encoder.group,
            key_ratio: encoder.key_ratio,
            noise: encoder.noise,
            buffer_ms: 200.0,
            latency_ms: None,
            cancel_after_ms: 1000.0,
        }
    }
}

impl StreamTable {
    /// Fills in the lowest bitrate, and checks that the bitrates go together.
    pub(super) fn complete(stream: &mut Located<Self>) -> Result<(), Fault> {
        let table = &mut stream.value;
        let tracks = SyntheticTrack::all(table.tracks.iter().map(String::as_str));
        if let Err(error) = tracks {
            return Err(stream.fault(format!("tracks: {error}")));
        }
        let table = &mut stream.value;
        table.floor_bps = Some(table.floor_bps());
        let adapt = table.send().adapt.check();
        adapt.map_err(|cause| stream.fault(format!("{cause}; change it")))
    }

    fn floor_bps(&self) -> u64 {
        let default = AdaptConfig::default().floor_bps.min(self.bitrate_bps);
        self.floor_bps.unwrap_or(default)
    }

    /// How the sender sends.
    pub(in crate::scenario) fn send(&self) -> SendOptions {
        SendOptions {
            delivery: self.delivery,
            sound_delivery: self.sound_delivery,
            adapt: match self.tracks() {
                tracks if tracks.is_empty() => self.adapt(),
                tracks => AdaptConfig::fixed(SyntheticTrack::total_bps(&tracks)),
            },
            cancel_after: Duration::from_secs_f64(self.cancel_after_ms / 1e3),
        }
    }

    fn adapt(&self) -> AdaptConfig {
        AdaptConfig {
            ceiling_bps: self.bitrate_bps,
            floor_bps: self.floor_bps(),
            start_bps: self.start_bps,
            headroom: self.headroom,
            deadband: self.deadband,
            rise_per_s: self.rise_per_s,
            fixed: self.fixed,
        }
    }

    /// The tracks, whose specs were checked.
    pub(in crate::scenario) fn tracks(&self) -> Vec<SyntheticTrack> {
        SyntheticTrack::all(self.tracks.iter().map(String::as_str)).unwrap_or_default()
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

    /// The viewer's fixed delay, if it has one.
    pub(in crate::scenario) fn latency(&self) -> Option<Duration> {
        self.latency_ms.map(|ms| Duration::from_secs_f64(ms / 1e3))
    }

    /// The viewer's playout buffer.
    pub(in crate::scenario) fn buffer(&self) -> Duration {
        Duration::from_secs_f64(self.buffer_ms / 1e3)
    }
}

fn is_default(delivery: &Delivery) -> bool {
    *delivery == Delivery::default()
}
