//! Makes a round-trip estimator of noq, which only noq's connections can: its constructor is
//! private, but it can be copied. A connection to nowhere is begun in memory, and told which round
//! trip to expect; its controller is shown the estimator with the first ACK.

use std::any::Any;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use noq_proto::congestion::{Controller, ControllerFactory};
use noq_proto::{
    ClientConfig, Connection, DatagramEvent, Endpoint, EndpointConfig, FourTuple, RttEstimator,
    ServerConfig, TransportConfig,
};
use rcgen::generate_simple_self_signed;
use rustls::RootCertStore;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// The one made last: most connections begin with the same guess.
static LAST: Mutex<Option<(Duration, RttEstimator)>> = Mutex::new(None);

/// The estimator of a connection at its first ACK, when it says `smoothed_rtt`.
pub(super) fn that_says(smoothed_rtt: Duration, now: Instant) -> RttEstimator {
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((said, estimator)) = *last
        && said == smoothed_rtt
    {
        return estimator;
    }
    let estimator = witnessed(smoothed_rtt, now);
    *last = Some((smoothed_rtt, estimator));
    estimator
}

fn witnessed(initial_rtt: Duration, now: Instant) -> RttEstimator {
    let seen = Arc::<OnceLock<RttEstimator>>::default();
    let (client_config, server_config) = configs(initial_rtt, Witness(seen.clone()));
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let path = FourTuple::from_remote(address);
    let endpoint = |server| Endpoint::new(Arc::new(EndpointConfig::default()), server, false);
    let (mut client, mut server) = (endpoint(None), endpoint(Some(Arc::new(server_config))));

    let (_, mut begun) = client
        .connect(now, client_config, address, NAME)
        .expect("the configuration is right");
    let mut accepted = None;
    let mut unused = Vec::new();
    for datagram in datagrams(&mut begun, now) {
        match server.handle(now, path, None, datagram, &mut unused) {
            Some(DatagramEvent::NewConnection(incoming)) => {
                let connection = server.accept(incoming, now, &mut unused, None);
                let (_, connection) = connection.expect("the server takes every connection");
                accepted = Some(connection);
            }
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some(connection) = &mut accepted {
                    connection.handle_event(event);
                }
            }
            _ => {}
        }
    }
    let mut accepted = accepted.expect("the client's first datagram begins a connection");
    for datagram in datagrams(&mut accepted, now) {
        let event = client.handle(now, path, None, datagram, &mut unused);
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
            begun.handle_event(event);
        }
    }
    *seen
        .get()
        .expect("the server's first datagram acknowledges the client's")
}

const NAME: &str = "nowhere";

fn configs(initial_rtt: Duration, witness: Witness) -> (ClientConfig, ServerConfig) {
    let identity = generate_simple_self_signed([NAME.to_owned()]).expect("a valid name");
    let certificate = identity.cert.der().clone();
    let mut roots = RootCertStore::empty();
    roots
        .add(certificate.clone())
        .expect("our own certificate is well formed");
    let mut client = ClientConfig::with_root_certificates(Arc::new(roots))
        .expect("there is a root to verify with");
    let mut transport = TransportConfig::default();
    transport
        .initial_rtt(initial_rtt)
        .congestion_controller_factory(Arc::new(witness));
    client.transport_config(Arc::new(transport));
    let key = PrivatePkcs8KeyDer::from(identity.signing_key.serialize_der());
    let server = ServerConfig::with_single_cert(vec![certificate], PrivateKeyDer::Pkcs8(key))
        .expect("the key is the certificate's");
    (client, server)
}

/// All that a connection has to send.
fn datagrams(connection: &mut Connection, now: Instant) -> Vec<BytesMut> {
    let mut datagrams = Vec::new();
    loop {
        let mut buffer = Vec::new();
        let Some(transmit) = connection.poll_transmit(now, NonZeroUsize::MIN, &mut buffer) else {
            return datagrams;
        };
        datagrams.push(BytesMut::from(&buffer[..transmit.size]));
    }
}

/// A controller that keeps the estimator that it is first shown.
#[derive(Debug, Clone)]
struct Witness(Arc<OnceLock<RttEstimator>>);

impl ControllerFactory for Witness {
    fn build(self: Arc<Self>, _now: Instant, _current_mtu: u16) -> Box<dyn Controller> {
        self.clone_box()
    }
}

impl Controller for Witness {
    fn on_ack(
        &mut self,
        _now: Instant,
        _sent: Instant,
        _bytes: u64,
        _pn: u64,
        _app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.0.get_or_init(|| *rtt);
    }

    fn on_congestion_event(
        &mut self,
        _now: Instant,
        _sent: Instant,
        _is_persistent_congestion: bool,
        _is_ecn: bool,
        _lost_bytes: u64,
        _largest_lost_pn: u64,
    ) {
    }

    fn on_mtu_update(&mut self, _new_mtu: u16) {}

    fn window(&self) -> u64 {
        u64::MAX
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        u64::MAX
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
