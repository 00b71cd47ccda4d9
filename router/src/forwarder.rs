//! Runs one link: its TUN device, its timer, and the packets between them.

use std::io;
use std::ops::Range;
use std::task::{Context, Poll};
use std::time::Instant;

use evenkeel_queue::Change;

use crate::clock;
use crate::config::Timing;
use crate::device::{Device, Offloads};
use crate::offload::{OffloadHeader, Train};
use crate::pace::{Pace, Wait};
use crate::timer::Timer;
use crate::transit::Transit;

/// Packets that share a reading of the clock when they have woken the router. Reading eight takes some
/// five microseconds, so arrival times are that exact, unless another program gets the processor
/// meanwhile.
const BURST: usize = 8;

/// Packets that share a reading of the clock when they have been coming without a break: they are
/// dated evenly over the time since the last reading.
const CONTINUOUS_BURST: usize = 32;

/// Bursts before other links have their turn: some tens of microseconds of work.
const BURSTS: usize = 4;

/// Packets that leave before other links have their turn: some hundred microseconds of work.
const MOST_SENT: u32 = 256;

/// The largest IP packet behind an offload header: nothing is cut off, whatever the MTU becomes.
const LARGEST_READ: usize = OffloadHeader::LEN + 65_535;

/// Moves packets from a TUN device through a link, and back to the same device.
pub(crate) struct Forwarder {
    device: Device,
    timer: Timer,
    pub(crate) transit: Transit,
    pace: Pace,
    burst: Burst,
    train: Train,
}

impl Forwarder {
    /// Must be called within a tokio runtime. An exact one serves its link at each event.
    pub(crate) fn new(device: Device, transit: Transit, timing: Timing) -> io::Result<Self> {
        Ok(Self {
            timer: Timer::new()?,
            transit,
            pace: Pace::new(clock::now(), timing == Timing::Exact),
            burst: Burst::new(device.offloads()),
            train: Train::new(device.offloads()),
            device,
        })
    }

    /// Goes on with another link; no packet is lost. Call [`turn`](Forwarder::turn)
    /// again at once.
    pub(crate) fn replace(&mut self, now: Instant, link: Transit, timing: Timing) {
        let earlier = std::mem::replace(&mut self.transit, link);
        self.transit.succeed(now, earlier);
        self.pace = Pace::new(now, timing == Timing::Exact);
    }

    /// Goes on with what its link has become. [Turn](Forwarder::turn) it again at once.
    pub(crate) fn alter(&mut self, now: Instant, changes: &[Change], timing: Timing) {
        self.transit.alter(now, changes);
        self.pace = Pace::new(now, timing == Timing::Exact);
    }

    /// Does all work that is due. Becomes ready only with an error: the device is gone.
    pub(crate) fn turn(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        match self.work(cx) {
            Ok(Poll::Pending) => {}
            Ok(Poll::Ready(())) => cx.waker().wake_by_ref(),
            Err(error) => return Poll::Ready(error),
        }
        Poll::Pending
    }

    /// Ready if more work may be due; else the task will be woken for it.
    fn work(&mut self, cx: &mut Context<'_>) -> io::Result<Poll<()>> {
        for _ in 0..BURSTS {
            while let Some(tick) = self.pace.tick()
                && clock::now() < tick
            {
                // It may fire too early.
                if self.timer.poll(cx, Some(tick))?.is_pending() {
                    return Ok(Poll::Pending);
                }
            }
            let most = if self.pace.is_continuous() {
                CONTINUOUS_BURST
            } else {
                BURST
            };
            let poll_read = |buffer: &mut [u8]| self.device.poll_read(cx, buffer);
            let (now, is_drained) = self.burst.read(most, poll_read)?;
            let arrivals = self.pace.arrivals(now, self.burst.count());
            for (at, (header, packet)) in arrivals.zip(self.burst.packets()) {
                self.transit.arrive(at, now, header, packet);
            }
            let is_done = self.send(now);
            if !is_done || self.burst.segments > CONTINUOUS_BURST {
                break;
            }
            if is_drained && self.wait(cx)?.is_pending() {
                return Ok(Poll::Pending);
            }
        }
        Ok(Poll::Ready(()))
    }

    /// Sends the packets that are due; those of one flow, one behind the other, together. Returns
    /// `false` if some may be left.
    fn send(&mut self, now: Instant) -> bool {
        let mut count = 0;
        while count < MOST_SENT
            && let Some(packet) = self.transit.depart(now)
        {
            count += 1;
            if !self.train.takes(&packet) {
                self.write();
            }
            self.train.push(packet);
        }
        self.write();
        self.pace.sent(now, count);
        count < MOST_SENT
    }

    fn write(&mut self) {
        let written = self.train.write(|packet| self.device.write(packet));
        for packet in self.train.drain() {
            if written.is_err() {
                self.transit.refused(packet.bytes.len());
            }
            self.transit.recycle(packet.bytes);
        }
    }

    /// Ready if a packet is due, or may be; otherwise the task is woken for the next.
    fn wait(&mut self, cx: &mut Context<'_>) -> io::Result<Poll<()>> {
        let now = clock::now();
        let due = self.transit.next_timeout();
        if self.pace.tick().is_none() && due.is_some_and(|at| at <= now) {
            return Ok(Poll::Ready(()));
        }
        let until = match self.pace.wait(now, due) {
            Wait::Tick(at) => {
                self.device.mute();
                Some(at)
            }
            Wait::Event(at) if self.device.listens() => at,
            Wait::Event(_) => {
                self.device.listen()?;
                // To be woken, it must be read once more.
                return Ok(Poll::Ready(()));
            }
        };
        match self.timer.poll(cx, until) {
            Poll::Pending => Ok(Poll::Pending),
            Poll::Ready(fired) => fired.map(Poll::Ready),
        }
    }
}

/// Packets that were read one after another.
struct Burst {
    has_headers: bool,
    buffer: Vec<u8>,
    /// Where each packet in the buffer ends.
    ends: Vec<usize>,
    /// Packets that those in the buffer stand for.
    segments: usize,
}

impl Burst {
    fn new(offloads: Offloads) -> Self {
        Self {
            has_headers: offloads.has_headers(),
            buffer: vec![0; 2 * LARGEST_READ],
            ends: Vec::with_capacity(CONTINUOUS_BURST),
            segments: 0,
        }
    }

    /// Reads at most `most` packets that are there, and stops once their segments are `most`. Returns
    /// the time after the last of them, and `true` if none is left and this task will be woken for the
    /// next.
    ///
    /// The clock comes last, because another program may get the processor in between. Read first, it
    /// would date packets before they came, and stamp them with more queueing than there was.
    fn read(
        &mut self,
        most: usize,
        mut poll_read: impl FnMut(&mut [u8]) -> Poll<io::Result<usize>>,
    ) -> io::Result<(Instant, bool)> {
        self.ends.clear();
        self.segments = 0;
        let mut end = 0;
        while self.segments < most && self.buffer.len() - end >= LARGEST_READ {
            let start = end;
            match poll_read(&mut self.buffer[end..]) {
                Poll::Pending => return Ok((clock::now(), true)),
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Ready(Ok(length)) => end += length,
            }
            self.ends.push(end);
            let (header, packet) = self.split(start..end);
            self.segments += header.count(packet.len()).min(OffloadHeader::MAX_SEGMENTS);
        }
        Ok((clock::now(), false))
    }

    fn count(&self) -> u32 {
        self.ends.len() as u32
    }

    fn packets(&self) -> impl Iterator<Item = (OffloadHeader, &[u8])> {
        let mut start = 0;
        self.ends.iter().map(move |end| {
            let read = start..*end;
            start = *end;
            self.split(read)
        })
    }

    fn split(&self, read: Range<usize>) -> (OffloadHeader, &[u8]) {
        let read = &self.buffer[read];
        match read.split_first_chunk() {
            Some((header, packet)) if self.has_headers => (OffloadHeader::parse(header), packet),
            _ => (OffloadHeader::PLAIN, read),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads packets of these lengths, the last first; returns when the last one was given, too.
    fn read(mut lengths: Vec<usize>) -> (Vec<usize>, Instant, bool, Instant) {
        let mut last_read = clock::now();
        let mut burst = Burst::new(Offloads::default());
        let read = burst.read(BURST, |buffer| {
            let Some(length) = lengths.pop() else {
                return Poll::Pending;
            };
            last_read = clock::now();
            buffer[..length].fill(length as u8);
            Poll::Ready(Ok(length))
        });
        let (now, is_drained) = read.expect("it reads");
        let lengths = burst.packets().map(|(header, packet)| {
            assert_eq!(header, OffloadHeader::PLAIN);
            assert!(packet.iter().all(|byte| *byte == packet.len() as u8));
            packet.len()
        });
        (lengths.collect(), now, is_drained, last_read)
    }

    #[test]
    fn no_packet_is_dated_before_it_came() {
        let (lengths, now, is_drained, last_read) = read(vec![3, 2, 1]);
        assert_eq!((lengths, is_drained), (vec![1, 2, 3], true));
        assert!(now >= last_read);
    }

    #[test]
    fn a_burst_ends_with_the_superpacket_that_stands_for_many() {
        // A header of TCP over IPv4 whose segments have one byte.
        let mut header = [0; OffloadHeader::LEN];
        header[1] = 1;
        header[4..6].copy_from_slice(&1_u16.to_ne_bytes());
        let mut burst = Burst::new(Offloads {
            tcp: true,
            udp: false,
        });
        let read = burst.read(BURST, |buffer| {
            buffer[..OffloadHeader::LEN].copy_from_slice(&header);
            Poll::Ready(Ok(60_000))
        });
        assert!(!read.expect("it reads").1);
        assert_eq!((burst.count(), burst.segments), (1, 512));
    }

    #[test]
    fn a_burst_ends_after_eight_packets_or_when_the_largest_would_not_fit() {
        let (lengths, _, is_drained, _) = read((1..=20).rev().collect());
        assert_eq!((lengths, is_drained), ((1..=BURST).collect(), false));
        let (lengths, _, is_drained, _) = read(vec![1, LARGEST_READ, 9]);
        assert_eq!(
            (lengths, is_drained),
            (vec![9, LARGEST_READ], false),
            "the third waits for the next burst"
        );
        assert!(read(Vec::new()).2);
    }
}
