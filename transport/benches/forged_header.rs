//! What a path header costs the endpoint at which it arrives: a connection's own, and one that an
//! attacker has made up with the peer's address.
//!
//! `cargo bench -p evenkeel --features fuzzing --bench forged_header` counts processor time, which
//! depends little on what else the machine does.

use std::hint::black_box;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use evenkeel::fuzzing::{Arrival, HeaderConnection, HeaderSocket};
use rustix::time::{ClockId, clock_gettime};

/// A packet as large as an attacker needs, and small enough that copying it costs nothing.
const PACKET: [u8; 40] = [0x40; 40];

/// The byte of a header with its phase, and the bit.
const PHASE: (usize, u8) = (9, 0x80);

/// The processor time of this thread, shown as wall time is.
struct CpuTime;

impl Measurement for CpuTime {
    type Intermediate = Duration;
    type Value = Duration;

    fn start(&self) -> Duration {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }

    fn end(&self, start: Duration) -> Duration {
        self.start() - start
    }

    fn add(&self, one: &Duration, other: &Duration) -> Duration {
        *one + *other
    }

    fn zero(&self) -> Duration {
        Duration::ZERO
    }

    fn to_f64(&self, time: &Duration) -> f64 {
        WallTime.to_f64(time)
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

/// Reads the clock once; the connections' time is made up.
#[expect(
    clippy::disallowed_methods,
    reason = "virtual time has to begin somewhere"
)]
fn clock() -> Instant {
    Instant::now()
}

/// An endpoint with this many connections to one address, and their far ends.
struct Ends {
    now: Instant,
    near: HeaderSocket,
    far: HeaderSocket,
    /// Both ends of each.
    connections: Vec<(HeaderConnection, HeaderConnection)>,
}

impl Ends {
    fn new(connections: u8) -> Self {
        let now = clock();
        let (near, far) = (HeaderSocket::new(1, now), HeaderSocket::new(1, now));
        let connections = (0..connections)
            .map(|nth| {
                let (sending, receiving) = ([nth; 16], [nth | 0x80; 16]);
                // Headers belong to an address as soon as something has been sent there.
                let ours = near.connect(sending, receiving);
                near.send(&ours, peer(), &[PACKET.to_vec()]);
                (ours, far.connect(receiving, sending))
            })
            .collect();
        Self {
            now,
            near,
            far,
            connections,
        }
    }

    /// Some time later, a datagram with a header of the far end of `connection`.
    fn header(&mut self, connection: &HeaderConnection) -> Vec<u8> {
        self.now += Duration::from_secs(1);
        self.near.set_time(self.now);
        self.far.set_time(self.now);
        let sent = self.far.send(connection, peer(), &[PACKET.to_vec()]);
        let first = sent.into_iter().next().expect("something leaves");
        assert!(first.len() > PACKET.len(), "it carries a header");
        first
    }

    fn receive(&self, bytes: Vec<u8>) {
        let stride = bytes.len();
        let from = peer();
        let arrival = Arrival {
            from,
            bytes,
            stride,
        };
        black_box(self.near.receive(vec![arrival]));
    }
}

fn peer() -> SocketAddr {
    ([192, 0, 2, 1], 4433).into()
}

fn per_datagram(criterion: &mut Criterion<CpuTime>) {
    let mut group = criterion.benchmark_group("datagram");
    group.throughput(Throughput::Elements(1));
    for connections in [1, 64] {
        let mut ends = Ends::new(connections);
        let stranger = ends.far.connect([0xee; 16], [0xef; 16]);
        let forged = ends.header(&stranger);
        let mut next_phase = forged.clone();
        next_phase[PHASE.0] ^= PHASE.1;
        let (ours, theirs) = ends.connections.last().expect("one or more").clone();
        let own = ends.header(&theirs);
        ends.receive(own.clone());
        assert_eq!(ours.path_headers().1.accepted, 1);
        // As long as time stands still, all headers belong to one flood. 10 ms are enough for the
        // endpoint to look among all connections again.
        let (flood, rare) = (Duration::ZERO, Duration::from_millis(10));
        for (name, datagram, gap) in [
            ("without header", PACKET.to_vec(), flood),
            ("own header, repeated", own, flood),
            ("forged, in a flood", forged.clone(), flood),
            ("forged, now and then", forged, rare),
            ("forged, next phase", next_phase, rare),
        ] {
            let id = BenchmarkId::new(name, connections);
            group.bench_function(id, |bencher| {
                bencher.iter(|| {
                    ends.now += gap;
                    ends.near.set_time(ends.now);
                    ends.receive(datagram.clone());
                });
            });
        }
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().with_measurement(CpuTime);
    targets = per_datagram
}
criterion_main!(benches);
