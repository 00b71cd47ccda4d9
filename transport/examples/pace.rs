//! How evenly a paced connection's packets leave, over a network of the kernel's.
//!
//! `pace server ADDRESS CERTIFICATE` listens, and writes its certificate to a file. `pace client
//! ADDRESS CERTIFICATE BITS_PER_S SECONDS` sends to it at that rate of IP packets and prints the
//! rate that came out. `pace bursts` reads what `tcpdump -tt --nano -nnq` printed of the client's
//! packets and prints how many left together. docs/performance.md has the commands.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, BufRead};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use evenkeel::controller::{Congestion, Controller};
use quinn::rustls::pki_types::pem::PemObject;
use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use quinn::rustls::{self, RootCertStore};
use quinn::{Runtime, TokioRuntime, TransportConfig};

type Failure = Box<dyn Error + Send + Sync>;

/// UDP payload of a full-size packet without path MTU discovery, and its IPv4 and UDP headers.
const PAYLOAD: u64 = 1200;
const HEADERS: u64 = 28;

/// Packets closer together left in one burst.
const APART: Duration = Duration::from_micros(50);

/// What the beginning of a connection sends is not counted: handshake, first round trips.
const WARM_UP: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pace: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["server", address, certificate] => {
            block_on(receive(address.parse()?, Path::new(certificate)))
        }
        ["client", address, certificate, rate, seconds] => block_on(send(
            address.parse()?,
            Path::new(certificate),
            rate.parse()?,
            Duration::from_secs(seconds.parse()?),
        )),
        ["bursts"] => bursts(io::stdin().lock()),
        _ => Err("write server ADDRESS CERTIFICATE, client ADDRESS CERTIFICATE BITS_PER_S SECONDS, or bursts".into()),
    }
}

fn block_on(task: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(task)
}

async fn receive(address: SocketAddr, certificate: &Path) -> Result<(), Failure> {
    let identity = rcgen::generate_simple_self_signed(["pace".into()])?;
    let key = PrivatePkcs8KeyDer::from(identity.signing_key.serialize_der());
    let tls = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![identity.cert.der().clone()], key.into())?;
    let evenkeel = evenkeel::EndpointBuilder::new();
    let transport = evenkeel.transport(TransportConfig::default(), evenkeel::controller("reno")?);
    let server = evenkeel.bind(address, Some(evenkeel.server_config(tls, transport)?))?;
    std::fs::write(certificate, identity.cert.pem())?;
    let connection = server
        .accept()
        .await
        .ok_or("the endpoint was closed")?
        .await?;
    let mut stream = connection.accept_uni().await?;
    while let Ok(Some(_)) = stream.read_chunk(usize::MAX, true).await {}
    connection.closed().await;
    Ok(())
}

async fn send(
    to: SocketAddr,
    certificate: &Path,
    bits_per_s: u64,
    time: Duration,
) -> Result<(), Failure> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(certificate)?)?;
    let tls = rustls::ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let asked = bits_per_s / 8 * PAYLOAD / (PAYLOAD + HEADERS);
    let factory = evenkeel::controller::adapt(move |_, _| Box::new(Fixed { rate: asked }));
    let evenkeel = evenkeel::EndpointBuilder::new();
    let mut transport = TransportConfig::default();
    transport.mtu_discovery_config(None);
    let transport = evenkeel.transport(transport, factory);
    let mut client = evenkeel.bind((Ipv4Addr::UNSPECIFIED, 0).into(), None)?;
    client.set_default_client_config(evenkeel.client_config(tls, transport)?);
    let connection = client.connect(to, "pace")?.await?;
    let mut stream = connection.open_uni().await?;
    let writer = tokio::spawn(async move {
        let block = vec![0; 100_000];
        while stream.write_all(&block).await.is_ok() {}
    });

    wait(WARM_UP).await;
    let sent = || connection.stats().udp_tx;
    let (before, start) = (sent(), TokioRuntime.now());
    wait(time).await;
    let (after, elapsed) = (sent(), TokioRuntime.now() - start);
    let bytes = after.bytes - before.bytes + HEADERS * (after.datagrams - before.datagrams);
    let rate = bytes as f64 * 8.0 / elapsed.as_secs_f64();
    println!(
        "asked for {bits_per_s} bit/s, sent {rate:.0}: {:.4}",
        rate / bits_per_s as f64
    );
    writer.abort();
    connection.close(0_u32.into(), b"done");
    client.wait_idle().await;
    Ok(())
}

async fn wait(time: Duration) {
    let mut timer = TokioRuntime.new_timer(TokioRuntime.now() + time);
    std::future::poll_fn(|context| timer.as_mut().poll(context)).await;
}

/// The same rate whatever happens.
#[derive(Debug, Clone)]
struct Fixed {
    /// UDP payload, bytes per second.
    rate: u64,
}

impl Controller for Fixed {
    fn on_congestion(&mut self, _: &Congestion) {}

    fn on_persistent_congestion(&mut self) {}

    fn on_mtu(&mut self, _: u16) {}

    /// Two seconds' worth, so that the rate alone decides.
    fn window(&self) -> u64 {
        (2 * self.rate).max(100 * PAYLOAD)
    }

    fn pacing_rate(&self) -> Option<u64> {
        Some(self.rate)
    }

    fn slow_start_threshold(&self) -> Option<u64> {
        None
    }
}

/// Prints how many bursts had how many packets. Only full-size packets count: ACKs and the
/// handshake are nobody's to pace.
fn bursts(lines: impl BufRead) -> Result<(), Failure> {
    let mut sizes = BTreeMap::<u64, u64>::new();
    let mut burst: Option<(f64, u64)> = None;
    let mut first = None;
    for line in lines.lines() {
        let line = line?;
        let Some((time, payload)) = packet(&line) else {
            continue;
        };
        if payload < PAYLOAD || time - *first.get_or_insert(time) < WARM_UP.as_secs_f64() {
            continue;
        }
        // A batch that the kernel has not divided yet is that many packets at once.
        let packets = payload.div_ceil(PAYLOAD);
        burst = match burst {
            Some((last, so_far)) if time - last < APART.as_secs_f64() => {
                Some((time, so_far + packets))
            }
            ended => {
                if let Some((_, packets)) = ended {
                    *sizes.entry(packets).or_default() += 1;
                }
                Some((time, packets))
            }
        };
    }
    if let Some((_, packets)) = burst {
        *sizes.entry(packets).or_default() += 1;
    }
    let all: u64 = sizes.values().sum();
    let small: u64 = sizes.range(..=2).map(|(_, count)| count).sum();
    println!(
        "{all} bursts, {:.2} % of at most 2 packets; packets: bursts {sizes:?}",
        small as f64 * 100.0 / all as f64
    );
    Ok(())
}

/// Seconds and bytes of UDP payload of a line of tcpdump's.
fn packet(line: &str) -> Option<(f64, u64)> {
    let (time, rest) = line.split_once(' ')?;
    let (_, length) = rest.split_once("UDP, length ")?;
    Some((time.parse().ok()?, length.trim().parse().ok()?))
}
