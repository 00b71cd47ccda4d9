//! Settings of a sender that routers guide.

use evenkeel_spec::{SpecParameter, SpecValues};

use super::fallback::FallbackKind;
use crate::window::InitialWindow;

/// Settings of a sender that routers guide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Which controller decides while no router grants anything.
    pub fallback: FallbackKind,
    /// The initial window.
    pub initial_window: InitialWindow,
    /// What may be in flight, whatever routers grant, until ACKs have shown that the path carries
    /// more. Choose more than RFC 9002's only where no router lies.
    pub bound: InitialWindow,
}

impl Config {
    /// An initial window of one packet for a sender that knows nothing about the network (M. Lestas
    /// et al., "Adaptive Congestion Protocol", section II-B).
    pub const PAPER: Self = Self {
        fallback: FallbackKind::Vegas,
        initial_window: InitialWindow::Packets(1),
        bound: InitialWindow::Rfc9002,
    };
}

impl Default for Config {
    fn default() -> Self {
        Self::PAPER
    }
}

impl Config {
    pub(crate) fn read(values: &SpecValues) -> Self {
        let kinds = [FallbackKind::Vegas, FallbackKind::Reno];
        Self {
            fallback: values.choice("fallback", &kinds),
            initial_window: InitialWindow::read(values, "iw"),
            bound: InitialWindow::read(values, "bound"),
        }
    }
}

pub(super) static PARAMETERS: [SpecParameter; 3] = [
    SpecParameter::choice(
        "fallback",
        "the controller that decides while no router grants anything",
        &["vegas", "reno"],
        Some("vegas"),
    ),
    SpecParameter::count("iw", "initial window in packets", 1, 1000, Some(1)),
    SpecParameter::count(
        "bound",
        "packets that a first grant may put in flight at once; not given, the initial window of RFC 9002; more only where no router lies",
        10,
        60_000,
        None,
    ),
];
