//! Links a controller with the state of its connection: it hears what headers say, and headers what
//! it decides.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_headers::{Owner, PathFacts};
use noq_proto::congestion::{Controller, ControllerFactory};

use crate::SharedFactory;
use crate::connection::{Connection, Connections};
use crate::hooks;
use crate::watched::{AckFrame, Watch, Watched};

/// Builds controllers that are linked with their connections.
pub(crate) struct LinkedFactory {
    pub(crate) factory: SharedFactory,
    pub(crate) connections: Arc<Connections>,
}

impl ControllerFactory for LinkedFactory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let polled = hooks::polled().map(|(connection, _)| connection);
        let new = || Connection::new(self.connections.clone());
        let connection = hooks::beginning(|beginning| beginning.controller(polled, new));
        connection.new_path(current_mtu);
        let feed = connection.feed();
        let controller = self.factory.clone().build_fed(now, current_mtu, feed);
        let link = Link {
            connection,
            smoothed_rtt: None,
            newest: None,
            has_data: false,
        };
        link.publish(&*controller);
        Box::new(Watched {
            controller,
            watch: link,
        })
    }
}

/// Tells a connection what its controller decides.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    pub(crate) connection: Arc<Connection>,
    smoothed_rtt: Option<Duration>,
    newest: Option<Newest>,
    /// The datagrams that are being built hold more than ACKs.
    has_data: bool,
}

/// The newest packet of the ACK frame that is being processed.
#[derive(Debug, Clone, Copy)]
struct Newest {
    now: Instant,
    sent: Instant,
    /// The estimate of noq before this ACK; before the first ACK, a guess.
    smoothed_rtt: Duration,
}

impl Link {
    fn publish(&self, controller: &dyn Controller) {
        let metrics = controller.metrics();
        let path = &mut self.connection.state().path;
        *path = PathFacts {
            mtu: path.mtu,
            window: metrics.congestion_window,
            rtt: self.smoothed_rtt,
            rate: metrics.pacing_rate.filter(|rate| *rate > 0),
        };
    }
}

impl Watch for Link {
    fn on_packet(&mut self) {
        self.has_data = true;
    }

    fn on_sent(&mut self, _now: Instant, _bytes: u64) {
        self.connection.state().is_data = std::mem::take(&mut self.has_data);
    }

    fn on_packet_acked(&mut self, now: Instant, sent: Instant, _bytes: u64, rtt: Duration) {
        let newest = match self.newest {
            Some(newest) if newest.now == now => newest.sent.max(sent),
            _ => sent,
        };
        self.newest = Some(Newest {
            now,
            sent: newest,
            smoothed_rtt: rtt,
        });
    }

    fn on_end_acks(&mut self, frame: &AckFrame, controller: &dyn Controller) {
        // A Retry leaves an older packet.
        let newest = self.newest.take().filter(|newest| newest.now == frame.now);
        let Some(newest) = newest else {
            return;
        };
        self.smoothed_rtt = Some(match self.smoothed_rtt {
            None => frame.now.saturating_duration_since(newest.sent),
            Some(_) => newest.smoothed_rtt,
        });
        // noq tells a controller of ACKs only for packets that were sent to the present address.
        if let Some(to) = &mut self.connection.state().headers {
            to.validated();
        }
        self.publish(controller);
    }

    fn on_congestion(&mut self, _now: Instant, _lost_bytes: u64, controller: &dyn Controller) {
        self.publish(controller);
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.connection.state().path.mtu = mtu;
    }

    fn into_any(self, _controller: Box<dyn Controller>) -> Box<dyn Any> {
        Box::new(self)
    }
}
