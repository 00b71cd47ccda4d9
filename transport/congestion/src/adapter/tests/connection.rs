//! A connection as the tests drive it.

use std::collections::VecDeque;

use quinn_proto::congestion::Controller as _;

use super::*;

/// What may happen to a connection.
#[derive(Debug, Clone)]
pub(super) enum Op {
    /// Time passes, in milliseconds.
    Wait(u64),
    /// Up to this many packets are sent, as the window lets quinn.
    Send(usize),
    /// An ACK frame for `count` packets after the `skip` oldest.
    Ack {
        skip: usize,
        count: usize,
        app_limited: bool,
    },
    /// The oldest packets are lost.
    Lose { count: usize, persistent: bool },
    /// The peer reports a mark; the newest packet it acknowledged was sent with the oldest in flight.
    Mark,
    /// The packet size changes.
    Mtu(u16),
    /// A Retry acknowledges a packet without ending the ACK.
    Retry,
    /// A path header reports something, however absurd.
    Tell(PathSample),
}

/// As much of quinn's connection as it takes to call the adapter in quinn's order.
pub(super) struct Connection {
    pub(super) adapter: Adapter,
    pub(super) now: Instant,
    pub(super) mtu: u16,
    /// Sending time and bytes of what is in flight.
    pub(super) sent: VecDeque<(Instant, u64)>,
    /// Bytes acknowledged in all.
    pub(super) acked: u64,
}

impl Connection {
    pub(super) fn new(adapter: Adapter, now: Instant) -> Self {
        Self {
            adapter,
            now,
            mtu: MTU,
            sent: VecDeque::new(),
            acked: 0,
        }
    }

    pub(super) fn in_flight(&self) -> u64 {
        self.sent.iter().map(|(_, bytes)| bytes).sum()
    }

    /// `time` ms pass, in which probes leave, as always while something is in flight.
    fn wait(&mut self, time: u64) {
        let end = self.now + ms(time);
        while self.now < end {
            self.now = end.min(self.now + ms(100));
            if !self.sent.is_empty() {
                self.adapter.on_sent(self.now, 0, 0);
            }
        }
    }

    pub(super) fn run(&mut self, op: &Op) {
        match *op {
            Op::Wait(time) => self.wait(time),
            Op::Send(count) => {
                for _ in 0..count {
                    if self.in_flight() + u64::from(self.mtu) >= self.adapter.window() {
                        break;
                    }
                    self.adapter.on_sent(self.now, u64::from(self.mtu), 0);
                    self.sent.push_back((self.now, u64::from(self.mtu)));
                }
            }
            Op::Ack {
                skip,
                count,
                app_limited,
            } => {
                let from = skip.min(self.sent.len());
                let to = (from + count).min(self.sent.len());
                for (sent, bytes) in self.sent.drain(from..to).rev().collect::<Vec<_>>() {
                    self.acked += bytes;
                    self.adapter.path.on_packet_acked(self.now, sent, bytes);
                }
                self.adapter
                    .on_end_acks(self.now, self.in_flight(), app_limited, None);
            }
            Op::Lose { count, persistent } => {
                let count = count.min(self.sent.len());
                let lost: Vec<_> = self.sent.drain(..count).collect();
                if let Some((sent, _)) = lost.last() {
                    let bytes = lost.iter().map(|(_, bytes)| bytes).sum();
                    self.adapter
                        .on_congestion_event(self.now, *sent, persistent, bytes);
                }
            }
            Op::Mark => {
                if let Some((sent, _)) = self.sent.front() {
                    self.adapter.on_congestion_event(self.now, *sent, false, 0);
                }
            }
            Op::Mtu(mtu) => {
                self.mtu = mtu;
                self.adapter.on_mtu_update(mtu);
            }
            Op::Tell(ref sample) => self.adapter.path.feed.push(PathSample {
                now: self.now,
                ..sample.clone()
            }),
            Op::Retry => {
                if let Some((sent, bytes)) = self.sent.pop_front() {
                    self.adapter.path.on_packet_acked(self.now, sent, bytes);
                }
            }
        }
    }
}
