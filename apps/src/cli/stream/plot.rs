//! A picture of what delayed frames.

use evenkeel_picture::{Axis, Line, Picture, Point, Style};

use crate::stream::{Cause, Stacked};

/// Returns an SVG file that shows of what the longest delays consisted over time; `latency_ms` is a
/// fixed delay. It has only axes without frames.
pub(super) fn draw(stacked: Option<&Stacked>, latency_ms: Option<f64>) -> String {
    let least_ms = stacked.map_or(0.0, |stacked| stacked.least_ms.max(0.0));
    let spans = stacked.map_or(&[][..], |stacked| &stacked.spans);
    let span_s = stacked.map_or(1.0, |stacked| stacked.span_s);
    // What lies on top is drawn first, down to the axis.
    let area = |layers: usize, name: &str| Line {
        name: name.into(),
        colour: layers,
        style: Style::Area,
        points: (0..)
            .zip(spans)
            .flat_map(|(nth, span)| {
                let sum_ms = span.map(|parts| least_ms + parts[..layers].iter().sum::<f64>());
                [nth, nth + 1].map(|end| Point::new(f64::from(end) * span_s, sum_ms))
            })
            .collect(),
    };
    let is_there = |cause: Cause| {
        spans
            .iter()
            .flatten()
            .any(|parts| parts[cause as usize] >= 1.0)
    };
    let causes = Cause::ALL
        .into_iter()
        .rev()
        .filter(|cause| is_there(*cause));
    let mut lines: Vec<Line> = causes
        .map(|cause| area(cause as usize + 1, name(cause)))
        .collect();
    lines.push(area(0, "the path, at least"));
    let length_s = span_s * spans.len() as f64;
    lines.extend(latency_ms.map(|latency_ms| {
        Line {
            name: "--latency".into(),
            colour: 0,
            style: Style::Level,
            points: [0.0, length_s]
                .map(|at_s| Point::new(at_s, Some(latency_ms)))
                .into(),
        }
    }));
    let picture = Picture {
        title: format!("The frame with the longest delay in each {span_s} s, from the first on"),
        x: Axis::Time(0.0, length_s),
        y_label: "ms from capture to arrival".into(),
        y_from: Some(0.0),
        warmup_s: 0.0,
        panels: vec![lines],
    };
    picture.file()
}

/// What a legend calls a cause.
fn name(cause: Cause) -> &'static str {
    match cause {
        Cause::Encoder => "encoder",
        Cause::OwnQueue => "own queue",
        Cause::Window => "window, pacing",
        Cause::OthersQueue => "others' queue",
        Cause::Hop => "stamping hops",
        Cause::Loss => "loss",
        Cause::Viewer => "viewer's machine",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_stacked_by_cause_with_a_gap_where_nothing_came() {
        let mut parts = [0.0; 7];
        (parts[Cause::Window as usize], parts[Cause::Loss as usize]) = (20.0, 50.0);
        let stacked = Stacked {
            least_ms: 30.0,
            span_s: 0.1,
            spans: vec![Some(parts), None, Some(parts), Some([0.0; 7])],
        };
        let svg = draw(Some(&stacked), Some(250.0));
        for name in ["window, pacing", "loss", "the path, at least", "--latency"] {
            assert!(svg.contains(&format!(">{name}<")), "{name}: {svg}");
        }
        assert!(!svg.contains("encoder") && svg.starts_with("<svg "));
        assert!(draw(None, None).ends_with("</svg>\n"));
        // A hostile server's figures.
        let absurd = Stacked {
            least_ms: -1e300,
            span_s: 1e9,
            spans: vec![Some([1e300; 7]); 2],
        };
        assert!(draw(Some(&absurd), None).ends_with("</svg>\n"));
    }
}
