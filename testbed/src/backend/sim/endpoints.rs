//! The two quinn endpoints of a flow, set up as the applications set theirs up.

use std::net::SocketAddr;
use std::sync::Arc;

use evenkeel::SharedFactory;
use evenkeel_apps::bulk::{self, AckFrequency, Limits, Progress, ServeOptions, TransportSettings};
use evenkeel_apps::path::HeaderUse;
use evenkeel_apps::stream;
use evenkeel_apps::trace::Traces;
use quinn::{Endpoint, EndpointConfig, QlogConfig, Runtime, ServerConfig, TransportConfig};
use rand::Rng;
use rand_pcg::Pcg64;
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::SimError;
use super::flow::Record;
use crate::random::{Purpose, generator};
use crate::scenario::{FlowSpec, Scenario};
use crate::sim::{HOP_LIMIT, SimRuntime, SimSocket, Simulation};

/// The name in the simulation's certificate.
pub(super) const SERVER_NAME: &str = "evenkeel";

/// A flow's sender and receiver, bound to their nodes; the receiver serves already.
#[derive(Debug)]
pub(super) struct Endpoints {
    pub(super) sender: Endpoint,
    pub(super) receiver_socket: Arc<SimSocket>,
    pub(super) progress: Arc<Progress>,
}

/// What a flow's endpoints are made of.
struct Parts {
    runtime: SimRuntime,
    receiver_socket: Arc<SimSocket>,
    sender_socket: Arc<SimSocket>,
    seeds: Pcg64,
    sends: evenkeel::Endpoint,
    receives: evenkeel::Endpoint,
    controller: SharedFactory,
    /// The sender's, which reports to the flow's record.
    observed: SharedFactory,
    sending: TransportSettings,
    receiving: TransportSettings,
    identity: Identity,
}

impl Parts {
    fn new(
        simulation: &Simulation,
        scenario: &Scenario,
        index: usize,
        spec: &FlowSpec,
        record: &Arc<Record>,
    ) -> Result<Self, SimError> {
        let ports = |_| SimError::Ports {
            flow: spec.name.clone(),
        };
        let receiver_socket = simulation.bind(spec.to, 0).map_err(ports)?;
        let sender_socket = simulation.bind(spec.from, 0).map_err(ports)?;
        let evenkeel = |headers: HeaderUse| {
            let paced = evenkeel::Endpoint::new().pacing(spec.pacing);
            headers.set(paced.hop_limit(HOP_LIMIT))
        };
        let headers = HeaderUse::of_every(spec.path_headers);
        let controller = controller(spec)?;
        let unasked = TransportSettings::default();
        let receiving = TransportSettings {
            mtu_discovery: spec.mtu_discovery,
            idle_timeout: spec.idle_timeout.unwrap_or(unasked.idle_timeout),
            ..unasked
        };
        Ok(Self {
            runtime: simulation.runtime(),
            receiver_socket,
            sender_socket,
            seeds: generator(scenario.seed, Purpose::Endpoint, index),
            sends: evenkeel(headers).probe_interval(spec.probe_interval),
            receives: evenkeel(headers.answer()),
            observed: evenkeel::observed(controller.clone(), record.clone()),
            controller,
            sending: TransportSettings {
                acks: AckFrequency {
                    every: spec.acks.every,
                    max_delay: spec.acks.max_delay,
                },
                ..receiving
            },
            receiving,
            identity: Identity::fixed(),
        })
    }

    /// The sender's and the receiver's settings of their connection, as the application has them made.
    fn transports(
        &self,
        application: impl Fn(TransportSettings) -> TransportConfig,
        spec: &FlowSpec,
        traces: Option<&Traces>,
    ) -> Result<(Arc<TransportConfig>, Arc<TransportConfig>), SimError> {
        let mut sending = application(self.sending);
        if let Some(traces) = traces {
            qlog(&mut sending, traces, &spec.name, &self.runtime)?;
        }
        let receiving = application(self.receiving);
        Ok((
            self.sends.transport(sending, self.observed.clone()),
            self.receives.transport(receiving, self.controller.clone()),
        ))
    }

    fn bind(
        &mut self,
        evenkeel: &evenkeel::Endpoint,
        socket: Arc<SimSocket>,
        server: Option<ServerConfig>,
    ) -> Endpoint {
        let mut config = EndpointConfig::default();
        let mut seed = [0; 32];
        self.seeds.fill_bytes(&mut seed);
        config.rng_seed(Some(seed));
        let runtime = Arc::new(self.runtime.clone());
        evenkeel
            .bind_abstract(config, server, socket, runtime)
            .expect("a virtual socket knows its address")
    }

    /// An endpoint of `evenkeel` that accepts connections with these settings.
    fn server(
        &mut self,
        evenkeel: &evenkeel::Endpoint,
        socket: Arc<SimSocket>,
        alpn: &[u8],
        transport: Arc<TransportConfig>,
    ) -> Endpoint {
        let server = evenkeel.server_config(self.identity.server(alpn), transport);
        let server = server.expect("ring has QUIC's initial cipher suite");
        self.bind(evenkeel, socket, Some(server))
    }

    /// An endpoint of `evenkeel` that makes connections with these settings.
    fn client(
        &mut self,
        evenkeel: &evenkeel::Endpoint,
        socket: Arc<SimSocket>,
        alpn: &[u8],
        transport: Arc<TransportConfig>,
    ) -> Endpoint {
        let client = evenkeel.client_config(self.identity.client(alpn), transport);
        let mut endpoint = self.bind(evenkeel, socket, None);
        endpoint.set_default_client_config(client.expect("ring has QUIC's initial cipher suite"));
        endpoint
    }
}

impl Endpoints {
    pub(super) fn bind(
        simulation: &Simulation,
        scenario: &Scenario,
        index: usize,
        spec: &FlowSpec,
        traces: Option<&Traces>,
        record: &Arc<Record>,
    ) -> Result<Self, SimError> {
        let mut parts = Parts::new(simulation, scenario, index, spec, record)?;
        let (sends, receives) = (parts.sends.clone(), parts.receives.clone());
        let runtime = parts.runtime.clone();
        let (sending, receiving) = parts.transports(bulk::transport_config, spec, traces)?;
        let (to, from) = (parts.receiver_socket.clone(), parts.sender_socket.clone());
        let receiver = parts.server(&receives, to.clone(), bulk::ALPN, receiving);
        let sender = parts.client(&sends, from, bulk::ALPN, sending);

        let progress = Arc::<Progress>::default();
        let serve = ServeOptions {
            limits: Limits {
                connections: usize::MAX,
                duration: scenario.duration,
                patience: scenario.duration,
            },
            ..ServeOptions::default()
        };
        runtime.spawn(Box::pin(bulk::serve(
            receiver,
            Arc::new(runtime.clone()),
            serve,
            progress.clone(),
        )));
        Ok(Self {
            sender,
            receiver_socket: to,
            progress,
        })
    }

    /// Where the receiver listens.
    pub(super) fn receiver(&self) -> SocketAddr {
        self.receiver_socket.address().into()
    }
}

/// The endpoints of a stream: its sender is the server, its receiver the viewer.
#[derive(Debug)]
pub(super) struct StreamEndpoints {
    pub(super) server: Endpoint,
    pub(super) server_address: SocketAddr,
    pub(super) viewer: Endpoint,
    pub(super) viewer_socket: Arc<SimSocket>,
}

impl StreamEndpoints {
    pub(super) fn bind(
        simulation: &Simulation,
        scenario: &Scenario,
        index: usize,
        spec: &FlowSpec,
        traces: Option<&Traces>,
        record: &Arc<Record>,
    ) -> Result<Self, SimError> {
        let mut parts = Parts::new(simulation, scenario, index, spec, record)?;
        let (sends, receives) = (parts.sends.clone(), parts.receives.clone());
        let (sending, receiving) = parts.transports(stream::transport_config, spec, traces)?;
        let (to, from) = (parts.receiver_socket.clone(), parts.sender_socket.clone());
        Ok(Self {
            server_address: from.address().into(),
            server: parts.server(&sends, from, stream::ALPN, sending),
            viewer: parts.client(&receives, to.clone(), stream::ALPN, receiving),
            viewer_socket: to,
        })
    }
}

/// The factory of the sender's controller.
pub(super) fn controller(spec: &FlowSpec) -> Result<SharedFactory, SimError> {
    evenkeel::controller(&spec.controller).map_err(|source| SimError::Controller {
        flow: spec.name.clone(),
        source,
    })
}

fn qlog(
    config: &mut TransportConfig,
    traces: &Traces,
    flow: &str,
    runtime: &SimRuntime,
) -> Result<(), SimError> {
    let mut qlog = QlogConfig::default();
    qlog.writer(traces.create(&format!("{flow}.qlog"))?)
        .title(Some(flow.into()))
        .start_time(runtime.epoch());
    config.qlog_stream(qlog.into_stream());
    Ok(())
}

/// Certificate and key of every simulated receiver.
struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
}

impl Identity {
    /// Always the same, and Ed25519: ECDSA signatures vary in length from run to run, and with
    /// them the handshake's bytes and all of virtual time after it. It guards nothing: both
    /// ends are in this process.
    fn fixed() -> Self {
        // RFC 8410: the PKCS #8 wrapping of a 32-byte Ed25519 seed, here 32 times 0x2a.
        const PREFIX: [u8; 16] = [
            0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22,
            0x04, 0x20,
        ];
        let key = PrivatePkcs8KeyDer::from([&PREFIX[..], &[0x2a; 32]].concat());
        let pair = KeyPair::from_pkcs8_der_and_sign_algo(&key, &rcgen::PKCS_ED25519)
            .expect("a well-formed key");
        let params = CertificateParams::new([SERVER_NAME.to_owned()]).expect("a valid name");
        let certificate = params.self_signed(&pair).expect("a key that can sign");
        Self {
            certificate: certificate.der().clone(),
            key,
        }
    }

    fn server(&self, alpn: &[u8]) -> rustls::ServerConfig {
        let mut tls = rustls::ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("ring has TLS 1.3")
            .with_no_client_auth()
            .with_single_cert(
                vec![self.certificate.clone()],
                PrivateKeyDer::Pkcs8(self.key.clone_key()),
            )
            .expect("the key is the certificate's");
        tls.alpn_protocols = vec![alpn.to_vec()];
        tls
    }

    fn client(&self, alpn: &[u8]) -> rustls::ClientConfig {
        let mut roots = rustls::RootCertStore::empty();
        roots
            .add(self.certificate.clone())
            .expect("our own certificate is well formed");
        let mut tls = rustls::ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("ring has TLS 1.3")
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![alpn.to_vec()];
        // Every connection of a flow makes the whole handshake, the first and the last alike.
        tls.resumption = rustls::client::Resumption::disabled();
        tls
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
