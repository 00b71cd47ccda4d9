//! Opens what a stream server sends: synthetic frames, a file, or standard input.

use std::time::{Duration, Instant};
use std::{os::fd::AsFd, path::Path, sync::Arc};

use quinn::{Runtime, TokioRuntime};
use tokio::fs::File;
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::{args::StreamServerArgs, system::descriptor};
use crate::cli::failure::{Failure, plain};
use crate::cli::server::Event;
use crate::stream::{AccessUnit, AccessUnits, EncoderConfig, Live, Media};

/// The longest file to stream, 1 GiB: all viewers share it in memory.
const MAX_FILE: u64 = 1 << 30;

/// Bytes read at once.
const READ: usize = 64 * 1024;

/// How long after its last byte a picture in a pipe counts as whole, 3 ms: an encoder writes a
/// picture at once, and the next one 4 ms later or more (240 a second). A picture that was not whole
/// goes on as two frames.
const QUIET: Duration = Duration::from_millis(3);

/// Opens the media that `args` ask for. Errors of standard input go to `report`.
pub(crate) async fn open<E: Send + 'static>(
    args: &StreamServerArgs,
    encoder: EncoderConfig,
    report: &mpsc::UnboundedSender<Event<E>>,
) -> Result<Media, Failure> {
    Ok(match &args.input {
        None => Media::Synthetic(encoder),
        Some(path) if path == Path::new("-") => {
            let live = Arc::new(Live::new(encoder.frame_rate));
            let input = descriptor(std::io::stdin().as_fd(), "input")?;
            tokio::spawn(read(input, live.clone(), report.clone()));
            Media::Live(live)
        }
        Some(path) => Media::Recorded {
            pictures: recorded(path).await?,
            frame_rate: encoder.frame_rate,
            repeat: args.repeat,
        },
    })
}

/// Reads all pictures of a file.
async fn recorded(path: &Path) -> Result<Arc<[AccessUnit]>, Failure> {
    let failure = |cause: &dyn std::fmt::Display| {
        Failure::failed(
            format!("cannot stream {}: {cause}", path.display()),
            "give it H.264 or HEVC in Annex B format; `ffmpeg -i FILE -an -c:v libx264 -f h264 \
             OUT` makes it, `-c:v copy` where it is one of them already",
        )
    };
    let metadata = tokio::fs::metadata(path).await;
    let metadata = metadata.map_err(|error| failure(&plain(&error)))?;
    if !metadata.is_file() || metadata.len() > MAX_FILE {
        return Err(failure(&"it is no regular file of at most 1 GiB"));
    }
    let file = File::open(path).await;
    let file = file.map_err(|error| failure(&plain(&error)))?;
    let mut pictures = Vec::new();
    let read = read_pictures(file, |picture| pictures.push(picture)).await;
    read.map_err(|cause| failure(&cause))?;
    if pictures.is_empty() {
        return Err(failure(&"it has no picture"));
    }
    Ok(pictures.into())
}

/// Reads pictures from standard input, until it ends or is no byte stream.
async fn read<E>(input: File, live: Arc<Live>, report: mpsc::UnboundedSender<Event<E>>) {
    if let Err(cause) = read_live(input, &live).await {
        // Nobody listens once the server stops.
        let _ = report.send(Event::Over(Err(Failure::failed(
            format!("cannot stream standard input: {cause}"),
            "send H.264 or HEVC in Annex B format, as `ffmpeg ... -f h264 -` does",
        ))));
    }
    live.end();
}

/// Reads pictures as they come: each was captured when its first byte came, and goes on when another
/// begins, or when nothing more has come of it for [`QUIET`].
async fn read_live(mut input: File, live: &Live) -> Result<(), String> {
    let mut parser = AccessUnits::default();
    let mut buffer = vec![0; READ];
    // When the picture began that is not complete.
    let mut began: Option<Instant> = None;
    loop {
        let reading = input.read(&mut buffer);
        let length = match began {
            None => reading.await,
            Some(at) => match timeout(QUIET, reading).await {
                Ok(length) => length,
                Err(_) => {
                    began = None;
                    if let Some(picture) = parser.flush() {
                        live.push(at, picture);
                    }
                    continue;
                }
            },
        };
        let now = TokioRuntime.now();
        let length = length.map_err(|error| plain(&error))?;
        if length == 0 {
            break;
        }
        let pictures = parser.push(&buffer[..length]);
        for picture in pictures.map_err(|error| error.to_string())? {
            live.push(began.replace(now).unwrap_or(now), picture);
        }
        began.get_or_insert(now);
    }
    let at = began.unwrap_or_else(|| TokioRuntime.now());
    (parser.finish().into_iter()).for_each(|picture| live.push(at, picture));
    Ok(())
}

async fn read_pictures(mut input: File, mut take: impl FnMut(AccessUnit)) -> Result<(), String> {
    let mut parser = AccessUnits::default();
    let mut buffer = vec![0; READ];
    loop {
        let length = input.read(&mut buffer).await;
        let length = length.map_err(|error| plain(&error))?;
        if length == 0 {
            break;
        }
        let pictures = parser.push(&buffer[..length]);
        let pictures = pictures.map_err(|error| error.to_string())?;
        pictures.into_iter().for_each(&mut take);
    }
    parser.finish().into_iter().for_each(take);
    Ok(())
}
