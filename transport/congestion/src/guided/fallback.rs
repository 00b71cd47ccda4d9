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

impl FallbackKind {
    pub(super) fn build(self, initial_window: InitialWindow, mtu: u16) -> Box<dyn Controller> {
        match self {
            Self::Vegas => {
                let config = vegas::Config {
                    initial_window,
                    ..vegas::Config::VEGAS_1
                };
                Box::new(Vegas::new(config, mtu))
            }
            Self::Reno => {
                let config = gaimd::Config {
                    initial_window,
                    slow_start: SlowStart::HyStart,
                    ..gaimd::Config::RENO
                };
                Box::new(Gaimd::new(config, mtu))
            }
        }
    }
}
