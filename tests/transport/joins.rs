//! Viewers that join a live stream late, in virtual time; what they get is decoded.

use std::pin::Pin;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use evenkeel_apps::AppError;
use evenkeel_apps::bulk::{LossDetection, TransportSettings};
use evenkeel_apps::stream::{
    self, AccessUnit, AccessUnits, AnyViewer, Clock, Delivery, FrameCounts, Live, Media,
    SendOptions, ServeOptions, ViewOptions, ViewReport, Viewing,
};
use evenkeel_tests::skip::{Need, can_run};
use quinn::{Endpoint, Runtime};
use tokio::io::AsyncWrite;

use super::support::{Host, Net, client_tls, identity, server_tls, stock_client, stock_server};

/// Pictures a second.
const RATE: u32 = 25;

/// What a late viewer got.
struct Joined {
    result: Result<(), AppError>,
    /// `None`: the stream never began.
    report: Option<ViewReport>,
    /// What it wrote for a decoder.
    output: Vec<u8>,
}

impl Joined {
    fn frames(&self) -> FrameCounts {
        let report = self.report.as_ref();
        report.expect("the stream began").frames
    }
}

fn pictures(stream: &[u8]) -> Vec<AccessUnit> {
    let mut parser = AccessUnits::default();
    let mut pictures = parser.push(stream).expect("it is a byte stream");
    pictures.extend(parser.finish());
    pictures
}

/// Streams `pictures` as they are made over a link of `rate_bps` with a round trip of 40 ms, to a
/// viewer that comes `late` after the first of them.
fn join(rate_bps: u64, pictures: &[AccessUnit], late: Duration, delivery: Delivery) -> Joined {
    let mut net = Net::new(rate_bps, 10.0);
    let (runtime, identity) = (net.runtime(), identity());
    // RFC 9002's thresholds: with the default a frame of the newer group is late, as losses are found
    // 20 packets later at 1.5 Mb/s.
    let transport = || {
        let losses = LossDetection {
            packet_threshold: 3,
            time_threshold: 1.125,
        };
        let settings = TransportSettings {
            losses,
            ..TransportSettings::default()
        };
        Arc::new(stream::transport_config(settings))
    };
    let tls = |mut tls: quinn::rustls::ServerConfig| {
        tls.alpn_protocols = vec![stream::ALPN.to_vec()];
        tls
    };
    let server = Endpoint::new_with_abstract_socket(
        net.endpoint_config(),
        Some(stock_server(tls(server_tls(&identity)), transport())),
        net.socket(Host::Sender),
        runtime.clone(),
    )
    .expect("a bound socket");
    let mut client = Endpoint::new_with_abstract_socket(
        net.endpoint_config(),
        None,
        net.socket(Host::Receiver),
        runtime.clone(),
    )
    .expect("a bound socket");
    let mut tls = client_tls(&identity);
    tls.alpn_protocols = vec![stream::ALPN.to_vec()];
    client.set_default_client_config(stock_client(tls, transport()));
    let address = server.local_addr().expect("a bound socket");

    let live = Arc::new(Live::new(RATE.into()));
    let clock = Clock {
        at: runtime.epoch(),
        micros: 0,
        shared: true,
    };
    net.spawn(stream::serve(
        server,
        runtime.clone(),
        ServeOptions {
            media: Media::Live(live.clone()),
            send: SendOptions {
                delivery,
                ..SendOptions::default()
            },
            viewers: 1,
            patience: Duration::from_secs(30),
            clock,
            host: Arc::new(AnyViewer),
        },
    ));
    let (encoding, made) = (runtime.clone(), pictures.to_vec());
    let length = Duration::from_secs(1) * made.len() as u32 / RATE;
    net.spawn(async move {
        for (number, picture) in (0..).zip(made) {
            let at = encoding.epoch() + Duration::from_secs(1) * number / RATE;
            encoding.sleep_until(at).await;
            live.push(encoding.now(), picture);
        }
        live.end();
    });
    let (viewing, output) = (Arc::<Viewing>::default(), Memory::default());
    let result = Arc::new(Mutex::new(None));
    let (seen, written, ended) = (viewing.clone(), output.clone(), result.clone());
    let watching = runtime.clone();
    net.spawn(async move {
        let began = watching.epoch() + late;
        watching.sleep_until(began).await;
        let connecting = client
            .connect(address, "localhost")
            .expect("a right configuration");
        let connection = connecting.await.expect("a path");
        let options = ViewOptions {
            began,
            clock,
            controller: None,
            buffer: Duration::from_millis(200),
            skip_damaged: false,
            reconnect: None,
            omit: Duration::ZERO,
            time: None,
            patience: Duration::from_secs(30),
            output: Some(Box::pin(async {
                Ok::<_, std::io::Error>(Box::new(written) as stream::Output)
            })),
        };
        let result = stream::view(connection, watching, options, seen).await;
        *ended.lock().expect("no test panics in here") = Some(result);
    });
    net.run_for(length.max(late) + Duration::from_secs(20));
    let report = viewing.report(runtime.now());
    let result = result.lock().expect("no test panics in here").take();
    Joined {
        result: result.expect("it is over"),
        report,
        output: output.0.lock().expect("no test panics in here").clone(),
    }
}

/// Bytes that were written to it.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl AsyncWrite for Memory {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let mut written = self.0.lock().expect("no test panics in here");
        written.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Groups of `length` pictures each, of 1 Mb/s. The encoder makes parameter sets only once.
fn groups(count: u32, length: u32) -> Vec<AccessUnit> {
    let nal = |head: &[u8], bytes: usize| {
        let mut nal = [&[0, 0, 0, 1], head].concat();
        nal.resize(bytes, 0x55);
        nal
    };
    let stream = (0..count).flat_map(|number| match number {
        0 => [SETS, &nal(&[0x65, 0x88], 25_000)].concat(),
        _ if number % length == 0 => nal(&[0x65, 0x88], 25_000),
        _ => nal(&[0x41, 0x9a], 5_000),
    });
    pictures(&stream.collect::<Vec<_>>())
}

/// Parameter sets.
const SETS: &[u8] = &[
    0, 0, 0, 1, 0x67, 0x42, 0xc0, 0x1e, 0xda, 0, 0, 0, 1, 0x68, 0xce, 0x01,
];

/// The pictures as a decoder that begins with the first of them needs them.
fn decodable(pictures: &[AccessUnit]) -> Vec<u8> {
    pictures.iter().flat_map(AccessUnit::decodable).collect()
}

#[test]
fn a_viewer_that_comes_late_in_a_long_group_gets_all_of_it() {
    let made = groups(300, 250);
    for late_ms in [0, 1_500, 6_000, 11_000] {
        for delivery in [Delivery::Frames, Delivery::Groups] {
            let late = Duration::from_millis(late_ms);
            let joined = join(10_000_000, &made, late, delivery);
            joined.result.as_ref().expect("the source's end");
            let first = if late_ms > 10_000 { 250 } else { 0 };
            let frames = joined.frames();
            let what = format!("{late_ms} ms, {delivery:?}: {frames:?}");
            assert!(joined.output == decodable(&made[first..]), "{what}");
            assert!(joined.output.starts_with(SETS), "{what}");
            assert_eq!(
                frames.received + frames.preroll,
                300 - first as u64,
                "{what}"
            );
            assert_eq!(
                (frames.lost, frames.damaged, frames.skipped),
                (0, 0, 0),
                "{what}"
            );
            let before = late_ms / 40 - first as u64;
            assert!((before..=before + 4).contains(&frames.preroll), "{what}");
        }
    }
}

#[test]
fn a_viewer_that_has_not_caught_up_begins_anew_with_a_newer_group() {
    let made = groups(400, 250);
    // From the first key frame on, 9 s would take 18 s to catch up; the next comes in 1 s.
    let joined = join(1_500_000, &made, Duration::from_secs(9), Delivery::Frames);
    joined.result.as_ref().expect("the source's end");
    let newer = decodable(&made[250..]);
    let (came, expected) = (joined.output.len(), newer.len());
    assert!(
        joined.output.ends_with(&newer) && came > expected,
        "{came} bytes, {expected} of the newer group, {:?}",
        joined.frames()
    );
    assert!(joined.output.starts_with(SETS));
    let (frames, report) = (joined.frames(), joined.report.expect("the stream began"));
    assert_eq!(frames.damaged, 0, "{frames:?}");
    // The newer key frame comes after 1 s, waits for what is under way, and is buffered.
    assert!(report.startup_s.expect("it began") < 5.0, "{report:?}");
}

#[test]
fn a_viewer_that_cannot_catch_up_gets_the_beginning_of_each_group() {
    let made = groups(500, 100);
    let (mut damaged, mut received) = (0, 0);
    for rate_bps in [760_000, 780_000, 800_000, 820_000, 840_000] {
        let late = Duration::from_millis(1_500);
        let joined = join(rate_bps, &made, late, Delivery::Frames);
        joined.result.as_ref().expect("the source's end");
        let (frames, came) = (joined.frames(), pictures(&joined.output));
        assert!(frames.received > 200 && frames.lost > 20, "{frames:?}");
        let begun = came.iter().filter(|picture| picture.entry == Some(0));
        assert_eq!(begun.count(), 5, "{rate_bps}");
        (damaged, received) = (damaged + frames.damaged, received + frames.received);
    }
    // Losses that were not repaired when their group was given up.
    assert!(damaged < received / 8, "{damaged} of {received}");
}

#[test]
fn a_viewer_that_comes_after_the_end_is_told_so() {
    let joined = join(
        10_000_000,
        &groups(50, 25),
        Duration::from_secs(3),
        Delivery::Frames,
    );
    assert!(joined.report.is_none() && joined.output.is_empty());
    let error = joined.result.expect_err("there is nothing to see");
    assert!(
        error.to_string().contains("the source has ended"),
        "{error}"
    );
}

/// How ffmpeg is told to encode, the format, and how many pictures after a viewer's first need not
/// be decodable.
const ENCODERS: [(&str, &str, u64); 6] = [
    ("libx264", "h264", 0),
    ("libx264 -g 50", "h264", 0),
    ("libx264 -tune zerolatency -bf 0", "h264", 0),
    ("libx264 -bf 8 -x264-params open-gop=1:keyint=30", "h264", 8),
    (
        "libx264 -x264-params intra-refresh=1:keyint=25:bframes=0",
        "h264",
        20,
    ),
    ("libx265 -g 30 -x265-params log-level=none", "hevc", 4),
];

#[test]
fn what_a_late_viewer_gets_of_real_encoders_can_be_decoded() {
    if !can_run(&[
        Need::program("ffmpeg", "ffmpeg"),
        Need::program("ffprobe", "ffmpeg"),
    ]) {
        return;
    }
    for (encoder, format, undecodable) in ENCODERS {
        let made = pictures(&encode(encoder, format));
        assert_eq!(made.len(), 250, "{encoder}");
        for late in [1_500, 5_500].map(Duration::from_millis) {
            let joined = join(10_000_000, &made, late, Delivery::Frames);
            joined.result.as_ref().expect("the source's end");
            let frames = joined.frames();
            let (came, decoded) = (
                frames.received + frames.preroll,
                decode(&joined.output, format),
            );
            let startup_s = joined.report.as_ref().and_then(|report| report.startup_s);
            let what = format!("{encoder}, {late:?}: {decoded} of {frames:?}, {startup_s:?} s");
            println!("{what}");
            assert_eq!(pictures(&joined.output).len() as u64, came, "{what}");
            assert!((came - undecodable..=came).contains(&decoded), "{what}");
            assert!(came >= 100 && frames.damaged <= undecodable, "{what}");
        }
    }
}

/// 10 s of a test picture.
fn encode(encoder: &str, format: &str) -> Vec<u8> {
    let source = [
        "-f",
        "lavfi",
        "-i",
        "testsrc2=size=160x120:rate=25:duration=10",
    ];
    let output = Command::new("ffmpeg")
        .args(["-v", "error"])
        .args(source)
        .arg("-c:v")
        .args(encoder.split(' '))
        .args(["-f", format, "-"])
        .stdin(Stdio::null())
        .output()
        .expect("ffmpeg runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

/// The pictures that ffprobe decodes.
fn decode(stream: &[u8], format: &str) -> u64 {
    let file = tempfile::NamedTempFile::new().expect("a writable directory");
    std::fs::write(file.path(), stream).expect("a writable directory");
    let output = Command::new("ffprobe")
        .args([
            "-v",
            "error",
            "-count_frames",
            "-f",
            format,
            "-of",
            "csv=p=0",
        ])
        .args(["-show_entries", "stream=nb_read_frames"])
        .arg(file.path())
        .output()
        .expect("ffprobe runs");
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim()
        .parse()
        .unwrap_or_else(|_| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)))
}
