//! The options of `evenkeel stream`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum};
use evenkeel_spec::quantity;

use crate::cli::args::{ListenArgs, OutputArgs, ReachArgs, SampleArgs, TransportArgs};
use crate::cli::units::{positive_seconds, seconds};
use crate::stream::{AdaptConfig, Delivery, EncoderConfig, SendOptions};

const SERVER_EXAMPLES: &str = "\
Examples:
  evenkeel stream server                             a synthetic encoder, up to 3 Mb/s
  evenkeel stream server --bitrate 10M --controller cubic
  evenkeel stream server --bitrate 2M --fixed --delivery datagrams
  evenkeel stream server --input clip.h264 --frame-rate 25 --repeat
  ffmpeg -re -i in.mp4 -an -c:v libx264 -tune zerolatency -f h264 - |
    evenkeel stream server --input - --frame-rate 25

It prints the certificate's pin and the client's command line. Interrupt it to stop it.
Exit status: 0 interrupted or, with --once, served; 1 failed, 2 usage error.";

const CLIENT_EXAMPLES: &str = "\
Examples:
  evenkeel stream client host.example --pin sha256:...         watch until interrupted
  evenkeel stream client host.example --time 60 --buffer 300 --json ...
  evenkeel stream client host.example --output - ... | ffplay -f h264 -

Exit status: 0 the stream's end or the end of --time, 1 failed, 2 usage error,
130 interrupted. Whenever a frame arrived, it prints a report.";

#[derive(Debug, Subcommand)]
pub(crate) enum StreamSide {
    /// Send to viewers until it is interrupted.
    #[command(after_help = SERVER_EXAMPLES)]
    Server(Box<StreamServerArgs>),
    /// Watch a server's stream, and report how its frames arrived.
    #[command(after_help = CLIENT_EXAMPLES)]
    Client(Box<StreamClientArgs>),
}

#[derive(Debug, Args)]
pub(crate) struct StreamServerArgs {
    #[command(flatten)]
    pub(crate) at: ListenArgs,
    #[command(flatten)]
    pub(crate) transport: TransportArgs,
    /// Stream H.264 in Annex B format from this file, or `-` for standard input, at its own bitrate
    /// instead of the synthetic encoder's
    #[arg(long, value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// Repeat the file
    #[arg(long, requires = "input")]
    pub(crate) repeat: bool,
    /// Frames per second, 1 to 240
    #[arg(long, value_name = "N", default_value_t = EncoderConfig::default().frame_rate)]
    frame_rate: f64,
    /// The encoder's highest bitrate, such as 3M or 500k, in bits per second
    #[arg(long, value_name = "RATE", value_parser = quantity::rate, default_value = "3M")]
    bitrate: u64,
    /// Always use --bitrate, whatever the connection can carry
    #[arg(long, conflicts_with_all = ["start_rate", "floor", "headroom", "deadband", "rise"])]
    fixed: bool,
    /// The encoder's first bitrate, at most --bitrate
    #[arg(long, value_name = "RATE", value_parser = quantity::rate, default_value = "1M")]
    start_rate: u64,
    /// The encoder's lowest bitrate
    #[arg(long, value_name = "RATE", value_parser = quantity::rate, default_value = "100k")]
    floor: u64,
    /// Share of the connection's rate to use while frames wait, above 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = AdaptConfig::default().headroom)]
    headroom: f64,
    /// Ignore changes smaller than this share of the bitrate, 0 to 0.5
    #[arg(long, value_name = "SHARE", default_value_t = AdaptConfig::default().deadband)]
    deadband: f64,
    /// Raise the bitrate by at most this share of it per second, above 0 to 10
    #[arg(long, value_name = "SHARE", default_value_t = AdaptConfig::default().rise_per_s)]
    rise: f64,
    /// Frames in a group of pictures of the synthetic encoder, 1 to 10000
    #[arg(long, value_name = "N", default_value_t = EncoderConfig::default().group, conflicts_with = "input")]
    group: u32,
    /// Size of its key frames over that of others, 1 to 100
    #[arg(long, value_name = "RATIO", default_value_t = EncoderConfig::default().key_ratio, conflicts_with = "input")]
    key_ratio: f64,
    /// Standard deviation of the logarithm of its frames' sizes, 0 to 2
    #[arg(long, value_name = "SIGMA", default_value_t = EncoderConfig::default().noise, conflicts_with = "input")]
    noise: f64,
    /// Seed of that noise
    #[arg(long, value_name = "N", default_value_t = EncoderConfig::default().seed, conflicts_with = "input")]
    seed: u64,
    /// How to send frames
    #[arg(long, value_enum, default_value_t)]
    delivery: Delivery,
    /// Cancel a frame, and the rest of its group, if it is not sent this long after its capture
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = positive_seconds)]
    cancel_after: Duration,
    /// Viewers at the same time; more are refused
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) viewers: u16,
    /// Serve one viewer and exit, with status 1 if that failed
    #[arg(long)]
    pub(crate) once: bool,
    #[command(flatten)]
    pub(crate) samples: SampleArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct StreamClientArgs {
    #[command(flatten)]
    pub(crate) reach: ReachArgs,
    #[command(flatten)]
    pub(crate) transport: TransportArgs,
    /// Watch for this long, from the first frame on; otherwise until the stream ends
    #[arg(long, value_name = "SECONDS", value_parser = positive_seconds)]
    pub(crate) time: Option<Duration>,
    /// Leave this warm-up, from the program's start on, out of the figures
    #[arg(short = 'O', long, value_name = "SECONDS", default_value = "0", value_parser = seconds)]
    pub(crate) omit: Duration,
    /// Playout buffer, 0 to 60000
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 200, value_parser = clap::value_parser!(u64).range(0..=60_000))]
    buffer: u64,
    /// Write the frames to this file, or `-` for standard output, in the order of display
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// How to learn the server's clock: estimate it by messages, or share this machine's
    #[arg(long, value_enum, default_value_t = ClockName::Estimated)]
    pub(crate) clock: ClockName,
    #[command(flatten)]
    pub(crate) output_form: OutputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClockName {
    /// Estimate it by an exchange of messages
    Estimated,
    /// Both programs run on one machine
    Shared,
}

impl StreamServerArgs {
    /// The settings of the synthetic encoder.
    ///
    /// # Errors
    /// Which value is out of its range.
    pub(crate) fn encoder(&self) -> Result<EncoderConfig, String> {
        let config = EncoderConfig {
            frame_rate: self.frame_rate,
            group: self.group,
            key_ratio: self.key_ratio,
            noise: self.noise,
            seed: self.seed,
        };
        config.check()?;
        Ok(config)
    }

    /// How to send to each viewer.
    ///
    /// # Errors
    /// Which value is out of its range.
    pub(crate) fn send(&self) -> Result<SendOptions, String> {
        let adapt = AdaptConfig {
            ceiling_bps: self.bitrate,
            floor_bps: self.floor.min(self.bitrate),
            start_bps: self.start_rate,
            headroom: self.headroom,
            deadband: self.deadband,
            rise_per_s: self.rise,
            fixed: self.fixed,
        };
        adapt.check()?;
        Ok(SendOptions {
            delivery: self.delivery,
            adapt,
            cancel_after: self.cancel_after,
        })
    }
}

impl StreamClientArgs {
    pub(crate) fn buffer(&self) -> Duration {
        Duration::from_millis(self.buffer)
    }
}
