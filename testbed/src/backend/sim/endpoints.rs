//! The two quinn endpoints of a flow, set up as the applications set theirs up.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use evenkeel::{ResumeToken, SharedFactory};
use evenkeel_apps::bulk::{self, TransportSettings};
use evenkeel_apps::path::HeaderUse;
use evenkeel_apps::stream;
use evenkeel_apps::tls::{Identity, Trust};
use evenkeel_apps::trace::{Traces, Vantage};
use quinn::{
    ConnectionId, ConnectionIdGenerator, Endpoint, EndpointConfig, QlogConfig, Runtime,
    ServerConfig, TransportConfig,
};
use rand::Rng;
use rand_pcg::Pcg64;
use rcgen::{CertificateParams, KeyPair};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::PrivatePkcs8KeyDer;

use super::record::Record;
use super::{Recording, SimError};
use crate::random::{Purpose, generator};
use crate::scenario::{App, FlowSpec, Remembered, Scenario};
use crate::sim::{HOP_LIMIT, Process, SimRuntime, SimSocket, Simulation, unencrypted};

/// The name in the simulation's certificate.
pub(super) const SERVER_NAME: &str = "evenkeel";

/// Longest connection id (RFC 9000, section 17.2), in bytes; quinn's first ones have as many.
const MAX_CID_LENGTH: usize = 20;

/// What a socket holds that its process does not read: Linux's own limit, net.core.rmem_max.
const RECEIVE_BUFFER: usize = 212_992;

/// A flow's sender and receiver, bound to their nodes. The sender of a stream is the server, its
/// receiver the viewer; the sender of any other flow is the client.
#[derive(Debug)]
pub(super) struct Endpoints {
    pub(super) sender: Endpoint,
    pub(super) sender_socket: Arc<SimSocket>,
    /// In which the sender runs, and its application.
    pub(super) sending: Process,
    pub(super) receiver: Endpoint,
    pub(super) receiver_socket: Arc<SimSocket>,
    /// To which the client moves, one after the other.
    pub(super) moves: Vec<Arc<SimSocket>>,
}

impl Endpoints {
    pub(super) fn bind(
        simulation: &Simulation,
        scenario: &Scenario,
        index: usize,
        spec: &FlowSpec,
        recording: Recording<'_>,
        record: &Arc<Record>,
    ) -> Result<Self, SimError> {
        let ports = |_| SimError::Ports(spec.name.clone());
        let bind = |node| simulation.bind_ip(node, spec.ip_version, 0).map_err(ports);
        let receiver_socket = bind(spec.to)?;
        let sender_socket = bind(spec.from)?;
        let is_stream = matches!(spec.app, App::Stream(_));
        let client = if is_stream { spec.to } else { spec.from };
        let moves = spec.rebinds.iter().map(|_| bind(client));
        let moves = moves.collect::<Result<Vec<_>, _>>()?;
        if !spec.pauses.is_empty() {
            let own = if is_stream { &[][..] } else { &moves };
            let sockets = own.iter().chain([&sender_socket]);
            sockets.for_each(|socket| socket.hold_at_most(RECEIVE_BUFFER));
        }
        let application = if is_stream {
            stream::transport_config
        } else {
            bulk::transport_config
        };
        let controller = controller(scenario, spec)?;
        let runtime = simulation.runtime();
        let headers = HeaderUse::of_every(spec.path_headers);
        let endpoint = |headers: HeaderUse| {
            let paced = evenkeel::EndpointBuilder::new().pacing(spec.pacing);
            headers.set(paced.hop_limit(HOP_LIMIT))
        };

        let unasked = TransportSettings::default();
        let receiving = TransportSettings {
            mtu_discovery: spec.mtu_discovery,
            idle_timeout: spec.idle_timeout.unwrap_or(unasked.idle_timeout),
            ..unasked
        };
        let mut sending = application(TransportSettings {
            acks: spec.acks,
            losses: spec.losses,
            ..receiving
        });
        if let Some(traces) = recording.traces {
            let vantage = match is_stream {
                true => Vantage::Server,
                false => Vantage::Client,
            };
            qlog(&mut sending, traces, &spec.name, vantage, &runtime)?;
        }
        let mut sends = endpoint(headers)
            .probe_interval(spec.probe_interval)
            .ecn(spec.ecn);
        if let Some(remembered) = spec.remembered {
            sends = remembering(sends, remembered, spec);
        }
        let observed = evenkeel::observed(controller.clone(), record.clone());
        let process = Process::new(runtime.clone(), spec.pauses.iter().copied());
        let sending = Half {
            process: process.clone(),
            transport: sends.transport(sending, observed),
            socket: sender_socket.clone(),
            evenkeel: sends,
        };
        let receives = endpoint(headers.answer());
        let receiving = Half {
            process: Process::new(runtime.clone(), []),
            transport: receives.transport(application(receiving), controller),
            socket: receiver_socket.clone(),
            evenkeel: receives,
        };

        let mut binder = Binder {
            runtime,
            seeds: generator(scenario.seed, Purpose::Endpoint, index),
            ids: ConnectionIds::of(scenario.seed, index),
            alpn: if is_stream { stream::ALPN } else { bulk::ALPN },
            provider: match recording.encrypts {
                true => Arc::new(rustls::crypto::ring::default_provider()),
                false => unencrypted(),
            },
        };
        // The server is bound first.
        let times = spec
            .rebinds
            .iter()
            .copied()
            .zip(moves.iter().cloned())
            .collect();
        let (sender, receiver) = if is_stream {
            let sender = binder.server(sending);
            (sender, binder.client(receiving, times))
        } else {
            let receiver = binder.server(receiving);
            (binder.client(sending, times), receiver)
        };
        Ok(Self {
            sender,
            sender_socket,
            sending: process,
            receiver,
            receiver_socket,
            moves,
        })
    }
}

/// Returns `endpoint` with a memory of the path to the other host. Simulations have no calendar: it
/// is of this second.
fn remembering(
    endpoint: evenkeel::EndpointBuilder,
    remembered: Remembered,
    spec: &FlowSpec,
) -> evenkeel::EndpointBuilder {
    // Of packets of 1200 bytes, without their headers.
    let payload = 1200.0 / (1200 + spec.ip_version.header_bytes()) as f64;
    let rate = (remembered.rate_bps as f64 / 8.0 * payload) as u64;
    let (peer, now) = (IpAddr::V4(Ipv4Addr::LOCALHOST), SystemTime::UNIX_EPOCH);
    let memory = ResumeToken::new(peer, rate, remembered.min_rtt, now);
    let streams = u16::try_from(spec.streams).unwrap_or(u16::MAX);
    endpoint.resuming(&memory, peer, streams, now)
}

/// One side of a flow before it is bound.
struct Half {
    process: Process,
    evenkeel: evenkeel::EndpointBuilder,
    transport: Arc<TransportConfig>,
    socket: Arc<SimSocket>,
}

/// Draws a flow's connection ids, which its qlog shows: the system's would differ from run to run.
#[derive(Debug, Clone)]
struct ConnectionIds(Arc<Mutex<Pcg64>>);

impl ConnectionIds {
    /// Bytes of an id, as many as quinn's own have; a server's first one has at least 8 (RFC 9000,
    /// section 7.2).
    const LENGTH: usize = 8;

    fn of(seed: u64, index: usize) -> Self {
        let generator = generator(seed, Purpose::ConnectionId, index);
        Self(Arc::new(Mutex::new(generator)))
    }

    fn draw<const LENGTH: usize>(&self) -> ConnectionId {
        let mut id = [0; LENGTH];
        let mut generator = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        generator.fill_bytes(&mut id);
        ConnectionId::new(&id)
    }
}

impl ConnectionIdGenerator for ConnectionIds {
    fn generate_cid(&mut self) -> ConnectionId {
        self.draw::<{ Self::LENGTH }>()
    }

    fn cid_len(&self) -> usize {
        Self::LENGTH
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// Binds the two endpoints of a flow, the server first: each draws a seed.
struct Binder {
    runtime: SimRuntime,
    seeds: Pcg64,
    ids: ConnectionIds,
    alpn: &'static [u8],
    /// TLS, and how packets are protected.
    provider: Arc<CryptoProvider>,
}

impl Binder {
    fn server(&mut self, half: Half) -> Endpoint {
        half.socket.serve_quic();
        let tls = server_tls(self.provider.clone(), self.alpn);
        let server = half.evenkeel.server_config(tls, half.transport.clone());
        let mut server = server.expect("ring has QUIC's initial cipher suite");
        // A machine that simulates slowly must not let tokens expire.
        server.time_source(Arc::new(self.runtime.clone()));
        self.bind(&half, Some(server))
    }

    /// The client; at each of the times of `moves` it goes on with that socket.
    fn client(&mut self, half: Half, moves: Vec<(Duration, Arc<SimSocket>)>) -> Endpoint {
        let tls = client_tls(self.provider.clone(), self.alpn);
        let client = half.evenkeel.client_config(tls, half.transport.clone());
        let mut client = client.expect("ring has QUIC's initial cipher suite");
        let ids = self.ids.clone();
        client.initial_dst_cid_provider(Arc::new(move || ids.draw::<MAX_CID_LENGTH>()));
        let mut endpoint = self.bind(&half, None);
        endpoint.set_default_client_config(client);
        if moves.is_empty() {
            return endpoint;
        }
        let (
            moving,
            Half {
                process, evenkeel, ..
            },
        ) = (endpoint.clone(), half);
        process.clone().spawn(Box::pin(async move {
            for (at, socket) in moves {
                process.sleep_until(process.epoch() + at).await;
                let socket = evenkeel.wrap_socket(socket, Arc::new(process.clone()));
                let moved = moving.rebind_abstract(socket);
                moved.expect("a virtual socket knows its address");
            }
        }));
        endpoint
    }

    fn bind(&mut self, half: &Half, server: Option<ServerConfig>) -> Endpoint {
        let mut config = EndpointConfig::default();
        let mut seed = [0; 32];
        self.seeds.fill_bytes(&mut seed);
        config.rng_seed(Some(seed));
        let ids = self.ids.clone();
        config.cid_generator(move || Box::new(ids.clone()));
        let runtime = Arc::new(half.process.clone());
        half.evenkeel
            .bind_abstract(config, server, half.socket.clone(), runtime)
            .expect("a virtual socket knows its address")
    }
}

/// The factory of the sender's controller. A kernel's own TCP has none here.
pub(super) fn controller(scenario: &Scenario, spec: &FlowSpec) -> Result<SharedFactory, SimError> {
    if let App::Tcp { .. } = spec.app {
        return Err(SimError::KernelTcp(spec.name.clone()));
    }
    let factory = scenario.controllers.factory(&spec.controller);
    factory.map_err(|error| {
        SimError::Controller(spec.controller_place.clone(), spec.name.clone(), error)
    })
}

fn qlog(
    config: &mut TransportConfig,
    traces: &Traces,
    flow: &str,
    vantage: Vantage,
    runtime: &SimRuntime,
) -> Result<(), SimError> {
    let mut qlog = QlogConfig::default();
    qlog.writer(traces.create(&format!("{flow}.sqlog"), vantage)?)
        .title(Some(flow.into()))
        .start_time(runtime.epoch());
    config.qlog_stream(qlog.into_stream());
    Ok(())
}

/// The file that the environment variable SSLKEYLOGFILE names, opened once for all flows; without
/// it nothing is logged.
static KEY_LOG: LazyLock<Arc<rustls::KeyLogFile>> =
    LazyLock::new(|| Arc::new(rustls::KeyLogFile::new()));

/// Certificate and key of every simulated server. Always the same, and Ed25519: ECDSA signatures vary
/// in length from run to run, and with them the handshake's bytes and all of virtual time after it. It
/// guards nothing: both ends are in this process.
static IDENTITY: LazyLock<Identity> = LazyLock::new(|| {
    // RFC 8410: the PKCS #8 wrapping of a 32-byte Ed25519 seed, here 32 times 0x2a.
    const PREFIX: [u8; 16] = [
        0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04,
        0x20,
    ];
    let key = PrivatePkcs8KeyDer::from([&PREFIX[..], &[0x2a; 32]].concat());
    let key = KeyPair::from_pkcs8_der_and_sign_algo(&key, &rcgen::PKCS_ED25519);
    let key = key.expect("a well-formed key");
    let params = CertificateParams::new([SERVER_NAME.to_owned()]).expect("a valid name");
    let certificate = params.self_signed(&key).expect("a key that can sign");
    Identity::from_pem(certificate.pem().as_bytes(), key.serialize_pem().as_bytes())
        .expect("what rcgen writes is PEM")
});

fn server_tls(provider: Arc<CryptoProvider>, alpn: &[u8]) -> rustls::ServerConfig {
    let tls = IDENTITY.clone().server_by(provider, alpn);
    let tls = tls.expect("the key is the certificate's");
    let mut tls = Arc::unwrap_or_clone(tls);
    // A client knows all secrets; a server need not log them again.
    tls.key_log = Arc::new(rustls::NoKeyLog {});
    tls
}

fn client_tls(provider: Arc<CryptoProvider>, alpn: &[u8]) -> rustls::ClientConfig {
    let tls = Trust::Anybody.client_by(provider, alpn);
    let (tls, _) = tls.expect("it has no authorities");
    let mut tls = Arc::unwrap_or_clone(tls);
    tls.key_log = KEY_LOG.clone();
    // Every connection of a flow makes the whole handshake, the first and the last alike.
    tls.resumption = rustls::client::Resumption::disabled();
    tls
}
