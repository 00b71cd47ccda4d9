//! Lines over time, with axes, a legend beside them and the warm-up shaded.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Colours that most people tell apart: Okabe and Ito, "Color Universal Design", and three more.
pub(super) const COLOURS: [RGBColor; 10] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
    RGBColor(117, 79, 160),
    RGBColor(140, 86, 75),
    RGBColor(127, 127, 127),
];

const WIDTH: u32 = 1000;
const HEIGHT: u32 = 420;
const LEGEND_WIDTH: u32 = 190;

/// Characters of a legend's label and of the title that fit into their place.
const LABEL_LENGTH: usize = 24;
const TITLE_LENGTH: usize = 110;

pub(super) struct Chart {
    pub(super) title: String,
    pub(super) y_label: &'static str,
    pub(super) duration_s: f64,
    pub(super) warmup_s: f64,
    /// Drawn in order; later ones lie above.
    pub(super) lines: Vec<Line>,
}

pub(super) struct Line {
    /// Its name in the legend, if it has a place there.
    pub(super) label: Option<String>,
    /// Position in [`COLOURS`], which repeat.
    pub(super) colour: usize,
    pub(super) weight: Weight,
    /// Seconds and values; there are gaps between segments.
    pub(super) segments: Vec<Vec<(f64, f64)>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weight {
    Pale,
    Plain,
    Bold,
}

impl Chart {
    /// The chart as SVG.
    pub(super) fn draw(&self) -> String {
        let mut svg = String::new();
        let area = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
        self.draw_on(&area)
            .expect("drawing into a string does not fail");
        drop(area);
        svg
    }

    fn draw_on(&self, area: &Area<'_>) -> Result<(), DrawingError> {
        area.fill(&WHITE)?;
        let heading = ("sans-serif", 16).into_font().color(&BLACK);
        area.draw(&Text::new(
            shortened(&self.title, TITLE_LENGTH),
            (62, 12),
            heading,
        ))?;
        let (plot, legend) = area
            .margin(30, 0, 0, 0)
            .split_horizontally(WIDTH - LEGEND_WIDTH);
        let top = self.top();
        let mut chart = ChartBuilder::on(&plot)
            .margin_right(14)
            .margin_bottom(6)
            .x_label_area_size(44)
            .y_label_area_size(62)
            .build_cartesian_2d(0.0..self.duration_s, 0.0..top)?;
        if self.warmup_s > 0.0 {
            let shade = Rectangle::new(
                [(0.0, 0.0), (self.warmup_s, top)],
                RGBColor(238, 238, 238).filled(),
            );
            chart.draw_series([shade])?;
        }
        chart
            .configure_mesh()
            .light_line_style(WHITE.mix(0.0))
            .bold_line_style(BLACK.mix(0.12))
            .x_desc("seconds")
            .y_desc(self.y_label)
            .x_labels(11)
            .y_labels(8)
            .x_label_formatter(&|x| number(*x))
            .y_label_formatter(&|y| number(*y))
            .label_style(("sans-serif", 13))
            .axis_desc_style(("sans-serif", 14))
            .draw()?;
        for line in &self.lines {
            for segment in &line.segments {
                chart.draw_series(LineSeries::new(segment.iter().copied(), line.style()))?;
            }
        }
        self.draw_legend(&legend)
    }

    fn draw_legend(&self, area: &Area<'_>) -> Result<(), DrawingError> {
        let text = ("sans-serif", 13)
            .into_font()
            .color(&BLACK)
            .pos(Pos::new(HPos::Left, VPos::Center));
        let mut y = 12;
        for line in &self.lines {
            let Some(label) = &line.label else {
                continue;
            };
            area.draw(&PathElement::new(
                vec![(0, y), (22, y)],
                line.style().stroke_width(3),
            ))?;
            area.draw(&Text::new(
                shortened(label, LABEL_LENGTH),
                (29, y),
                text.clone(),
            ))?;
            y += 21;
        }
        if self.warmup_s > 0.0 {
            let shade = RGBColor(225, 225, 225).filled();
            area.draw(&Rectangle::new([(0, y - 6), (22, y + 6)], shade))?;
            area.draw(&Text::new("warm-up, not averaged", (29, y), text))?;
        }
        Ok(())
    }

    /// Where the vertical axis ends: a little above the greatest value.
    fn top(&self) -> f64 {
        let values = self
            .lines
            .iter()
            .flat_map(|line| line.segments.iter().flatten());
        let greatest = values.map(|(_, value)| *value).fold(0.0, f64::max);
        if greatest > 0.0 { greatest * 1.05 } else { 1.0 }
    }
}

impl Line {
    fn style(&self) -> ShapeStyle {
        let colour = COLOURS[self.colour % COLOURS.len()];
        match self.weight {
            Weight::Pale => colour.mix(0.3).stroke_width(1),
            Weight::Plain => colour.stroke_width(2),
            Weight::Bold => colour.stroke_width(3),
        }
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type DrawingError = DrawingAreaErrorKind<std::io::Error>;

/// A number on an axis, without zeros behind.
fn number(value: f64) -> String {
    ((value * 1e4).round() / 1e4).to_string()
}

/// The beginning of a text, so that it fits into its place.
fn shortened(text: &str, length: usize) -> String {
    match text.char_indices().nth(length) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}
