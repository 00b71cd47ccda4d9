//! What every stack here can do: serve, and exchange bytes with a server, over loopback. Each runs on
//! a thread of its own, its two sides too.
//!
//! A client opens one bidirectional stream, sends eight bytes that say how many it wants back, then
//! its own, and ends the stream. The server reads to the end, and answers. It sends every datagram
//! back.

mod noq;
mod quiche;
mod quinn;
mod s2n;
mod streams;

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::mpsc;
use std::{env, fmt, fs, io, process, thread};

use rcgen::{CertifiedKey, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use tokio::runtime::{Builder, Runtime};

pub(crate) use self::noq::Noq;
pub(crate) use self::quiche::Quiche;
pub(crate) use self::quinn::{Evenkeel, Quinn};
pub(crate) use self::s2n::S2n;

/// Any port of this machine.
pub(crate) const LOOPBACK: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// The name in the certificate.
pub(crate) const SERVER_NAME: &str = "localhost";

/// What runs on the streams.
pub(crate) const ALPN: &[u8] = b"exchange";

/// Flow control's windows on both sides, bytes: room for any rate over loopback.
pub(crate) const WINDOW: u32 = 16 << 20;

/// The payload of a datagram, bytes.
pub(crate) const DATAGRAM: usize = 1000;

/// How many a client sends. Of these, [`DATAGRAMS_BACK`] must come back.
pub(crate) const DATAGRAMS: usize = 50;

/// Loopback loses some if a buffer is full, and a datagram is never sent again.
pub(crate) const DATAGRAMS_BACK: usize = 40;

/// Why something failed, in a line.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// Returns a failure and its causes in a line.
pub(crate) fn with_causes(failure: &(dyn Error + 'static)) -> String {
    let mut line = failure.to_string();
    let mut cause = failure.source();
    while let Some(failure) = cause {
        line = format!("{line}: {failure}");
        cause = failure.source();
    }
    line
}

/// A QUIC stack.
pub(crate) trait Stack: Sync {
    /// Its name, and its version if it is not ours.
    fn name(&self) -> String;

    /// Starts a server, which lives as long as the process.
    fn serve(&self, identity: &Identity, serving: Serving) -> Result<SocketAddr, Failure>;

    /// Exchanges bytes with a server, and checks what comes back.
    fn exchange(
        &self,
        server: SocketAddr,
        identity: &Identity,
        order: Order,
    ) -> Result<(), Failure>;

    /// Whether it can do this through its public interface.
    fn can(&self, _feature: Feature) -> bool {
        true
    }

    /// What it is known to do with ECT(1) and marks, as docs/interop.md calls it.
    fn l4s(&self) -> &'static str {
        "yes"
    }
}

/// What is tried with a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Feature {
    /// Bytes both ways.
    Transfer,
    /// Our side changes keys on the way.
    KeyUpdate,
    /// A second connection sends its request in 0-RTT packets.
    EarlyData,
    /// The server asks the client to prove its address.
    Retry,
    /// Datagrams (RFC 9221), there and back.
    Datagrams,
    /// The client's address changes on the way, as behind a NAT that forgets.
    Rebinding,
    /// Our side sends as ECT(1), and a router marks packets.
    L4s,
}

/// Client or server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

/// How to serve.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Serving {
    /// Asks every client to prove its address.
    pub(crate) retry: bool,
    /// Changes keys when a request begins.
    pub(crate) key_update: bool,
}

/// What to exchange.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order {
    /// Bytes to send.
    pub(crate) up: u64,
    /// Bytes to ask for.
    pub(crate) down: u64,
    /// Changes keys, sends in 0-RTT packets, or exchanges datagrams besides.
    pub(crate) feature: Feature,
}

impl Order {
    /// What earns a ticket for 0-RTT.
    const FIRST: Self = Self {
        up: 1000,
        down: 1000,
        feature: Feature::Transfer,
    };

    /// Checks how many bytes came back.
    fn check(&self, received: u64) -> Result<(), Failure> {
        if received != self.down {
            return Err(format!("{received} of {} bytes came back", self.down).into());
        }
        Ok(())
    }
}

/// Runs a server on a thread of its own, as long as the process lives. `start` runs there, and
/// returns the address and what is to go on.
fn on_thread<Starting, Serving>(
    start: impl FnOnce() -> Starting + Send + 'static,
) -> Result<SocketAddr, Failure>
where
    Starting: Future<Output = Result<(SocketAddr, Serving), Failure>>,
    Serving: Future<Output = ()>,
{
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let started = runtime().map(|runtime| {
            runtime.block_on(async {
                match start().await {
                    Ok((address, serving)) => {
                        let _ = tell.send(Ok(address));
                        serving.await;
                    }
                    Err(failure) => {
                        let _ = tell.send(Err(failure));
                    }
                }
            });
        });
        if let Err(failure) = started {
            let _ = tell.send(Err(failure));
        }
    });
    told.recv()?
}

/// A runtime of one thread.
fn runtime() -> Result<Runtime, Failure> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

/// The key and certificate of the servers.
pub(crate) struct Identity(CertifiedKey<KeyPair>);

impl Identity {
    pub(crate) fn new() -> Result<Self, Failure> {
        let names = [SERVER_NAME.into()];
        Ok(Self(rcgen::generate_simple_self_signed(names)?))
    }

    fn certificate(&self) -> CertificateDer<'static> {
        self.0.cert.der().clone()
    }

    fn server(&self) -> Result<rustls::ServerConfig, Failure> {
        let key = PrivatePkcs8KeyDer::from(self.0.signing_key.serialize_der());
        let mut tls = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate()], key.into())?;
        tls.alpn_protocols = vec![ALPN.to_vec()];
        // RFC 9001, section 4.6.1: this or nothing.
        tls.max_early_data_size = u32::MAX;
        Ok(tls)
    }

    fn client(&self) -> Result<rustls::ClientConfig, Failure> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate())?;
        let mut tls = rustls::ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![ALPN.to_vec()];
        tls.enable_early_data = true;
        Ok(tls)
    }

    /// The certificate and the key in PEM.
    fn pem(&self) -> (String, String) {
        (self.0.cert.pem(), self.0.signing_key.serialize_pem())
    }

    /// Writes both for stacks that read files.
    fn files(&self) -> io::Result<Files> {
        let directory = env::temp_dir().join(format!("evenkeel-peers-{}", process::id()));
        fs::create_dir_all(&directory)?;
        let files = Files {
            certificate: directory.join("certificate.pem"),
            key: directory.join("key.pem"),
        };
        let (certificate, key) = self.pem();
        fs::write(&files.certificate, certificate)?;
        fs::write(&files.key, key)?;
        Ok(files)
    }
}

struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

/// Bytes that both sides know: the one at `offset` is `offset` modulo 251.
pub(crate) struct Pattern {
    bytes: Vec<u8>,
}

impl Pattern {
    /// As much as a stack is given at once.
    const PIECE: usize = 64 << 10;

    pub(crate) fn new() -> Self {
        Self {
            bytes: (0..Self::PIECE + 251).map(|at| (at % 251) as u8).collect(),
        }
    }

    /// What is to be sent at `offset` of `length`, at most [`PIECE`](Self::PIECE).
    pub(crate) fn piece(&self, offset: u64, length: u64) -> &[u8] {
        let start = (offset % 251) as usize;
        let size = (length - offset).min(Self::PIECE as u64) as usize;
        &self.bytes[start..start + size]
    }

    /// Checks what came at `offset`.
    pub(crate) fn check(&self, offset: u64, received: &[u8]) -> Result<(), Failure> {
        let mut offset = offset;
        for part in received.chunks(Self::PIECE) {
            let end = offset + part.len() as u64;
            if self.piece(offset, end) != part {
                return Err(format!("wrong bytes between {offset} and {end}").into());
            }
            offset = end;
        }
        Ok(())
    }
}

/// A request as a server reads it, piece by piece.
#[derive(Default)]
pub(crate) struct Request {
    head: [u8; 8],
    received: u64,
}

impl Request {
    pub(crate) fn read(&mut self, pattern: &Pattern, mut received: &[u8]) -> Result<(), Failure> {
        while self.received < 8 && !received.is_empty() {
            self.head[self.received as usize] = received[0];
            self.received += 1;
            received = &received[1..];
        }
        if !received.is_empty() {
            pattern.check(self.received - 8, received)?;
        }
        self.received += received.len() as u64;
        Ok(())
    }

    /// How many bytes the client wants, once the stream has ended.
    pub(crate) fn wanted(&self) -> Result<u64, Failure> {
        if self.received < 8 {
            return Err("a request without its length".into());
        }
        Ok(u64::from_be_bytes(self.head))
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Transfer => "20 MB both ways",
            Self::KeyUpdate => "key update",
            Self::EarlyData => "0-RTT",
            Self::Retry => "Retry",
            Self::Datagrams => "datagrams",
            Self::Rebinding => "rebinding",
            Self::L4s => "L4S",
        })
    }
}
