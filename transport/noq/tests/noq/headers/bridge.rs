//! noq on the testbed's simulated network: its traits on top of quinn's.

use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use evenkeel_testbed::sim::SimRuntime;
use noq::udp::{EcnCodepoint, RecvMeta, Transmit};
use noq::{AsyncTimer, AsyncUdpSocket, UdpSender};
use quinn::{AsyncUdpSocket as _, Runtime as _};

use super::support::Recorder;

/// Virtual time.
#[derive(Debug, Clone)]
pub(crate) struct Time(pub(crate) Arc<SimRuntime>);

impl noq::Runtime for Time {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        Box::pin(Timer(self.0.new_timer(at)))
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.0.spawn(future);
    }

    fn wrap_udp_socket(&self, _: UdpSocket) -> io::Result<Box<dyn AsyncUdpSocket>> {
        unreachable!("the network is simulated")
    }

    fn now(&self) -> Instant {
        self.0.now()
    }
}

#[derive(Debug)]
struct Timer(Pin<Box<dyn quinn::AsyncTimer>>);

impl AsyncTimer for Timer {
    fn reset(mut self: Pin<&mut Self>, at: Instant) {
        self.0.as_mut().reset(at);
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(cx)
    }
}

/// A simulated socket as noq sees it, which never blocks.
#[derive(Debug, Clone)]
pub(crate) struct Socket(pub(crate) Arc<Recorder>);

/// Buffers that noq offers at once.
const MOST_BUFFERS: usize = 32;

impl AsyncUdpSocket for Socket {
    fn create_sender(&self) -> Pin<Box<dyn UdpSender>> {
        Box::pin(self.clone())
    }

    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let mut metas = [quinn::udp::RecvMeta::default(); MOST_BUFFERS];
        let most = meta.len().min(MOST_BUFFERS);
        let count = ready!(self.0.poll_recv(cx, &mut bufs[..most], &mut metas[..most]))?;
        for (meta, other) in meta.iter_mut().zip(&metas[..count]) {
            *meta = RecvMeta::default();
            (meta.addr, meta.len, meta.stride) = (other.addr, other.len, other.stride);
            meta.ecn = other.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8));
            meta.dst_ip = other.dst_ip;
        }
        Poll::Ready(Ok(count))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    fn may_fragment(&self) -> bool {
        self.0.may_fragment()
    }
}

impl UdpSender for Socket {
    fn poll_send(
        self: Pin<&mut Self>,
        transmit: &Transmit<'_>,
        _: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        Poll::Ready(
            self.0.try_send(&quinn::udp::Transmit {
                destination: transmit.destination,
                ecn: transmit
                    .ecn
                    .and_then(|ecn| quinn::udp::EcnCodepoint::from_bits(ecn as u8)),
                contents: transmit.contents,
                segment_size: transmit.segment_size,
                src_ip: transmit.src_ip,
            }),
        )
    }

    fn max_transmit_segments(&self) -> std::num::NonZeroUsize {
        self.0
            .max_transmit_segments()
            .try_into()
            .expect("at least one")
    }
}
