//! What the fuzz targets share: the operations of a router, and the properties that hold after
//! each of them whatever the header was.
//!
//! `cargo +nightly fuzz run path_header -- -max_total_time=60`, and the same for `packet`. With a
//! stable compiler: `RUSTC_BOOTSTRAP=1 cargo fuzz run ...`.

use std::time::Duration;

use evenkeel_wire::{
    CompactCount, CompactRate, PathHeaderKind, PathHeaderMut, PathHeaderRepr, PathHeaderView,
    WindowChange,
};
use libfuzzer_sys::arbitrary::{self, Arbitrary};

/// What a router may do to a header.
#[derive(Debug, Clone, Copy, Arbitrary)]
pub enum Operation {
    /// In nanoseconds.
    AddQueueingTime(u64),
    /// The TTL with which the packet leaves.
    RecordTtl(u8),
    /// In bytes per second; `None` is no limit.
    LimitRate(Option<u64>),
    /// In 256ths of a byte.
    LimitWindowChange(i64),
    /// H_congestion.
    MarkCongested,
    /// A number of flows.
    RaiseContention(u32),
}

impl Operation {
    /// Does it, and checks that every field moved in its own direction only and that what the tag
    /// covers did not move at all.
    pub fn apply_checked(self, header: &mut PathHeaderMut<'_>) {
        let covered = header.view().covered_by_tag();
        let before = PathHeaderRepr::parse(&header.view());
        match self {
            Self::AddQueueingTime(nanos) => header.add_queueing_time(Duration::from_nanos(nanos)),
            Self::RecordTtl(leaving) => header.record_ttl(leaving),
            Self::LimitRate(rate) => {
                let rate = rate.map_or(CompactRate::NO_LIMIT, CompactRate::from_bytes_per_second);
                header.limit_rate(rate);
            }
            Self::LimitWindowChange(change) => {
                header.limit_window_change(WindowChange::from_256ths(change));
            }
            Self::MarkCongested => header.mark_congested(),
            Self::RaiseContention(flows) => {
                header.raise_contention(CompactCount::from_flows(flows));
            }
        }
        assert_eq!(header.view().covered_by_tag(), covered);
        let after = PathHeaderRepr::parse(&header.view());
        let (old, new) = (before.signals, after.signals);
        assert!(new.queueing_time >= old.queueing_time);
        assert!(new.contention >= old.contention);
        assert!(new.flags.stamped >= old.flags.stamped && new.flags.gap >= old.flags.gap);
        assert!(new.flags.congested >= old.flags.congested);
        assert!(new.flags.offered >= old.flags.offered);
        if let PathHeaderKind::Xcp { .. } = after.kind {
            assert!(new.feedback.window_change() <= old.feedback.window_change());
        } else {
            assert!(new.feedback.rate() <= old.feedback.rate());
        }
        let rest_as_before = PathHeaderRepr {
            signals: old,
            ..after
        };
        assert_eq!(rest_as_before, before);
    }
}

/// Checks that a header survives being read, written and read, and that it can be printed.
pub fn check_round_trip(view: &PathHeaderView<'_>) {
    let repr = PathHeaderRepr::parse(view);
    let emitted = repr.emit();
    let again = PathHeaderView::parse(&emitted).expect("we emit headers that we know");
    assert_eq!(PathHeaderRepr::parse(&again), repr);
    assert!(!view.to_string().is_empty());
}
