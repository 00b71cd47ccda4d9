//! Opens what a stream server sends: synthetic frames, a file, or standard input.

use std::time::Instant;
use std::{os::fd::AsFd, path::Path, sync::Arc};

use bytes::Bytes;
use quinn::{Runtime, TokioRuntime};
use tokio::fs::File;
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::{args::StreamServerArgs, system::descriptor};
use crate::cli::failure::{Failure, plain};
use crate::cli::server::Event;
use crate::stream::{AccessUnit, EncoderConfig, Kind, Live, Media, Recording, Source};

/// The longest file to stream, 1 GiB: all viewers share it in memory.
const MAX_FILE: u64 = 1 << 30;

/// Bytes read at once.
const READ: usize = 64 * 1024;

/// Opens the media that `args` ask for. Errors of standard input go to `report`.
pub(crate) async fn open<E: Send + 'static>(
    args: &StreamServerArgs,
    encoder: EncoderConfig,
    report: &mpsc::UnboundedSender<Event<E>>,
) -> Result<Media, Failure> {
    Ok(match &args.input {
        None if !args.tracks.is_empty() => Media::Tracks(args.tracks()?.into()),
        None => Media::Synthetic(encoder),
        Some(path) if path == Path::new("-") => {
            let live = Arc::new(match args.encoder_rate {
                Some(_) => Live::following(encoder.frame_rate),
                None => Live::new(encoder.frame_rate),
            });
            let input = descriptor(std::io::stdin().as_fd(), "input")?;
            tokio::spawn(read(input, live.clone(), report.clone()));
            Media::Live(live)
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
    })
}

/// Reads all frames of a file; with them the tables that viewers get first.
async fn recorded(path: &Path) -> Result<(Arc<[AccessUnit]>, Bytes), Failure> {
    let failure = |cause: &dyn std::fmt::Display| {
        Failure::failed(
            format!("cannot stream {}: {cause}", path.display()),
            "give it MPEG-TS, or H.264 or HEVC in Annex B format; `ffmpeg -i FILE -c copy -f mpegts \
             OUT` makes it",
        )
    };
    let metadata = tokio::fs::metadata(path).await;
    let metadata = metadata.map_err(|error| failure(&plain(&error)))?;
    if !metadata.is_file() || metadata.len() > MAX_FILE {
        return Err(failure(&"it is no regular file of at most 1 GiB"));
    }
    let file = File::open(path).await;
    let file = file.map_err(|error| failure(&plain(&error)))?;
    let read = read_frames(file).await.map_err(|cause| failure(&cause))?;
    if !read.0.iter().any(|frame| frame.track.kind != Kind::Tables) {
        return Err(failure(&"it has no picture and no sound"));
    }
    Ok(read)
}

/// Reads frames from standard input, until it ends or is no byte stream.
async fn read<E>(input: File, live: Arc<Live>, report: mpsc::UnboundedSender<Event<E>>) {
    if let Err(cause) = read_live(input, &live).await {
        // Nobody listens once the server stops.
        let _ = report.send(Event::Over(Err(Failure::failed(
            format!("cannot stream standard input: {cause}"),
            "send MPEG-TS, or H.264 or HEVC in Annex B format, as `ffmpeg ... -f mpegts -` does",
        ))));
    }
    live.end();
}

/// Reads frames as they come: each was captured when its first byte came, and goes on when another
/// begins, or when nothing more has come of it for [`Source::quiet`].
async fn read_live(mut input: File, live: &Live) -> Result<(), String> {
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
        let length = length.map_err(|error| plain(&error))?;
        if length == 0 {
            break;
        }
        let frames = source.push(TokioRuntime.now(), &buffer[..length]);
        let frames = frames.map_err(|error| error.to_string())?;
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
async fn read_frames(mut input: File) -> Result<(Arc<[AccessUnit]>, Bytes), String> {
    let mut recording = Recording::new(TokioRuntime.now());
    let mut buffer = vec![0; READ];
    loop {
        let length = input.read(&mut buffer).await;
        let length = length.map_err(|error| plain(&error))?;
        if length == 0 {
            break;
        }
        let pushed = recording.push(&buffer[..length]);
        pushed.map_err(|error| error.to_string())?;
    }
    let (frames, tables) = recording.finish();
    Ok((frames.into(), tables))
}
