//! Wraps a UDP socket: adds path headers to datagrams that leave, sets their ECN codepoint, and
//! removes headers from those that arrive.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use evenkeel_congestion::EcnMode;
use evenkeel_headers::{Datagrams, Filled, Received, Usage, locked};
use quinn::udp::{EcnCodepoint, RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, Runtime, UdpPoller};

use crate::connection::Connection;

/// The socket of an endpoint.
#[derive(Debug)]
pub(crate) struct Socket {
    inner: Arc<dyn AsyncUdpSocket>,
    headers: Option<HeaderSettings>,
    received: Mutex<Received<RecvMeta>>,
}

/// How an endpoint uses headers.
#[derive(Debug, Clone)]
pub(crate) struct HeaderSettings {
    pub(crate) usage: Usage<Connection>,
    pub(crate) runtime: Arc<dyn Runtime>,
}

impl Socket {
    pub(crate) fn new(inner: Arc<dyn AsyncUdpSocket>, headers: Option<HeaderSettings>) -> Self {
        Self {
            inner,
            headers,
            received: Mutex::new(Received::new(filled)),
        }
    }

    /// Gives `transmit` to the system: at the end of the poll of a driver, otherwise at once.
    fn give(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let sent = super::send(&self.inner, transmit);
        sent.unwrap_or_else(|| self.inner.try_send(transmit))
    }
}

impl AsyncUdpSocket for Socket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        super::poller_created();
        self.inner.clone().create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        // What an endpoint sends for no connection is not ECN-capable.
        let Some((connection, now)) = super::polled() else {
            return self.give(transmit);
        };
        let transmit = &with_ecn(transmit, &connection);
        if let Some(settings) = &self.headers {
            let datagrams = Datagrams {
                destination: transmit.destination,
                contents: transmit.contents,
                segment_size: transmit.segment_size,
            };
            let is_data = || super::is_data(&connection);
            let give = |contents: &[u8], segment_size| {
                self.give(&Transmit {
                    contents,
                    segment_size,
                    ..*transmit
                })
            };
            let usage = &settings.usage;
            return usage.send(&connection, now, &datagrams, is_data, give);
        }
        self.give(transmit)
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let Some(settings) = &self.headers else {
            return self.inner.poll_recv(cx, bufs, meta);
        };
        let waited = locked(&self.received).take_overflow(bufs, meta);
        if waited > 0 {
            return Poll::Ready(Ok(waited));
        }
        let count = ready!(self.inner.poll_recv(cx, bufs, meta))?;
        let (now, metas) = (settings.runtime.now(), &mut meta[..count]);
        let mut received = locked(&self.received);
        let count = received.take_headers_off(&settings.usage, now, bufs, metas);
        Poll::Ready(Ok(count))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        let most = self.inner.max_transmit_segments();
        let Some((connection, now)) = super::polled() else {
            return most;
        };
        let mut state = connection.state();
        let most = match &self.headers {
            Some(settings) => settings.usage.batch(&connection, state.part(), now, most),
            None => most,
        };
        super::batch(&mut state, now, most)
    }

    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

/// Returns `transmit` with the ECN codepoint that `connection` uses.
fn with_ecn<'a>(transmit: &Transmit<'a>, connection: &Arc<Connection>) -> Transmit<'a> {
    let segment = transmit.segment_size.unwrap_or(transmit.contents.len());
    let datagrams = transmit.contents.len().div_ceil(segment.max(1));
    let is_data = super::is_data(connection);
    let ecn = &mut connection.state().kept.feed.ecn;
    Transmit {
        ecn: match ecn.leaving(datagrams, transmit.ecn.is_some(), is_data) {
            Some(EcnMode::Classic) => Some(EcnCodepoint::Ect0),
            Some(EcnMode::Scalable) => Some(EcnCodepoint::Ect1),
            None => None,
        },
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

#[cfg(test)]
mod tests;
