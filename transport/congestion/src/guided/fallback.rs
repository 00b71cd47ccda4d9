//! The controller that decides while no router grants anything.

use crate::controller::Controller;
use crate::gaimd::{self, Gaimd};
use crate::slow_start::SlowStart;
use crate::vegas::{self, Vegas};
use crate::window::InitialWindow;

/// Which controller decides while no router grants anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FallbackKind {
    /// TCP Vegas.
    #[default]
    Vegas,
    /// NewReno of RFC 9002.
    Reno,
}

#[derive(Debug, Clone)]
pub(super) enum Fallback {
    Vegas(Vegas),
    Reno(Gaimd),
}

impl Fallback {
    pub(super) fn new(kind: FallbackKind, initial_window: InitialWindow, mtu: u16) -> Self {
        match kind {
            FallbackKind::Vegas => Self::Vegas(Vegas::new(
                vegas::Config {
                    initial_window,
                    ..vegas::Config::VEGAS_1
                },
                mtu,
            )),
            FallbackKind::Reno => Self::Reno(Gaimd::new(
                gaimd::Config {
                    initial_window,
                    slow_start: SlowStart::HyStart,
                    ..gaimd::Config::RENO
                },
                mtu,
            )),
        }
    }

    pub(super) fn get(&self) -> &dyn Controller {
        match self {
            Self::Vegas(vegas) => vegas,
            Self::Reno(reno) => reno,
        }
    }

    pub(super) fn get_mut(&mut self) -> &mut dyn Controller {
        match self {
            Self::Vegas(vegas) => vegas,
            Self::Reno(reno) => reno,
        }
    }

    /// Continues in congestion avoidance with `window` bytes.
    pub(super) fn resume(&mut self, window: u64) {
        match self {
            Self::Vegas(vegas) => vegas.resume(window),
            Self::Reno(reno) => reno.avoid_congestion(window),
        }
    }
}
