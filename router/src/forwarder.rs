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
/// arrival times are that exact.
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
    buffer: Vec<u8>,
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
            buffer: vec![0; LARGEST_PACKET],
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
            let now = clock::now();
            let is_drained = match self.receive(cx, now) {
                Ok(is_drained) => is_drained,
                Err(error) => return Poll::Ready(error),
            };
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

    /// Reads packets; returns `true` if none is left, and this task will be woken for the next.
    fn receive(&mut self, cx: &mut Context<'_>, now: Instant) -> io::Result<bool> {
        for _ in 0..BURST {
            let mut buffer = ReadBuf::new(&mut self.buffer);
            match Pin::new(&mut self.tun).poll_read(cx, &mut buffer) {
                Poll::Pending => return Ok(true),
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Ready(Ok(())) => self.transit.arrive(now, buffer.filled()),
            }
        }
        Ok(false)
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
