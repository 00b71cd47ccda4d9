//! Figures for tests.

use std::collections::BTreeMap;

use evenkeel_queue::Amount;

use super::{Counters, LinkStatus, QueueFigures, Status};

/// A router with links of these names, up for ten seconds: 8 Mb/s, and nothing has come.
pub(crate) fn status(links: &[&str]) -> Status {
    let links = links.iter().map(|name| LinkStatus {
        name: (*name).to_owned(),
        tun: "ek-bn".to_owned(),
        table: 1001,
        degraded: None,
        rate_bps: Some(8_000_000),
        rate_varies: false,
        queued: Amount::ZERO,
        inside: Amount::ZERO,
        total: Counters::default(),
        window_s: 10.0,
        window: Counters::default(),
        queue_packets: QueueFigures {
            mean: 0.0,
            sd: 0.0,
            p95: 0,
            max: 0,
        },
        sojourn_us: None,
        utilization: None,
        loss_rate: None,
        stamps: BTreeMap::new(),
        interval: None,
    });
    Status {
        router: "r1".to_owned(),
        pid: 4711,
        sandbox: None,
        uptime_s: 10.0,
        links: links.collect(),
    }
}
