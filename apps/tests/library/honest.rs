//! The bulk library over loopback UDP on tokio: honest peers.

use std::{
    io,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::pair::Pair;
use bytes::Bytes;
use evenkeel_apps::AppError;
use evenkeel_apps::bulk::{
    self, Amount, Direction, Hashing, Host, Job, Local, Outcome, Progress, ServeOptions, Sink,
    Source, Writable,
};
use futures_util::future::BoxFuture;
use quinn::Connection;
use tokio::io::AsyncWrite;

#[tokio::test]
async fn an_upload_arrives_whole_and_verified() {
    let job = Job::new(Direction::Up, Amount::Bytes(3_000_001));
    let progress = Arc::new(Progress::default());
    let outcome = run(Pair::new(), job, Local::default(), progress.clone())
        .await
        .unwrap();
    assert!(outcome.verified);
    assert_eq!(outcome.sender.bytes, 3_000_001);
    assert_eq!(outcome.receiver.bytes, 3_000_001);
    assert_eq!(outcome.sender.checksum, outcome.receiver.checksum);
    assert_eq!((progress.sent(), progress.received()), (3_000_001, 0));
    assert!(outcome.sender.udp_bytes_sent > 3_000_001);
    assert!(outcome.receiver.udp_bytes_received > 3_000_001);
    assert!(outcome.sender.packets_sent > 3_000_001 / 65_000);
    assert!(outcome.sender.rtt_smoothed_ms > 0.0);
    assert!(outcome.receiver.goodput_bps.unwrap() > 0.0);
}

#[tokio::test]
async fn a_download_over_several_streams_fills_the_sink_in_order() {
    let file = Bytes::from(
        (0..1_000_003u32)
            .map(|i| (i / 251) as u8)
            .collect::<Vec<_>>(),
    );
    for streams in [1, 2, 7, bulk::MAX_STREAMS] {
        let pair = Pair::new();
        pair.serve(ServeOptions {
            host: Arc::new(OneFile(file.clone())),
            ..ServeOptions::default()
        });
        let sink = Arc::new(MemorySink::default());
        let job = Job {
            streams,
            ..Job::new(Direction::Down, Amount::File("the file".into()))
        };
        let local = Local {
            sink: Sink::Stored(sink.clone()),
            ..Local::default()
        };
        let outcome = download(&pair, job, local).await.unwrap();
        assert!(outcome.verified);
        assert!(
            *sink.0.lock().unwrap() == file,
            "the content differs over {streams} streams"
        );
        if streams == 1 {
            assert_eq!(outcome.receiver.checksum, Some(Hashing::Blake3.of(&file)));
        }
    }
}

#[tokio::test]
async fn memory_is_uploaded_with_its_own_checksum() {
    let data = Bytes::from(vec![7u8; 123_456]);
    let job = Job::new(Direction::Up, Amount::Bytes(data.len() as u64));
    let local = Local {
        source: Source::Memory(data.clone()),
        ..Local::default()
    };
    let outcome = run(Pair::new(), job, local, Arc::default()).await.unwrap();
    assert_eq!(outcome.receiver.checksum, Some(Hashing::Blake3.of(&data)));
}

#[tokio::test]
async fn nothing_at_all_can_be_transferred() {
    for direction in [Direction::Up, Direction::Down] {
        let job = Job {
            streams: 3,
            ..Job::new(direction, Amount::Bytes(0))
        };
        let outcome = run(Pair::new(), job, Local::default(), Arc::default())
            .await
            .unwrap();
        assert_eq!(outcome.receiver.bytes, 0);
        assert!(outcome.verified);
    }
}

#[tokio::test]
async fn a_timed_transfer_ends_by_itself_and_leaves_the_warm_up_out() {
    for direction in [Direction::Up, Direction::Down] {
        let job = Job {
            streams: 2,
            omit: Duration::from_millis(100),
            verify: None,
            ..Job::new(direction, Amount::Duration(Duration::from_millis(300)))
        };
        let outcome = run(Pair::new(), job, Local::default(), Arc::default())
            .await
            .unwrap();
        assert!(!outcome.verified);
        assert_eq!(outcome.receiver.checksum, None);
        assert_eq!(outcome.sender.bytes, outcome.receiver.bytes);
        assert!(outcome.sender.duration_s >= 0.3);
        let with_warm_up = outcome.receiver.bytes as f64 * 8.0;
        let measured = outcome.receiver.duration_s - 0.1;
        assert!(outcome.receiver.goodput_bps.unwrap() * measured < with_warm_up);
    }
}

#[tokio::test]
async fn a_host_hears_of_each_connection_at_its_beginning_and_its_end() {
    let watcher = Arc::new(Watcher::default());
    let pair = Pair::new();
    pair.serve(ServeOptions {
        host: watcher.clone(),
        ..ServeOptions::default()
    });
    for direction in [Direction::Up, Direction::Down] {
        download(
            &pair,
            Job::new(direction, Amount::Bytes(10_000)),
            Local::default(),
        )
        .await
        .unwrap();
    }
    while watcher.heard().len() < 4 {
        tokio::task::yield_now().await;
    }
    let mut heard = watcher.heard();
    // The second may begin before the first's server is done.
    heard.sort_by_key(|&(id, _)| id);
    let (ids, ends): (Vec<_>, Vec<_>) = heard.into_iter().unzip();
    assert_eq!((ids[0], ids[2]), (ids[1], ids[3]));
    assert_eq!(ends, [None, Some(true), None, Some(true)]);
}

#[tokio::test]
async fn without_files_a_name_is_refused_with_a_reason() {
    let job = Job::new(Direction::Down, Amount::File("/etc/passwd".into()));
    let error = run(Pair::new(), job, Local::default(), Arc::default())
        .await
        .unwrap_err();
    assert!(
        matches!(&error, AppError::Refused(reason) if reason.contains("no files")),
        "{error}"
    );
}

#[tokio::test]
async fn a_host_may_refuse_at_any_length_and_in_any_words() {
    let pair = Pair::new();
    pair.serve(ServeOptions {
        host: Arc::new(Verbose),
        ..ServeOptions::default()
    });
    let job = Job::new(Direction::Down, Amount::File("x".into()));
    let error = download(&pair, job, Local::default()).await.unwrap_err();
    assert!(
        matches!(&error, AppError::Refused(r) if r.len() <= 300),
        "{error}"
    );
}

#[tokio::test]
async fn a_source_of_another_length_than_the_job_is_our_own_mistake() {
    let job = Job::new(Direction::Up, Amount::Bytes(10));
    let local = Local {
        source: Source::Memory(Bytes::from_static(b"nine byte")),
        ..Local::default()
    };
    let error = run(Pair::new(), job, local, Arc::default())
        .await
        .unwrap_err();
    assert!(matches!(error, AppError::Job(_)), "{error}");
}

#[tokio::test]
async fn more_connections_than_the_limit_are_refused() {
    let pair = Pair::new();
    let mut options = crate::pair::impatient(Arc::new(bulk::NoFiles));
    options.limits.connections = 1;
    pair.serve(options);
    let first = pair.connect().await;
    let address = pair.server.local_addr().unwrap();
    let second = pair.client.connect(address, "localhost").unwrap().await;
    // Its handshake may be finished before the server has counted the first.
    if let Ok(second) = second {
        let closed = second.closed().await.to_string();
        assert!(closed.contains("the server is full"), "{closed}");
    }
    drop(first);
}

#[tokio::test]
async fn a_server_cuts_a_transfer_off_at_its_longest_time() {
    let pair = Pair::new();
    let mut options = ServeOptions::default();
    options.limits.duration = Duration::from_millis(300);
    pair.serve(options);
    let job = Job::new(Direction::Up, Amount::Bytes(bulk::MAX_BYTES));
    let error = download(&pair, job, Local::default()).await.unwrap_err();
    assert!(
        matches!(&error, AppError::PeerGaveUp(r) if r.contains("longer than")),
        "{error}"
    );
}

#[tokio::test]
async fn a_full_disk_ends_the_transfer_with_its_cause() {
    let job = Job::new(Direction::Down, Amount::Bytes(1_000_000));
    let local = Local {
        sink: Sink::Stored(Arc::new(FullDisk)),
        ..Local::default()
    };
    let error = run(Pair::new(), job, local, Arc::default())
        .await
        .unwrap_err();
    assert!(matches!(error, AppError::Storage { .. }), "{error}");
}

#[test]
fn the_library_uses_no_facility_of_one_runtime() {
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/src/bulk");
    let mut paths = vec![PathBuf::from(sources)];
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).unwrap();
            paths.extend(entries.map(|entry| entry.unwrap().path()));
            continue;
        }
        // Unit tests may; so may those at the end of each file.
        if path.ends_with("tests.rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap();
        let code: String = code
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
            .collect();
        for forbidden in [
            "tokio::spawn",
            "tokio::time",
            "tokio::net",
            "tokio::fs",
            "TokioRuntime",
            "Instant::now",
        ] {
            assert!(
                !code.contains(forbidden),
                "{forbidden} in {}",
                path.display()
            );
        }
    }
}

/// Serves without files, and does one job as the client.
async fn run(
    pair: Pair,
    job: Job,
    local: Local,
    progress: Arc<Progress>,
) -> Result<Outcome, AppError> {
    pair.serve(ServeOptions::default());
    let connection = pair.connect().await;
    bulk::client(
        connection,
        Arc::new(quinn::TokioRuntime),
        job,
        local,
        progress,
    )
    .await
}

async fn download(pair: &Pair, job: Job, local: Local) -> Result<Outcome, AppError> {
    let connection = pair.connect().await;
    bulk::client(
        connection,
        Arc::new(quinn::TokioRuntime),
        job,
        local,
        Arc::default(),
    )
    .await
}

/// Offers one file under any name.
struct OneFile(Bytes);

impl Host for OneFile {
    fn open<'a>(&'a self, _name: &'a str) -> BoxFuture<'a, Result<Source, String>> {
        let source = Source::Memory(self.0.clone());
        Box::pin(async { Ok(source) })
    }
}

/// Notes each connection, and whether its transfer went well once it has ended.
#[derive(Default)]
struct Watcher(Mutex<Vec<(usize, Option<bool>)>>, Mutex<Vec<Connection>>);

impl Watcher {
    fn heard(&self) -> Vec<(usize, Option<bool>)> {
        self.0.lock().unwrap().clone()
    }
}

impl Host for Watcher {
    fn accepted(&self, connection: &Connection) {
        // Held, so that no later connection has its identifier.
        self.1.lock().unwrap().push(connection.clone());
        self.0.lock().unwrap().push((connection.stable_id(), None));
    }

    fn ended(&self, connection: &Connection, result: &Result<Outcome, AppError>) {
        let end = (connection.stable_id(), Some(result.is_ok()));
        self.0.lock().unwrap().push(end);
    }
}

/// Refuses every file in more words than a message holds.
struct Verbose;

impl Host for Verbose {
    fn open<'a>(&'a self, _name: &'a str) -> BoxFuture<'a, Result<Source, String>> {
        Box::pin(async { Err("no\n".repeat(100_000)) })
    }
}

#[derive(Default)]
struct MemorySink(Arc<std::sync::Mutex<Vec<u8>>>);

impl Writable for MemorySink {
    fn writer(
        &self,
        offset: u64,
    ) -> BoxFuture<'_, io::Result<Box<dyn AsyncWrite + Send + Sync + Unpin>>> {
        let position = usize::try_from(offset).unwrap();
        let writer = MemoryWriter {
            bytes: self.0.clone(),
            position,
        };
        Box::pin(async { Ok(Box::new(writer) as _) })
    }
}

struct MemoryWriter {
    bytes: Arc<std::sync::Mutex<Vec<u8>>>,
    position: usize,
}

impl AsyncWrite for MemoryWriter {
    fn poll_write(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        chunk: &[u8],
    ) -> std::task::Poll<io::Result<usize>> {
        let end = self.position + chunk.len();
        let bytes = self.bytes.clone();
        let mut bytes = bytes.lock().unwrap();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[self.position..end].copy_from_slice(chunk);
        self.position = end;
        std::task::Poll::Ready(Ok(chunk.len()))
    }

    fn poll_flush(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn poll_shutdown(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }
}

struct FullDisk;

impl Writable for FullDisk {
    fn writer(
        &self,
        _offset: u64,
    ) -> BoxFuture<'_, io::Result<Box<dyn AsyncWrite + Send + Sync + Unpin>>> {
        Box::pin(async { Err(io::ErrorKind::StorageFull.into()) })
    }
}
