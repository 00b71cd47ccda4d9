//! Wraps a noq socket: adds path headers to datagrams that leave, sets their ECN codepoint, and
//! removes headers from those that arrive.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use evenkeel_congestion::EcnMode;
use evenkeel_headers::{Datagrams, Filled, Order, Owner, Received, Usage};
use noq::udp::{EcnCodepoint, RecvMeta, Transmit};
use noq::{AsyncUdpSocket, UdpSender};

use crate::connection::Connection;
use crate::hooks;

/// The socket of an endpoint.
#[derive(Debug)]
pub(crate) struct Socket {
    inner: Box<dyn AsyncUdpSocket>,
    headers: Option<HeaderSettings>,
    received: Received<RecvMeta>,
}

/// How an endpoint uses headers.
#[derive(Debug, Clone)]
pub(crate) struct HeaderSettings {
    pub(crate) usage: Usage<Connection>,
    pub(crate) runtime: Arc<dyn noq::Runtime>,
}

impl Socket {
    pub(crate) fn new(inner: Box<dyn AsyncUdpSocket>, headers: Option<HeaderSettings>) -> Self {
        // A path that the application has opened on this thread has built a controller, too.
        hooks::order(Order::forget);
        Self {
            inner,
            headers,
            received: Received::new(filled),
        }
    }
}

impl AsyncUdpSocket for Socket {
    fn create_sender(&self) -> Pin<Box<dyn UdpSender>> {
        Box::pin(Sender {
            inner: self.inner.create_sender(),
            usage: self.headers.as_ref().map(|settings| settings.usage.clone()),
            is_later: hooks::order(Order::socket_taken).is_none(),
        })
    }

    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let Some(settings) = &self.headers else {
            return self.inner.poll_recv(cx, bufs, meta);
        };
        let waited = self.received.take_overflow(bufs, meta);
        if waited > 0 {
            return Poll::Ready(Ok(waited));
        }
        let count = ready!(self.inner.poll_recv(cx, bufs, meta))?;
        let (now, metas) = (settings.runtime.now(), &mut meta[..count]);
        let count = self
            .received
            .take_headers_off(&settings.usage, now, bufs, metas);
        Poll::Ready(Ok(count))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_receive_segments(&self) -> NonZeroUsize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

/// What a connection, or the endpoint, sends with.
#[derive(Debug)]
struct Sender {
    inner: Pin<Box<dyn UdpSender>>,
    usage: Option<Usage<Connection>>,
    /// It has not sent yet, and is not a connection's first: the local address changes with it.
    is_later: bool,
}

impl UdpSender for Sender {
    fn poll_send(
        mut self: Pin<&mut Self>,
        transmit: &Transmit<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let Self {
            inner,
            usage,
            is_later,
        } = &mut *self;
        // What an endpoint sends for no connection is not ECN-capable.
        let Some((connection, now)) = hooks::polled() else {
            return inner.as_mut().poll_send(transmit, cx);
        };
        let transmit = &with_ecn(transmit, &connection);
        let Some(usage) = usage else {
            let sent = ready!(inner.as_mut().poll_send(transmit, cx));
            connection.state().on_left();
            return Poll::Ready(sent);
        };
        if std::mem::take(is_later) {
            connection.rebound();
        }
        let datagrams = Datagrams {
            destination: transmit.destination,
            contents: transmit.contents,
            segment_size: transmit.segment_size,
        };
        let is_data = connection.state().is_data;
        let give = |contents: &[u8], segment_size| {
            let transmit = Transmit {
                contents,
                segment_size,
                ..*transmit
            };
            match inner.as_mut().poll_send(&transmit, cx) {
                Poll::Ready(sent) => sent.map_err(Poll::Ready),
                Poll::Pending => Err(Poll::Pending),
            }
        };
        let sent = match usage.send(&connection, now, &datagrams, || is_data, give) {
            Ok(()) => Ok(()),
            Err(unsent) => Err(ready!(unsent)),
        };
        connection.state().on_left();
        Poll::Ready(sent)
    }

    fn max_transmit_segments(&self) -> NonZeroUsize {
        let most = self.inner.max_transmit_segments();
        let Some((usage, (connection, now))) = self.usage.as_ref().zip(hooks::polled()) else {
            return most;
        };
        let mut state = connection.state();
        let batch = usage.batch(&connection, state.part(), now, most.get());
        NonZeroUsize::new(batch).unwrap_or(NonZeroUsize::MIN)
    }
}

/// Returns `transmit` with the ECN codepoint that `connection` uses.
fn with_ecn<'a>(transmit: &Transmit<'a>, connection: &Connection) -> Transmit<'a> {
    let segment = transmit.segment_size.unwrap_or(transmit.contents.len());
    let datagrams = transmit.contents.len().div_ceil(segment.max(1));
    let leaving = (connection.state()).leaving(datagrams, transmit.ecn.is_some());
    Transmit {
        ecn: leaving.map(|mode| match mode {
            EcnMode::Classic => EcnCodepoint::Ect0,
            EcnMode::Scalable => EcnCodepoint::Ect1,
        }),
        ..*transmit
    }
}

fn filled(meta: &mut RecvMeta) -> Filled<'_> {
    Filled {
        address: meta.addr,
        len: &mut meta.len,
        stride: &mut meta.stride,
    }
}
