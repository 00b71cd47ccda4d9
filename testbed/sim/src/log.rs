//! What became of the packets of a socket that keeps a log of them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_wire::Ecn;

use crate::executor::lock;

/// The packets that sockets have sent, in this order: a value of each column for each.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct PacketLog {
    /// When its host put it on the network, seconds since virtual time began.
    pub sent_s: Vec<f64>,
    /// When it reached the other host, its first copy if there are several; NaN if it has not.
    pub arrived_s: Vec<f64>,
    /// Size of the IP packet, bytes.
    pub bytes: Vec<u32>,
    /// How long it waited in queues on its way, milliseconds; NaN if it has not arrived.
    pub queueing_ms: Vec<f64>,
    /// Whether it arrived with a mark (ECN CE).
    pub marked: Vec<bool>,
}

/// One packet of a log, on its way.
#[derive(Debug, Clone)]
pub(crate) struct Logged {
    log: Arc<Mutex<PacketLog>>,
    index: usize,
    queued: Duration,
}

impl Logged {
    /// A packet of `bytes` leaves its host.
    pub(crate) fn sent(log: &Arc<Mutex<PacketLog>>, at: Duration, bytes: usize) -> Self {
        let mut columns = lock(log);
        columns.sent_s.push(at.as_secs_f64());
        columns.arrived_s.push(f64::NAN);
        columns.bytes.push(u32::try_from(bytes).unwrap_or(u32::MAX));
        columns.queueing_ms.push(f64::NAN);
        columns.marked.push(false);
        Self {
            log: log.clone(),
            index: columns.sent_s.len() - 1,
            queued: Duration::ZERO,
        }
    }

    /// It has crossed a link, and waited there.
    pub(crate) fn waited(&mut self, queued: Duration) {
        self.queued += queued;
    }

    /// It has reached the other host.
    pub(crate) fn arrived(&self, at: Duration, ecn: Ecn) {
        let (mut columns, index) = (lock(&self.log), self.index);
        if columns.arrived_s[index].is_nan() {
            columns.arrived_s[index] = at.as_secs_f64();
            columns.queueing_ms[index] = self.queued.as_secs_f64() * 1e3;
            columns.marked[index] = ecn == Ecn::Ce;
        }
    }
}
