//! The stream library over loopback UDP on tokio.

use std::{
    net::UdpSocket,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use evenkeel_apps::AppError;
use evenkeel_apps::stream::{
    self, AccessUnit, AdaptConfig, AnyViewer, Clock, Delays, Delivery, EncoderConfig, Header, Live,
    Media, SendOptions, ServeOptions, SyntheticTrack, Track, ViewOptions, ViewReport, Viewing,
};
use quinn::{AsyncTimer, AsyncUdpSocket, Connection, Endpoint, Runtime, TokioRuntime};
use tokio::io::AsyncWrite;

use crate::pair::Pair;

const DELIVERIES: [Delivery; 3] = [Delivery::Frames, Delivery::Groups, Delivery::Datagrams];

fn clock() -> Clock {
    Clock {
        at: TokioRuntime.now(),
        micros: 1_000_000,
        shared: true,
    }
}

fn options(media: Media, delivery: Delivery) -> ServeOptions {
    ServeOptions {
        media,
        send: SendOptions {
            delivery,
            adapt: AdaptConfig {
                ceiling_bps: 4_000_000,
                fixed: true,
                ..AdaptConfig::default()
            },
            ..SendOptions::default()
        },
        viewers: 8,
        patience: Duration::from_secs(2),
        clock: clock(),
        host: Arc::new(AnyViewer),
    }
}

fn pictures(count: usize) -> Media {
    Media::Recorded {
        pictures: (0..count)
            .map(|nth| AccessUnit {
                track: Track::VIDEO,
                bytes: vec![nth as u8; 100 + nth * 997].into(),
                entry: (nth % 10 == 0).then_some(0),
                parameters: Bytes::new(),
                time: None,
            })
            .collect(),
        tables: Bytes::new(),
        frame_rate: 100.0,
        repeat: false,
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
        self.0.lock().unwrap().extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn watching(time: Option<Duration>, output: Option<Memory>) -> ViewOptions<'static> {
    let now = TokioRuntime.now();
    ViewOptions {
        began: now,
        clock: clock(),
        controller: None,
        buffer: Duration::from_millis(100),
        skip_damaged: false,
        reconnect: None,
        omit: Duration::ZERO,
        time,
        patience: Duration::from_secs(2),
        output: output.map(|memory| -> stream::Opening {
            Box::pin(async { Ok::<_, std::io::Error>(Box::new(memory) as stream::Output) })
        }),
    }
}

async fn watch(
    connection: Connection,
    options: ViewOptions<'_>,
) -> (Result<(), AppError>, ViewReport) {
    let viewing = Arc::<Viewing>::default();
    let result = stream::view(connection, Arc::new(TokioRuntime), options, viewing.clone()).await;
    (result, viewing.report(TokioRuntime.now()).unwrap())
}

fn serve(server: Endpoint, options: ServeOptions) {
    tokio::spawn(stream::serve(server, Arc::new(TokioRuntime), options));
}

#[tokio::test]
async fn recorded_pictures_arrive_whole_and_in_order_by_every_delivery() {
    for delivery in DELIVERIES {
        let pair = Pair::streaming();
        let media = pictures(40);
        let Media::Recorded { pictures, .. } = &media else {
            unreachable!("they are recorded")
        };
        let expected: Vec<u8> = pictures.iter().flat_map(|p| p.bytes.to_vec()).collect();
        serve(pair.server.clone(), options(media, delivery));
        let memory = Memory::default();
        let (result, report) =
            watch(pair.connect().await, watching(None, Some(memory.clone()))).await;
        result.unwrap();
        assert_eq!(
            (report.frames.received, report.frames.lost),
            (40, 0),
            "{delivery:?}"
        );
        assert_eq!(report.bytes, expected.len() as u64);
        assert!(*memory.0.lock().unwrap() == expected, "{delivery:?}");
        let delay = report.delay_ms.unwrap();
        assert!(
            delay.min <= delay.p50 && delay.p99 <= delay.max,
            "{delay:?}"
        );
        assert!(report.startup_s.unwrap() >= 0.1);
    }
}

#[tokio::test]
async fn a_synthetic_stream_has_the_rate_that_it_is_to_have() {
    let pair = Pair::streaming();
    let config = EncoderConfig {
        group: 10,
        ..EncoderConfig::default()
    };
    serve(
        pair.server.clone(),
        options(Media::Synthetic(config), Delivery::Frames),
    );
    let time = Some(Duration::from_secs(2));
    let (result, report) = watch(pair.connect().await, watching(time, None)).await;
    result.unwrap();
    // Two seconds of 4 Mb/s and the first frame; a frame that comes late may be missing.
    let megabytes = report.bytes as f64 / 1e6;
    assert!((0.8..1.2).contains(&megabytes), "{megabytes} MB");
    let bitrate = report.bitrate.unwrap();
    assert_eq!(
        (bitrate.min_bps, bitrate.max_bps, bitrate.switches),
        (4_000_000, 4_000_000, 0)
    );
}

#[tokio::test]
async fn a_viewer_that_does_not_read_harms_nobody_else() {
    let pair = Pair::streaming();
    let fast = EncoderConfig {
        frame_rate: 50.0,
        ..EncoderConfig::default()
    };
    let mut options = options(Media::Synthetic(fast), Delivery::Frames);
    options.send.adapt.ceiling_bps = 40_000_000;
    options.send.cancel_after = Duration::from_millis(200);
    let seen = Arc::new(Seen::default());
    options.host = seen.clone();
    serve(pair.server.clone(), options);
    // It asks for the stream, and takes nothing of it.
    let idle = pair.connect().await;
    let (mut send, _recv) = idle.open_bi().await.unwrap();
    let request = br#"{"clock_us":0}"#;
    send.write_all(&[&[0, request.len() as u8], &request[..]].concat())
        .await
        .unwrap();
    let time = Some(Duration::from_secs(6));
    let (result, report) = watch(pair.connect().await, watching(time, None)).await;
    result.unwrap();
    assert!(report.frames.received > 250, "{:?}", report.frames);
    assert_eq!(report.frames.lost, 0);
    // What the other did not take was cancelled, not kept.
    let idle_counts = seen.0.lock().unwrap()[0].counts();
    assert!(idle_counts.frames_cancelled > 0, "{idle_counts:?}");
}

#[derive(Default)]
struct Seen(Mutex<Vec<Arc<stream::Sending>>>);

impl stream::Host for Seen {
    fn accepted(&self, _: &Connection) -> Arc<stream::Sending> {
        let sending = Arc::<stream::Sending>::default();
        self.0.lock().unwrap().push(sending.clone());
        sending
    }
}

#[tokio::test]
async fn more_viewers_than_there_is_room_for_are_refused() {
    let pair = Pair::streaming();
    let options = ServeOptions {
        viewers: 1,
        ..options(pictures(500), Delivery::Frames)
    };
    serve(pair.server.clone(), options);
    let first = pair.connect().await;
    let address = pair.server.local_addr().unwrap();
    let second = pair.client.connect(address, "localhost").unwrap().await;
    // Its handshake may be finished before the server has counted the first.
    if let Ok(second) = second {
        let closed = second.closed().await.to_string();
        assert!(closed.contains("the server is full"), "{closed}");
    }
    let time = Some(Duration::from_millis(200));
    watch(first, watching(time, None)).await.0.unwrap();
}

#[tokio::test]
async fn a_server_with_one_controller_refuses_a_viewer_that_asks_for_another() {
    let pair = Pair::streaming();
    serve(pair.server.clone(), options(pictures(5), Delivery::Frames));
    let options = ViewOptions {
        controller: Some("cubic".into()),
        ..watching(None, None)
    };
    let viewing = Arc::<Viewing>::default();
    let seen = stream::view(
        pair.connect().await,
        Arc::new(TokioRuntime),
        options,
        viewing,
    )
    .await;
    let told = seen.unwrap_err().to_string();
    assert_eq!(
        told,
        "the server refused: it sends with its own controller only"
    );
}

/// How a server accepts a viewer.
fn accepted() -> Vec<u8> {
    let answer = r#"{"accepted":{"clock_us":0,"frame_rate":30.0,"encoded":true,"tables":""}}"#;
    [&[0, answer.len() as u8], answer.as_bytes()].concat()
}

/// A server that answers as it should and then sends these bytes on a stream, and as a datagram.
async fn hostile(bytes: Bytes, as_datagram: bool) -> Result<(), AppError> {
    let pair = Pair::streaming();
    let server = pair.server.clone();
    let serving = tokio::spawn(async move {
        let connection = server.accept().await.unwrap().await.unwrap();
        let (mut control, _recv) = connection.accept_bi().await.unwrap();
        control.write_all(&accepted()).await.unwrap();
        if as_datagram {
            connection.send_datagram(bytes).unwrap();
        } else {
            let mut stream = connection.open_uni().await.unwrap();
            stream.write_all(&bytes).await.unwrap();
            stream.finish().unwrap();
        }
        connection.closed().await
    });
    let result = watch(
        pair.connect().await,
        watching(Some(Duration::from_secs(1)), None),
    )
    .await
    .0;
    serving.abort();
    result
}

/// Tokio, whose timers fire at once or never.
#[derive(Debug)]
struct AtOnce;

impl Runtime for AtOnce {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        let is_due = at <= self.now();
        let day = Duration::from_secs(86_400);
        TokioRuntime.new_timer(if is_due { at } else { at + day })
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        TokioRuntime.spawn(future);
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> std::io::Result<Arc<dyn AsyncUdpSocket>> {
        TokioRuntime.wrap_udp_socket(socket)
    }

    fn now(&self) -> Instant {
        TokioRuntime.now()
    }
}

#[tokio::test]
async fn a_viewer_asks_for_the_servers_clock_as_soon_as_it_is_accepted() {
    let pair = Pair::streaming();
    let accepting = async { pair.server.accept().await.unwrap().await.unwrap() };
    let (client, connection) = tokio::join!(pair.connect(), accepting);
    let mut options = watching(None, None);
    options.clock.shared = false;
    let viewer = stream::view(client, Arc::new(AtOnce), options, Arc::default());
    let serving = async {
        let (mut control, mut requests) = connection.accept_bi().await.unwrap();
        for nth in 0..2 {
            let mut length = [0; 2];
            requests.read_exact(&mut length).await.unwrap();
            let mut request = vec![0; u16::from_be_bytes(length).into()];
            requests.read_exact(&mut request).await.unwrap();
            let request: serde_json::Value = serde_json::from_slice(&request).unwrap();
            assert!(request["clock_us"].is_u64(), "{request}");
            if nth == 0 {
                control.write_all(&accepted()).await.unwrap();
            }
        }
    };
    let asked = async {
        tokio::select! {
            result = viewer => panic!("{result:?}"),
            () = serving => {}
        }
    };
    let asked = tokio::time::timeout(Duration::from_secs(20), asked).await;
    asked.expect("it does not ask");
}

#[tokio::test]
async fn what_is_no_frame_ends_the_stream_with_an_error() {
    let header = |length| {
        let mut bytes = BytesMut::new();
        let header = Header {
            track: Track::VIDEO,
            sequence: 0,
            captured_us: 0,
            bitrate_bps: 0,
            length,
            entry: None,
            delays: Delays::default(),
            given_up: None,
        };
        header.encode(&mut bytes);
        bytes
    };
    for (bytes, datagram) in [
        (header(u32::MAX).freeze(), false),
        (header(u32::MAX).freeze(), true),
        (header(0).freeze(), false),
        (header(10).freeze(), false),
        (Bytes::from_static(b"?"), false),
        (Bytes::from_static(b"?"), true),
    ] {
        let result = hostile(bytes.clone(), datagram).await;
        assert!(
            matches!(result, Err(AppError::Protocol(_))),
            "{bytes:?}: {result:?}"
        );
    }
}

#[tokio::test]
async fn a_picture_comes_out_when_it_is_due_although_the_next_one_has_not_come() {
    let pair = Pair::streaming();
    let live = Arc::new(Live::new(25.0));
    let media = Media::Live(live.clone());
    serve(pair.server.clone(), options(media, Delivery::Frames));
    let memory = Memory::default();
    let viewer = tokio::spawn(watch(
        pair.connect().await,
        watching(Some(Duration::from_secs(60)), Some(memory.clone())),
    ));
    let picture = |nth: u8| AccessUnit {
        track: Track::VIDEO,
        time: None,
        bytes: vec![nth; 3].into(),
        entry: (nth == 0).then_some(0),
        parameters: Bytes::new(),
    };
    live.push(TokioRuntime.now(), picture(0));
    live.push(TokioRuntime.now(), picture(1));
    let all = async {
        while memory.0.lock().unwrap().len() < 6 {
            let pause = std::future::pending::<()>();
            let _ = tokio::time::timeout(Duration::from_millis(10), pause).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), all)
        .await
        .expect("they were due long ago");
    assert_eq!(*memory.0.lock().unwrap(), [0, 0, 0, 1, 1, 1]);
    viewer.abort();
}

#[tokio::test]
async fn a_stream_with_which_nobody_can_begin_ends_with_an_error() {
    let pair = Pair::streaming();
    let live = Arc::new(Live::new(25.0));
    live.push(
        TokioRuntime.now(),
        AccessUnit {
            track: Track::VIDEO,
            time: None,
            bytes: Bytes::from_static(b"x"),
            entry: None,
            parameters: Bytes::new(),
        },
    );
    let media = Media::Live(live.clone());
    serve(pair.server.clone(), options(media, Delivery::Frames));
    let (viewing, runtime) = (Arc::<Viewing>::default(), Arc::new(TokioRuntime));
    let connection = pair.connect().await;
    let viewer = stream::view(connection, runtime, watching(None, None), viewing.clone());
    let ending = async {
        while viewing.snapshot(TokioRuntime.now()).is_none() {
            tokio::task::yield_now().await;
        }
        assert!(!live.can_begin());
        live.end();
    };
    let (result, ()) = tokio::join!(viewer, ending);
    assert!(matches!(result, Err(AppError::Nothing)), "{result:?}");
}

#[tokio::test]
async fn each_track_arrives_by_its_own_delivery_and_has_its_own_figures() {
    let specs = [
        "sound:bytes=80,rate=50",
        "video:bytes=2000,rate=25,group=10,key_ratio=4",
        "video:bytes=4000,rate=25,group=10,key_ratio=4",
        "data:bytes=10,rate=5",
    ];
    let tracks = SyntheticTrack::all(specs).unwrap();
    let pair = Pair::streaming();
    let mut options = options(Media::Tracks(tracks.into()), Delivery::Groups);
    options.send.sound_delivery = Delivery::Datagrams;
    // A busy machine is no reason to give something up.
    options.send.cancel_after = Duration::from_secs(60);
    serve(pair.server.clone(), options);
    let time = Some(Duration::from_secs(1));
    let (result, report) = watch(pair.connect().await, watching(time, None)).await;
    result.unwrap();
    let names: Vec<String> = report.tracks.iter().map(|t| t.track.to_string()).collect();
    assert_eq!(names, ["sound", "video", "video 2", "data"]);
    let of = |nth: usize| &report.tracks[nth].frames;
    assert_eq!(report.frames, *of(1));
    assert!(of(0).received > of(1).received && of(2).received > of(3).received);
    assert!(
        report.tracks.iter().all(|track| track.frames.lost == 0),
        "{report:?}"
    );
}
