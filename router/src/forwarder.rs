//! One link at work: its TUN device, its timer, and the packets between them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};
use tokio_tun::Tun;

use crate::clock;
use crate::timer::Timer;
use crate::transit::Transit;

/// Packets that are read before the ones that are due go out and other links have their turn:
/// some tens of microseconds of work.
const BATCH: usize = 32;

/// The largest IP packet there is: whatever the MTU becomes, nothing is cut off.
const LARGEST_PACKET: usize = 65_535;

/// Moves packets from a TUN device through a link, and back to the same device.
pub(crate) struct Forwarder {
    tun: Tun,
    timer: Timer,
    transit: Transit,
    buffer: Vec<u8>,
}

impl Forwarder {
    /// Must be called within a tokio runtime.
    pub(crate) fn new(tun: Tun, transit: Transit) -> io::Result<Self> {
        Ok(Self {
            tun,
            timer: Timer::new()?,
            transit,
            buffer: vec![0; LARGEST_PACKET],
        })
    }

    /// The link.
    pub(crate) fn transit(&mut self) -> &mut Transit {
        &mut self.transit
    }

    /// Does what can be done now. Never ready but with an error: the device is gone.
    pub(crate) fn turn(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        loop {
            let is_drained = match self.receive(cx) {
                Ok(is_drained) => is_drained,
                Err(error) => return Poll::Ready(error),
            };
            self.send();
            if !is_drained {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let deadline = self.transit.next_timeout();
            if deadline.is_some_and(|at| at <= clock::now()) {
                continue;
            }
            match self.timer.poll(cx, deadline) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(error),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Takes a batch of packets in; `true` if there are no more, and this task will hear of the next.
    fn receive(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        for _ in 0..BATCH {
            let mut buffer = ReadBuf::new(&mut self.buffer);
            match Pin::new(&mut self.tun).poll_read(cx, &mut buffer) {
                Poll::Pending => return Ok(true),
                Poll::Ready(Err(error)) => return Err(error),
                // Each packet has its own time of arrival: reading the clock costs a fiftieth of
                // reading the packet.
                Poll::Ready(Ok(())) => self.transit.arrive(clock::now(), buffer.filled()),
            }
        }
        Ok(false)
    }

    /// Sends what is due.
    fn send(&mut self) {
        let now = clock::now();
        while let Some(packet) = self.transit.depart(now) {
            // The device takes packets at once, or refuses them: it has no queue in this direction.
            if self.tun.try_send(&packet).is_err() {
                self.transit.refused(packet.len());
            }
        }
    }
}
