//! The options of `evenkeel stream`.

use std::io::{IsTerminal, stdin, stdout};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::{Resettable, TypedValueParser};
use clap::{Arg, Args, Subcommand, ValueEnum};

use super::rate::RateTarget;
use crate::cli::args::{ListenArgs, OthersArgs, OutputArgs, ReachArgs, SampleArgs, TransportArgs};
use crate::cli::compare::args::StreamCompareArgs;
use crate::cli::failure::Failure;
use crate::stream::{AdaptConfig, EncoderConfig, SendOptions, SyntheticTrack};
use crate::time::{positive_seconds, seconds, within};

const SERVER_EXAMPLES: &str = "\
Examples:
  evenkeel stream server                             a synthetic encoder, up to 3 Mb/s
  evenkeel stream server --bitrate 10M --controller cubic
  evenkeel stream server --bitrate 2M --fixed --delivery datagrams
  evenkeel stream server --input clip.h264 --frame-rate 25 --repeat
  evenkeel stream server --track sound:bytes=80,rate=50 --track video:bytes=4000,rate=30
  ffmpeg -re -i in.mp4 -c:v libx264 -tune zerolatency -c:a aac -f mpegts - |
    evenkeel stream server --input -

It prints the certificate's pin and the client's command line. It ends when it is interrupted, or
when standard input has ended and the last viewer is gone.
Exit status: 0 interrupted, or served to the end; 1 failed, 2 usage error.";

const CLIENT_EXAMPLES: &str = "\
Examples:
  evenkeel stream client host.example --pin sha256:...         watch until interrupted
  evenkeel stream client host.example --time 60 --buffer 300 --json ...
  evenkeel stream client host.example --time 60 --plot delay.svg ...
  evenkeel stream client host.example --output - ... | ffplay -

Exit status: 0 the stream's end or the end of --time, 1 failed, 2 usage error,
130 interrupted. Whenever a frame arrived, it prints a report.";

const PUBLISH_EXAMPLES: &str = "\
Examples:
  evenkeel stream publish clip.ts
  evenkeel stream publish clip.h264 --frame-rate 25
  ffmpeg -re -i in.mp4 -c:v libx264 -tune zerolatency -c:a aac -f mpegts - | evenkeel stream publish

It prints the command that plays the stream. All else is as with `evenkeel stream server`.";

const PLAY_EXAMPLES: &str = "\
Examples:
  evenkeel stream play host.example --pin sha256:... | ffplay -
  evenkeel stream play host.example --pin sha256:... > out.ts
  evenkeel stream play host.example out.ts --pin sha256:...

The report goes to standard error if the stream goes to standard output. All else is as with
`evenkeel stream client`.";

const COMPARE_EXAMPLES: &str = "\
Examples:
  evenkeel stream server --controllers keel,cubic,bbr        on the other machine
  evenkeel stream compare host.example --pin sha256:...      8 rounds, about 5 minutes
  evenkeel stream compare host.example --out compare-123 --pin ...   continue after Ctrl-C

Exit status: 0 compared, 1 failed, 2 usage error, 130 interrupted.";

#[derive(Debug, Subcommand)]
pub(crate) enum StreamSide {
    /// Send to viewers until it is interrupted.
    #[command(after_help = SERVER_EXAMPLES)]
    Server(Box<StreamServerArgs>),
    /// Watch a server's stream, and report how its frames arrived.
    #[command(after_help = CLIENT_EXAMPLES)]
    Client(Box<StreamClientArgs>),
    /// Send a file, or what is piped in, to viewers: a server of real media.
    #[command(after_help = PUBLISH_EXAMPLES, mut_args(of_publisher))]
    Publish(Box<StreamServerArgs>),
    /// Write the video of a server to a file or a pipe: a client that keeps what it sees.
    #[command(after_help = PLAY_EXAMPLES, mut_args(of_player))]
    Play(Box<StreamClientArgs>),
    /// Let controllers take turns on the path from a server, and say with which its stream is best.
    #[command(after_help = COMPARE_EXAMPLES)]
    Compare(Box<StreamCompareArgs>),
}

#[derive(Debug, Args)]
pub(crate) struct StreamServerArgs {
    #[command(flatten)]
    pub(crate) at: ListenArgs,
    #[command(flatten)]
    pub(crate) transport: TransportArgs,
    #[command(flatten)]
    pub(crate) others: OthersArgs,
    /// Stream MPEG-TS, or H.264 or HEVC in Annex B format, from this file, or `-` for standard input,
    /// at its own bitrate instead of the synthetic encoder's
    #[arg(long, value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// With `publish`: tell the encoder behind standard input the rate to use, in bits per second, whenever it
    /// changes: a line in FILE, to a socket (`unix:PATH`) or to a command's input (`exec:COMMAND`)
    ///
    /// It is the rate of all tracks together that the slowest viewer's path carries. --bitrate,
    /// --floor, --start-rate, --headroom and --rise bound it.
    #[arg(long, value_name = "TARGET")]
    pub(crate) encoder_rate: Option<RateTarget>,
    /// Repeat the file
    #[arg(long, requires = "input")]
    pub(crate) repeat: bool,
    /// Synthetic tracks of fixed sizes instead of the encoder, as `sound:bytes=80,rate=50` or
    /// `video:bytes=3750,rate=30,group=30,key_ratio=10`; give it once for each track
    #[arg(
        long = "track",
        value_name = "KIND:KEY=VALUE,...",
        conflicts_with = "input"
    )]
    pub(crate) tracks: Vec<String>,
    #[command(flatten)]
    send: SendOptions,
    #[command(flatten)]
    encoder: EncoderConfig,
    /// Viewers at the same time; more are refused
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) viewers: u16,
    /// Serve one viewer and exit, with status 1 if that failed
    #[arg(long)]
    pub(crate) once: bool,
    #[arg(skip = SERVER_AND_CLIENT)]
    pub(crate) names: Names,
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
    #[arg(long, value_name = "MILLISECONDS", default_value = "200",
          value_parser = clap::value_parser!(u64).range(0..=60_000).map(Duration::from_millis))]
    pub(crate) buffer: Duration,
    /// Show every picture this long after its capture, by both sides' clocks, and drop what comes
    /// later, 0.001s to 60s: `250ms`
    #[arg(long, value_name = "TIME", conflicts_with = "buffer", value_parser = within(0.001, 60.0))]
    pub(crate) latency: Option<Duration>,
    /// Leave out pictures that refer to a missing one, and go on with the next key frame
    #[arg(long)]
    pub(crate) skip_damaged: bool,
    /// Write the frames to this file, or `-` for standard output, in the order of display
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Draw what the longest delays consisted of, over time, as an SVG file
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,
    /// How to learn the server's clock: estimate it by messages, or share this machine's
    #[arg(long, value_enum, default_value_t = ClockName::Estimated)]
    pub(crate) clock: ClockName,
    #[arg(skip = SERVER_AND_CLIENT)]
    pub(crate) names: Names,
    #[command(flatten)]
    pub(crate) output_form: OutputArgs,
}

/// What users call the sides, and where a viewer writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names {
    pub(crate) server: &'static str,
    pub(crate) client: &'static str,
    pub(crate) output: &'static str,
}

const SERVER_AND_CLIENT: Names = Names {
    server: "server",
    client: "client",
    output: "--output",
};

const PUBLISH_AND_PLAY: Names = Names {
    server: "publish",
    client: "play",
    output: "FILE",
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClockName {
    /// Estimate it by an exchange of messages
    Estimated,
    /// Both programs run on one machine
    Shared,
}

impl StreamSide {
    /// Completes what a publisher and a player leave out.
    pub(crate) fn settle(&mut self) -> Result<(), Failure> {
        match self {
            Self::Publish(server) => {
                let synthetic = EncoderConfig {
                    frame_rate: EncoderConfig::default().frame_rate,
                    ..server.encoder
                };
                let follows =
                    server.encoder_rate.is_some() || server.send.adapt == AdaptConfig::default();
                if synthetic != EncoderConfig::default() || !follows || !server.tracks.is_empty() {
                    return Err(Failure::usage(
                        "options of the synthetic encoder cannot be used with real media",
                        "see `evenkeel stream publish --help`",
                    ));
                }
                if server.input.is_none() && stdin().is_terminal() {
                    return Err(Failure::usage(
                        "there is nothing to publish: standard input is a terminal",
                        "name a file, or pipe in what an encoder makes",
                    ));
                }
                let input = server.input.get_or_insert_with(|| "-".into());
                if server.encoder_rate.is_some() && input.as_path() != Path::new("-") {
                    return Err(Failure::usage(
                        "--encoder-rate is for an encoder, and a file has none",
                        "pipe in what an encoder makes",
                    ));
                }
                server.names = PUBLISH_AND_PLAY;
            }
            Self::Play(client) => {
                if client.output.is_none() && stdout().is_terminal() {
                    return Err(Failure::usage(
                        "standard output is a terminal, which shows no video",
                        "name a file, or pipe into a player: `| ffplay -`",
                    ));
                }
                client.output.get_or_insert_with(|| "-".into());
                client.names = PUBLISH_AND_PLAY;
            }
            Self::Server(server) if server.encoder_rate.is_some() => {
                return Err(Failure::usage(
                    "--encoder-rate is for an encoder behind standard input",
                    "use `evenkeel stream publish`",
                ));
            }
            Self::Server(_) | Self::Client(_) | Self::Compare(_) => {}
        }
        Ok(())
    }
}

/// Makes a server's arguments a publisher's.
fn of_publisher(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "input" => arg.long(Resettable::Reset).index(1).help(
            "MPEG-TS, or H.264 or HEVC in Annex B format, or `-` for standard input, the default in \
             a pipe",
        ),
        "group" | "key_ratio" | "noise" | "seed" | "deadband" | "fixed" | "tracks" => {
            arg.hide(true)
        }
        _ => arg,
    }
}

/// Makes a client's arguments a player's.
fn of_player(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "output" => arg.long(Resettable::Reset).index(2).help(
            "Where to write the video, or `-` for standard output, the default unless it is a \
             terminal",
        ),
        _ => arg,
    }
}

impl StreamServerArgs {
    /// Returns the settings of the synthetic encoder, or says which is out of range.
    pub(crate) fn encoder(&self) -> Result<EncoderConfig, String> {
        self.encoder.check().map(|()| self.encoder)
    }

    /// Returns the synthetic tracks.
    pub(crate) fn tracks(&self) -> Result<Vec<SyntheticTrack>, Failure> {
        let tracks = SyntheticTrack::all(self.tracks.iter().map(String::as_str));
        tracks.map_err(|error| {
            let server = self.names.server;
            let remedy = format!("see `evenkeel stream {server} --help`");
            Failure::usage(format!("--track: {error}"), remedy)
        })
    }

    /// Returns how to send to each viewer, or says which value is out of range.
    pub(crate) fn send(&self) -> Result<SendOptions, String> {
        let mut send = self.send;
        if let Ok(tracks) = self.tracks()
            && !tracks.is_empty()
        {
            send.adapt = AdaptConfig::fixed(SyntheticTrack::total_bps(&tracks));
        }
        send.adapt.floor_bps = send.adapt.floor_bps.min(send.adapt.ceiling_bps);
        send.adapt.check().map(|()| send)
    }
}
