//! Finds out why frames come late: what each delay is made of.

use std::collections::VecDeque;
use std::time::Duration;

use super::cause::{Cause, Causes};

/// What a sender knows of a frame's delay when it hands the frame to the connection. Times are in
/// hundredths of a second; 255 is 2.55 s or more, unless they are modulo something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// From its capture until the encoder had made it.
    pub encoder_cs: u8,
    /// What it takes to send this frame, and what was captured before it, at the rate that the path
    /// was known to carry when they were captured: in the sender and in the network.
    pub own_queue_cs: u8,
    /// What the frame has waited in the sender beyond that for the congestion window or the pacer.
    pub window_cs: u8,
    /// What it has waited for the viewer's flow control.
    pub flow_control_cs: u8,
    /// What packets queue in the network beyond that, both ways, by the last round trip.
    pub queue_cs: u8,
    /// As much of this as routers report in path headers.
    pub hop_cs: u8,
    /// How often the connection has found losses, modulo 256.
    pub losses: u8,
    /// How long window or pacer have held the connection, modulo 2.56 s.
    pub held_clock_cs: u8,
    /// How long flow control has, modulo 2.56 s.
    pub blocked_clock_cs: u8,
}

/// What a delay beyond the least one is made of: microseconds for each of [`Cause::ALL`].
pub(super) type Parts = [i64; Cause::ALL.len()];

/// The most frames that wait for an explanation: half a minute of them.
const MAX_UNEXPLAINED: usize = 1024;

/// The most times for which the viewer's machine stood still that are kept.
const MAX_STOOD: usize = 64;

/// The most bins in which delays are kept.
const MAX_BINS: usize = 120;

/// The length of a bin at first, 0.1 s.
const BIN_US: i64 = 100_000;

/// Explains frames' delays. Times are microseconds of the viewer's clock.
#[derive(Clone, Debug, Default)]
pub(super) struct Lateness {
    /// The least delay of any frame.
    least_us: Option<i64>,
    /// Frames after which nothing was captured yet that has arrived.
    unexplained: VecDeque<Delayed>,
    explained: Causes,
    /// When the viewer's machine stood still, from and to.
    stood: VecDeque<(i64, i64)>,
    bins: Bins,
}

#[derive(Clone, Copy, Debug)]
struct Delayed {
    captured_us: i64,
    arrived_us: i64,
    /// Its delay beyond the least one.
    excess_us: i64,
    /// How much of it the viewer's machine stood still.
    stood_us: i64,
    delays: Delays,
    is_late: bool,
}

/// The longest delay in each span of time; the spans grow with the stream.
#[derive(Clone, Debug, Default)]
struct Bins {
    /// When the first begins.
    from_us: i64,
    /// Their length is 2 to this power times [`BIN_US`].
    doublings: u32,
    bins: Vec<Option<Parts>>,
}

/// Delays over time, by cause.
#[derive(Clone, Debug, PartialEq)]
pub struct Stacked {
    /// The least delay of all, milliseconds.
    pub least_ms: f64,
    /// The length of a span, seconds.
    pub span_s: f64,
    /// Of the frame with the longest delay that arrived in each span from the first frame on:
    /// milliseconds beyond the least delay for each of [`Cause::ALL`].
    pub spans: Vec<Option<[f64; Cause::ALL.len()]>>,
}

impl Lateness {
    /// Takes a frame that arrives, late or not. What its sender says of the path explains frames that
    /// had arrived when this one was captured.
    pub(super) fn arrived(&mut self, captured_us: i64, arrived_us: i64, delays: Delays) {
        let delay_us = arrived_us.saturating_sub(captured_us);
        self.least_us = Some(self.least_us.map_or(delay_us, |least| least.min(delay_us)));
        while let Some(before) = self.unexplained.front()
            && (before.arrived_us <= captured_us || self.unexplained.len() > MAX_UNEXPLAINED)
        {
            before.settle(delays, &mut self.explained, &mut self.bins);
            self.unexplained.pop_front();
        }
        let excess_us = delay_us.saturating_sub(self.least_us.unwrap_or(delay_us));
        let began_us = arrived_us.saturating_sub(excess_us);
        let stood = self.stood.iter().map(|(from_us, to_us)| {
            let (from_us, to_us) = ((*from_us).max(began_us), (*to_us).min(arrived_us));
            to_us.saturating_sub(from_us).max(0)
        });
        self.unexplained.push_back(Delayed {
            captured_us,
            arrived_us,
            excess_us,
            stood_us: stood.fold(0, i64::saturating_add),
            delays,
            is_late: false,
        });
    }

    /// A frame that has [`arrived`](Self::arrived) was late.
    pub(super) fn late(&mut self, captured_us: i64, arrived_us: i64) {
        let mut newest = self.unexplained.iter_mut().rev();
        let late = newest.find(|frame| {
            (frame.captured_us, frame.arrived_us) == (captured_us, arrived_us) && !frame.is_late
        });
        match late {
            Some(frame) => frame.is_late = true,
            // It waited here for longer than anything is kept.
            None => self.explained.add(Cause::Viewer, 1),
        }
    }

    /// The viewer's machine took nothing that came between these times.
    pub(super) fn stood(&mut self, from_us: i64, to_us: i64) {
        self.stood.push_back((from_us, to_us));
        if self.stood.len() > MAX_STOOD {
            self.stood.pop_front();
        }
    }

    /// Counts late frames by the greatest part of their delay.
    pub(super) fn causes(&self) -> Causes {
        let (mut causes, mut bins) = (self.explained, Bins::default());
        for frame in &self.unexplained {
            frame.settle(frame.delays, &mut causes, &mut bins);
        }
        causes
    }

    /// Returns what the longest delays were made of.
    pub(super) fn stacked(&self) -> Stacked {
        let (mut causes, mut bins) = (Causes::default(), self.bins.clone());
        for frame in &self.unexplained {
            frame.settle(frame.delays, &mut causes, &mut bins);
        }
        let ms = |us: i64| us as f64 / 1e3;
        Stacked {
            least_ms: ms(self.least_us.unwrap_or(0)),
            span_s: bins.span_us() as f64 / 1e6,
            spans: bins
                .bins
                .iter()
                .map(|bin| bin.map(|parts| parts.map(ms)))
                .collect(),
        }
    }
}

/// Returns of what a delay consists, as its sender sees it; `later` is what it knows at last.
pub(super) fn parts(delay: Duration, own: Delays, later: Delays) -> Parts {
    let us = i64::try_from(delay.as_micros()).unwrap_or(i64::MAX);
    parts_us(us, 0, own, later)
}

/// Returns of what a frame's delay consists that is `excess_us` beyond the least one, for `stood_us`
/// of which the viewer's machine stood still. `later` are the delays of a frame that was captured
/// after this one had arrived.
fn parts_us(excess_us: i64, stood_us: i64, own: Delays, later: Delays) -> Parts {
    let us = |cs: u8| 10_000 * i64::from(cs);
    let since = |then: u8, now: u8| us(now.wrapping_sub(then));
    let mut left_us = excess_us.max(0);
    let mut take = |us: i64| {
        let part_us = us.clamp(0, left_us);
        left_us -= part_us;
        part_us
    };
    let encoder = take(us(own.encoder_cs));
    let mut viewer = take(stood_us) + take(us(own.flow_control_cs));
    let own_queue = take(us(own.own_queue_cs));
    let mut window = take(us(own.window_cs));
    // What happened after the connection had taken the frame.
    let hop = take(us(own.hop_cs.max(later.hop_cs)));
    let mut others_queue = take(us(own.queue_cs.max(later.queue_cs)) - hop);
    let mut loss = 0;
    if own.losses == later.losses {
        viewer += take(since(own.blocked_clock_cs, later.blocked_clock_cs));
        window += take(since(own.held_clock_cs, later.held_clock_cs));
        others_queue += take(i64::MAX);
    } else {
        // The time until a loss was found and mended.
        loss = take(i64::MAX);
    }
    [encoder, own_queue, window, others_queue, hop, loss, viewer]
}

/// Returns the cause with the greatest part; of equal ones the network, then the last.
pub(super) fn greatest(parts: &Parts) -> Cause {
    let rank = |cause: Cause| (parts[cause as usize], cause == Cause::OthersQueue);
    let greatest = Cause::ALL.into_iter().max_by_key(|cause| rank(*cause));
    greatest.expect("there are seven")
}

impl Delayed {
    /// Explains the frame, where `later` are the delays of one that was captured after this one had
    /// arrived.
    fn settle(&self, later: Delays, causes: &mut Causes, bins: &mut Bins) {
        let parts = parts_us(self.excess_us, self.stood_us, self.delays, later);
        if self.is_late {
            causes.add(greatest(&parts), 1);
        }
        bins.add(self.arrived_us, parts);
    }
}

impl Bins {
    fn span_us(&self) -> i64 {
        BIN_US << self.doublings
    }

    fn add(&mut self, at_us: i64, parts: Parts) {
        if self.bins.is_empty() {
            self.from_us = at_us;
        }
        let since_us = at_us.saturating_sub(self.from_us).max(0);
        while since_us / self.span_us() >= MAX_BINS as i64 {
            let pairs = self.bins.chunks(2);
            self.bins = pairs
                .map(|pair| pair.iter().flatten().copied().max_by_key(total))
                .collect();
            self.doublings += 1;
        }
        let index = (since_us / self.span_us()) as usize;
        if self.bins.len() <= index {
            self.bins.resize(index + 1, None);
        }
        let bin = &mut self.bins[index];
        *bin = (*bin).into_iter().chain([parts]).max_by_key(total);
    }
}

fn total(parts: &Parts) -> i64 {
    parts.iter().fold(0, |sum, part| sum.saturating_add(*part))
}

#[cfg(test)]
mod tests;
