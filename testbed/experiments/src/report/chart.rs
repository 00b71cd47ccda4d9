//! Drawings as SVG that takes its colours from the page, so that it reads in the dark and on paper.

use std::fmt::Write;

use super::super::figure::{GraphDrawing, Line, TimeDrawing};
use super::super::file::FigureKind;
use super::table::digits;
use evenkeel_testbed::report::html::escaped;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 330.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 48.0;

/// Width of a letter on an axis, about.
const LETTER: f64 = 8.0;

/// Colours that the style sheet has; further lines begin again, with other markers.
const COLOURS: usize = 8;

/// Points of a line over time; more would not show.
const MAX_POINTS: usize = 640;

/// More lines than this over time are drawn pale, as a crowd.
const CROWD: usize = 10;

/// A range on an axis and where it is drawn.
#[derive(Debug, Clone, Copy)]
struct Scale {
    from: f64,
    to: f64,
    log: bool,
    start: f64,
    end: f64,
}

impl Scale {
    fn place(&self, value: f64) -> f64 {
        let map = |value: f64| if self.log { value.log10() } else { value };
        let share = (map(value) - map(self.from)) / (map(self.to) - map(self.from));
        self.start + share * (self.end - self.start)
    }

    fn x(from: f64, to: f64, log: bool) -> Self {
        let to = if to > from { to } else { from + 1.0 };
        Self {
            from,
            to,
            log: log && from > 0.0,
            start: LEFT,
            end: WIDTH - RIGHT,
        }
    }

    /// The vertical axis for these values, with room above and below.
    fn y(values: impl Iterator<Item = f64>, from: Option<f64>) -> Self {
        let (mut least, mut greatest) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values {
            least = least.min(value);
            greatest = greatest.max(value);
        }
        if !least.is_finite() {
            (least, greatest) = (0.0, 1.0);
        }
        let room = ((greatest - least) * 0.06)
            .max(greatest.abs() * 0.01)
            .max(1e-9);
        let mut low = from.unwrap_or(least - room);
        // A range near zero reads better from zero on.
        if from.is_none() && least >= 0.0 && (low < 0.0 || least < 0.4 * greatest) {
            low = 0.0;
        }
        Self {
            from: low.min(least),
            to: greatest + room,
            log: false,
            start: HEIGHT - BOTTOM,
            end: TOP,
        }
    }

    fn ticks(&self, about: f64) -> Vec<f64> {
        if self.log {
            let first = self.from.log10().ceil() as i32;
            let last = self.to.log10().floor() as i32;
            return (first..=last).map(|power| 10f64.powi(power)).collect();
        }
        let rough = (self.to - self.from) / about;
        let magnitude = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .map(|factor| factor * magnitude)
            .into_iter()
            .find(|step| *step >= rough)
            .unwrap_or(10.0 * magnitude);
        let first = (self.from / step).ceil() as i64;
        let last = (self.to / step).floor() as i64;
        (first..=last).map(|count| count as f64 * step).collect()
    }
}

/// Values against an axis, as lines or bars.
pub(super) fn graph(drawing: &GraphDrawing, y_label: &str) -> String {
    let spreads = |line: &Line| {
        let ours = line.ours.iter().flatten();
        let ours: Vec<f64> = ours
            .flat_map(|spread| [spread.least, spread.greatest])
            .collect();
        let given = line.paper.iter().chain(&line.ns2).flatten().copied();
        ours.into_iter().chain(given).collect::<Vec<f64>>()
    };
    let values = drawing.lines.iter().flat_map(spreads);
    let bars = drawing.kind == FigureKind::Bars;
    let y = Scale::y(
        values,
        if bars {
            Some(drawing.y_from.unwrap_or(0.0))
        } else {
            drawing.y_from
        },
    );
    let count = drawing.x_titles.len();
    // Numbers stand where they belong; words, groups of bars and a single value, side by side.
    let numbers = drawing.x_numbers.as_ref();
    let numbers = numbers.filter(|numbers| !bars && numbers.len() > 1);
    let places: Vec<f64> = match numbers {
        Some(numbers) => numbers.clone(),
        None => (0..count).map(|index| index as f64).collect(),
    };
    let (least, greatest) = (
        places.iter().copied().fold(f64::INFINITY, f64::min),
        places.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    );
    let x = match numbers {
        Some(_) if drawing.x_log => Scale::x(least, greatest, true),
        Some(_) => {
            let room = (greatest - least) * 0.03;
            Scale::x(least - room, greatest + room, false)
        }
        None => Scale::x(-0.5, count as f64 - 0.5, false),
    };
    let mut svg = begin();
    y_axis(&mut svg, &y, y_label);
    if numbers.is_some() {
        let ticks = x.ticks(9.0);
        x_axis(
            &mut svg,
            &x,
            &drawing.x_label,
            ticks.iter().map(|tick| (*tick, digits(*tick))),
        );
    } else {
        let titles = drawing.x_titles.iter().cloned();
        x_axis(
            &mut svg,
            &x,
            &drawing.x_label,
            places.iter().copied().zip(titles),
        );
    }
    for (index, line) in drawing.lines.iter().enumerate() {
        if bars {
            draw_bars(&mut svg, line, index, drawing.lines.len(), &x, &y);
        } else {
            draw_line(&mut svg, line, index, &places, &x, &y, numbers.is_some());
        }
    }
    svg + "</svg>"
}

/// Values over time.
pub(super) fn time(drawing: &TimeDrawing, y_label: &str) -> String {
    let x = Scale::x(drawing.from_s, drawing.to_s, false);
    let inside = |at: f64| at >= drawing.from_s && at <= drawing.to_s;
    let lines: Vec<Vec<Vec<(f64, f64)>>> = drawing
        .lines
        .iter()
        .map(|line| {
            let middle = |index: usize| (index as f64 + 0.5) * line.bin_s;
            let values = line.values.iter().enumerate();
            let values = values.filter(|(index, _)| inside(middle(*index)));
            let values: Vec<_> = values
                .map(|(index, value)| (middle(index), *value))
                .collect();
            segments(&values)
        })
        .collect();
    let all = lines.iter().flatten().flatten().map(|(_, value)| *value);
    let y = Scale::y(all, drawing.y_from);
    let mut svg = begin();
    y_axis(&mut svg, &y, y_label);
    let ticks = x.ticks(10.0);
    x_axis(
        &mut svg,
        &x,
        "seconds",
        ticks.iter().map(|tick| (*tick, digits(*tick))),
    );
    let crowd = lines.len() > CROWD;
    for (index, line) in lines.iter().enumerate() {
        let class = if crowd { "pale" } else { "line" };
        for segment in line {
            let points = segment
                .iter()
                .map(|(at, value)| (x.place(*at), y.place(*value)));
            let path = path(points);
            let _ = write!(
                svg,
                "<path class=\"{class} c{}\" d=\"{path}\"/>",
                index % COLOURS
            );
        }
    }
    svg + "</svg>"
}

/// How a legend shows a line's colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Swatch {
    Line,
    MarkedLine,
    Bar,
}

/// The legend as a list of HTML; a crowd of lines has none.
pub(super) fn legend(titles: &[&str], shown: Swatch, with_paper: bool, with_ns2: bool) -> String {
    if titles.len() > CROWD * 2 {
        return format!("<p class=\"legend\">{} lines</p>", titles.len());
    }
    let mut html = String::from("<ul class=\"legend\">");
    let swatch = |inside: String, title: &str| {
        format!(
            "<li><svg width=\"30\" height=\"12\" aria-hidden=\"true\">{inside}</svg>{}</li>",
            escaped(title)
        )
    };
    for (index, title) in titles.iter().enumerate() {
        let colour = index % COLOURS;
        let line = format!("<path class=\"line c{colour}\" d=\"M1 6H29\"/>");
        let inside = match shown {
            Swatch::Line => line,
            Swatch::MarkedLine => line + &marker(index, 15.0, 6.0, "mark"),
            Swatch::Bar => format!(
                "<rect class=\"bar c{colour}\" x=\"9\" y=\"0\" width=\"12\" height=\"12\"/>"
            ),
        };
        html += &swatch(inside, title);
    }
    if with_paper {
        html += &swatch(
            "<path class=\"paper ink\" d=\"M1 6H29\"/>".into(),
            "the paper",
        );
    }
    if with_ns2 {
        html += &swatch("<path class=\"ns2 ink\" d=\"M1 6H29\"/>".into(), "ns-2");
    }
    html + "</ul>"
}

fn begin() -> String {
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" preserveAspectRatio=\"xMidYMid meet\">"
    )
}

fn y_axis(svg: &mut String, y: &Scale, label: &str) {
    for tick in y.ticks(6.0) {
        let at = y.place(tick);
        let _ = write!(
            svg,
            "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{}\"/><text x=\"{}\" y=\"{:.1}\" class=\"tick\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            at + 4.0,
            digits(tick)
        );
    }
    let middle = (HEIGHT - BOTTOM + TOP) / 2.0;
    let _ = write!(
        svg,
        "<path class=\"axis\" d=\"M{LEFT} {TOP}V{}\"/><text class=\"label\" text-anchor=\"middle\" transform=\"translate(14 {middle}) rotate(-90)\">{}</text>",
        HEIGHT - BOTTOM,
        escaped(label)
    );
}

fn x_axis(svg: &mut String, x: &Scale, label: &str, ticks: impl Iterator<Item = (f64, String)>) {
    let base = HEIGHT - BOTTOM;
    let ticks: Vec<_> = ticks.collect();
    let room = (x.end - x.start) / ticks.len().max(1) as f64;
    for (tick, text) in ticks {
        let at = x.place(tick);
        let _ = write!(svg, "<path class=\"axis\" d=\"M{at:.1} {base}v4\"/>");
        for (line, text) in lines_of(&text, (room / LETTER) as usize).iter().enumerate() {
            let _ = write!(
                svg,
                "<text x=\"{at:.1}\" y=\"{}\" class=\"tick\" text-anchor=\"middle\">{}</text>",
                base + 15.0 + 12.0 * line as f64,
                escaped(text)
            );
        }
    }
    let _ = write!(
        svg,
        "<path class=\"axis\" d=\"M{LEFT} {base}H{}\"/><text x=\"{}\" y=\"{}\" class=\"label\" text-anchor=\"middle\">{}</text>",
        WIDTH - RIGHT,
        f64::midpoint(LEFT, WIDTH - RIGHT),
        HEIGHT - 6.0,
        escaped(label)
    );
}

/// A text in at most two lines of about `letters` letters, parted at a space.
fn lines_of(text: &str, letters: usize) -> Vec<&str> {
    if text.len() <= letters {
        return vec![text];
    }
    let distance = |at: &usize| at.abs_diff(text.len() / 2);
    let spaces = text.match_indices(' ').map(|(at, _)| at);
    match spaces.min_by_key(distance) {
        Some(at) => vec![&text[..at], &text[at + 1..]],
        None => vec![text],
    }
}

fn draw_line(
    svg: &mut String,
    line: &Line,
    index: usize,
    places: &[f64],
    x: &Scale,
    y: &Scale,
    connected: bool,
) {
    let colour = index % COLOURS;
    for (values, class) in [(&line.paper, "paper"), (&line.ns2, "ns2")] {
        let present: Vec<_> = places.iter().copied().zip(values.iter().copied()).collect();
        for segment in segments(&present) {
            let points = segment
                .iter()
                .map(|(at, value)| (x.place(*at), y.place(*value)));
            let points: Vec<_> = points.collect();
            if connected {
                let path = path(points.iter().copied());
                let _ = write!(svg, "<path class=\"{class} c{colour}\" d=\"{path}\"/>");
            }
            for (at, value) in points {
                *svg += &marker(index, at, value, "hollow");
            }
        }
    }
    let ours: Vec<_> = places
        .iter()
        .zip(&line.ours)
        .filter_map(|(at, value)| Some((x.place(*at), value.as_ref()?)))
        .collect();
    if connected {
        let path = path(ours.iter().map(|(at, value)| (*at, y.place(value.median))));
        let _ = write!(svg, "<path class=\"line c{colour}\" d=\"{path}\"/>");
    }
    for (at, value) in ours {
        if value.greatest > value.least {
            let (top, bottom) = (y.place(value.greatest), y.place(value.least));
            let _ = write!(
                svg,
                "<path class=\"spread c{colour}\" d=\"M{at:.1} {top:.1}V{bottom:.1}\"/>"
            );
        }
        *svg += &marker(index, at, y.place(value.median), "mark");
    }
}

fn draw_bars(svg: &mut String, line: &Line, index: usize, count: usize, x: &Scale, y: &Scale) {
    let group = x.place(1.0) - x.place(0.0);
    let width = group * 0.8 / count as f64;
    for (place, value) in line.ours.iter().enumerate() {
        let left = x.place(place as f64) - group * 0.4 + width * index as f64;
        if let Some(value) = value {
            let (base, top) = (y.place(y.from.max(0.0).min(y.to)), y.place(value.median));
            let (upper, height) = (top.min(base), (base - top).abs());
            let _ = write!(
                svg,
                "<rect class=\"bar c{}\" x=\"{left:.1}\" y=\"{upper:.1}\" width=\"{:.1}\" height=\"{height:.1}\"/>",
                index % COLOURS,
                width * 0.92
            );
        }
        let given = [(&line.paper, "paper"), (&line.ns2, "ns2")];
        for (values, class) in given {
            if let Some(value) = values[place] {
                let at = y.place(value);
                let _ = write!(
                    svg,
                    "<path class=\"{class} ink\" d=\"M{left:.1} {at:.1}h{:.1}\"/>",
                    width * 0.92
                );
            }
        }
    }
}

/// A mark whose shape tells lines apart without colour.
fn marker(index: usize, x: f64, y: f64, class: &str) -> String {
    let shape = match index % 5 {
        0 => {
            return format!(
                "<circle class=\"{class} c{}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.2\"/>",
                index % COLOURS
            );
        }
        1 => format!("M{:.1} {:.1}h6v6h-6z", x - 3.0, y - 3.0),
        2 => format!("M{x:.1} {:.1}l3.8 6.6h-7.6z", y - 4.2),
        3 => format!("M{x:.1} {:.1}l4.2 4.2l-4.2 4.2l-4.2 -4.2z", y - 4.2),
        _ => format!("M{x:.1} {:.1}l-3.8 -6.6h7.6z", y + 4.2),
    };
    format!(
        "<path class=\"{class} c{}\" d=\"{shape}\"/>",
        index % COLOURS
    )
}

fn path(points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut path = String::new();
    for (index, (x, y)) in points.enumerate() {
        let _ = write!(path, "{}{x:.1} {y:.1}", if index == 0 { 'M' } else { 'L' });
    }
    path
}

/// Runs of values without gaps, thinned by averaging.
fn segments(values: &[(f64, Option<f64>)]) -> Vec<Vec<(f64, f64)>> {
    let width = values.len().div_ceil(MAX_POINTS).max(1);
    let mut segments: Vec<Vec<(f64, f64)>> = vec![Vec::new()];
    for chunk in values.chunks(width) {
        let present: Vec<(f64, f64)> = chunk
            .iter()
            .filter_map(|(at, value)| Some((*at, (*value)?)))
            .collect();
        let count = present.len() as f64;
        if present.is_empty() {
            segments.push(Vec::new());
        } else if let Some(last) = segments.last_mut() {
            let (at, value) = present
                .iter()
                .fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            last.push((at / count, value / count));
        }
    }
    segments.retain(|segment| !segment.is_empty());
    segments
}

#[cfg(test)]
mod tests {
    use super::super::super::metric::Samples;
    use super::super::super::place::Spread;
    use super::*;

    fn drawing(kind: FigureKind) -> GraphDrawing {
        let ours = [Some(0.2), None, Some(0.4)];
        GraphDrawing {
            kind,
            x_label: "flows".into(),
            x_log: false,
            y_from: None,
            x_titles: vec!["10".into(), "20".into(), "<30>".into()],
            x_numbers: Some(vec![10.0, 20.0, 30.0]),
            lines: vec![Line {
                title: "reno".into(),
                ours: ours
                    .map(|value| value.and_then(|value| Spread::of(vec![value, value + 0.1])))
                    .to_vec(),
                paper: vec![Some(0.3), None, None],
                ns2: vec![None, None, None],
            }],
        }
    }

    #[test]
    fn drawings_are_well_formed_whatever_is_missing() {
        for kind in [FigureKind::Lines, FigureKind::Bars] {
            let svg = graph(&drawing(kind), "a < b");
            roxmltree::Document::parse(&svg).expect("well-formed");
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
        let gap = TimeDrawing {
            from_s: 0.0,
            to_s: 3.0,
            y_from: None,
            lines: vec![Samples {
                name: "f".into(),
                bin_s: 1.0,
                values: vec![Some(1.0), None, Some(1.0)],
            }],
        };
        let svg = time(&gap, "Mb/s");
        roxmltree::Document::parse(&svg).expect("well-formed");
        assert_eq!(
            svg.matches("class=\"line").count(),
            2,
            "a gap parts a line: {svg}"
        );
    }

    #[test]
    fn words_below_an_axis_are_parted_in_the_middle_if_they_are_long() {
        assert_eq!(lines_of("Reno", 15), ["Reno"]);
        let parted = ["Reno + gamma", "+ delta"];
        assert_eq!(lines_of("Reno + gamma + delta", 15), parted);
        assert_eq!(lines_of("unparted", 3), ["unparted"]);
    }

    #[test]
    fn ticks_are_round_numbers_within_the_range() {
        let scale = Scale::x(0.0, 97.0, false);
        assert_eq!(scale.ticks(5.0), [0.0, 20.0, 40.0, 60.0, 80.0]);
        let log = Scale::x(10.0, 2000.0, true);
        assert_eq!(log.ticks(5.0), [10.0, 100.0, 1000.0]);
        assert_eq!(log.place(10.0), LEFT);
    }

    #[test]
    fn a_long_series_is_thinned_to_what_a_drawing_shows() {
        let values: Vec<_> = (0..10_000).map(|i| (f64::from(i), Some(1.0))).collect();
        let drawn = segments(&values);
        assert_eq!(drawn.len(), 1);
        assert!(drawn[0].len() <= MAX_POINTS);
    }
}
