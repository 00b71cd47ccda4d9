//! What a packet costs: with stamps and FQ-CoDel, whatever the number of flows, and on a hop of the
//! simulator.
//!
//! `cargo bench -p evenkeel-queue --bench packet`

use std::collections::VecDeque;
use std::fmt::Debug;
use std::hint::black_box;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use evenkeel_queue::{
    CarriedHeader, Carrier, FlowKey, Limit, Link, LinkConfig, Packet, PacketMeta, Rate, Service,
    discipline, stamp_set,
};
use evenkeel_wire::{
    CompactRate, CompactTime, Ecn, HeaderTimestamp, Ipv4Repr, PROTOCOL_UDP, PathHeaderKind,
    PathHeaderMut, PathHeaderRepr, PseudoHeader, Signals, Skipped, UdpRepr,
};
use rand_pcg::Pcg64;

/// Bytes of each IP packet, as far as the link knows.
const BYTES: u32 = 1228;

/// Bytes that are really there: nobody looks further, and all packets fit a cache.
const BYTES_HELD: usize = 100;

/// Packets that go round: each flow sends one or more.
const ROUND: u32 = 10_000;

/// An IP packet, as the router daemon carries it.
#[derive(Debug, Clone)]
struct IpPacket(Vec<u8>);

impl Carrier for IpPacket {
    fn path_header(&mut self) -> Result<CarriedHeader<'_>, Skipped> {
        let leaving_ttl = self.0[8] - 1;
        let header = PathHeaderMut::find(&mut self.0)?;
        Ok(CarriedHeader {
            header,
            leaving_ttl,
        })
    }

    fn flow(&self) -> Option<FlowKey> {
        FlowKey::of_ip_packet(&self.0)
    }
}

/// The packet of one of many flows, with a path header.
fn packet(flow: u32) -> Vec<u8> {
    let (source, destination) = (
        Ipv4Addr::from(0x0a00_0000 + flow),
        Ipv4Addr::new(10, 255, 0, 1),
    );
    let header = PathHeaderRepr {
        kind: PathHeaderKind::Acp,
        rtt: CompactTime::from_duration(Duration::from_millis(80)),
        signals: Signals::initial(CompactRate::NO_LIMIT, Some(64)),
        phase: false,
        timestamp: HeaderTimestamp::from_micros(0),
        echo: None,
        tag: [1, 2, 3, 4],
    };
    let mut payload = header.emit().to_vec();
    payload.resize(BYTES_HELD - 28, 0xaa);
    let udp = UdpRepr {
        source_port: 4433,
        destination_port: 4433,
    };
    let pseudo = PseudoHeader::V4 {
        source,
        destination,
    };
    let ip = Ipv4Repr {
        source,
        destination,
        protocol: PROTOCOL_UDP,
        ecn: Ecn::Ect0,
        dscp: 0,
        ttl: 64,
        identification: 0,
        dont_fragment: true,
        payload_len: u16::try_from(8 + payload.len()).expect("a small packet"),
    };
    [&ip.emit()[..], &udp.emit(&pseudo, &payload), &payload].concat()
}

/// As large as the simulator's datagrams.
#[derive(Debug, Clone)]
struct SimPacket(#[expect(dead_code, reason = "only its size matters")] [u64; 12]);

impl Carrier for SimPacket {}

fn rate(bits_per_second: u64) -> Service {
    Service::Rate(Rate::new(bits_per_second).expect("not zero"))
}

fn link<P: Carrier + Clone + Debug + Send>(epoch: Instant, config: LinkConfig) -> Link<P> {
    Link::new(epoch, config, Box::new(Pcg64::new(1, 0))).expect("a plain link")
}

#[expect(clippy::disallowed_methods, reason = "where virtual time begins")]
fn clock() -> Instant {
    Instant::now()
}

/// Enqueues, stamps and dequeues packets of all flows in turn. What has left comes again, so that the
/// allocator is not measured.
fn per_packet(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("packet");
    group.throughput(Throughput::Elements(1));
    let sets: [(&str, &str, &[&str]); 5] = [
        ("none", "drop-tail", &[]),
        ("aqt", "drop-tail", &["aqt"]),
        ("aqt, acp, flows", "drop-tail", &["aqt", "acp", "flows"]),
        ("fq-codel", "fq-codel", &[]),
        ("guided", "guided", &["aqt", "acp", "flows"]),
    ];
    for (name, queue, specs) in sets {
        for flows in [1, 100, 10_000u32] {
            let id = BenchmarkId::new(name, flows);
            group.bench_function(id, |bencher| {
                let mut packets: VecDeque<_> =
                    (0..ROUND).map(|number| packet(number % flows)).collect();
                let mut now = clock();
                let limit = Limit::packets(1000);
                let config = LinkConfig {
                    service: rate(1_000_000_000),
                    limit,
                    discipline: discipline(queue, limit).expect("a right name"),
                    stamps: stamp_set(specs).expect("right names"),
                    ..LinkConfig::default()
                };
                let mut link = link(now, config);
                bencher.iter(|| {
                    // A packet takes 9.8 us: the link is nearly full.
                    now += Duration::from_micros(10);
                    let next = packets.pop_front().expect("the link holds but a few");
                    let meta = PacketMeta::new(BYTES, Ecn::Ect0);
                    link.push(now, Packet::new(meta, IpPacket(next)));
                    while let Some(packet) = link.pop(now) {
                        packets.push_back(black_box(packet.payload.0));
                    }
                });
            });
        }
    }
    group.finish();
}

/// Pushes packets at a fixed interval of virtual time, and follows the link's wake-ups in between.
fn hop(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("hop");
    group.throughput(Throughput::Elements(1));
    let slow = |packets| LinkConfig {
        service: rate(155_000_000),
        limit: packets,
        ..delayed()
    };
    let impaired = || LinkConfig {
        loss: 0.01,
        jitter: Duration::from_millis(1),
        ..slow(Limit::packets(100))
    };
    let cases: [(&str, u64, &dyn Fn() -> LinkConfig); 4] = [
        ("unlimited + delay", 1000, &delayed),
        ("rate + delay, idle", 100_000, &|| slow(Limit::NONE)),
        ("rate + delay, saturated", 60_000, &|| {
            slow(Limit::packets(100))
        }),
        ("rate + delay, loss, jitter", 70_000, &impaired),
    ];
    for (name, gap, config) in cases {
        group.bench_function(name, |bencher| {
            let mut now = clock();
            let mut link = link(now, config());
            bencher.iter(|| {
                now += Duration::from_nanos(gap);
                while let Some(at) = link.next_timeout().filter(|at| *at <= now) {
                    while let Some(packet) = link.pop(at) {
                        black_box(packet);
                    }
                }
                let meta = PacketMeta::new(BYTES, Ecn::Ect0);
                link.push(now, Packet::new(meta, SimPacket([gap; 12])));
            });
        });
    }
    group.finish();
}

fn delayed() -> LinkConfig {
    LinkConfig {
        delay: Duration::from_millis(10),
        ..LinkConfig::default()
    }
}

criterion_group!(benches, per_packet, hop);
criterion_main!(benches);
