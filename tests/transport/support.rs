//! Two evenkeel endpoints on a simulated path, and a record of what leaves them.

use std::collections::BTreeMap;
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use evenkeel::SharedFactory;
use evenkeel::controller::{Congestion, Controller};
use evenkeel_testbed::scenario::{FlowBuilder, LinkBuilder, NodeIndex, Scenario, Value};
use evenkeel_testbed::sim::{SimRuntime, Simulation, simulation};
use evenkeel_wire::{PATH_HEADER_MAGIC, PathHeaderMut};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use quinn::rustls::{self, RootCertStore};
use quinn::udp::{EcnCodepoint, RecvMeta, Transmit};
use quinn::{
    AsyncUdpSocket, ClientConfig, EndpointConfig, Runtime, ServerConfig, TransportConfig, UdpPoller,
};

/// A network of one flow: its sender, its receiver, and the path between them.
pub(crate) struct Net {
    pub(crate) simulation: Simulation,
    scenario: Scenario,
    endpoints: u8,
}

impl Net {
    /// A bottleneck of `rate_bps` with a queue of 50 packets, a round trip of four times
    /// `quarter_rtt_ms` ms, access links hundred times as fast.
    pub(crate) fn new(rate_bps: u64, quarter_rtt_ms: f64) -> Self {
        Self::with_mtu(rate_bps, quarter_rtt_ms, 1500)
    }

    /// And IP packets of at most `mtu` bytes.
    pub(crate) fn with_mtu(rate_bps: u64, quarter_rtt_ms: f64, mtu: u16) -> Self {
        Self::with(rate_bps, quarter_rtt_ms, mtu, |link| link)
    }

    /// And another bottleneck: `change` gets that of the others.
    pub(crate) fn with(
        rate_bps: u64,
        quarter_rtt_ms: f64,
        mtu: u16,
        change: impl FnOnce(LinkBuilder) -> LinkBuilder,
    ) -> Self {
        Self::stamping(rate_bps, quarter_rtt_ms, mtu, &[], change)
    }

    /// And every link stamps.
    pub(crate) fn stamping(
        rate_bps: u64,
        quarter_rtt_ms: f64,
        mtu: u16,
        stamps: &[&str],
        change: impl FnOnce(LinkBuilder) -> LinkBuilder,
    ) -> Self {
        let access = [
            ("rate_bps", Value::from(rate_bps as f64 * 100.0)),
            ("delay_ms", Value::from(quarter_rtt_ms / 2.0)),
            ("stamps", Value::from(stamps.to_vec())),
        ];
        let bottleneck = LinkBuilder::new("bottleneck")
            .rate_bps(rate_bps)
            .delay(Duration::from_secs_f64(quarter_rtt_ms / 1e3))
            .queue_packets(50)
            .stamps(stamps);
        let scenario = Scenario::builder("two-hosts", Duration::from_secs(1000))
            .set("mtu", i64::from(mtu))
            .set("topology", "dumbbell")
            .set("access", BTreeMap::from(access))
            .link(change(bottleneck))
            .flow(FlowBuilder::bulk("flow", "reno"))
            .build()
            .unwrap_or_else(|error| panic!("{error}"));
        let simulation = simulation(&scenario).unwrap_or_else(|error| panic!("{error}"));
        Self {
            simulation,
            scenario,
            endpoints: 0,
        }
    }

    /// A socket on one of the hosts, which writes down what it sends.
    pub(crate) fn socket(&self, on: Host) -> Arc<Recorder> {
        let flow = &self.scenario.flows[0];
        let node = match on {
            Host::Sender => flow.from,
            Host::Receiver => flow.to,
            Host::Router => {
                let nodes = (0..self.scenario.nodes.len()).map(NodeIndex);
                let mut others = nodes.filter(|node| *node != flow.from && *node != flow.to);
                others.next().expect("a bottleneck has two ends")
            }
        };
        Arc::new(Recorder {
            inner: self.simulation.bind(node, 0).expect("a free port"),
            runtime: self.simulation.runtime(),
            departures: Mutex::default(),
            fate: Fates::default(),
            recoding: Recoding::default(),
        })
    }

    /// The configuration of the next endpoint: another seed for each.
    pub(crate) fn endpoint_config(&mut self) -> EndpointConfig {
        self.endpoints += 1;
        let mut config = EndpointConfig::default();
        config.rng_seed(Some([self.endpoints; 32]));
        config
    }

    pub(crate) fn runtime(&self) -> Arc<SimRuntime> {
        Arc::new(self.simulation.runtime())
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.simulation.runtime().spawn(Box::pin(task));
    }

    pub(crate) fn run_for(&mut self, time: Duration) {
        let until = self.simulation.runtime().elapsed() + time;
        self.simulation.run_until(until);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Host {
    Sender,
    Receiver,
    /// The near end of the bottleneck.
    Router,
}

/// A datagram that left.
#[derive(Debug, Clone)]
pub(crate) struct Departure {
    pub(crate) at: Instant,
    pub(crate) bytes: usize,
    /// It begins with a path header.
    pub(crate) headed: bool,
    /// How many were sent at once.
    pub(crate) batch: usize,
    pub(crate) ecn: Option<EcnCodepoint>,
}

/// What becomes of a datagram on its way: nothing, itself, something else, several.
pub(crate) type Fate = dyn FnMut(&[u8]) -> Vec<Vec<u8>> + Send;

/// A simulated socket that writes down what it sends.
#[derive(Debug)]
pub(crate) struct Recorder {
    inner: Arc<dyn AsyncUdpSocket>,
    runtime: SimRuntime,
    departures: Mutex<Vec<Departure>>,
    fate: Fates,
    recoding: Recoding,
}

/// What becomes of a datagram's ECN codepoint on its way.
type Recode = dyn FnMut(Option<EcnCodepoint>) -> Option<EcnCodepoint> + Send;

#[derive(Default)]
struct Recoding(Mutex<Option<Box<Recode>>>);

impl std::fmt::Debug for Recoding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Recoding")
    }
}

#[derive(Default)]
struct Fates(Mutex<Option<Box<Fate>>>);

impl std::fmt::Debug for Fates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Fates")
    }
}

impl Recorder {
    /// From now on this happens to what is sent, after it was written down.
    pub(crate) fn interfere(&self, fate: impl FnMut(&[u8]) -> Vec<Vec<u8>> + Send + 'static) {
        *self.fate.0.lock().expect("no test panics in here") = Some(Box::new(fate));
    }

    /// From now on this happens to the ECN codepoint of each datagram, after it was written down.
    pub(crate) fn recode(
        &self,
        recode: impl FnMut(Option<EcnCodepoint>) -> Option<EcnCodepoint> + Send + 'static,
    ) {
        *self.recoding.0.lock().expect("no test panics in here") = Some(Box::new(recode));
    }

    /// What has left since this was last asked.
    pub(crate) fn take(&self) -> Vec<Departure> {
        std::mem::take(&mut self.departures.lock().expect("no test panics in here"))
    }
}

impl AsyncUdpSocket for Recorder {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        self.inner.clone().create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let segment = transmit.segment_size.unwrap_or(transmit.contents.len());
        let datagrams = transmit.contents.chunks(segment);
        let batch = datagrams.len();
        let mut departures = self.departures.lock().expect("no test panics in here");
        departures.extend(datagrams.clone().map(|datagram| Departure {
            at: self.runtime.now(),
            bytes: datagram.len(),
            headed: datagram.starts_with(&PATH_HEADER_MAGIC),
            batch,
            ecn: transmit.ecn,
        }));
        drop(departures);
        let mut fate = self.fate.0.lock().expect("no test panics in here");
        let mut recoding = self.recoding.0.lock().expect("no test panics in here");
        if fate.is_none() && recoding.is_none() {
            return self.inner.try_send(transmit);
        }
        let mut fated = |datagram: &[u8]| match &mut *fate {
            Some(fate) => fate(datagram),
            None => vec![datagram.to_vec()],
        };
        for contents in datagrams.flat_map(&mut fated) {
            let ecn = match &mut *recoding {
                Some(recode) => recode(transmit.ecn),
                None => transmit.ecn,
            };
            self.inner.try_send(&Transmit {
                contents: &contents,
                segment_size: None,
                ecn,
                ..*transmit
            })?;
        }
        Ok(())
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.inner.poll_recv(cx, bufs, meta)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.inner.max_transmit_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

/// What a router does to the header of a datagram, if it has one.
pub(crate) fn stamped(datagram: &[u8], stamp: impl Fn(&mut PathHeaderMut<'_>)) -> Vec<Vec<u8>> {
    if !datagram.starts_with(&PATH_HEADER_MAGIC) {
        return vec![datagram.to_vec()];
    }
    let len = |len: usize| (len as u16).to_be_bytes();
    let (ip, udp) = (len(datagram.len() + 28), len(datagram.len() + 8));
    let mut packet = vec![0x45, 0, ip[0], ip[1], 0, 0, 0, 0, 63, 17, 0, 0];
    packet.extend([10, 0, 0, 1, 10, 0, 0, 2, 0, 1, 0, 2, udp[0], udp[1], 0, 0]);
    packet.extend(datagram);
    // All but the headers of kind 0.
    if let Ok(mut header) = PathHeaderMut::find(&mut packet) {
        stamp(&mut header);
    }
    vec![packet.split_off(28)]
}

/// A certificate whose signatures always have the same length, so that runs repeat.
pub(crate) fn identity() -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
    let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("ring makes Ed25519 keys");
    let params = rcgen::CertificateParams::new(["localhost".to_owned()]).expect("a valid name");
    let certificate = params
        .self_signed(&pair)
        .expect("a key that can sign")
        .der()
        .clone();
    (
        certificate,
        PrivatePkcs8KeyDer::from(pair.serialize_der()).into(),
    )
}

pub(crate) fn server_tls(
    identity: &(CertificateDer<'static>, PrivateKeyDer<'static>),
) -> rustls::ServerConfig {
    let mut config = rustls::ServerConfig::builder_with_provider(Arc::new(
        rustls::crypto::ring::default_provider(),
    ))
    .with_protocol_versions(&[&rustls::version::TLS13])
    .expect("ring has TLS 1.3")
    .with_no_client_auth()
    .with_single_cert(vec![identity.0.clone()], identity.1.clone_key())
    .expect("the key is the certificate's");
    config.max_early_data_size = u32::MAX;
    config
}

pub(crate) fn client_tls(
    identity: &(CertificateDer<'static>, PrivateKeyDer<'static>),
) -> rustls::ClientConfig {
    let mut roots = RootCertStore::empty();
    roots
        .add(identity.0.clone())
        .expect("a well-formed certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("ring has TLS 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.enable_early_data = true;
    config
}

/// What quinn makes of `server_tls`.
pub(crate) fn stock_server(
    tls: rustls::ServerConfig,
    transport: Arc<TransportConfig>,
) -> ServerConfig {
    let crypto = QuicServerConfig::try_from(tls).expect("ring has the initial cipher suite");
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(transport);
    config
}

/// What quinn makes of `client_tls`.
pub(crate) fn stock_client(
    tls: rustls::ClientConfig,
    transport: Arc<TransportConfig>,
) -> ClientConfig {
    let crypto = QuicClientConfig::try_from(tls).expect("ring has the initial cipher suite");
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(transport);
    config
}

/// Accepts connections and reads their streams to the end, for ever.
pub(crate) async fn sink(endpoint: quinn::Endpoint, runtime: Arc<SimRuntime>) {
    while let Some(incoming) = endpoint.accept().await {
        let Ok(connection) = incoming.await else {
            continue;
        };
        runtime.spawn(Box::pin(drain(connection, Arc::default())));
    }
}

/// Reads all streams of a connection until it ends, and counts their bytes.
pub(crate) async fn drain(connection: quinn::Connection, received: Arc<AtomicU64>) {
    while let Ok(mut stream) = connection.accept_uni().await {
        while let Ok(Some(chunk)) = stream.read_chunk(usize::MAX, true).await {
            received.fetch_add(chunk.bytes.len() as u64, Ordering::Relaxed);
        }
    }
}

/// Connects and sends without end, until the connection ends.
pub(crate) async fn flood(connection: quinn::Connection) {
    let Ok(mut stream) = connection.open_uni().await else {
        return;
    };
    let block = vec![0; 64 * 1024];
    while stream.write_all(&block).await.is_ok() {}
}

/// A controller that wants one rate for ever.
#[derive(Debug, Clone)]
struct Constant {
    /// Bytes per second.
    rate: u64,
    /// Bytes.
    window: u64,
}

impl Controller for Constant {
    fn on_congestion(&mut self, _: &Congestion) {}
    fn on_persistent_congestion(&mut self) {}
    fn on_mtu(&mut self, _: u16) {}
    fn window(&self) -> u64 {
        self.window
    }
    fn pacing_rate(&self) -> Option<u64> {
        Some(self.rate)
    }
    fn slow_start_threshold(&self) -> Option<u64> {
        None
    }
}

/// A factory of those; rate in bytes per second, window in bytes.
pub(crate) fn constant(rate: u64, window: u64) -> SharedFactory {
    evenkeel::controller::adapt(move |_, _| Box::new(Constant { rate, window }))
}
