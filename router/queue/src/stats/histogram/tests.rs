use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn recorded(nanoseconds: &[u64]) -> DurationHistogram {
    let mut histogram = DurationHistogram::default();
    for &time in nanoseconds {
        histogram.record(Duration::from_nanos(time));
    }
    histogram
}

#[test]
fn short_times_are_exact() {
    let histogram = recorded(&[1, 2, 3, 4]);
    assert_eq!(histogram.percentile(0.5), Some(Duration::from_nanos(2)));
    assert_eq!(histogram.percentile(0.51), Some(Duration::from_nanos(3)));
    assert_eq!(histogram.mean(), Some(Duration::from_nanos(2)));
    assert_eq!(histogram.min(), Some(Duration::from_nanos(1)));
    assert_eq!(histogram.max(), Some(Duration::from_nanos(4)));
}

#[test]
fn an_empty_or_cleared_histogram_says_nothing() {
    let mut histogram = recorded(&[u64::MAX]);
    histogram.clear();
    for histogram in [histogram, DurationHistogram::default()] {
        assert_eq!(histogram.count(), 0);
        assert_eq!((histogram.mean(), histogram.percentile(0.5)), (None, None));
        assert_eq!((histogram.min(), histogram.max()), (None, None));
    }
}

#[test]
fn there_are_as_many_buckets_as_the_documentation_says() {
    assert_eq!(bucket_of(u64::MAX) + 1, 3776);
    assert_eq!(upper_bound(3775), u64::MAX);
}

proptest! {
    #[test]
    fn a_bucket_holds_its_values_and_no_others(value: u64, bits in 0u32..64) {
        let value = value >> bits;
        let bucket = bucket_of(value);
        let bound = upper_bound(bucket);
        prop_assert!(bound >= value);
        prop_assert!(bound - value <= value / SUB_BUCKETS);
        prop_assert_eq!(bucket_of(bound), bucket);
        if bound < u64::MAX {
            prop_assert_eq!(bucket_of(bound + 1), bucket + 1);
        }
    }

    #[test]
    fn a_percentile_is_the_true_one_rounded_up_by_less_than_a_64th(
        mut times in vec(0u64..10_000_000_000, 1..200), p in 0.0..=1.0f64,
    ) {
        let percentile = recorded(&times).percentile(p).unwrap().as_nanos();
        times.sort_unstable();
        let rank = ((p * times.len() as f64).ceil() as usize).clamp(1, times.len());
        let exact = u128::from(times[rank - 1]);
        prop_assert!(percentile >= exact && percentile <= exact + exact / 64);
    }

    #[test]
    fn no_more_times_are_counted_up_to_a_bound_than_there_are_and_few_below_it_are_missing(
        times in vec(0u64..10_000, 0..200), bound in 0u64..20_000,
    ) {
        let counted = recorded(&times).count_up_to(Duration::from_nanos(bound));
        let below = |bound| times.iter().filter(|time| **time < bound).count() as u64;
        prop_assert!(counted <= below(bound + 1));
        prop_assert!(counted >= below(bound - bound / SUB_BUCKETS));
        prop_assert_eq!(recorded(&times).count_up_to(Duration::MAX), times.len() as u64);
    }

    #[test]
    fn two_histograms_added_are_one_of_all_times(
        times in vec(any::<u64>(), 0..50), more in vec(any::<u64>(), 0..50),
    ) {
        let mut sum = recorded(&times);
        sum.add(&recorded(&more));
        let all = recorded(&[times, more].concat());
        prop_assert_eq!((sum.count(), sum.sum()), (all.count(), all.sum()));
        prop_assert_eq!((sum.min(), sum.max()), (all.min(), all.max()));
        for p in [0.0, 0.5, 0.9, 1.0] {
            prop_assert_eq!(sum.percentile(p), all.percentile(p));
        }
    }
}
