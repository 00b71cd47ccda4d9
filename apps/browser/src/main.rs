//! Shows the synthetic stream in a browser, by WebTransport:
//!
//! ```sh
//! cargo run --manifest-path apps/browser/Cargo.toml              # open the address that it prints
//! cargo run --manifest-path apps/browser/Cargo.toml -- chromium  # try it: 90 frames, and it ends
//! ```
//!
//! The page comes by HTTP from 127.0.0.1, the frames by WebTransport, each on a stream of its own.
//! keel is the session's controller, and the encoder follows its estimate.

use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use evenkeel::Context;
use evenkeel_apps::stream::{Delays, Encoder, EncoderConfig, Header, Track};
use quinn::rustls::ServerConfig;
use quinn::rustls::pki_types::PrivatePkcs8KeyDer;
use rcgen::{CertificateParams, KeyPair};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use web_transport_quinn::{Server, Session};

/// The page; `{url}` and `{hash}` are the session's address and its certificate's SHA-256.
const PAGE: &str = include_str!("page.html");

/// The encoder's range in bits per second.
const BITRATE: std::ops::RangeInclusive<u64> = 100_000..=5_000_000;

/// The frames that a browser under test has to show, and the time for it.
const FRAMES: u64 = 90;
const PATIENCE: Duration = Duration::from_secs(60);

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Result<()> {
    // Browsers trust a certificate by its hash if it has a P-256 key and lasts at most 14 days.
    let mut params = CertificateParams::new(["localhost".to_owned(), "127.0.0.1".to_owned()])?;
    params.not_before = OffsetDateTime::now_utc() - Duration::from_secs(86_400);
    params.not_after = params.not_before + Duration::from_secs(10 * 86_400);
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?.der().clone();
    let hash = Sha256::digest(&certificate);
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    let tls = ServerConfig::builder().with_no_client_auth();
    let mut tls = tls.with_single_cert(vec![certificate], key.into())?;
    tls.alpn_protocols = vec![web_transport_quinn::ALPN.into()];
    let endpoint = evenkeel::server("127.0.0.1:0".parse()?, tls, "keel")?;

    let url = format!("https://{}/", endpoint.local_addr()?);
    let page = PAGE
        .replace("{url}", &url)
        .replace("{hash}", &format!("{:?}", hash.as_slice()));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(serve_page(listener, page));
    println!("open http://{address}/");

    let (shown, mut counts) = mpsc::unbounded_channel();
    tokio::spawn(serve_frames(Server::new(endpoint), shown));
    let Some(browser) = std::env::args().nth(1) else {
        while counts.recv().await.is_some() {}
        return Ok(());
    };
    let profile = tempfile::tempdir()?;
    let mut browser = open(&browser, profile.path(), address)?;
    let enough = async { while counts.recv().await.is_some_and(|shown| shown < FRAMES) {} };
    let result = tokio::select! {
        in_time = tokio::time::timeout(PATIENCE, enough) => in_time.map_err(|_| {
            format!("the page did not show {FRAMES} frames within {PATIENCE:?}").into()
        }),
        ended = browser.wait() => Err(format!("the browser ended too early: {}", ended?).into()),
    };
    browser.kill().await?;
    result
}

/// Opens the page in a browser of the family of Chromium, without a window.
fn open(browser: &str, profile: &std::path::Path, page: SocketAddr) -> Result<Child> {
    let child = Command::new(browser)
        // Its sandbox refuses root.
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
        ])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("http://{page}/"))
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn();
    Ok(child.map_err(|error| format!("cannot start {browser}: {error}"))?)
}

/// Answers every HTTP request with the page. What fails in the page comes as a query, and is printed.
async fn serve_page(listener: TcpListener, page: String) {
    while let Ok((connection, _)) = listener.accept().await {
        let answer = answer(connection, page.clone());
        tokio::spawn(tokio::time::timeout(PATIENCE, answer));
    }
}

async fn answer(mut connection: TcpStream, page: String) -> std::io::Result<()> {
    // All of a request that browsers send; what is longer gets the page as well.
    let mut request = [0; 8192];
    let length = connection.read(&mut request).await?;
    let request = String::from_utf8_lossy(&request[..length]);
    let target = request.split(' ').nth(1).unwrap_or_default();
    if let Some((_, failure)) = target.split_once("/?") {
        println!("the page failed: {failure}");
    }
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        page.len()
    );
    connection.write_all((head + &page).as_bytes()).await
}

/// Sends frames to all sessions; `shown` gets what their pages report.
async fn serve_frames(mut server: Server, shown: mpsc::UnboundedSender<u64>) {
    while let Some(request) = server.accept().await {
        let shown = shown.clone();
        tokio::spawn(async move {
            let session = request.ok().await?;
            let Err(error) = tokio::try_join!(publish(&session), listen(&session, &shown));
            println!("a session ended: {error}");
            Result::Ok(())
        });
    }
}

/// Sends each frame on a stream of its own, at the bitrate that the path takes.
async fn publish(session: &Session) -> Result<Infallible> {
    let context = Context::of(session).ok_or("the endpoint is evenkeel's")?;
    let config = EncoderConfig::default();
    let mut encoder = Encoder::new(config, 0);
    let mut clock = tokio::time::interval(Duration::from_secs_f64(1.0 / config.frame_rate));
    let mut bitrate_bps = BITRATE.start() * 10;
    let mut sequence = 0_u32;
    loop {
        clock.tick().await;
        // Down at once to a tenth below the estimate, up by an eighth a frame.
        if let Some(estimate) = context.state().rate_estimate() {
            let most = estimate.saturating_mul(8) / 10 * 9;
            bitrate_bps = (bitrate_bps + bitrate_bps / 8).min(most);
            bitrate_bps = bitrate_bps.clamp(*BITRATE.start(), *BITRATE.end());
        }
        let frame = encoder.next(bitrate_bps, false);
        let header = Header {
            track: Track::VIDEO,
            sequence,
            captured_us: u64::try_from(OffsetDateTime::now_utc().unix_timestamp_nanos() / 1000)?,
            bitrate_bps: u32::try_from(bitrate_bps)?,
            length: u32::try_from(frame.length)?,
            entry: frame.key.then_some(0),
            delays: Delays::default(),
            given_up: None,
        };
        let mut head = BytesMut::new();
        header.encode(&mut head);
        let mut stream = session.open_uni().await?;
        // Older frames first, also when something is sent again.
        stream.set_priority(-i32::try_from(sequence)?)?;
        let content = Bytes::from(vec![0x5a; frame.length]);
        stream
            .write_all_chunks(&mut [head.freeze(), content])
            .await?;
        stream.finish()?;
        sequence += 1;
    }
}

/// Prints what the page reports: each second a stream with the frames and bytes it has shown.
async fn listen(session: &Session, shown: &mpsc::UnboundedSender<u64>) -> Result<Infallible> {
    loop {
        let mut stream = session.accept_uni().await?;
        let report = String::from_utf8(stream.read_to_end(100).await?)?;
        let (frames, bytes) = report.split_once(' ').ok_or("a report has two numbers")?;
        let (frames, bytes): (u64, u64) = (frames.parse()?, bytes.parse()?);
        println!("the page has shown {frames} frames of {bytes} bytes");
        // The test may be over.
        let _ = shown.send(frames);
    }
}
