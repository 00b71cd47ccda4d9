//! The options of `evenkeel stream`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum};

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

It prints the certificate's pin and the client's command line. It ends when it is interrupted, or
when standard input has ended and the last viewer is gone.
Exit status: 0 interrupted, or served to the end; 1 failed, 2 usage error.";

const CLIENT_EXAMPLES: &str = "\
Examples:
  evenkeel stream client host.example --pin sha256:...         watch until interrupted
  evenkeel stream client host.example --time 60 --buffer 300 --json ...
  evenkeel stream client host.example --time 60 --plot ...
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
    /// Stream H.264 or HEVC in Annex B format from this file, or `-` for standard input, at its own
    /// bitrate instead of the synthetic encoder's
    #[arg(long, value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// Repeat the file
    #[arg(long, requires = "input")]
    pub(crate) repeat: bool,
    #[command(flatten)]
    adapt: AdaptConfig,
    #[command(flatten)]
    encoder: EncoderConfig,
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
    /// Plot the delays of frames over time below the report
    #[arg(long, conflicts_with_all = ["json", "json_lines"])]
    pub(crate) plot: bool,
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
    /// Returns the settings of the synthetic encoder, or says which is out of range.
    pub(crate) fn encoder(&self) -> Result<EncoderConfig, String> {
        self.encoder.check().map(|()| self.encoder)
    }

    /// Returns how to send to each viewer, or says which value is out of range.
    pub(crate) fn send(&self) -> Result<SendOptions, String> {
        let mut adapt = self.adapt;
        adapt.floor_bps = adapt.floor_bps.min(adapt.ceiling_bps);
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
