//! Pictures as SVG: axes, lines, bars and a legend. The same picture gives the same bytes.
//!
//! Colours come from classes of `picture.css`, so that a picture follows the page (or, in a file
//! of its own, the reader's setting) into the dark and onto paper.

mod scale;

use std::fmt::Write;

pub use scale::digits;

use scale::{Scale, ends, parted};

/// Style of pictures, for the pages that hold them.
pub const STYLE: &str = include_str!("picture.css");

/// Style of pages around them: text, tables, figures.
pub const PAGE_STYLE: &str = include_str!("page.css");

/// Colours that the style has; further lines begin again, with other markers.
pub const COLOURS: usize = 10;

const WIDTH: f64 = 640.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 12.0;
/// Of the axes in a picture with one panel, and of each among several.
const HEIGHT: f64 = 272.0;
const SMALL_HEIGHT: f64 = 130.0;
const HEADING: f64 = 26.0;
const LEGEND_ROW: f64 = 18.0;

/// Data is drawn on a grid of half pixels.
const GRID: f64 = 2.0;

/// Estimated width of a letter on an axis.
const LETTER: f64 = 7.0;

/// Characters of the title that fit into one line.
const TITLE_LENGTH: usize = 84;

/// A picture: one or several panels above one another that share the horizontal axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    /// Printed above the axes, unless it is empty.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// Text beside the vertical axes.
    pub y_label: String,
    /// Where the vertical axes begin; `None` leaves it to the values.
    pub y_from: Option<f64>,
    /// Shades the time from 0 to here as warm-up, if positive.
    pub warmup_s: f64,
    /// The lines of each panel; later ones lie on top.
    pub panels: Vec<Vec<Line>>,
}

/// A horizontal axis.
#[derive(Debug, Clone, PartialEq)]
pub enum Axis {
    /// Seconds, from and to.
    Time(f64, f64),
    /// A label, the numbers that points lie at, and whether the scale is logarithmic.
    Numbers(String, Vec<f64>, bool),
    /// A label and the words that points lie at, as 0, 1, 2 ...
    Words(String, Vec<String>),
}

/// A line, or a row of bars.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Its entry in the legend; lines of one name have one entry. Empty: none.
    pub name: String,
    /// Number of its colour and marker.
    pub colour: usize,
    /// How it is drawn.
    pub style: Style,
    /// Its points from left to right; one without a value interrupts the line.
    pub points: Vec<Point>,
}

/// A point of a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Position on the horizontal axis.
    pub x: f64,
    /// Value.
    pub y: Option<f64>,
    /// Least and greatest, drawn as a vertical bar if they differ.
    pub spread: Option<(f64, f64)>,
}

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Thin and pale: one of many.
    Pale,
    /// A line.
    Plain,
    /// A thick line.
    Bold,
    /// A line with markers.
    Marked,
    /// Dotted, with hollow markers; beside bars a stroke across the bar of its colour.
    Dotted,
    /// Dashed, likewise.
    Dashed,
    /// Dashed without markers: a level over time, for comparison.
    Level,
    /// Bars.
    Bars,
    /// The area below a line.
    Area,
}

impl Point {
    /// A point without spread.
    pub fn new(x: f64, y: Option<f64>) -> Self {
        Self { x, y, spread: None }
    }
}

impl Style {
    fn class(self) -> &'static str {
        match self {
            Self::Pale => "pale",
            Self::Plain | Self::Marked => "line",
            Self::Bold => "bold",
            Self::Dotted => "dotted",
            Self::Dashed | Self::Level => "dashed",
            Self::Bars | Self::Area => "bar",
        }
    }

    /// Whether it is given for comparison: drawn in the legend without a colour of its own.
    fn is_reference(self) -> bool {
        matches!(self, Self::Dotted | Self::Dashed | Self::Level)
    }
}

impl Picture {
    /// The picture as an element of a page that has [`STYLE`].
    pub fn inline(&self) -> String {
        self.draw("role=\"img\"", "")
    }

    /// The picture as a file of its own.
    pub fn file(&self) -> String {
        let style = format!(
            "<style>{STYLE}</style><rect class=\"ground\" width=\"100%\" height=\"100%\"/>"
        );
        self.draw("xmlns=\"http://www.w3.org/2000/svg\"", &style) + "\n"
    }

    fn draw(&self, attributes: &str, begin: &str) -> String {
        let height = if self.panels.len() > 1 {
            SMALL_HEIGHT
        } else {
            HEIGHT
        };
        let x = self.x.scale(
            self.panels
                .iter()
                .flatten()
                .any(|line| line.style == Style::Bars),
        );
        let mut body = String::new();
        let mut top = 8.0;
        if !self.title.is_empty() {
            let title: String = self.title.chars().take(TITLE_LENGTH).collect();
            let more = if title.len() < self.title.len() {
                "..."
            } else {
                ""
            };
            body += &text(LEFT, 17.0, "label", &(title + more));
            top += HEADING - 8.0;
        }
        for (index, lines) in self.panels.iter().enumerate() {
            let last = index + 1 == self.panels.len();
            let mut panel = Panel {
                svg: &mut body,
                x,
                y: Scale::y(lines, self.y_from, top, top + height),
            };
            panel.draw(self, lines, last);
            top += height + if last { self.x.height(&x) } else { 12.0 };
            let warmup = last && self.warmup_s > 0.0;
            top = legend(&mut body, lines, warmup, top);
        }
        format!("<svg {attributes} viewBox=\"0 0 {WIDTH} {top:.0}\">{begin}{body}</svg>")
    }
}

impl Axis {
    fn scale(&self, bars: bool) -> Scale {
        let (from, to, log) = match self {
            Self::Time(from, to) => (*from, *to, false),
            Self::Numbers(_, numbers, log) => {
                let (least, greatest) = ends(numbers.iter().copied()).unwrap_or((0.0, 1.0));
                let room = if *log { 0.0 } else { (greatest - least) * 0.03 };
                (least - room, greatest + room, *log && least > 0.0)
            }
            Self::Words(_, words) => (-0.5, words.len() as f64 - 0.5, false),
        };
        debug_assert!(
            !bars || matches!(self, Self::Words(..)),
            "bars stand at words"
        );
        let to = if to > from { to } else { from + 1.0 };
        Scale {
            from,
            to,
            log,
            start: LEFT,
            end: WIDTH - RIGHT,
        }
    }

    fn label(&self) -> &str {
        match self {
            Self::Time(..) => "seconds",
            Self::Numbers(label, ..) | Self::Words(label, _) => label,
        }
    }

    /// Where ticks are and what stands there, in one or two lines.
    fn ticks(&self, scale: &Scale) -> Vec<(f64, Vec<String>)> {
        match self {
            Self::Time(..) | Self::Numbers(..) => {
                let ticks = scale.ticks(9.0).into_iter();
                ticks.map(|at| (at, vec![digits(at)])).collect()
            }
            Self::Words(_, words) => {
                let letters =
                    ((scale.end - scale.start) / words.len().max(1) as f64 / LETTER) as usize;
                let words = words.iter().enumerate();
                words
                    .map(|(at, word)| (at as f64, parted(word, letters)))
                    .collect()
            }
        }
    }

    /// Height of ticks and label below the axis.
    fn height(&self, scale: &Scale) -> f64 {
        let ticks = self.ticks(scale);
        let rows = ticks.iter().map(|(_, rows)| rows.len()).max().unwrap_or(1);
        25.0 + 12.0 * rows as f64
    }
}

/// The axes of a panel and where they are drawn.
struct Panel<'s> {
    svg: &'s mut String,
    x: Scale,
    y: Scale,
}

impl Panel<'_> {
    fn draw(&mut self, picture: &Picture, lines: &[Line], with_x_axis: bool) {
        let (base, top) = (self.y.start, self.y.end);
        if picture.warmup_s > 0.0 {
            let width = self.x.at(picture.warmup_s) - LEFT;
            *self.svg += &format!(
                "<rect class=\"warmup\" x=\"{LEFT}\" y=\"{top}\" width=\"{width:.1}\" height=\"{:.0}\"/>",
                base - top
            );
        }
        let mut grid = String::new();
        for tick in self.y.ticks(if base - top < HEIGHT { 4.0 } else { 6.0 }) {
            let at = self.y.at(tick);
            let _ = write!(grid, "M{LEFT} {at:.1}H{}", WIDTH - RIGHT);
            *self.svg += &text(LEFT - 6.0, at + 4.0, "y", &digits(tick));
        }
        let middle = f64::midpoint(base, top);
        let label = escaped(&picture.y_label);
        let _ = write!(
            self.svg,
            "<path class=\"grid\" d=\"{grid}\"/><text class=\"x label\" transform=\"translate(14 {middle:.0}) rotate(-90)\">{label}</text>"
        );
        let mut axis = format!("M{LEFT} {top}V{base}H{}", WIDTH - RIGHT);
        for (at, rows) in picture.x.ticks(&self.x) {
            let at = self.x.at(at);
            let _ = write!(axis, "M{at:.1} {base}v4");
            for (row, words) in rows.iter().enumerate().filter(|_| with_x_axis) {
                // A long word at the right end would be cut off.
                let rightmost = WIDTH - LETTER * words.chars().count() as f64 / 2.0;
                let y = base + 16.0 + 12.0 * row as f64;
                *self.svg += &text(at.min(rightmost), y, "x", words);
            }
        }
        let _ = write!(self.svg, "<path class=\"axis\" d=\"{axis}\"/>");
        if with_x_axis {
            let y = base + picture.x.height(&self.x) - 6.0;
            *self.svg += &text(
                f64::midpoint(LEFT, WIDTH - RIGHT),
                y,
                "x label",
                picture.x.label(),
            );
        }
        let _ = write!(self.svg, "<g transform=\"scale({})\">", 1.0 / GRID);
        let bars = lines
            .iter()
            .filter(|line| line.style == Style::Bars)
            .count();
        for line in lines {
            if bars > 0 {
                self.bars(line, bars);
            } else {
                self.line(line, !matches!(picture.x, Axis::Words(..)));
            }
        }
        *self.svg += "</g>";
    }

    fn line(&mut self, line: &Line, connected: bool) {
        let colour = line.colour % COLOURS;
        let mut path = String::new();
        let mut marks = String::new();
        for segment in line.points.split(|point| point.y.is_none()) {
            let place = |point: &Point| {
                (
                    on_grid(self.x.at(point.x)),
                    on_grid(self.y.at(point.y.unwrap_or(0.0))),
                )
            };
            let mut places: Vec<(i32, i32)> = segment.iter().map(place).collect();
            if let (Style::Area, Some(first), Some(last)) =
                (line.style, places.first().copied(), places.last().copied())
            {
                let base = on_grid(self.y.start);
                places.insert(0, (first.0, base));
                places.push((last.0, base));
            }
            path += &path_of(&places);
            if matches!(line.style, Style::Marked | Style::Dotted | Style::Dashed) {
                places
                    .iter()
                    .for_each(|(x, y)| marks += &marker(line.colour, *x, *y));
            }
        }
        let mut spreads = String::new();
        for point in &line.points {
            if let Some((least, greatest)) =
                point.spread.filter(|(least, greatest)| least < greatest)
            {
                let [x, low, high] =
                    [self.x.at(point.x), self.y.at(least), self.y.at(greatest)].map(on_grid);
                let _ = write!(spreads, "M{x} {low}V{high}");
            }
        }
        let class = line.style.class();
        let marks_class = if line.style.is_reference() {
            "hollow"
        } else {
            "mark"
        };
        for (class, path) in [(class, path), ("spread", spreads), (marks_class, marks)] {
            if !path.is_empty() && (connected || class != line.style.class()) {
                let stroke = match line.style {
                    Style::Level => "ink".to_owned(),
                    _ => format!("c{colour}"),
                };
                let _ = write!(self.svg, "<path class=\"{class} {stroke}\" d=\"{path}\"/>");
            }
        }
    }

    /// Bars side by side at each word, or strokes across those of another line.
    fn bars(&mut self, line: &Line, count: usize) {
        let group = self.x.at(1.0) - self.x.at(0.0);
        let step = group * 0.8 / count as f64;
        let base = on_grid(self.y.at(self.y.from.max(0.0).min(self.y.to)));
        let width = on_grid(step * 0.92);
        let mut path = String::new();
        for point in &line.points {
            let Some(value) = point.y else { continue };
            let left = on_grid(self.x.at(point.x) - group * 0.4 + step * line.colour as f64);
            let at = on_grid(self.y.at(value));
            let _ = match line.style {
                Style::Bars => write!(path, "M{left} {base}V{at}h{width}V{base}z"),
                _ => write!(path, "M{left} {at}h{width}"),
            };
        }
        let (class, colour) = match line.style {
            Style::Bars => ("bar", format!("c{}", line.colour % COLOURS)),
            other => (other.class(), "ink".to_owned()),
        };
        let _ = write!(self.svg, "<path class=\"{class} {colour}\" d=\"{path}\"/>");
    }
}

/// Draws the entries in rows from `top` on; returns where they end.
fn legend(svg: &mut String, lines: &[Line], warmup: bool, top: f64) -> f64 {
    let mut entries: Vec<(&str, String)> = Vec::new();
    let (references, own): (Vec<&Line>, Vec<&Line>) =
        lines.iter().partition(|line| line.style.is_reference());
    for line in own.into_iter().chain(references) {
        if line.name.is_empty() || entries.iter().any(|(name, _)| *name == line.name) {
            continue;
        }
        let colour = format!("c{}", line.colour % COLOURS);
        let class = line.style.class();
        let swatch = match line.style {
            Style::Bars | Style::Area => {
                format!("<path class=\"bar {colour}\" d=\"M16-10h24v20h-24z\"/>")
            }
            Style::Dotted | Style::Dashed | Style::Level => {
                format!("<path class=\"{class} ink\" d=\"M0 0h56\"/>")
            }
            _ => format!("<path class=\"{class} {colour}\" d=\"M0 0h56\"/>"),
        };
        let mark = match line.style {
            Style::Marked => format!(
                "<path class=\"mark {colour}\" d=\"{}\"/>",
                marker(line.colour, 28, 0)
            ),
            _ => String::new(),
        };
        entries.push((&line.name, swatch + &mark));
    }
    if warmup {
        entries.push((
            "warm-up, not averaged",
            "<path class=\"warmup\" d=\"M16-10h24v20h-24z\"/>".into(),
        ));
    }
    let (mut left, mut y) = (LEFT, top + LEGEND_ROW / 2.0);
    for (name, swatch) in &entries {
        let width = 36.0 + LETTER * name.chars().count() as f64 + 12.0;
        if left + width > WIDTH && left > LEFT {
            (left, y) = (LEFT, y + LEGEND_ROW);
        }
        let _ = write!(
            svg,
            "<g transform=\"translate({left:.0} {y:.0}) scale({})\">{swatch}</g>",
            1.0 / GRID
        );
        *svg += &text(left + 34.0, y + 4.0, "", name);
        left += width;
    }
    if entries.is_empty() {
        top
    } else {
        y + LEGEND_ROW / 2.0 + 2.0
    }
}

/// A text that begins at a place, is centred there (`x`) or ends there (`y`), by its class.
fn text(x: f64, y: f64, class: &str, text: &str) -> String {
    let text = escaped(text);
    let class = match class {
        "" => String::new(),
        class => format!(" class=\"{class}\""),
    };
    format!("<text x=\"{x:.0}\" y=\"{y:.0}\"{class}>{text}</text>")
}

/// What is special in HTML and SVG, spelled out.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// A mark whose shape tells lines apart without colour.
fn marker(index: usize, x: i32, y: i32) -> String {
    match index % 5 {
        0 => format!("M{} {y}a6 6 0 1 1 0 1z", x - 6),
        1 => format!("M{} {}h12v12h-12z", x - 6, y - 6),
        2 => format!("M{x} {}l8 13h-16z", y - 8),
        3 => format!("M{x} {}l8 8l-8 8l-8-8z", y - 8),
        _ => format!("M{x} {}l-8-13h16z", y + 8),
    }
}

fn on_grid(place: f64) -> i32 {
    (place * GRID).round() as i32
}

/// A path through the points that matter: others lie within three quarters of a pixel.
fn path_of(places: &[(i32, i32)]) -> String {
    let mut kept = vec![false; places.len()];
    let (Some(first), Some(last)) = (kept.first_mut(), places.len().checked_sub(1)) else {
        return String::new();
    };
    *first = true;
    kept[last] = true;
    simplify(places, 0, last, &mut kept);
    let mut path = String::new();
    let mut before: Option<(i32, i32)> = None;
    let kept_places = places.iter().zip(&kept).filter(|(_, kept)| **kept);
    for ((x, y), _) in kept_places {
        let _ = match before {
            None => write!(path, "M{x} {y}"),
            Some((left, top)) => {
                let (right, down) = (x - left, y - top);
                let space = if down < 0 { "" } else { " " };
                let command = if path.contains('l') {
                    if right < 0 { "" } else { " " }
                } else {
                    "l"
                };
                write!(path, "{command}{right}{space}{down}")
            }
        };
        before = Some((*x, *y));
    }
    path
}

/// Ramer, Douglas and Peucker: keeps the point that is farthest from the chord, if it is far.
fn simplify(places: &[(i32, i32)], first: usize, last: usize, kept: &mut [bool]) {
    let chord = |at: usize| {
        let [(x0, y0), (x1, y1), (x, y)] = [places[first], places[last], places[at]];
        let (along, up) = (f64::from(x1 - x0), f64::from(y1 - y0));
        let (right, down) = (f64::from(x - x0), f64::from(y - y0));
        let length = along.hypot(up);
        if length == 0.0 {
            right.hypot(down)
        } else {
            (along * down - up * right).abs() / length
        }
    };
    let inner = first + 1..last;
    let Some(farthest) = inner.max_by(|a, b| chord(*a).total_cmp(&chord(*b))) else {
        return;
    };
    if chord(farthest) > 1.5 {
        kept[farthest] = true;
        simplify(places, first, farthest, kept);
        simplify(places, farthest, last, kept);
    }
}

#[cfg(test)]
mod tests;
