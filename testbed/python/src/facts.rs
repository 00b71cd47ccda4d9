//! The facts that controllers in Python receive: those of `evenkeel::controller`, in seconds and bytes.

use std::time::{Duration, Instant};

use evenkeel::Grant;
use evenkeel::controller::Cause;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// Seconds of virtual time since the run began.
fn since(epoch: Instant, at: Instant) -> f64 {
    at.saturating_duration_since(epoch).as_secs_f64()
}

fn seconds(time: Option<Duration>) -> Option<f64> {
    time.as_ref().map(Duration::as_secs_f64)
}

/// A fact: Python makes one of all of its attributes, sees them, copies it and pickles it.
macro_rules! fact {
    ($(#[doc = $about:literal])+ $fact:ident
        { $($(#[doc = $meaning:literal])+ $name:ident: $kind:ty,)+ }) => {
        $(#[doc = $about])+
        #[pyclass(frozen, get_all, module = "evenkeel")]
        #[derive(Debug)]
        pub(crate) struct $fact {
            $($(#[doc = $meaning])+ $name: $kind,)+
        }

        #[pymethods]
        impl $fact {
            #[new]
            #[allow(clippy::too_many_arguments, reason = "an argument for each attribute")]
            fn of($($name: $kind),+) -> Self {
                Self { $($name),+ }
            }

            fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
                let attribute = |name: &str| {
                    let value = slf.getattr(name)?.repr()?;
                    PyResult::Ok(format!("{name}={value}"))
                };
                let all = [$(stringify!($name)),+].into_iter().map(attribute);
                let all = all.collect::<PyResult<Vec<_>>>()?;
                Ok(format!("{}({})", stringify!($fact), all.join(", ")))
            }

            fn __getnewargs__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
                let all = [$(stringify!($name)),+].into_iter().map(|name| slf.getattr(name));
                PyTuple::new(slf.py(), all.collect::<PyResult<Vec<_>>>()?)
            }
        }
    };
}

fact! {
    /// The packets that one ACK frame newly acknowledged. Times are seconds of virtual time since
    /// the run began, sizes bytes of UDP payload.
    Ack {
        /// When the ACK was processed, seconds.
        now_s: f64,
        /// When the newest of the packets was sent, seconds.
        sent_s: f64,
        /// Round trip of the newest packet, seconds; None if the ACK measures none (RFC 9002,
        /// section 5.1).
        rtt_s: Option<f64>,
        /// Packets, at least 1.
        packets: u64,
        /// Their bytes.
        bytes: u64,
        /// The bytes of them that may grow a window: those sent after the recovery period began, or
        /// all outside of one (RFC 9002, section 7.3.2).
        bytes_after_recovery: u64,
        /// Packets newly reported as marked (ECN CE).
        marked: u64,
        /// Bytes in flight just before, its own packets included.
        in_flight: u64,
        /// The application, not the window or the pacer, kept the connection from sending more.
        app_limited: bool,
        /// How fast the path delivered meanwhile, bytes per second; None if the ACK does not show
        /// it (draft-cheng-iccrg-delivery-rate-estimation-02).
        delivery_rate: Option<f64>,
    }
}

impl Ack {
    pub(crate) fn new(ack: &evenkeel::controller::Ack, epoch: Instant) -> Self {
        let rate = ack.delivery.and_then(|delivery| {
            let time = delivery.send_interval.max(delivery.ack_interval);
            let bytes = delivery.total - delivery.before;
            (!time.is_zero()).then(|| bytes as f64 / time.as_secs_f64())
        });
        Self {
            now_s: since(epoch, ack.now),
            sent_s: since(epoch, ack.sent),
            rtt_s: seconds(ack.rtt),
            packets: ack.packets,
            bytes: ack.bytes,
            bytes_after_recovery: ack.bytes_after_recovery,
            marked: ack.marked,
            in_flight: ack.in_flight,
            app_limited: ack.app_limited,
            delivery_rate: rate,
        }
    }
}

fact! {
    /// A round trip of data that is over: it began when the one before ended, and ended with the
    /// first ACK of a packet sent since. Times are seconds of virtual time, sizes bytes of UDP
    /// payload.
    Round {
        /// When the ACK that ended it was processed, seconds since the run began.
        now_s: f64,
        /// The least round trip of its ACKs, seconds.
        rtt_min_s: f64,
        /// All samples came from packets below half the full size.
        small: bool,
        /// The round trip of a packet sent in this round, at its window, seconds.
        rtt_end_s: f64,
        /// Bytes newly acknowledged.
        bytes: u64,
        /// Bytes found lost.
        lost: u64,
        /// The most bytes in flight just before any of its ACKs.
        in_flight: u64,
        /// The bytes of the window that the connection never used.
        unused: u64,
        /// Every ACK of the round found the connection limited by the application.
        app_limited: bool,
        /// A recovery period began in this round, or lasts beyond its end.
        in_recovery: bool,
    }
}

impl Round {
    pub(crate) fn new(round: &evenkeel::controller::Round, epoch: Instant) -> Self {
        Self {
            now_s: since(epoch, round.now),
            rtt_min_s: round.rtt_min.as_secs_f64(),
            small: round.small,
            rtt_end_s: round.rtt_end.as_secs_f64(),
            bytes: round.bytes,
            lost: round.lost,
            in_flight: round.in_flight,
            unused: round.unused,
            app_limited: round.app_limited,
            in_recovery: round.in_recovery,
        }
    }
}

fact! {
    /// Packets were declared lost: every detection, however many belong to one recovery period.
    Loss {
        /// When, seconds since the run began.
        now_s: f64,
        /// Their bytes of UDP payload.
        bytes: u64,
    }
}

impl Loss {
    pub(crate) fn new(now: Instant, bytes: u64, epoch: Instant) -> Self {
        Self {
            now_s: since(epoch, now),
            bytes,
        }
    }
}

fact! {
    /// Packets were lost or marked: at most once in a recovery period (RFC 9002, section 7.3.2).
    Congestion {
        /// When it was found, seconds since the run began.
        now_s: f64,
        /// What shows it: `"loss"` or `"ecn"`.
        cause: String,
        /// Bytes found lost by this detection; 0 for marks.
        lost: u64,
    }
}

impl Congestion {
    pub(crate) fn new(event: &evenkeel::controller::Congestion, epoch: Instant) -> Self {
        Self {
            now_s: since(epoch, event.now),
            cause: match event.cause {
                Cause::Loss => "loss".into(),
                Cause::Ecn => "ecn".into(),
            },
            lost: event.lost,
        }
    }
}

fact! {
    /// What path headers measured in one round trip. Routers wrote most of it, and they may err.
    /// What no router reported is None.
    PathSample {
        /// When the echo arrived, seconds since the run began.
        now_s: f64,
        /// Round trip, seconds.
        rtt_s: f64,
        /// Queueing time on the way to the peer, seconds.
        forward_queueing_s: Option<f64>,
        /// Queueing time on the way back, seconds.
        backward_queueing_s: Option<f64>,
        /// All routers in both directions seem to have reported.
        complete: bool,
        /// Rate that routers grant (ACP, RCP), bytes per second.
        grant: Option<u64>,
        /// Change of the window that routers grant (XCP), bytes.
        window_change: Option<f64>,
        /// A router on the way to the peer is congested.
        congested: bool,
        /// Flows at the most crowded link on the way to the peer.
        flows: Option<u32>,
    }
}

impl PathSample {
    pub(crate) fn new(sample: &evenkeel::PathSample, epoch: Instant) -> Self {
        let (grant, window_change) = match sample.grant {
            Some(Grant::Rate(rate)) => (Some(rate), None),
            Some(Grant::WindowChange(change)) => (None, Some(change as f64 / 256.0)),
            None => (None, None),
        };
        Self {
            now_s: since(epoch, sample.now),
            rtt_s: sample.rtt.as_secs_f64(),
            forward_queueing_s: seconds(sample.forward_queueing),
            backward_queueing_s: seconds(sample.backward_queueing),
            complete: sample.complete,
            grant,
            window_change,
            congested: sample.congested,
            flows: sample.flows,
        }
    }
}
