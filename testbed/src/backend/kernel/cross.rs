//! UDP cross traffic between hosts, sent at the same times as in the simulator.
//!
//! The testbed computes the times and feeds them to a child on the host: only a process there
//! can open the host's sockets.

use std::io::{self, BufRead, Write};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use super::super::clock::{pause, wall_clock};
use super::error::KernelError;
use super::network::Network;
use super::process::Process;
use crate::random::{Purpose, generator};
use crate::scenario::NodeIndex;
use crate::traffic::{SendTimes, payload};

/// The first port of the sinks.
const FIRST_PORT: usize = 40_000;

/// A source and its sink, as child processes.
#[derive(Debug)]
pub(super) struct CrossTraffic {
    source: Process,
    sink: Process,
    times: Option<SendTimes>,
}

impl CrossTraffic {
    /// Starts both ends of the source `index` of the scenario; nothing is sent yet.
    pub(super) fn start(
        network: &Network,
        index: usize,
        testbed: &Path,
    ) -> Result<Self, KernelError> {
        let scenario = &network.scenario;
        let spec = &scenario.cross[index];
        let port = u16::try_from(FIRST_PORT + index).expect("scenarios have at most 2000 sources");
        let sink = SocketAddr::new(spec.to.address(spec.ip_version), port).to_string();
        let from = spec.from.address(spec.ip_version).to_string();
        let headers = spec.ip_version.header_bytes();
        let payload = (spec.packet_bytes as usize).saturating_sub(headers);
        let mut source = vec!["udp-source".into(), from, sink.clone(), payload.to_string()];
        source.extend(spec.acp_rtt.map(|rtt| rtt.as_micros().to_string()));
        let start = |what: &str, node: NodeIndex, arguments: &[String]| {
            let what = format!("the {what} of {}", spec.name);
            Process::start(network, what, node, testbed, arguments)
        };
        let rng = generator(scenario.seed, Purpose::Cross, index);
        Ok(Self {
            sink: start("sink", spec.to, &["udp-sink".into(), sink])?,
            source: start("source", spec.from, &source)?,
            times: Some(SendTimes::new(spec, rng)),
        })
    }

    /// The run has begun: feeds the times to the source.
    pub(super) fn begin(&mut self) {
        let (Some(times), Some(mut stdin)) = (self.times.take(), self.source.stdin()) else {
            return;
        };
        std::thread::spawn(move || {
            // The first line starts the source's clock. A source that is gone takes no more.
            let feed = || -> io::Result<()> {
                writeln!(stdin)?;
                let mut buffered = io::BufWriter::new(stdin);
                for at in times {
                    writeln!(buffered, "{}", at.as_nanos())?;
                }
                buffered.flush()
            };
            let _ = feed();
        });
    }

    /// Whether both ends still run, or the source has sent all it had to.
    pub(super) fn check(&mut self) -> Result<(), KernelError> {
        for process in [&mut self.source, &mut self.sink] {
            if process
                .running
                .ended()
                .is_some_and(|status| !status.success())
            {
                return Err(process.failure());
            }
        }
        Ok(())
    }
}

/// The source's process: reads a line, then times in nanoseconds since that line, and sends a
/// datagram of `length` bytes at each, which tells routers a round trip of `acp_rtt` if there is one.
///
/// # Errors
/// If the socket cannot be bound or the times are no numbers.
pub fn udp_source(
    from: IpAddr,
    to: SocketAddr,
    length: usize,
    acp_rtt: Option<Duration>,
) -> io::Result<()> {
    let socket = UdpSocket::bind((from, 0))?;
    let datagram = payload(length, acp_rtt);
    let mut lines = io::stdin().lock().lines();
    lines.next().transpose()?;
    let epoch: Instant = wall_clock();
    for line in lines {
        let nanoseconds: u64 = line?.parse().map_err(io::Error::other)?;
        let at = epoch + Duration::from_nanos(nanoseconds);
        let left = at.saturating_duration_since(wall_clock());
        if !left.is_zero() {
            pause(left);
        }
        // A full device queue is a drop like any other.
        let _ = socket.send_to(&datagram, to);
    }
    Ok(())
}

/// The sink's process: receives and forgets.
///
/// # Errors
/// If the socket cannot be bound.
pub fn udp_sink(at: SocketAddr) -> io::Result<()> {
    let socket = UdpSocket::bind(at)?;
    let mut buffer = [0; 65536];
    loop {
        socket.recv(&mut buffer)?;
    }
}
