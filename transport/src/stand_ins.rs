//! A network and a clock for a socket under test.

use std::collections::VecDeque;
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, UdpPoller};

/// What the system gives to the socket at once: a peer's address, its datagrams one behind the
/// other, and the bytes in each but the last.
pub(crate) type Arriving = (SocketAddr, Vec<u8>, usize);

/// Datagrams that the system takes at once.
const SEGMENTS: usize = 10;

/// A socket of the system that gives what it was given and keeps what it is to send.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    pub(crate) arriving: Mutex<VecDeque<Arriving>>,
    pub(crate) left: Mutex<Vec<Vec<u8>>>,
}

impl AsyncUdpSocket for Wire {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        unreachable!("the wire never blocks")
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let segment = transmit.segment_size.unwrap_or(transmit.contents.len());
        let datagrams = transmit.contents.chunks(segment.max(1));
        locked(&self.left).extend(datagrams.map(<[u8]>::to_vec));
        Ok(())
    }

    fn poll_recv(
        &self,
        _: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let mut arriving = locked(&self.arriving);
        let mut count = 0;
        for (buf, meta) in bufs.iter_mut().zip(metas) {
            let Some((addr, bytes, stride)) = arriving.pop_front() else {
                break;
            };
            buf[..bytes.len()].copy_from_slice(&bytes);
            *meta = RecvMeta {
                addr,
                len: bytes.len(),
                stride,
                ..RecvMeta::default()
            };
            count += 1;
        }
        if count == 0 {
            Poll::Pending
        } else {
            Poll::Ready(Ok(count))
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        unreachable!("nobody asks")
    }

    fn max_transmit_segments(&self) -> usize {
        SEGMENTS
    }
}

/// A clock that is set by hand.
#[derive(Debug)]
pub(crate) struct Clock(pub(crate) Mutex<Instant>);

impl Runtime for Clock {
    fn new_timer(&self, _: Instant) -> Pin<Box<dyn AsyncTimer>> {
        unreachable!("nobody waits")
    }

    fn spawn(&self, _: Pin<Box<dyn Future<Output = ()> + Send>>) {
        unreachable!("nothing runs")
    }

    fn wrap_udp_socket(&self, _: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        unreachable!("there is one socket")
    }

    fn now(&self) -> Instant {
        *locked(&self.0)
    }
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
