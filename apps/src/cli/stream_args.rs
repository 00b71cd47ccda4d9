//! What can be typed after `evenkeel stream`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum};

use super::{
    args::{ListenArgs, OutputArgs, ReachArgs, TransportArgs},
    units::{parse_positive_seconds, parse_rate, parse_seconds},
};
use crate::stream::{AdaptConfig, Delivery, EncoderConfig, SendOptions};

const SERVER_EXAMPLES: &str = "\
Examples:
  evenkeel stream server                             a synthetic encoder, up to 3 Mb/s
  evenkeel stream server --bitrate 10M --controller cubic
  evenkeel stream server --bitrate 2M --fixed --delivery datagrams
  evenkeel stream server --input clip.h264 --frame-rate 25 --repeat
  ffmpeg -re -i in.mp4 -an -c:v libx264 -tune zerolatency -f h264 - |
    evenkeel stream server --input - --frame-rate 25

It prints the certificate's pin and the client's command line. Interrupt it to stop;
that is exit status 0. 1 is a failure, 2 a wrong command line.";

const CLIENT_EXAMPLES: &str = "\
Examples:
  evenkeel stream client host.example --pin sha256:...         watch until interrupted
  evenkeel stream client host.example --time 60 --buffer 300 --json ...
  evenkeel stream client host.example --output - ... | ffplay -f h264 -

Exit status: 0 the stream's end or the end of --time, 1 failed, 2 wrong command line,
130 interrupted. The report is printed in every case in which anything was seen.";

#[derive(Debug, Subcommand)]
pub(super) enum StreamSide {
    /// Send to viewers until it is interrupted.
    #[command(after_help = SERVER_EXAMPLES)]
    Server(Box<StreamServerArgs>),
    /// Watch a server's stream, and report what became of its frames.
    #[command(after_help = CLIENT_EXAMPLES)]
    Client(Box<StreamClientArgs>),
}

#[derive(Debug, Args)]
pub(super) struct StreamServerArgs {
    #[command(flatten)]
    pub(super) at: ListenArgs,
    #[command(flatten)]
    pub(super) transport: TransportArgs,
    /// H.264 in Annex B format from this file, or `-` for standard input, instead of the
    /// synthetic encoder; its bitrate is its own
    #[arg(long, value_name = "FILE")]
    pub(super) input: Option<PathBuf>,
    /// Begin the file again at its end
    #[arg(long, requires = "input")]
    pub(super) repeat: bool,
    /// Frames per second, 1 to 240
    #[arg(long, value_name = "N", default_value_t = EncoderConfig::default().frame_rate)]
    frame_rate: f64,
    /// The most that the encoder aims at, such as 3M or 500k, in bits per second
    #[arg(long, value_name = "RATE", value_parser = parse_rate, default_value = "3M")]
    bitrate: u64,
    /// Always that, whatever the connection can carry
    #[arg(long, conflicts_with_all = ["start_rate", "floor", "headroom", "deadband", "rise"])]
    fixed: bool,
    /// What the encoder begins with, at most --bitrate
    #[arg(long, value_name = "RATE", value_parser = parse_rate, default_value = "1M")]
    start_rate: u64,
    /// The least that it aims at
    #[arg(long, value_name = "RATE", value_parser = parse_rate, default_value = "100k")]
    floor: u64,
    /// Share of the connection's rate to use while something waits, above 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = AdaptConfig::default().headroom)]
    headroom: f64,
    /// Smaller changes than this share of the bitrate are not made, 0 to 0.5
    #[arg(long, value_name = "SHARE", default_value_t = AdaptConfig::default().deadband)]
    deadband: f64,
    /// Greatest rise per second as a share of the bitrate, above 0 to 10
    #[arg(long, value_name = "SHARE", default_value_t = AdaptConfig::default().rise_per_s)]
    rise: f64,
    /// Frames in a group of pictures of the synthetic encoder, 1 to 10000
    #[arg(long, value_name = "N", default_value_t = EncoderConfig::default().group, conflicts_with = "input")]
    group: u32,
    /// How much larger its key frames are than others, 1 to 100
    #[arg(long, value_name = "RATIO", default_value_t = EncoderConfig::default().key_ratio, conflicts_with = "input")]
    key_ratio: f64,
    /// Standard deviation of the logarithm of its frames' sizes, 0 to 2
    #[arg(long, value_name = "SIGMA", default_value_t = EncoderConfig::default().noise, conflicts_with = "input")]
    noise: f64,
    /// Seed of that noise
    #[arg(long, value_name = "N", default_value_t = EncoderConfig::default().seed, conflicts_with = "input")]
    seed: u64,
    /// How frames travel
    #[arg(long, value_enum, default_value_t = DeliveryName::Frames)]
    delivery: DeliveryName,
    /// Give up frames that could not be sent so long after their capture, and their group
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_positive_seconds)]
    cancel_after: Duration,
    /// Viewers at the same time; more are refused
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) viewers: u16,
    /// Serve one viewer and exit, with status 1 if that failed
    #[arg(long)]
    pub(super) once: bool,
    /// List every round-trip time in the records of --json-lines
    #[arg(long, requires = "json_lines", conflicts_with = "json")]
    pub(super) rtt_samples: bool,
    /// List what each path header told in the records of --json-lines
    #[arg(long, requires = "json_lines", conflicts_with = "json")]
    pub(super) path_samples: bool,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(super) struct StreamClientArgs {
    #[command(flatten)]
    pub(super) reach: ReachArgs,
    #[command(flatten)]
    pub(super) transport: TransportArgs,
    /// Watch for this long, from the first frame on; otherwise until the stream ends
    #[arg(long, value_name = "SECONDS", value_parser = parse_positive_seconds)]
    pub(super) time: Option<Duration>,
    /// Warm-up to leave out of the figures, from the program's start on
    #[arg(short = 'O', long, value_name = "SECONDS", default_value = "0", value_parser = parse_seconds)]
    pub(super) omit: Duration,
    /// Playout buffer, 0 to 60000
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 200, value_parser = clap::value_parser!(u64).range(0..=60_000))]
    buffer: u64,
    /// Write the frames to this file, or `-` for standard output, in the order they are shown
    #[arg(long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// How the server's clock is known: by an exchange of messages, or because it is this machine's
    #[arg(long, value_enum, default_value_t = ClockName::Estimated)]
    pub(super) clock: ClockName,
    #[command(flatten)]
    pub(super) output_form: OutputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum DeliveryName {
    /// Each on a stream of its own
    Frames,
    /// Each group of pictures on a stream of its own
    Groups,
    /// In datagrams, never sent again
    Datagrams,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ClockName {
    /// By an exchange of messages
    Estimated,
    /// Both programs run on one machine
    Shared,
}

impl StreamServerArgs {
    /// The synthetic encoder.
    ///
    /// # Errors
    /// Which value is out of its range.
    pub(super) fn encoder(&self) -> Result<EncoderConfig, String> {
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
    pub(super) fn send(&self) -> Result<SendOptions, String> {
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
            delivery: match self.delivery {
                DeliveryName::Frames => Delivery::Frames,
                DeliveryName::Groups => Delivery::Groups,
                DeliveryName::Datagrams => Delivery::Datagrams,
            },
            adapt,
            cancel_after: self.cancel_after,
        })
    }
}

impl StreamClientArgs {
    pub(super) fn buffer(&self) -> Duration {
        Duration::from_millis(self.buffer)
    }
}
