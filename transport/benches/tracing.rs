//! What log events cost that nobody has asked for.
//!
//! `cargo bench -p evenkeel --bench tracing -- [MEGABYTES]` counts the events of a transfer over
//! loopback with a header on every datagram, measures the CPU time of such a transfer without a
//! subscriber and that of one disabled event, and prints the share of all of them.

#[path = "../examples/tls/mod.rs"]
mod tls;

use std::error::Error;
use std::hint::black_box;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quinn::TransportConfig;
use rustix::time::{ClockId, clock_gettime};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

type Failure = Box<dyn Error + Send + Sync>;

/// Counts evenkeel's events, at all levels.
struct Counter(Arc<AtomicU64>);

impl Subscriber for Counter {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target().starts_with("evenkeel")
    }

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn main() -> Result<(), Failure> {
    // Cargo adds `--bench`.
    let megabytes = std::env::args().skip(1).find_map(|text| text.parse().ok());
    let megabytes: usize = megabytes.unwrap_or(100);
    let before = thread_cpu_s();
    transfer(megabytes)?;
    let cpu_s = thread_cpu_s() - before;
    let event_s = disabled_event_s();
    let events = Arc::new(AtomicU64::new(0));
    tracing::subscriber::with_default(Counter(events.clone()), || transfer(megabytes))?;
    let events = events.load(Ordering::Relaxed) as f64;
    println!(
        "{megabytes} MB: {cpu_s:.3} s of CPU; {events} events, each {:.2} ns while disabled: {:.4} % in all",
        event_s * 1e9,
        100.0 * events * event_s / cpu_s
    );
    Ok(())
}

/// Seconds that an event takes which nobody has asked for.
fn disabled_event_s() -> f64 {
    const ROUNDS: u64 = 100_000_000;
    let time = |work: &dyn Fn(u64)| {
        let before = thread_cpu_s();
        work(ROUNDS);
        thread_cpu_s() - before
    };
    let empty = time(&|rounds| {
        for round in 0..rounds {
            black_box(round);
        }
    });
    let events = time(&|rounds| {
        for round in 0..rounds {
            let round = black_box(round);
            tracing::trace!(connection = round, window = round, "an event");
        }
    });
    (events - empty).max(0.0) / ROUNDS as f64
}

/// Sends between two endpoints of this thread.
fn transfer(megabytes: usize) -> Result<(), Failure> {
    let (server_tls, client_tls) = tls::configs()?;
    let evenkeel = evenkeel::EndpointBuilder::new().path_headers(1);
    let transport = |controller| {
        let factory = evenkeel::controller(controller)?;
        Ok::<_, Failure>(evenkeel.transport(TransportConfig::default(), factory))
    };
    let server_config = evenkeel.server_config(server_tls, transport("cubic")?)?;
    let client_config = evenkeel.client_config(client_tls, transport("cubic")?)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let any = (Ipv4Addr::LOCALHOST, 0).into();
        let server = evenkeel.bind(any, Some(server_config))?;
        let mut client = evenkeel.bind(any, None)?;
        client.set_default_client_config(client_config);
        let to = server.local_addr()?;
        let receiver = tokio::spawn(async move {
            let incoming = server.accept().await.ok_or("the endpoint was closed")?;
            let connection = incoming.await?;
            let mut stream = connection.accept_uni().await?;
            while stream.read_chunk(usize::MAX, true).await?.is_some() {}
            connection.closed().await;
            Ok::<_, Failure>(())
        });
        let connection = client.connect(to, "localhost")?.await?;
        let mut stream = connection.open_uni().await?;
        let block = vec![0; 1_000_000];
        for _ in 0..megabytes {
            stream.write_all(&block).await?;
        }
        stream.finish()?;
        stream.stopped().await?;
        connection.close(0_u32.into(), b"done");
        client.wait_idle().await;
        receiver.await?
    })
}

/// CPU time of this thread.
fn thread_cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
