//! Wraps a [`noq::Runtime`], so that drivers name their connections and sockets use headers.

use std::future::Future;
use std::io;
use std::net::UdpSocket;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use evenkeel_headers::Order;
use noq::{AsyncTimer, AsyncUdpSocket};

use crate::connection::Connection;
use crate::hooks;
use crate::socket::{HeaderSettings, Socket};

/// The runtime that endpoints with path headers run on.
#[derive(Debug)]
pub(crate) struct Runtime {
    pub(crate) inner: Arc<dyn noq::Runtime>,
    /// How new UDP sockets of the system use headers.
    pub(crate) headers: Option<HeaderSettings>,
}

impl noq::Runtime for Runtime {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        self.inner.new_timer(at)
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.inner.spawn(match hooks::order(Order::driver_spawned) {
            Some(connection) => Box::pin(Driver {
                future,
                connection,
                runtime: self.inner.clone(),
            }),
            None => future,
        });
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Box<dyn AsyncUdpSocket>> {
        let headers = self.headers.clone().map(|settings| HeaderSettings {
            usage: settings.usage.on_socket(&socket),
            ..settings
        });
        let socket = self.inner.wrap_udp_socket(socket)?;
        Ok(Box::new(Socket::new(socket, headers)))
    }

    fn now(&self) -> Instant {
        let now = self.inner.now();
        hooks::clock_read(now);
        now
    }
}

/// A connection's driver, which names the connection in every poll.
struct Driver {
    future: Pin<Box<dyn Future<Output = ()> + Send>>,
    connection: Arc<Connection>,
    runtime: Arc<dyn noq::Runtime>,
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let _polled = hooks::Poll::begin(self.connection.clone(), self.runtime.now());
        self.future.as_mut().poll(cx)
    }
}
