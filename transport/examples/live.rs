//! Live media that follows the connection's estimate: `cargo run -p evenkeel --example live`

mod tls;

use std::error::Error;
use std::time::Duration;

use evenkeel::{Context, PathState};

/// Frames a second, how many in all, and the encoder's range in bytes per second.
const FRAME_RATE: u32 = 30;
const FRAMES: u32 = 150;
const BYTES_PER_SECOND: std::ops::RangeInclusive<u64> = 12_500..=1_000_000;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let (server_tls, client_tls) = tls::configs()?;
    let server = evenkeel::server("127.0.0.1:0".parse()?, server_tls, "keel")?;
    let client = evenkeel::client("127.0.0.1:0".parse()?, client_tls, "keel")?;

    let connecting = client.connect(server.local_addr()?, "localhost")?;
    let accepting = async { server.accept().await.expect("it is open").await };
    let (viewer, publisher) = tokio::try_join!(connecting, accepting)?;
    let viewing = tokio::spawn(view(viewer));
    publish(&publisher).await?;
    publisher.close(0_u32.into(), b"the end");
    println!("{} bytes of frames arrived", viewing.await?);
    Ok(())
}

/// Sends each frame on a stream of its own, at the bitrate that the path takes.
async fn publish(connection: &quinn::Connection) -> Result<(), Box<dyn Error + Send + Sync>> {
    let context = Context::of(connection).ok_or("the server is evenkeel's")?;
    let mut changes = context.changes();
    let mut clock = tokio::time::interval(Duration::from_secs(1) / FRAME_RATE);
    let mut bitrate = *BYTES_PER_SECOND.start();
    for frame in 0..FRAMES {
        loop {
            tokio::select! {
                biased;
                Some(path) = changes.next() => bitrate = next_bitrate(bitrate, &path),
                _ = clock.tick() => break,
            }
        }
        if frame % FRAME_RATE == 0 {
            let path = context.state();
            println!(
                "{} kB/s; estimate {:?} B/s, limited by {:?}, queueing {:?}, lost {} bytes",
                bitrate / 1000,
                path.rate_estimate(),
                path.limited_by,
                path.queueing_delay,
                path.losses.bytes,
            );
        }
        let mut stream = connection.open_uni().await?;
        // Older frames first, also when something is sent again.
        stream.set_priority(-i32::try_from(frame)?)?;
        let bytes = bitrate / u64::from(FRAME_RATE);
        stream.write_all(&vec![0; bytes as usize]).await?;
        stream.finish()?;
    }
    Ok(())
}

/// Down at once to a tenth below the estimate, up by at most a sixteenth each change.
fn next_bitrate(bitrate: u64, path: &PathState) -> u64 {
    let Some(estimate) = path.rate_estimate() else {
        return bitrate;
    };
    let (least, most) = BYTES_PER_SECOND.into_inner();
    let next = (bitrate + bitrate / 16).min(estimate / 10 * 9);
    next.clamp(least, most)
}

/// Reads all frames; returns their bytes.
async fn view(connection: quinn::Connection) -> usize {
    let mut bytes = 0;
    while let Ok(mut stream) = connection.accept_uni().await {
        bytes += stream
            .read_to_end(1 << 20)
            .await
            .map_or(0, |frame| frame.len());
    }
    bytes
}
