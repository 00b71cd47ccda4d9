//! Wraps a [`quinn::Runtime`] to pace the connections' drivers.
//!
//! Packets cannot be held back where they are sent: quinn has built and time-stamped them by then,
//! and the wait would count as round trip time. So quinn builds them later. While a connection's
//! bucket is empty, its controller reports a full window ([`Paced`](crate::quinn_order::paced)). ACKs and
//! probes pass nevertheless. The driver is polled again when the bucket has filled.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;
use std::{io, mem};

use quinn::{AsyncTimer, AsyncUdpSocket};

use super::socket::{HeaderSettings, Socket};
use super::timer::Timer;
use super::train::Train;
use crate::connection::Connection;

/// The runtime that evenkeel's endpoints run on.
#[derive(Debug)]
pub(crate) struct Runtime {
    pub(crate) inner: Arc<dyn quinn::Runtime>,
    /// `inner` is tokio: drivers get finer timers than tokio's where the system has them. On any
    /// other runtime, pacing is only as fine as its timers.
    pub(crate) tokio: bool,
    /// How new UDP sockets of the system use headers.
    pub(crate) headers: Option<HeaderSettings>,
}

impl quinn::Runtime for Runtime {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        self.inner.new_timer(at)
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.inner.spawn(match super::driver_spawned() {
            Some(connection) => Box::pin(Driver {
                future,
                connection,
                runtime: self.inner.clone(),
                tokio: self.tokio,
                timer: None,
                train: Train::default(),
            }),
            None => future,
        });
    }

    fn wrap_udp_socket(&self, socket: std::net::UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        let headers = self.headers.clone().map(|settings| HeaderSettings {
            usage: settings.usage.on_socket(&socket),
            ..settings
        });
        let socket = self.inner.wrap_udp_socket(socket)?;
        Ok(Arc::new(Socket::new(socket, headers)))
    }

    fn now(&self) -> Instant {
        let now = self.inner.now();
        super::clock_read(now);
        now
    }
}

/// A connection's driver, which names the connection in every poll.
struct Driver {
    future: Pin<Box<dyn Future<Output = ()> + Send>>,
    connection: Arc<Connection>,
    runtime: Arc<dyn quinn::Runtime>,
    tokio: bool,
    /// Created when the bucket first holds something back: most connections only receive.
    timer: Option<Timer>,
    /// What the system has not taken yet.
    train: Train,
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.connection.ended();
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let train = mem::take(&mut this.train);
        let polled = super::Poll::begin(this.connection.clone(), this.runtime.now(), train);
        let mut driven = this.future.as_mut().poll(cx);
        // quinn would be polled again at once, but what it sends then would need another call.
        if driven.is_pending() && polled.has_room() {
            driven = this.future.as_mut().poll(cx);
        }
        let (train, next) = polled.end();
        this.train = train;
        // If it waits, it wakes this task.
        let _ = this.train.poll_depart(cx);
        if driven.is_ready() {
            return Poll::Ready(());
        }
        if let Some(at) = next {
            let timer = this
                .timer
                .get_or_insert_with(|| Timer::new(&this.runtime, this.tokio));
            if timer.poll_until(this.runtime.now(), at, cx).is_ready() {
                cx.waker().wake_by_ref();
            }
        }
        Poll::Pending
    }
}
