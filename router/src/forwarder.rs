//! Runs one link: its TUN device, its timer, and the packets between them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, ReadBuf};
use tokio_tun::Tun;

use crate::clock;
use crate::timer::Timer;
use crate::transit::Transit;

/// Packets that share a reading of the clock. Reading eight takes some five microseconds, so
/// arrival times are that exact, unless another program gets the processor meanwhile.
const BURST: usize = 8;

/// Bursts before other links have their turn: some tens of microseconds of work.
const BURSTS: usize = 4;

/// After packets were sent, the timer waits at least this long for the next ones, unless a packet
/// arrives first: each firing costs as much as several packets do (docs/router.md has figures). A
/// packet that comes alone leaves on time.
const COALESCING: Duration = Duration::from_micros(100);

/// The largest IP packet: nothing is cut off, whatever the MTU becomes.
const LARGEST_PACKET: usize = 65_535;

/// Moves packets from a TUN device through a link, and back to the same device.
pub(crate) struct Forwarder {
    tun: Tun,
    timer: Timer,
    transit: Transit,
    burst: Burst,
    /// When packets were last sent.
    sent: Instant,
}

impl Forwarder {
    /// Must be called within a tokio runtime.
    pub(crate) fn new(tun: Tun, transit: Transit) -> io::Result<Self> {
        Ok(Self {
            tun,
            timer: Timer::new()?,
            transit,
            burst: Burst::new(),
            sent: clock::now(),
        })
    }

    /// The link.
    pub(crate) fn transit(&mut self) -> &mut Transit {
        &mut self.transit
    }

    /// Does all work that is due. Becomes ready only with an error: the device is gone.
    pub(crate) fn turn(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        for _ in 0..BURSTS {
            let (now, is_drained) = match self.burst.read(cx, &mut self.tun) {
                Ok(read) => read,
                Err(error) => return Poll::Ready(error),
            };
            for packet in self.burst.packets() {
                self.transit.arrive(now, packet);
            }
            self.send(now);
            if is_drained {
                match self.wait(cx) {
                    Ok(Poll::Ready(())) => {}
                    Ok(Poll::Pending) => return Poll::Pending,
                    Err(error) => return Poll::Ready(error),
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Sends the packets that are due.
    fn send(&mut self, now: Instant) {
        while let Some(packet) = self.transit.depart(now) {
            self.sent = now;
            // The device takes packets at once or refuses them: it has no queue in this direction.
            if self.tun.try_send(&packet).is_err() {
                self.transit.refused(packet.len());
            }
            self.transit.recycle(packet);
        }
    }

    /// Ready if a packet is due, or may be; otherwise the timer wakes the task.
    fn wait(&mut self, cx: &mut Context<'_>) -> io::Result<Poll<()>> {
        let due = self.transit.next_timeout();
        if due.is_some_and(|at| at <= clock::now()) {
            return Ok(Poll::Ready(()));
        }
        let coalesced = due.map(|at| at.max(self.sent + COALESCING));
        match self.timer.poll(cx, coalesced) {
            Poll::Pending => Ok(Poll::Pending),
            Poll::Ready(fired) => fired.map(Poll::Ready),
        }
    }
}

/// Packets that were read one after another.
struct Burst {
    buffer: Vec<u8>,
    /// Where each packet in the buffer ends.
    ends: Vec<usize>,
}

impl Burst {
    fn new() -> Self {
        Self {
            buffer: vec![0; 2 * LARGEST_PACKET],
            ends: Vec::with_capacity(BURST),
        }
    }

    /// Reads the packets that are there. Returns the time after the last of them, and `true` if none
    /// is left and this task will be woken for the next.
    ///
    /// The clock comes last, because another program may get the processor in between. Read first, it
    /// would date packets before they came, and stamp them with more queueing than there was.
    fn read(
        &mut self,
        cx: &mut Context<'_>,
        device: &mut (impl AsyncRead + Unpin),
    ) -> io::Result<(Instant, bool)> {
        self.ends.clear();
        let mut end = 0;
        while self.ends.len() < BURST && self.buffer.len() - end >= LARGEST_PACKET {
            let mut packet = ReadBuf::new(&mut self.buffer[end..]);
            match Pin::new(&mut *device).poll_read(cx, &mut packet) {
                Poll::Pending => return Ok((clock::now(), true)),
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Ready(Ok(())) => end += packet.filled().len(),
            }
            self.ends.push(end);
        }
        Ok((clock::now(), false))
    }

    fn packets(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |end| {
            let packet = &self.buffer[start..*end];
            start = *end;
            packet
        })
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Has packets of these lengths, and knows when it gave the last one.
    struct Device {
        lengths: Vec<usize>,
        last_read: Instant,
    }

    impl AsyncRead for Device {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _cx: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let Some(length) = self.lengths.pop() else {
                return Poll::Pending;
            };
            self.last_read = clock::now();
            buffer.put_slice(&vec![length as u8; length]);
            Poll::Ready(Ok(()))
        }
    }

    fn read(lengths: Vec<usize>) -> (Vec<usize>, Instant, bool, Device) {
        let mut device = Device {
            lengths,
            last_read: clock::now(),
        };
        let mut burst = Burst::new();
        let mut cx = Context::from_waker(Waker::noop());
        let (now, is_drained) = burst.read(&mut cx, &mut device).expect("it reads");
        let lengths = burst.packets().map(|packet| {
            assert!(packet.iter().all(|byte| *byte == packet.len() as u8));
            packet.len()
        });
        (lengths.collect(), now, is_drained, device)
    }

    #[test]
    fn no_packet_is_dated_before_it_came() {
        let (lengths, now, is_drained, device) = read(vec![3, 2, 1]);
        assert_eq!((lengths, is_drained), (vec![1, 2, 3], true));
        assert!(now >= device.last_read);
    }

    #[test]
    fn a_burst_ends_after_eight_packets_or_when_the_largest_would_not_fit() {
        let (lengths, _, is_drained, device) = read((1..=20).rev().collect());
        assert_eq!((lengths.len(), is_drained), (BURST, false));
        assert_eq!(device.lengths.len(), 20 - BURST);
        let (lengths, _, is_drained, _) = read(vec![1, LARGEST_PACKET, 9]);
        assert_eq!(
            (lengths, is_drained),
            (vec![9, LARGEST_PACKET], false),
            "the third waits for the next burst"
        );
        assert!(read(Vec::new()).2);
    }
}
