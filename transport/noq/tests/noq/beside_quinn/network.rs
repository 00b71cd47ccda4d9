//! Two noq endpoints and the links between them, in virtual time.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use evenkeel_noq::SharedFactory;
use evenkeel_queue::{Carrier, Link, LinkConfig, Packet, PacketMeta};
use evenkeel_tests::time::epoch;
use evenkeel_wire::Ecn;
use noq_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, EcnCodepoint, Endpoint,
    EndpointConfig, FourTuple, ServerConfig, StreamId, TransportConfig, VarInt,
};
use rand_pcg::Pcg64;
use rcgen::generate_simple_self_signed;
use rustls::RootCertStore;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

const NAME: &str = "noq";

#[derive(Debug, Clone)]
pub(crate) struct Datagram(BytesMut);

impl Carrier for Datagram {}

/// One end of a connection of noq.
pub(crate) struct End {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    /// The link that takes what it sends.
    pub(crate) to: Link<Datagram>,
    /// The stream from the client to the server.
    stream: Option<StreamId>,
    /// Bytes that the client has still to write.
    left: u64,
    /// The stream is read to its end.
    is_done: bool,
}

impl End {
    fn arrive(&mut self, now: Instant, packet: Packet<Datagram>, path: FourTuple) {
        let mut unused = Vec::new();
        let ecn = match packet.meta.ecn {
            Ecn::NotEct => None,
            Ecn::Ect0 => Some(EcnCodepoint::Ect0),
            Ecn::Ect1 => Some(EcnCodepoint::Ect1),
            Ecn::Ce => Some(EcnCodepoint::Ce),
        };
        let event = self
            .endpoint
            .handle(now, path, ecn, packet.payload.0, &mut unused);
        match event {
            Some(DatagramEvent::NewConnection(incoming)) => {
                let accepted = self.endpoint.accept(incoming, now, &mut unused, None);
                self.connection = Some(accepted.expect("every connection is accepted"));
            }
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.connection {
                    connection.handle_event(event);
                }
            }
            _ => {}
        }
    }

    /// Handles what is due, reads and writes all there is, sends all that may leave.
    fn work(&mut self, now: Instant) {
        let Some((handle, connection)) = &mut self.connection else {
            return;
        };
        if connection.poll_timeout().is_some_and(|at| at <= now) {
            connection.handle_timeout(now);
        }
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        while connection.poll().is_some() {}
        if let Some(stream) = connection.streams().accept(Dir::Uni) {
            self.stream = Some(stream);
        }
        match self.stream {
            Some(stream) if connection.side().is_client() => {
                let mut stream = connection.send_stream(stream);
                while self.left > 0 {
                    let chunk = usize::try_from(self.left.min(65_536)).expect("a chunk");
                    let Ok(written) = stream.write(&[0; 65_536][..chunk]) else {
                        break;
                    };
                    self.left -= written as u64;
                    if self.left == 0 {
                        stream.finish().expect("it is open");
                    }
                }
            }
            Some(stream) => {
                if let Ok(mut chunks) = connection.recv_stream(stream).read(true) {
                    loop {
                        match chunks.next(usize::MAX) {
                            Ok(Some(_)) => {}
                            Ok(None) => break self.is_done = true,
                            Err(_) => break,
                        }
                    }
                    let _ = chunks.finalize();
                }
            }
            None if connection.side().is_client() => {
                self.stream = connection.streams().open(Dir::Uni);
            }
            None => {}
        }
        let most = NonZeroUsize::new(10).expect("it is not 0");
        let mut buffer = Vec::new();
        while let Some(transmit) = connection.poll_transmit(now, most, &mut buffer) {
            let segment = transmit.segment_size.unwrap_or(transmit.size);
            let ecn = transmit.ecn.map_or(Ecn::NotEct, |_| Ecn::Ect0);
            for bytes in buffer[..transmit.size].chunks(segment) {
                let ip = u32::try_from(bytes.len() + 28).expect("a datagram");
                let datagram = Datagram(BytesMut::from(bytes));
                self.to
                    .push(now, Packet::new(PacketMeta::new(ip, ecn), datagram));
            }
            buffer.clear();
        }
    }

    fn next(&self) -> Option<Instant> {
        let connection = self.connection.as_ref();
        let timer = connection.and_then(|(_, connection)| connection.poll_timeout());
        timer.into_iter().chain(self.to.next_timeout()).min()
    }
}

/// A client that sends to a server.
pub(crate) struct Pair {
    pub(crate) now: Instant,
    pub(crate) client: End,
    server: End,
    path: FourTuple,
}

impl Pair {
    /// The client sends `bytes` bytes over `there`, governed by `controller`; ACKs come by `back`.
    pub(crate) fn new(
        controller: SharedFactory,
        bytes: u64,
        there: LinkConfig,
        back: LinkConfig,
        seed: u64,
    ) -> Self {
        let now = epoch();
        let (client_config, server_config) = configs(controller);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 4433));
        let end = |server, link: LinkConfig, stream| End {
            endpoint: Endpoint::new(Arc::new(EndpointConfig::default()), server, false),
            connection: None,
            to: Link::new(now, link, Box::new(Pcg64::new(seed.into(), stream)))
                .expect("a right link"),
            stream: None,
            left: bytes,
            is_done: false,
        };
        let mut client = end(None, there, 1);
        let server = end(Some(Arc::new(server_config)), back, 2);
        let begun = client
            .endpoint
            .connect(now, client_config, address, NAME)
            .expect("a right configuration");
        client.connection = Some(begun);
        Self {
            now,
            client,
            server,
            path: FourTuple::from_remote(address),
        }
    }

    /// Lets time pass until `end`, or until everything has arrived. Returns whether it has.
    pub(crate) fn run(&mut self, end: Instant) -> bool {
        while self.now < end && !self.server.is_done {
            let now = self.now;
            while let Some(packet) = self.client.to.pop(now) {
                self.server.arrive(now, packet, self.path);
            }
            while let Some(packet) = self.server.to.pop(now) {
                self.client.arrive(now, packet, self.path);
            }
            self.client.work(now);
            self.server.work(now);
            let next = [self.client.next(), self.server.next()];
            let Some(next) = next.into_iter().flatten().min() else {
                return self.server.is_done;
            };
            self.now = next.max(now + Duration::from_nanos(1));
        }
        self.server.is_done
    }
}

fn configs(controller: SharedFactory) -> (ClientConfig, ServerConfig) {
    let mut transport = TransportConfig::default();
    transport
        .congestion_controller_factory(controller)
        .mtu_discovery_config(None)
        .max_idle_timeout(None)
        .stream_receive_window(VarInt::from_u32(1 << 30))
        .receive_window(VarInt::from_u32(1 << 30))
        .send_window(1 << 24);
    let transport = Arc::new(transport);
    let identity = generate_simple_self_signed([NAME.to_owned()]).expect("a valid name");
    let certificate = identity.cert.der().clone();
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).expect("well formed");
    let mut client = ClientConfig::with_root_certificates(Arc::new(roots)).expect("a root");
    client.transport_config(transport.clone());
    let key = PrivatePkcs8KeyDer::from(identity.signing_key.serialize_der());
    let server = ServerConfig::with_single_cert(vec![certificate], PrivateKeyDer::Pkcs8(key));
    let mut server = server.expect("the key is the certificate's");
    server.transport_config(transport);
    (client, server)
}
