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

/// Shade of the time that averages leave out.
const WARMUP: RGBColor = RGBColor(232, 232, 232);

const WIDTH: u32 = 1000;
const LEGEND_WIDTH: u32 = 190;
const HEADING_HEIGHT: u32 = 30;

/// Height of a panel that is alone, and of one among several.
const PANEL_HEIGHT: u32 = 390;
const SMALL_PANEL_HEIGHT: u32 = 180;

/// Characters of a legend's label and of the title that fit into their place.
const LABEL_LENGTH: usize = 24;
const TITLE_LENGTH: usize = 110;

pub(super) struct Chart {
    pub(super) title: String,
    pub(super) y_label: &'static str,
    pub(super) duration_s: f64,
    pub(super) warmup_s: f64,
    /// One below the other over the same time, each with its lines; later lines lie above.
    pub(super) panels: Vec<Vec<Line>>,
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
        let panel_height = match self.panels.len() {
            0 | 1 => PANEL_HEIGHT,
            _ => SMALL_PANEL_HEIGHT,
        };
        let height = HEADING_HEIGHT + panel_height * self.panels.len().max(1) as u32;
        let mut svg = String::new();
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
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
        let area = area.margin(HEADING_HEIGHT, 0, 0, 0);
        let panels = area.split_evenly((self.panels.len().max(1), 1));
        for (index, (panel, lines)) in panels.iter().zip(&self.panels).enumerate() {
            let (plot, legend) = panel.split_horizontally(WIDTH - LEGEND_WIDTH);
            self.draw_lines(&plot, lines)?;
            draw_legend(&legend, lines, index == 0 && self.warmup_s > 0.0)?;
        }
        Ok(())
    }

    fn draw_lines(&self, area: &Area<'_>, lines: &[Line]) -> Result<(), DrawingError> {
        let top = top(lines);
        let mut chart = ChartBuilder::on(area)
            .margin_left(12)
            .margin_right(14)
            .margin_top(4)
            .margin_bottom(6)
            .x_label_area_size(40)
            .y_label_area_size(58)
            .build_cartesian_2d(0.0..self.duration_s, 0.0..top)?;
        if self.warmup_s > 0.0 {
            let corners = [(0.0, 0.0), (self.warmup_s, top)];
            chart.draw_series([Rectangle::new(corners, WARMUP.filled())])?;
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
        for line in lines {
            for segment in &line.segments {
                chart.draw_series(LineSeries::new(segment.iter().copied(), line.style()))?;
            }
        }
        Ok(())
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

fn draw_legend(area: &Area<'_>, lines: &[Line], with_warmup: bool) -> Result<(), DrawingError> {
    let text = ("sans-serif", 13)
        .into_font()
        .color(&BLACK)
        .pos(Pos::new(HPos::Left, VPos::Center));
    let mut y = 12;
    for line in lines {
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
    if with_warmup {
        area.draw(&Rectangle::new([(0, y - 6), (22, y + 6)], WARMUP.filled()))?;
        area.draw(&Text::new("warm-up, not averaged", (29, y), text))?;
    }
    Ok(())
}

/// Where the vertical axis ends: a little above the greatest value.
fn top(lines: &[Line]) -> f64 {
    let values = lines.iter().flat_map(|line| line.segments.iter().flatten());
    let greatest = values.map(|(_, value)| *value).fold(0.0, f64::max);
    if greatest > 0.0 { greatest * 1.05 } else { 1.0 }
}

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
