//! Links a controller with the state of its connection: it hears what headers say, and headers what
//! it decides.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_congestion::AckFrame;
use evenkeel_headers::{Owner, PathFacts};
use noq_proto::congestion::{Controller, ControllerFactory};

use crate::SharedFactory;
use crate::connection::{Connection, Connections};
use crate::hooks;
use crate::watched::{AckEnd, Watch, Watched};

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
            frame: AckFrame::default(),
            estimate: Duration::ZERO,
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
    /// The ACK frame being processed.
    frame: AckFrame,
    /// noq's estimate of the round trip before this frame; before the first ACK, a guess.
    estimate: Duration,
    /// The datagrams that are being built hold more than ACKs.
    has_data: bool,
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

    fn on_packet_acked(&mut self, now: Instant, sent: Instant, bytes: u64, rtt: Duration) {
        self.frame.add(now, sent, bytes);
        self.estimate = rtt;
    }

    fn on_end_acks(&mut self, end: &AckEnd, controller: &dyn Controller) {
        let Some(packets) = self.frame.take(end.now) else {
            return;
        };
        self.smoothed_rtt = Some(match self.smoothed_rtt {
            None => end.now.saturating_duration_since(packets.sent),
            Some(_) => self.estimate,
        });
        // noq tells a controller of ACKs only for packets that were sent to the present address.
        self.connection.state().kept.validated();
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
