//! Opens what a stream server sends: synthetic frames, a file, or standard input.

use std::fmt::Display;
use std::time::Instant;
use std::{os::fd::AsFd, path::Path, sync::Arc};

use bytes::Bytes;
use quinn::{Runtime, TokioRuntime};
use tokio::fs::File;
use tokio::io::AsyncReadExt;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{args::StreamServerArgs, system::descriptor};
use crate::cli::failure::{Failure, plain};
use crate::stream::{AccessUnit, EncoderConfig, Kind, Live, Media, Recording, Source, SourceError};

/// The longest file to stream, 1 GiB: all viewers share it in memory.
const MAX_FILE: u64 = 1 << 30;

/// Why frames cannot be read.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error("{}", plain(.0))]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    File(&'static str),
    #[error(transparent)]
    Source(#[from] SourceError),
}

impl ReadError {
    /// Returns it as the failure to stream `what`, with a remedy for all that is no media.
    fn failure(&self, what: impl Display, remedy: &str) -> Failure {
        let remedy = match self {
            Self::Source(error) if error.is_too_long() => "have the encoder make smaller pictures",
            _ => remedy,
        };
        Failure::failed(format!("cannot stream {what}: {self}"), remedy)
    }
}

/// Reads standard input.
pub(crate) type Reading = JoinHandle<Result<(), Failure>>;

/// Bytes read at once.
const READ: usize = 64 * 1024;

/// Opens the media that `args` ask for; with a task that reads standard input to its end.
pub(crate) async fn open(
    args: &StreamServerArgs,
    encoder: EncoderConfig,
) -> Result<(Media, Option<Reading>), Failure> {
    let media = match &args.input {
        None if !args.tracks.is_empty() => Media::Tracks(args.tracks()?.into()),
        None => Media::Synthetic(encoder),
        Some(path) if path == Path::new("-") => {
            let live = Arc::new(match args.encoder_rate {
                Some(_) => Live::following(encoder.frame_rate),
                None => Live::new(encoder.frame_rate),
            });
            let input = descriptor(std::io::stdin().as_fd(), "input")?;
            let reading = tokio::spawn(read(input, live.clone()));
            return Ok((Media::Live(live), Some(reading)));
        }
        Some(path) => {
            let (pictures, tables) = recorded(path).await?;
            if args.repeat && pictures.iter().any(|picture| picture.time.is_some()) {
                return Err(Failure::usage(
                    "--repeat would turn back the times in MPEG-TS",
                    format!(
                        "have ffmpeg repeat it: `ffmpeg -stream_loop -1 -re -i {} -c copy -f \
                         mpegts - | evenkeel stream publish`",
                        path.display()
                    ),
                ));
            }
            Media::Recorded {
                pictures,
                tables,
                frame_rate: encoder.frame_rate,
                repeat: args.repeat,
            }
        }
    };
    Ok((media, None))
}

/// Reads all frames of a file; with them the tables that viewers get first.
async fn recorded(path: &Path) -> Result<(Arc<[AccessUnit]>, Bytes), Failure> {
    let failure = |error: ReadError| {
        let remedy = "give it MPEG-TS, or H.264 or HEVC in Annex B format; `ffmpeg -i FILE -c copy -f \
                      mpegts OUT` makes it";
        error.failure(path.display(), remedy)
    };
    let metadata = tokio::fs::metadata(path).await;
    let metadata = metadata.map_err(|error| failure(error.into()))?;
    if !metadata.is_file() || metadata.len() > MAX_FILE {
        return Err(failure(ReadError::File(
            "it is no regular file of at most 1 GiB",
        )));
    }
    let file = File::open(path).await;
    let file = file.map_err(|error| failure(error.into()))?;
    let read = read_frames(file).await.map_err(failure)?;
    if !read.0.iter().any(|frame| frame.track.kind != Kind::Tables) {
        return Err(failure(ReadError::File("it has no picture and no sound")));
    }
    Ok(read)
}

/// Reads frames from standard input, until it ends or is no byte stream.
async fn read(input: File, live: Arc<Live>) -> Result<(), Failure> {
    let result = read_live(input, &live).await;
    live.end();
    result.map_err(|error| {
        let remedy =
            "send MPEG-TS, or H.264 or HEVC in Annex B format, as `ffmpeg ... -f mpegts -` does";
        error.failure("standard input", remedy)
    })
}

/// Reads frames as they come: each was captured when its first byte came, and goes on when another
/// begins, or when nothing more has come of it for [`Source::quiet`].
async fn read_live(mut input: File, live: &Live) -> Result<(), ReadError> {
    let mut source = Source::default();
    let mut buffer = vec![0; READ];
    loop {
        let reading = input.read(&mut buffer);
        let length = match source.has_begun() {
            false => reading.await,
            true => match timeout(source.quiet(), reading).await {
                Ok(length) => length,
                Err(_) => {
                    push(live, source.flush());
                    continue;
                }
            },
        };
        let length = length?;
        if length == 0 {
            break;
        }
        let frames = source.push(TokioRuntime.now(), &buffer[..length])?;
        if let Some(tables) = source.tables() {
            live.describe(tables);
        }
        push(live, frames);
    }
    push(live, source.finish(TokioRuntime.now()));
    Ok(())
}

fn push(live: &Live, frames: Vec<(Instant, AccessUnit)>) {
    for (at, frame) in frames {
        live.push(at, frame);
    }
}

/// Reads all frames, and the tables in force at the end.
async fn read_frames(mut input: File) -> Result<(Arc<[AccessUnit]>, Bytes), ReadError> {
    let mut recording = Recording::new(TokioRuntime.now());
    let mut buffer = vec![0; READ];
    loop {
        let length = input.read(&mut buffer).await?;
        if length == 0 {
            break;
        }
        recording.push(&buffer[..length])?;
    }
    let (frames, tables) = recording.finish();
    Ok((frames.into(), tables))
}
