//! The virtual network and its clock: what makes quinn, the controllers and the applications
//! run in virtual time, unchanged.
//!
//! Internal to evenkeel-testbed: no promise, the API may change with every version.

mod cipher;
mod datagram;
mod executor;
mod log;
mod network;
mod pcap;
mod place;
mod process;
mod socket;

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use evenkeel_queue::Link;

pub use cipher::unencrypted;
pub use datagram::Datagram;
pub use executor::{SimRuntime, lock};
pub use log::PacketLog;
pub use network::{HOP_LIMIT, NetworkCounters};
pub use place::{IpVersion, LinkIndex, NodeIndex};
pub use process::Process;
pub use socket::SimSocket;

use executor::Executor;
use network::Network;

/// A network in virtual time, with the tasks that run on its nodes.
#[derive(Debug)]
pub struct Simulation {
    executor: Executor,
    network: Arc<Mutex<Network>>,
}

impl Simulation {
    /// A network of packets of at most `mtu` bytes, with each link and the node that it leads to;
    /// `next_hops[node][destination]` is the link to take. Virtual time begins at `epoch`, as it
    /// did for the links. Nothing runs on the nodes yet.
    pub fn new(
        epoch: Instant,
        mtu: usize,
        links: Vec<(Link<Datagram>, NodeIndex)>,
        next_hops: Vec<Vec<Option<LinkIndex>>>,
    ) -> Self {
        let executor = Executor::new(epoch);
        let network = Network::new(executor.core().clone(), mtu, links, next_hops);
        Self {
            executor,
            network: Arc::new(Mutex::new(network)),
        }
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

    /// Sends `payload` from one socket to another's address at each of `times` since the beginning.
    pub fn send_at(
        &self,
        from: Arc<SimSocket>,
        to: SocketAddr,
        times: impl Iterator<Item = Duration> + Send + 'static,
        payload: Vec<u8>,
    ) {
        let runtime = self.runtime();
        self.executor.core().spawn(Box::pin(async move {
            for at in times {
                runtime.sleep_until(runtime.epoch() + at).await;
                from.send_to(to, &payload);
            }
        }));
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
    pub fn with_link<T>(
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

/// An instant to count virtual time from.
#[expect(
    clippy::disallowed_methods,
    reason = "std offers no other Instant to count virtual time from"
)]
pub fn origin() -> Instant {
    Instant::now()
}
