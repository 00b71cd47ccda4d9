//! UDP cross traffic inside nodes: the same times of sending as in the simulator.
//!
//! The parent computes the times and feeds them to a child in the node, because only a
//! process inside one can open its sockets.

use std::io::{self, BufRead, Write};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use super::plan::{Plan, node_address};
use super::process::Process;
use super::{KernelError, pause, wall_clock};
use crate::random::{Purpose, generator};
use crate::scenario::{CrossSpec, Scenario};
use crate::traffic::{SendTimes, payload};

/// The first port of the sinks.
const FIRST_PORT: usize = 40_000;

/// IPv4 and UDP headers around every datagram, in bytes.
const HEADER_BYTES: usize = evenkeel_wire::IPV4_HEADER_LEN + evenkeel_wire::UDP_HEADER_LEN;

/// A source and its sink, as child processes.
#[derive(Debug)]
pub(super) struct CrossTraffic {
    source: Process,
    sink: Process,
    times: Option<SendTimes>,
}

impl CrossTraffic {
    /// Starts both ends; nothing is sent yet. `program` is `evenkeel-testbed` itself.
    pub(super) fn start(
        scenario: &Scenario,
        plan: &Plan,
        index: usize,
        spec: &CrossSpec,
        program: &Path,
    ) -> Result<Self, KernelError> {
        let port = u16::try_from(FIRST_PORT + index).expect("scenarios have at most 2000 sources");
        let sink = SocketAddrV4::new(node_address(spec.to.0), port);
        let run = |what: &str, node: usize, arguments: &[String]| {
            let what = format!("the {what} of {}", spec.name);
            Process::start(what, &plan.namespaces[node].place, program, arguments)
        };
        let payload = (spec.packet_bytes as usize).saturating_sub(HEADER_BYTES);
        let from = node_address(spec.from.0);
        let sink_arguments = ["udp-sink".to_owned(), sink.to_string()];
        let mut source_arguments = vec![
            "udp-source".to_owned(),
            from.to_string(),
            sink.to_string(),
            payload.to_string(),
        ];
        source_arguments.extend(spec.acp_rtt.map(|rtt| rtt.as_micros().to_string()));
        Ok(Self {
            sink: run("sink", spec.to.0, &sink_arguments)?,
            source: run("source", spec.from.0, &source_arguments)?,
            times: Some(SendTimes::new(
                spec,
                generator(scenario.seed, Purpose::Cross, index),
            )),
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
            if process.ended().is_some_and(|status| !status.success()) {
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
    from: Ipv4Addr,
    to: SocketAddrV4,
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
pub fn udp_sink(at: SocketAddrV4) -> io::Result<()> {
    let socket = UdpSocket::bind(at)?;
    let mut buffer = [0; 65536];
    loop {
        socket.recv(&mut buffer)?;
    }
}
