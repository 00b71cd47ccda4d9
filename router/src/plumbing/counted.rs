//! What passes beside links, over changes of what is counted.

use std::collections::HashMap;

use evenkeel_queue::Amount;
use tracing::info;

use crate::config::{Entry, LinkSpec, MAIN_TABLE};
use crate::netlink::{Beside, Watched};

/// Counts of packets that passed beside links.
#[derive(Debug, Default)]
pub(super) struct Counted {
    /// `None` if the kernel does not count.
    counters: Option<Beside>,
    /// What had been counted when the counters last began anew, by the names of devices.
    before: HashMap<String, Amount>,
}

impl Counted {
    /// Of the router with this name. Counts nothing yet.
    pub(super) fn open(router: &str) -> Self {
        let counters = Beside::open(router);
        if let Err(error) = &counters {
            info!("packets that pass beside links are not counted: {error}");
        }
        Self {
            counters: counters.ok(),
            before: HashMap::new(),
        }
    }

    /// Counts for these links from now on.
    pub(super) fn count<'a>(&mut self, links: impl Iterator<Item = &'a LinkSpec>) {
        let links: Vec<_> = links.map(watched).collect();
        let before = self.read();
        let Some(counters) = &mut self.counters else {
            return;
        };
        if let Err(error) = counters.count(&links) {
            info!(
                "packets that pass beside links are not counted: {error}; Linux 5.12 with nf_tables does"
            );
            self.counters = None;
            return;
        }
        self.before = before.unwrap_or_default();
        for link in links {
            self.before.entry(link.device).or_default();
        }
    }

    /// What has passed beside each link, by the names of the devices; `None` if nobody counts.
    pub(super) fn read(&mut self) -> Option<HashMap<String, Amount>> {
        let counts = self.counters.as_mut()?.read().ok()?;
        let mut sums = self.before.clone();
        for (device, amount) in counts {
            *sums.entry(device).or_default() += amount;
        }
        Some(sums)
    }
}

/// What shall take a link. What a default route is for depends on the host's other routes, and what
/// comes to a table of the host's own on its rules: neither is counted.
pub(super) fn watched(link: &LinkSpec) -> Watched {
    let routes = link.routes.iter().filter(|route| match route.entry {
        Entry::Table(table) => table == MAIN_TABLE && !route.is_default(),
        Entry::Rule(_) => !route.is_default(),
    });
    Watched {
        device: link.tun.clone(),
        packets: routes
            .map(|route| (route.to, route.selector.clone()))
            .collect(),
    }
}
