//! Links a controller with the state of its connection: it hears what headers say, and headers what
//! it decides.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_congestion::{AckFrame, EcnUse, PathFeed};
use evenkeel_headers::{Owner, PathFacts};
use noq_proto::congestion::{Controller, ControllerFactory};

use crate::connection::{Connection, Connections, OwnFeed};
use crate::hooks;
use crate::path_factory::SharedFactory;
use crate::watched::{AckEnd, Watch, Watched};

/// Builds controllers that are linked with their connections.
pub(crate) struct LinkedFactory {
    pub(crate) factory: SharedFactory,
    pub(crate) connections: Arc<Connections>,
    pub(crate) ecn: EcnUse,
}

impl ControllerFactory for LinkedFactory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let mut is_new = false;
        let new = || {
            is_new = true;
            Connection::new(self.connections.clone())
        };
        let connection = hooks::order(|order| order.controller_built(new));
        connection.new_path(current_mtu);
        let own = {
            let mut state = connection.state();
            let ecn = state.ecn_use(self.ecn);
            state.kept.feed.ecn.set_use(ecn);
            // A path that an application opens begins outside its connection's driver.
            (is_new || state.has_paths).then(OwnFeed::default)
        };
        let feed = match &own {
            Some(own) => PathFeed::new(own.clone()),
            None => connection.feed(),
        };
        let controller = self.factory.clone().build_fed(now, current_mtu, feed);
        let link = Link {
            connection,
            smoothed_rtt: None,
            frame: AckFrame::default(),
            estimate: Duration::ZERO,
            has_data: false,
            own,
            ecn: self.ecn,
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
    /// Its controller's feed, where that is not the connection's.
    own: Option<OwnFeed>,
    ecn: EcnUse,
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
        let polled = hooks::polled().map(|(connection, _)| connection);
        let connection = polled.as_ref().unwrap_or(&self.connection);
        let mut state = connection.state();
        state.on_built(std::mem::take(&mut self.has_data));
        if let Some(own) = &self.own {
            state.own_feed(own, self.ecn);
        }
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
