//! Scales of axes, their ticks, and the numbers and words at these.

use super::{Line, Style};

/// A range on an axis and where it is drawn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) log: bool,
    pub(super) start: f64,
    pub(super) end: f64,
}

impl Scale {
    /// The vertical axis of these lines, with room above and below.
    pub(super) fn y(lines: &[Line], from: Option<f64>, top: f64, base: f64) -> Self {
        let from = match from {
            None if lines.iter().any(|line| line.style == Style::Bars) => Some(0.0),
            from => from,
        };
        let points = lines.iter().flat_map(|line| &line.points);
        let values = points.flat_map(|point| {
            let (least, greatest) = point.spread.unzip();
            [point.y, least, greatest].into_iter().flatten()
        });
        let (least, greatest) = ends(values).unwrap_or((0.0, 1.0));
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
            start: base,
            end: top,
        }
    }

    pub(super) fn at(&self, value: f64) -> f64 {
        let map = |value: f64| if self.log { value.log10() } else { value };
        let share = (map(value) - map(self.from)) / (map(self.to) - map(self.from));
        self.start + share * (self.end - self.start)
    }

    pub(super) fn ticks(&self, about: f64) -> Vec<f64> {
        if self.log {
            let powers = self.from.log10().ceil() as i32..=self.to.log10().floor() as i32;
            return powers.map(|power| 10f64.powi(power)).collect();
        }
        let rough = (self.to - self.from) / about;
        let magnitude = 10f64.powf(rough.log10().floor());
        let factors = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * magnitude);
        let step = factors
            .into_iter()
            .find(|step| *step >= rough)
            .unwrap_or(factors[3]);
        let counts = (self.from / step).ceil() as i64..=(self.to / step).floor() as i64;
        counts.map(|count| count as f64 * step).collect()
    }
}

pub(super) fn ends(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |ends, value| match ends {
        None => Some((value, value)),
        Some((least, greatest)) => Some((value.min(least), value.max(greatest))),
    })
}

/// A text in at most two lines of about `letters` letters, parted at a space.
pub(super) fn parted(text: &str, letters: usize) -> Vec<String> {
    let distance = |at: &usize| at.abs_diff(text.len() / 2);
    let spaces = text.match_indices(' ').map(|(at, _)| at);
    match spaces.min_by_key(distance) {
        Some(at) if text.len() > letters => vec![text[..at].into(), text[at + 1..].into()],
        _ => vec![text.into()],
    }
}

/// A number with four significant digits and no zeros behind.
pub fn digits(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let magnitude = value.abs().log10().floor();
    if !(-5.0..15.0).contains(&magnitude) {
        return format!("{value:.3e}");
    }
    let decimals = (3.0 - magnitude).max(0.0) as usize;
    let text = format!("{value:.decimals$}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
