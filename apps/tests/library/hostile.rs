//! The bulk library against peers that break the protocol: a clear error each time,
//! never a panic, never a wait without end.

use std::future::poll_fn;
use std::{sync::Arc, time::Duration};

use crate::pair::{Pair, impatient};
use evenkeel_apps::AppError;
use evenkeel_apps::bulk::{
    self, Amount, Direction, Hashing, Job, Local, NoFiles, Outcome, Progress, ServeOptions,
};
use quinn::{Connection, RecvStream, Runtime, SendStream, TokioRuntime, VarInt};
use serde_json::{Value, json};
use tokio::sync::oneshot;

#[tokio::test]
async fn a_request_that_is_not_json_is_a_protocol_error() {
    for garbage in [
        &b"\x00\x04oops"[..],
        b"\x00\x00",
        b"\x00\x02{}",
        b"\x00\x04\xff\xfe\xfd\xfc",
    ] {
        let error = served(async |connection| {
            let (mut send, _recv) = connection.open_bi().await.unwrap();
            send.write_all(garbage).await.unwrap();
            connection.closed().await;
        })
        .await
        .unwrap_err();
        assert!(
            matches!(&error, AppError::Protocol(_)),
            "{garbage:?}: {error}"
        );
    }
}

#[tokio::test]
async fn a_request_that_is_too_long_is_refused_at_its_length() {
    let error = served(async |connection| {
        let (mut send, _recv) = connection.open_bi().await.unwrap();
        send.write_all(&[0xff, 0xff]).await.unwrap();
        connection.closed().await;
    })
    .await
    .unwrap_err();
    assert!(error.to_string().contains("longer than"), "{error}");
}

#[tokio::test]
async fn a_client_that_says_nothing_is_given_up() {
    let error = served(async |connection| {
        connection.closed().await;
    })
    .await
    .unwrap_err();
    assert!(matches!(error, AppError::Stalled(_)), "{error}");
}

#[tokio::test]
async fn a_client_that_stops_within_its_request_is_given_up() {
    let error = served(async |connection| {
        let (mut send, _recv) = connection.open_bi().await.unwrap();
        send.write_all(&[0x00, 0x40, b'{']).await.unwrap();
        connection.closed().await;
    })
    .await
    .unwrap_err();
    assert!(matches!(error, AppError::Stalled(_)), "{error}");
}

#[tokio::test]
async fn a_client_that_leaves_is_noticed_with_its_reason_made_printable() {
    let error = served(async |connection| {
        connection.close(VarInt::from_u32(9), b"bye\x1b[2J\nnow");
    })
    .await
    .unwrap_err();
    assert!(matches!(error, AppError::PeerGaveUp(_)), "{error}");
    assert!(!error.to_string().contains(char::is_control), "{error:?}");
}

#[tokio::test]
async fn jobs_beyond_the_bounds_are_refused_with_a_reason() {
    for (field, value, word) in [
        ("streams", json!(0), "streams"),
        ("streams", json!(65_535), "streams"),
        ("amount", json!({"bytes": u64::MAX}), "bytes"),
        ("amount", json!({"duration_us": u64::MAX}), "day"),
        ("amount", json!({"file": "x"}), "downloaded"),
        ("omit_us", json!(u64::MAX), "warm-up"),
    ] {
        let mut request = upload(100, 1);
        request[field] = value;
        let error = served(async |connection| {
            let (mut send, mut recv) = connection.open_bi().await.unwrap();
            write(&mut send, &request).await;
            let answer = read(&mut recv).await;
            let reason = answer["refused"]["reason"].as_str().unwrap();
            assert!(reason.contains(word), "{request}: {reason}");
            connection.closed().await;
        })
        .await
        .unwrap_err();
        assert!(matches!(error, AppError::Job(_)), "{error}");
    }
}

#[tokio::test]
async fn a_stream_more_than_agreed_is_a_protocol_error() {
    let error = served(async |connection| {
        let _control = start(&connection, &upload(100, 1)).await;
        let mut agreed = connection.open_uni().await.unwrap();
        agreed.write_all(&[0, 0]).await.unwrap();
        let mut another = connection.open_uni().await.unwrap();
        another.write_all(&[0, 0]).await.unwrap();
        connection.closed().await;
    })
    .await
    .unwrap_err();
    assert!(error.to_string().contains("stream"), "{error}");
}

#[tokio::test]
async fn two_streams_for_the_same_range_are_a_protocol_error() {
    let error = served(async |connection| {
        let _control = start(&connection, &upload(100, 2)).await;
        let mut first = connection.open_uni().await.unwrap();
        first.write_all(&[0, 1]).await.unwrap();
        let mut second = connection.open_uni().await.unwrap();
        second.write_all(&[0, 1]).await.unwrap();
        connection.closed().await;
    })
    .await
    .unwrap_err();
    assert!(error.to_string().contains("came twice"), "{error}");
}

#[tokio::test]
async fn more_or_less_data_than_agreed_is_a_protocol_error() {
    for (length, word) in [(99, "less data"), (101, "more data")] {
        let error = served(async |connection| {
            let _control = start(&connection, &upload(100, 1)).await;
            let mut data = connection.open_uni().await.unwrap();
            data.write_all(&vec![0; 2 + length]).await.unwrap();
            data.finish().unwrap();
            connection.closed().await;
        })
        .await
        .unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[tokio::test]
async fn a_sender_that_stops_midway_is_given_up() {
    let error = served(async |connection| {
        let _control = start(&connection, &upload(100, 1)).await;
        let mut data = connection.open_uni().await.unwrap();
        data.write_all(&[0; 50]).await.unwrap();
        connection.closed().await;
    })
    .await
    .unwrap_err();
    assert!(matches!(error, AppError::Stalled(_)), "{error}");
}

/// The close, with its reason, may come in a later packet than the end of the streams.
#[tokio::test]
async fn a_sender_that_gives_up_is_heard_with_its_reason() {
    for length in [0, 1, 50] {
        let error = served(async |connection| {
            let _control = start(&connection, &upload(100, 1)).await;
            let mut data = connection.open_uni().await.unwrap();
            data.write_all(&vec![0; length]).await.unwrap();
            data.reset(VarInt::from_u32(0)).unwrap();
            let later = TokioRuntime.now() + Duration::from_millis(20);
            let mut timer = TokioRuntime.new_timer(later);
            poll_fn(|context| timer.as_mut().poll(context)).await;
            connection.close(VarInt::from_u32(1), b"the disk broke");
        })
        .await
        .unwrap_err();
        assert!(
            matches!(&error, AppError::PeerGaveUp(reason) if reason.contains("the disk broke")),
            "{error}"
        );
    }
}

/// quinn finishes a stream that is dropped.
#[tokio::test]
async fn a_sender_that_gives_up_leaves_no_stream_that_seems_whole() {
    let job = Job {
        streams: 2,
        ..Job::new(Direction::Up, Amount::Bytes(200_000_000))
    };
    let error = asked_for(job, async |connection| {
        let (mut send, mut recv) = connection.accept_bi().await.unwrap();
        read(&mut recv).await;
        write(&mut send, &json!({"accepted": {"file": null}})).await;
        let mut stopped = connection.accept_uni().await.unwrap();
        let mut other = connection.accept_uni().await.unwrap();
        stopped.stop(VarInt::from_u32(0)).unwrap();
        let end = other.read_to_end(usize::MAX).await;
        assert!(end.is_err(), "it seems whole");
    })
    .await
    .unwrap_err();
    assert!(matches!(error, AppError::Protocol(_)), "{error}");
}

#[tokio::test]
async fn data_that_differs_from_the_senders_checksum_is_found() {
    let error = served(async |connection| {
        let (mut send, mut recv) = start(&connection, &upload(3, 1)).await;
        let mut data = connection.open_uni().await.unwrap();
        data.write_all(b"\x00\x00abd").await.unwrap();
        data.finish().unwrap();
        write(
            &mut send,
            &json!({"bytes": 3, "checksums": [Hashing::Blake3.of(b"abc")]}),
        )
        .await;
        let received = read(&mut recv).await;
        assert_eq!(received["intact"], false);
        let found = &received["report"]["checksum"];
        assert_eq!(*found, json!(Hashing::Blake3.of(b"abd")));
        write(&mut send, &received["report"]).await;
        connection.closed().await;
    })
    .await
    .unwrap_err();
    assert!(matches!(error, AppError::Mismatch), "{error}");
}

#[tokio::test]
async fn a_wrong_size_or_a_missing_checksum_is_not_verified() {
    for sent in [
        json!({"bytes": 4, "checksums": [Hashing::Blake3.of(b"abc")]}),
        json!({"bytes": 3, "checksums": []}),
        json!({"bytes": 3, "checksums": [Hashing::Blake3.of(b"abc"), Hashing::Blake3.of(b"abc")]}),
    ] {
        let error = served(async |connection| {
            let (mut send, mut recv) = start(&connection, &upload(3, 1)).await;
            let mut data = connection.open_uni().await.unwrap();
            data.write_all(b"\x00\x00abc").await.unwrap();
            data.finish().unwrap();
            write(&mut send, &sent).await;
            let received = read(&mut recv).await;
            write(&mut send, &received["report"]).await;
            connection.closed().await;
        })
        .await
        .unwrap_err();
        assert!(matches!(error, AppError::Mismatch), "{sent}: {error}");
    }
}

#[tokio::test]
async fn a_server_that_claims_damage_makes_the_upload_fail() {
    let error = asked(Direction::Up, async |connection| {
        let (mut send, mut recv) = connection.accept_bi().await.unwrap();
        read(&mut recv).await;
        write(&mut send, &json!({"accepted": {"file": null}})).await;
        let mut data = connection.accept_uni().await.unwrap();
        data.read_to_end(1000).await.unwrap();
        let sent = read(&mut recv).await;
        assert_eq!(sent["bytes"], 100);
        write(&mut send, &json!({"intact": false, "report": report()})).await;
        connection.closed().await;
    })
    .await
    .unwrap_err();
    assert!(matches!(error, AppError::Mismatch), "{error}");
}

#[tokio::test]
async fn a_silent_or_talkative_server_is_given_up() {
    let silent = asked(Direction::Down, async |connection| {
        connection.closed().await;
    });
    assert!(matches!(silent.await, Err(AppError::Stalled(_))));

    let talkative = asked(Direction::Down, async |connection| {
        let (mut send, _recv) = connection.accept_bi().await.unwrap();
        let _ = send.write_all(&[b' '; 100_000]).await;
        connection.closed().await;
    });
    assert!(matches!(talkative.await, Err(AppError::Protocol(_))));
}

#[tokio::test]
async fn a_server_that_never_reads_the_data_is_given_up() {
    let error = asked_for(
        Job::new(Direction::Up, Amount::Bytes(200_000_000)),
        async |connection| {
            let (mut send, mut recv) = connection.accept_bi().await.unwrap();
            read(&mut recv).await;
            write(&mut send, &json!({"accepted": {"file": null}})).await;
            let _unread = connection.accept_uni().await.unwrap();
            connection.closed().await;
        },
    )
    .await
    .unwrap_err();
    assert!(matches!(error, AppError::Stalled(_)), "{error}");
}

#[tokio::test]
async fn a_timed_sender_ends_on_time_though_nobody_reads() {
    let amount = Amount::Duration(std::time::Duration::from_millis(300));
    let outcome = asked_for(Job::new(Direction::Up, amount), async |connection| {
        let (mut send, mut recv) = connection.accept_bi().await.unwrap();
        read(&mut recv).await;
        write(&mut send, &json!({"accepted": {"file": null}})).await;
        let _unread = connection.accept_uni().await.unwrap();
        let sent = read(&mut recv).await;
        assert!(sent["bytes"].as_u64().unwrap() > 0);
        write(&mut send, &json!({"intact": true, "report": report()})).await;
        read(&mut recv).await;
    })
    .await;
    outcome.unwrap();
}

#[tokio::test]
async fn a_refusal_is_one_printable_line() {
    let error = asked(Direction::Down, async |connection| {
        let (mut send, mut recv) = connection.accept_bi().await.unwrap();
        read(&mut recv).await;
        write(
            &mut send,
            &json!({"refused": {"reason": "no\n\x1b[31mway"}}),
        )
        .await;
        connection.closed().await;
    })
    .await
    .unwrap_err();
    assert!(matches!(&error, AppError::Refused(_)), "{error}");
    assert!(!error.to_string().contains(char::is_control), "{error:?}");
}

#[tokio::test]
async fn an_answer_that_names_a_file_nobody_asked_for_is_a_protocol_error() {
    let error = asked(Direction::Down, async |connection| {
        let (mut send, mut recv) = connection.accept_bi().await.unwrap();
        read(&mut recv).await;
        write(&mut send, &json!({"accepted": {"file": {"bytes": 5}}})).await;
        connection.closed().await;
    })
    .await
    .unwrap_err();
    assert!(matches!(error, AppError::Protocol(_)), "{error}");
}

#[tokio::test]
async fn a_server_holds_no_more_of_a_client_than_its_share_of_the_memory() {
    const LEAST: usize = 1 << 20;
    for (memory, holds_more) in [(0, false), (1 << 30, true)] {
        let pair = Pair::sharing();
        let mut options = ServeOptions::default();
        options.limits.memory = memory;
        pair.serve(options);
        let connection = pair.connect().await;
        // It has not asked for a transfer, so nobody reads this.
        let mut unread = connection.open_uni().await.unwrap();
        let mut held = 0;
        let block = [0; 64 * 1024];
        let fill = async {
            while held <= LEAST {
                held += unread.write(&block).await.unwrap();
            }
        };
        let wait = if holds_more { 20 } else { 1 };
        let _ = tokio::time::timeout(Duration::from_secs(wait), fill).await;
        assert_eq!(held > LEAST, holds_more, "{held} bytes");
    }
}

/// What our server makes of a hostile client.
async fn served(client: impl AsyncFnOnce(Connection)) -> Result<Outcome, AppError> {
    let pair = Pair::new();
    let (send, result) = oneshot::channel();
    let endpoint = pair.server.clone();
    tokio::spawn(async move {
        let connection = endpoint.accept().await.unwrap().await.unwrap();
        let (options, progress) = (impatient(Arc::new(NoFiles)), Progress::default());
        let runtime = &quinn::TokioRuntime;
        let result =
            bulk::serve_connection(&connection, runtime, &options, &progress, 1 << 25).await;
        send.send(result).unwrap();
    });
    client(pair.connect().await).await;
    result.await.unwrap()
}

/// What our client makes of a hostile server when it wants 100 bytes moved.
async fn asked(
    direction: Direction,
    server: impl AsyncFnOnce(Connection),
) -> Result<Outcome, AppError> {
    asked_for(Job::new(direction, Amount::Bytes(100)), server).await
}

async fn asked_for(job: Job, server: impl AsyncFnOnce(Connection)) -> Result<Outcome, AppError> {
    let pair = Pair::new();
    let local = Local {
        patience: std::time::Duration::from_millis(500),
        ..Local::default()
    };
    let client = async {
        let connection = pair.connect().await;
        let runtime = Arc::new(quinn::TokioRuntime);
        bulk::client(
            connection,
            runtime,
            job,
            local,
            Arc::new(Progress::default()),
        )
        .await
    };
    let server = async {
        server(pair.server.accept().await.unwrap().await.unwrap()).await;
    };
    tokio::join!(client, server).0
}

fn upload(bytes: u64, streams: u16) -> Value {
    json!({
        "direction": "up",
        "amount": {"bytes": bytes},
        "streams": streams,
        "omit_us": 0,
        "verify": "blake3",
    })
}

/// Figures as a peer might invent them.
fn report() -> Value {
    json!({
        "bytes": u64::MAX, "duration_s": 1e308, "goodput_bps": null,
        "first_1mb_s": null, "first_10mb_s": -1.0,
        "packets_sent": 0, "packets_lost": u64::MAX, "retransmitted_ratio": -1.0,
        "rtt_min_ms": -5.0, "rtt_smoothed_ms": 0.0, "window_bytes": 0,
        "congestion_events": 0, "udp_bytes_sent": 0, "udp_bytes_received": 0,
        "checksum": null,
    })
}

/// Opens the control stream and gets the request accepted.
async fn start(connection: &Connection, request: &Value) -> (SendStream, RecvStream) {
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    write(&mut send, request).await;
    assert!(read(&mut recv).await.get("accepted").is_some());
    (send, recv)
}

async fn write(send: &mut SendStream, message: &Value) {
    let json = message.to_string();
    send.write_all(&u16::try_from(json.len()).unwrap().to_be_bytes())
        .await
        .unwrap();
    send.write_all(json.as_bytes()).await.unwrap();
}

async fn read(recv: &mut RecvStream) -> Value {
    let mut length = [0; 2];
    recv.read_exact(&mut length).await.unwrap();
    let mut json = vec![0; u16::from_be_bytes(length).into()];
    recv.read_exact(&mut json).await.unwrap();
    serde_json::from_slice(&json).unwrap()
}
