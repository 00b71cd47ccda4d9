//! Hosts: what is known against a sender whatever ports it takes.

use super::conduct::{BANNED, Conduct, PROVEN};

/// Entries of a table that a keyed hash of a host's address selects. Two hosts with the same entry are
/// judged as one.
const ENTRIES: usize = 1024;

/// The excess, in fair shares of a period, that proves that a host's flows ignore feedback one after the
/// other: twice that of a flow, so that a flow that keeps its port is banned before its host.
const PROVEN_OF_HOST: f64 = 2.0 * PROVEN;

#[derive(Debug, Clone, Copy, Default)]
struct Host {
    /// Bytes of its guided flows in this period.
    bytes: u64,
    /// The most shares above its own that one of its flows got in this period.
    above: f64,
    /// The last period in which it has sent a header.
    last: u64,
    conduct: Conduct,
}

/// The hosts of a port.
#[derive(Debug)]
pub(super) struct Hosts(Vec<Host>);

impl Default for Hosts {
    fn default() -> Self {
        Self(vec![Host::default(); ENTRIES])
    }
}

impl Hosts {
    /// The entry of the host with this hash.
    pub(super) fn entry(hash: u64) -> usize {
        (hash % ENTRIES as u64) as usize
    }

    pub(super) fn is_banned(&self, entry: usize, period: u64) -> bool {
        self.0[entry].conduct.is_banned(period)
    }

    pub(super) fn is_any_banned(&self, period: u64) -> bool {
        self.0.iter().any(|host| host.conduct.is_banned(period))
    }

    /// A flow of the host has sent a header in this `period`.
    pub(super) fn on_header(&mut self, entry: usize, period: u64) {
        self.0[entry].last = period;
    }

    /// A guided flow of the host has sent `bytes` in this period, `above` fair shares beyond its own.
    pub(super) fn on_flow(&mut self, entry: usize, bytes: u64, above: f64) {
        let host = &mut self.0[entry];
        host.bytes += bytes;
        host.above = host.above.max(above);
    }

    /// The period is over.
    pub(super) fn end_period(&mut self, period: u64) {
        for host in &mut self.0 {
            host.conduct.judge(host.above, PROVEN_OF_HOST, period);
            host.bytes = 0;
            host.above = 0.0;
            if !host.conduct.is_banned(period) && host.last + BANNED < period {
                *host = Host::default();
            }
        }
    }

    /// Bans the host whose guided flows have sent most in this period.
    pub(super) fn ban_largest(&mut self, period: u64) {
        let largest = self.0.iter_mut().max_by_key(|host| host.bytes);
        if let Some(host) = largest.filter(|host| host.bytes > 0) {
            host.conduct.ban(period);
        }
    }
}
