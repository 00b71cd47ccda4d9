use super::*;

#[test]
fn bins_average_what_is_there_and_leave_gaps() {
    let values = [Some(1.0), Some(3.0), Some(5.0), None, None, None, Some(2.0)];
    let bins = Bins::of(&values, 0.25, 0.5);
    assert_eq!(bins.values, [Some(2.0), Some(5.0), None, Some(2.0)]);
    let points: Vec<_> = bins
        .points()
        .iter()
        .map(|point| (point.x, point.y))
        .collect();
    assert_eq!(
        points,
        [
            (0.25, Some(2.0)),
            (0.75, Some(5.0)),
            (1.25, None),
            (1.75, Some(2.0))
        ]
    );
}

#[test]
fn long_series_are_thinned_to_what_a_plot_can_show() {
    let bins = Bins::of(&vec![Some(1.0); 100_000], 0.1, 0.5);
    assert!(bins.values.len() <= MAX_POINTS, "{}", bins.values.len());
    assert!(bins.values.len() > MAX_POINTS / 2);
    // Whole samples of 0.5 s: no bin has more intervals than another.
    assert_eq!((bins.width_s / 0.5).fract(), 0.0);
}

#[test]
fn a_series_without_values_has_no_line() {
    assert!(Bins::of(&[], 0.1, 0.5).points().is_empty());
    let points = Bins::of(&[None, None], 0.1, 0.1).points();
    assert!(points.iter().all(|point| point.y.is_none()));
}
