//! A voice over datagrams, beside a download: `cargo run -p evenkeel --example voice`
//!
//! Games send their state in the same way: late packets are worthless, so nothing is sent again.

mod tls;

use std::error::Error;
use std::time::{Duration, Instant};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use quinn::Runtime;

type Failure = Box<dyn Error + Send + Sync>;

/// One packet of voice each 20 ms, 64 kb/s, for 5 s.
const INTERVAL: Duration = Duration::from_millis(20);
const BYTES: usize = 160;
const PACKETS: u32 = 250;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let (server_tls, client_tls) = tls::configs()?;
    let server = evenkeel::server("127.0.0.1:0".parse()?, server_tls, "keel")?;
    let client = evenkeel::client("127.0.0.1:0".parse()?, client_tls, "keel")?;

    let connecting = client.connect(server.local_addr()?, "localhost")?;
    let accepting = async { server.accept().await.expect("it is open").await };
    let (listener, speaker) = tokio::try_join!(connecting, accepting)?;
    // One clock for both ends: the delays below are one way.
    let start = quinn::TokioRuntime.now();
    let listening = tokio::spawn(listen(listener, start));
    let download = speaker.clone();
    tokio::spawn(async move {
        let mut stream = download.open_uni().await?;
        while stream.write_all(&[0; 65_536]).await.is_ok() {}
        Ok::<(), quinn::ConnectionError>(())
    });
    speak(&speaker, start).await?;
    tokio::time::sleep_until((start + INTERVAL * (PACKETS + 5)).into()).await;
    speaker.close(0_u32.into(), b"the end");
    println!("{}", listening.await?);
    Ok(())
}

/// Sends packets of voice with their numbers and the times at which they were spoken.
async fn speak(connection: &quinn::Connection, start: Instant) -> Result<(), Failure> {
    if connection.max_datagram_size() < Some(BYTES) {
        return Err("the peer takes no datagrams of this size".into());
    }
    let mut clock = tokio::time::interval_at(start.into(), INTERVAL);
    for number in 0..PACKETS {
        clock.tick().await;
        let mut packet = BytesMut::with_capacity(BYTES);
        packet.put_u32(number);
        packet.put_u64((quinn::TokioRuntime.now() - start).as_micros() as u64);
        packet.resize(BYTES, 0);
        // When its buffer is full, quinn drops the oldest packet in it: the newest matter most.
        connection.send_datagram(packet.freeze())?;
    }
    Ok(())
}

/// Hears packets until the connection ends; returns what a person would want to know of them.
async fn listen(connection: quinn::Connection, start: Instant) -> String {
    // Someone must read the download, else its window fills.
    let download = connection.clone();
    tokio::spawn(async move {
        let mut stream = download.accept_uni().await?;
        while let Ok(Some(_)) = stream.read_chunk(usize::MAX, false).await {}
        Ok::<(), quinn::ConnectionError>(())
    });
    let (mut heard, mut newest, mut disordered) = (0, None, 0);
    let mut delays = Vec::new();
    while let Ok(packet) = connection.read_datagram().await {
        // Every byte from the network is hostile.
        let Some((number, spoken)) = read(packet) else {
            continue;
        };
        heard += 1;
        if newest.is_some_and(|newest| number < newest) {
            disordered += 1;
            continue;
        }
        newest = Some(number);
        let now = quinn::TokioRuntime.now() - start;
        delays.push(now.saturating_sub(spoken));
    }
    delays.sort_unstable();
    let median = delays.get(delays.len() / 2);
    let most = delays.last();
    format!(
        "{heard} of {PACKETS} packets heard, {disordered} out of order; delay {median:?}, most {most:?}"
    )
}

/// The number of a packet and when it was spoken, after the start.
fn read(mut packet: Bytes) -> Option<(u32, Duration)> {
    let number = packet.try_get_u32().ok()?;
    let spoken = packet.try_get_u64().ok()?;
    Some((number, Duration::from_micros(spoken)))
}
