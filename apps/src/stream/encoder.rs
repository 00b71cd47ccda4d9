//! A synthetic encoder: frames have realistic sizes and meaningless content.

use clap::Args;
use rand_distr::{Distribution, LogNormal};
use rand_pcg::Pcg64;

use super::frame::MAX_FRAME;

/// How a synthetic encoder works; also options of `evenkeel stream server`.
#[derive(Clone, Copy, Debug, PartialEq, Args)]
pub struct EncoderConfig {
    /// Frames per second, 1 to 240
    #[arg(long, value_name = "N", default_value_t = EncoderConfig::default().frame_rate)]
    pub frame_rate: f64,
    /// Frames in a group of pictures of the synthetic encoder, the key frame included, 1 to 10,000
    #[arg(long, value_name = "N", default_value_t = EncoderConfig::default().group, conflicts_with = "input")]
    pub group: u32,
    /// Size of its key frames over that of others at the same bitrate, 1 to 100
    #[arg(long, value_name = "RATIO", default_value_t = EncoderConfig::default().key_ratio, conflicts_with = "input")]
    pub key_ratio: f64,
    /// Standard deviation of the logarithm of its frames' sizes, 0 to 2
    #[arg(long, value_name = "SIGMA", default_value_t = EncoderConfig::default().noise, conflicts_with = "input")]
    pub noise: f64,
    /// Seed of that noise
    #[arg(long, value_name = "N", default_value_t = EncoderConfig::default().seed, conflicts_with = "input")]
    pub seed: u64,
}

/// The encoder of one viewer.
#[derive(Clone, Debug)]
pub struct Encoder {
    config: EncoderConfig,
    noise: LogNormal<f64>,
    rng: Pcg64,
    /// Frames since the last key frame, including it; 0 before the first.
    since_key: u32,
}

/// An encoded frame, without content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// Bytes, 1 to [`MAX_FRAME`].
    pub length: usize,
    /// Whether it is a key frame.
    pub key: bool,
}

impl Default for EncoderConfig {
    /// 30 frames a second, every 2 s a key frame five times as large as the others, and sizes that
    /// vary by about a tenth.
    fn default() -> Self {
        Self {
            frame_rate: 30.0,
            group: 60,
            key_ratio: 5.0,
            noise: 0.1,
            seed: 1,
        }
    }
}

impl EncoderConfig {
    /// # Errors
    /// Which value is out of its range.
    pub fn check(&self) -> Result<(), String> {
        in_ranges(&[
            ("frame rate", self.frame_rate, 1.0, 240.0),
            ("group of pictures", self.group.into(), 1.0, 10_000.0),
            ("key frame ratio", self.key_ratio, 1.0, 100.0),
            ("size noise", self.noise, 0.0, 2.0),
        ])
    }
}

/// Checks values with names, each to be between two bounds.
///
/// # Errors
/// Which value is not.
pub(super) fn in_ranges(values: &[(&str, f64, f64, f64)]) -> Result<(), String> {
    for (name, value, least, most) in values {
        if !(least..=most).contains(&value) {
            let least = match *least {
                f64::MIN_POSITIVE => "above 0".to_owned(),
                least => least.to_string(),
            };
            return Err(format!("the {name} is {value}, not {least} to {most}"));
        }
    }
    Ok(())
}

impl Encoder {
    /// Creates the encoder of viewer number `viewer`: each has its own noise.
    ///
    /// # Panics
    /// If `config` does not pass its check.
    pub fn new(config: EncoderConfig, viewer: u64) -> Self {
        // Makes the mean of the factor 1: exp(mu + sigma^2 / 2).
        let noise = LogNormal::new(-config.noise * config.noise / 2.0, config.noise);
        Self {
            config,
            noise: noise.expect("the noise was checked to be finite"),
            rng: Pcg64::new(config.seed.into(), viewer.into()),
            since_key: 0,
        }
    }

    /// Returns the next frame at `bitrate_bps`; `restart` begins a new group with it.
    pub fn next(&mut self, bitrate_bps: u64, restart: bool) -> Encoded {
        let EncoderConfig {
            frame_rate,
            group,
            key_ratio,
            ..
        } = self.config;
        let key = restart || self.since_key == 0 || self.since_key >= group;
        self.since_key = if key { 1 } else { self.since_key + 1 };
        // The bitrate holds for a whole group: one key frame and `group - 1` others.
        let mean = bitrate_bps as f64 / 8.0 / frame_rate;
        let other = mean * f64::from(group) / (f64::from(group - 1) + key_ratio);
        let size = if key { other * key_ratio } else { other };
        let size = size * self.noise.sample(&mut self.rng);
        Encoded {
            length: (size.round() as usize).clamp(1, MAX_FRAME),
            key,
        }
    }
}

#[cfg(test)]
mod tests;
