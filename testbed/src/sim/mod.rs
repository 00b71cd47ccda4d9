//! The virtual network and its clock: what makes quinn, the controllers and the applications
//! run in virtual time, unchanged.

mod build;
mod datagram;
mod executor;
mod network;
mod pcap;
mod socket;

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use evenkeel_queue::Link;

pub(crate) use executor::lock;

pub use build::BuildError;
pub use executor::SimRuntime;
pub use network::{HOP_LIMIT, NetworkCounters};
pub use socket::SimSocket;

use crate::random::{Purpose, generator};
use crate::scenario::{CrossSpec, IpVersion, LinkIndex, NodeIndex, Scenario};
use crate::traffic::{SendTimes, payload};
use datagram::Datagram;
use executor::Executor;
use network::Network;

/// A network in virtual time, with the tasks that run on its nodes.
#[derive(Debug)]
pub struct Simulation {
    executor: Executor,
    network: Arc<Mutex<Network>>,
}

impl Simulation {
    /// Builds the scenario's nodes and links; nothing runs on them yet.
    ///
    /// # Errors
    /// If a link cannot be built: the error names it.
    pub fn new(scenario: &Scenario) -> Result<Self, BuildError> {
        let epoch = origin();
        let executor = Executor::new(epoch);
        let mut links = Vec::with_capacity(scenario.links.len());
        for (index, spec) in scenario.links.iter().enumerate() {
            let rng = generator(scenario.seed, Purpose::Link, index);
            links.push((build::link(epoch, spec, rng)?, spec.to));
        }
        let network = Network::new(
            executor.core().clone(),
            usize::from(scenario.mtu),
            links,
            scenario.next_hops(),
        );
        Ok(Self {
            executor,
            network: Arc::new(Mutex::new(network)),
        })
    }

    /// The runtime that tasks of this simulation use.
    pub fn runtime(&self) -> SimRuntime {
        SimRuntime(self.executor.core().clone())
    }

    /// Binds a UDP port of a node's IPv4 address; 0 chooses a free one.
    ///
    /// # Errors
    /// `AddrInUse` if the port is taken.
    pub fn bind(&self, node: NodeIndex, port: u16) -> io::Result<Arc<SimSocket>> {
        self.bind_ip(node, IpVersion::V4, port)
    }

    /// As [`Simulation::bind`], of either address of a node; both share its ports.
    ///
    /// # Errors
    /// `AddrInUse` if the port is taken.
    pub fn bind_ip(
        &self,
        node: NodeIndex,
        version: IpVersion,
        port: u16,
    ) -> io::Result<Arc<SimSocket>> {
        let core = self.executor.core().clone();
        SimSocket::bind(core, self.network.clone(), node, version, port).map(Arc::new)
    }

    /// Starts a source of UDP cross traffic; `index` chooses its randomness.
    ///
    /// # Errors
    /// If no port is free on its nodes.
    pub fn start_cross_traffic(&self, seed: u64, index: usize, spec: &CrossSpec) -> io::Result<()> {
        let sink = self.bind_ip(spec.to, spec.ip_version, 0)?;
        sink.count_only();
        let socket = self.bind_ip(spec.from, spec.ip_version, 0)?;
        let times = SendTimes::new(spec, generator(seed, Purpose::Cross, index));
        let length = (spec.packet_bytes as usize).saturating_sub(spec.ip_version.header_bytes());
        let payload = payload(length, spec.acp_rtt);
        let runtime = self.runtime();
        self.executor.core().spawn(Box::pin(async move {
            for at in times {
                runtime.sleep_until(runtime.epoch() + at).await;
                socket.send_to(sink.address(), BytesMut::from(&payload[..]));
            }
        }));
        Ok(())
    }

    /// Runs until `elapsed` after the beginning.
    pub fn run_until(&mut self, elapsed: Duration) {
        let until = self.runtime().epoch() + elapsed;
        let network = self.network.clone();
        self.executor
            .run_until(until, |now, link| lock(&network).on_link(now, link));
    }

    /// Captures what leaves `link` into a pcap file.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn capture(&self, link: LinkIndex, path: &Path) -> io::Result<()> {
        let capture = pcap::Capture::create(path)?;
        lock(&self.network).capture(link, capture);
        Ok(())
    }

    /// Ends all captures.
    ///
    /// # Errors
    /// The first failure to write one.
    pub fn finish_captures(&self) -> io::Result<()> {
        lock(&self.network).finish_captures()
    }

    /// Checks that no link has lost or invented a packet.
    ///
    /// # Panics
    /// If one has: our own bug. The message has the figures.
    pub fn assert_conservation(&self) {
        for link in lock(&self.network).links() {
            if let Err(error) = link.check_conservation() {
                panic!("{error}");
            }
        }
    }

    /// Looks at a link, or restarts its measurement, at the present instant.
    pub(crate) fn with_link<T>(
        &self,
        link: LinkIndex,
        f: impl FnOnce(Instant, &mut Link<Datagram>) -> T,
    ) -> T {
        let now = self.executor.core().now();
        f(now, lock(&self.network).link_mut(link))
    }

    /// What hosts have sent and could not send.
    pub fn counters(&self) -> NetworkCounters {
        lock(&self.network).counters()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "std offers no other Instant to count virtual time from"
)]
fn origin() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests;
