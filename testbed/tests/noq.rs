//! `noq-bbr3` against noq itself: noq-proto's own connections, with their pacer, loss recovery and
//! BBRv3, over the same links in virtual time.
//!
//! `cargo test -p evenkeel-testbed-core --test noq -- --nocapture` prints the figures.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use evenkeel_queue::{Carrier, Limit, Link, LinkConfig, Packet, PacketMeta, Rate, Service};
use evenkeel_testbed::backend::sim;
use evenkeel_testbed::scenario::{FlowBuilder, LinkBuilder, Scenario};
use evenkeel_tests::time::epoch;
use evenkeel_wire::Ecn;
use noq_proto::congestion::Bbr3Config;
use noq_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig,
    FourTuple, ServerConfig, StreamId, TransportConfig, VarInt,
};
use rand_pcg::Pcg64;
use rcgen::generate_simple_self_signed;
use rustls::RootCertStore;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

const RATE_BPS: u64 = 10_000_000;
const ONE_WAY: Duration = Duration::from_millis(20);
/// Bandwidth times round trip in packets of 1228 bytes.
const QUEUE_PACKETS: u32 = 41;
const WARMUP: Duration = Duration::from_secs(10);
const LENGTH: Duration = Duration::from_secs(40);
const SEEDS: std::ops::RangeInclusive<i64> = 1..=24;

/// What the bottleneck saw after the warm-up.
#[derive(Debug, Clone, Copy)]
struct Figures {
    /// Of the link's rate.
    used: f64,
    /// Of the packets that came to the link, dropped there or lost behind it.
    lost: f64,
    /// Packets.
    queue: f64,
}

impl Figures {
    /// Means over the seeds.
    fn mean(of: impl Fn(i64) -> Self) -> Self {
        let runs: Vec<Self> = SEEDS.map(of).collect();
        let mean =
            |figure: fn(&Self) -> f64| runs.iter().map(figure).sum::<f64>() / runs.len() as f64;
        Self {
            used: mean(|run| run.used),
            lost: mean(|run| run.lost),
            queue: mean(|run| run.queue),
        }
    }
}

/// `noq-bbr3` in a scenario of the testbed.
fn bridged(loss: f64, seed: i64) -> Figures {
    let link = LinkBuilder::new("bottleneck")
        .rate_bps(RATE_BPS)
        .delay(ONE_WAY)
        .queue_packets(QUEUE_PACKETS)
        .loss(loss)
        .set_reverse("loss", 0);
    let scenario = Scenario::builder("noq", LENGTH)
        .warmup(WARMUP)
        .seed(seed)
        .set("topology", "dumbbell")
        .link(link)
        .flow(FlowBuilder::bulk("a", "noq-bbr3"))
        .build()
        .expect("a right scenario");
    let seen = sim::run(&scenario, &sim::Options::default(), |_| {}).expect("it runs");
    let link = &seen.links[0];
    figures(
        link.forwarded_bytes,
        link.arrived,
        link.dropped + link.lost,
        link.queue.mean,
    )
}

fn figures(bytes: u64, arrived: u64, lost: u64, queue: f64) -> Figures {
    let seconds = (LENGTH - WARMUP).as_secs_f64();
    Figures {
        used: bytes as f64 * 8.0 / seconds / RATE_BPS as f64,
        lost: lost as f64 / arrived as f64,
        queue,
    }
}

#[derive(Debug, Clone)]
struct Datagram(BytesMut);

impl Carrier for Datagram {}

/// One end of a connection of noq.
struct End {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    to: Link<Datagram>,
    /// The stream that it writes.
    writes: Option<StreamId>,
}

impl End {
    fn arrive(&mut self, now: Instant, datagram: Datagram, path: FourTuple) {
        let mut unused = Vec::new();
        let event = self
            .endpoint
            .handle(now, path, None, datagram.0, &mut unused);
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
            self.writes = Some(stream);
        }
        if let Some(stream) = self.writes {
            if connection.side().is_client() {
                while connection.send_stream(stream).write(&[0; 65_536]).is_ok() {}
            } else if let Ok(mut chunks) = connection.recv_stream(stream).read(true) {
                while let Ok(Some(_)) = chunks.next(usize::MAX) {}
                let _ = chunks.finalize();
            }
        } else if connection.side().is_client() {
            self.writes = connection.streams().open(Dir::Uni);
        }
        let most = NonZeroUsize::new(10).expect("it is not 0");
        let mut buffer = Vec::new();
        while let Some(transmit) = connection.poll_transmit(now, most, &mut buffer) {
            let segment = transmit.segment_size.unwrap_or(transmit.size);
            for bytes in buffer[..transmit.size].chunks(segment) {
                let ip = u32::try_from(bytes.len() + 28).expect("a datagram");
                let packet = Packet::new(
                    PacketMeta::new(ip, Ecn::NotEct),
                    Datagram(BytesMut::from(bytes)),
                );
                self.to.push(now, packet);
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

/// noq itself.
fn real(loss: f64, seed: i64) -> Figures {
    let epoch = epoch();
    let (client_config, server_config) = configs();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 4433));
    let path = FourTuple::from_remote(address);
    let end = |server, link: LinkConfig, stream| End {
        endpoint: Endpoint::new(Arc::new(EndpointConfig::default()), server, false),
        connection: None,
        to: Link::new(epoch, link, Box::new(Pcg64::new(seed as u128, stream)))
            .expect("a right link"),
        writes: None,
    };
    let port = || LinkConfig {
        service: Service::Rate(Rate::new(RATE_BPS).expect("a rate")),
        limit: Limit::packets(QUEUE_PACKETS.into()),
        delay: ONE_WAY,
        ..LinkConfig::default()
    };
    let mut client = end(None, LinkConfig { loss, ..port() }, 1);
    let mut server = end(Some(Arc::new(server_config)), port(), 2);
    let begun = client
        .endpoint
        .connect(epoch, client_config, address, NAME)
        .expect("a right configuration");
    client.connection = Some(begun);

    let (mut now, mut lost_before, mut warm) = (epoch, 0, false);
    while now < epoch + LENGTH {
        if !warm && now >= epoch + WARMUP {
            warm = true;
            client.to.restart_measurement(now);
            lost_before = client.to.lost().packets;
        }
        while let Some(packet) = client.to.pop(now) {
            server.arrive(now, packet.payload, path);
        }
        while let Some(packet) = server.to.pop(now) {
            client.arrive(now, packet.payload, path);
        }
        client.work(now);
        server.work(now);
        let next = client.next().into_iter().chain(server.next()).min();
        let step = Duration::from_nanos(1);
        now = next.expect("something is always due").max(now + step);
    }
    let lost = client.to.lost().packets - lost_before;
    let stats = client.to.stats(now);
    let window = stats.window();
    figures(
        window.forwarded.bytes,
        window.arrived.packets,
        window.dropped.total().packets + lost,
        stats.queue().mean().expect("there was a queue"),
    )
}

const NAME: &str = "noq";

fn configs() -> (ClientConfig, ServerConfig) {
    let mut transport = TransportConfig::default();
    transport
        .congestion_controller_factory(Arc::new(Bbr3Config::default()))
        .mtu_discovery_config(None)
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

/// Compares both and prints their figures. noq draws when to probe for bandwidth: neither repeats.
///
/// Their shares of the link may differ by six points, three times what chance does to two means of
/// 24 runs.
fn compare(case: &str, loss: f64) {
    let both = [
        Figures::mean(|seed| bridged(loss, seed)),
        Figures::mean(|seed| real(loss, seed)),
    ];
    for (name, run) in ["noq-bbr3", "noq"].iter().zip(both) {
        println!(
            "{case}, {name}: {:.1} % used, {:.2} % lost, queue {:.1} packets",
            run.used * 100.0,
            run.lost * 100.0,
            run.queue
        );
    }
    let [bridged, real] = both;
    assert!((bridged.used - real.used).abs() < 0.06);
    assert!((bridged.lost - real.lost).abs() < 0.005);
    assert!((bridged.queue - real.queue).abs() < 3.0);
}

#[test]
fn on_a_clean_link_it_does_as_noq_does() {
    compare("clean", 0.0);
}

#[test]
fn on_a_lossy_link_it_does_as_noq_does() {
    compare("1 % loss", 0.01);
}
