//! What the fuzz targets share: how their inputs are laid out, the operations of a router, and the
//! properties that hold after each of them whatever the header was.
//!
//! `.ci/fuzz` runs all targets; `RUSTC_BOOTSTRAP=1 cargo fuzz run path_header` runs one, from this
//! directory, with a stable compiler. Inputs are flat bytes, with what steers first and payloads
//! behind it as they are, so that libFuzzer can cut and join them; `examples/seeds.rs` writes the
//! first ones from the vectors of `docs/path-header.md`.

pub mod conversation;
pub mod datagram;

use std::time::Duration;

use arbitrary::{Arbitrary, Result, Unstructured};
use evenkeel_wire::{
    CompactCount, CompactRate, PathHeaderKind, PathHeaderMut, PathHeaderRepr, PathHeaderView,
    WindowChange,
};

/// What a router may do to a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// Operations in one input at most.
const MOST_OPERATIONS: u8 = 16;

impl<'a> Arbitrary<'a> for Operation {
    /// The inverse of [`encode`](Self::encode).
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let (which, number): (u8, u64) = u.arbitrary()?;
        Ok(match which % 6 {
            0 => Self::AddQueueingTime(number),
            1 => Self::RecordTtl(number as u8),
            2 => Self::LimitRate((number != u64::MAX).then_some(number)),
            3 => Self::LimitWindowChange(number as i64),
            4 => Self::MarkCongested,
            _ => Self::RaiseContention(number as u32),
        })
    }
}

/// Reads operations behind their number.
pub fn read_operations(u: &mut Unstructured<'_>) -> Result<Vec<Operation>> {
    let count = u.arbitrary::<u8>()? % MOST_OPERATIONS;
    (0..count).map(|_| u.arbitrary()).collect()
}

/// Writes what [`read_operations`] reads.
pub fn write_operations(operations: &[Operation], input: &mut Vec<u8>) {
    assert!(operations.len() < usize::from(MOST_OPERATIONS));
    input.push(operations.len() as u8);
    input.extend(operations.iter().flat_map(|operation| operation.encode()));
}

impl Operation {
    fn encode(self) -> [u8; 9] {
        let (which, number) = match self {
            Self::AddQueueingTime(nanos) => (0, nanos),
            Self::RecordTtl(leaving) => (1, leaving.into()),
            Self::LimitRate(rate) => (2, rate.unwrap_or(u64::MAX)),
            Self::LimitWindowChange(change) => (3, change as u64),
            Self::MarkCongested => (4, 0),
            Self::RaiseContention(flows) => (5, flows.into()),
        };
        let mut bytes = [which; 9];
        bytes[1..].copy_from_slice(&number.to_le_bytes());
        bytes
    }

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
