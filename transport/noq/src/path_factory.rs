//! What adapters, wrappers and endpoints call a factory of noq controllers.

use std::sync::Arc;
use std::time::Instant;

use evenkeel_congestion::PathFeed;
use noq_proto::congestion::{self, ControllerFactory};

/// A factory of noq controllers, as `noq::TransportConfig::congestion_controller_factory` takes it.
pub type SharedFactory = Arc<dyn PathFactory + Send + Sync>;

/// A factory of noq controllers which learn what noq does not report. `controller` and `adapt` make
/// them; only a wrapper around another factory implements it.
pub trait PathFactory: ControllerFactory {
    /// Builds a controller like [`ControllerFactory::build`] does; it hears of its path through
    /// `feed`, before each ACK that it processes. By default it hears nothing.
    fn build_fed(
        self: Arc<Self>,
        now: Instant,
        current_mtu: u16,
        feed: PathFeed,
    ) -> Box<dyn congestion::Controller> {
        feed.follow(None);
        self.build(now, current_mtu)
    }
}
