//! Draws a router's figures, and what has happened since the last time.

use crate::status::{LinkStatus, Status};

/// Columns of a link's name where there are 79 of all, and the most: names have up to 64 letters.
const NAME_WIDTH: (usize, usize) = (14, 64);

/// Columns of all others.
const REST_WIDTH: usize = 65;

/// Bold, red, and neither (ECMA-48, SGR).
const BOLD: &str = "\x1b[1m";
const RED: &str = "\x1b[31m";
const PLAIN: &str = "\x1b[0m";

/// What was drawn last.
#[derive(Debug, Default)]
pub(super) struct View {
    before: Option<Status>,
}

impl View {
    /// Returns lines of at most `columns` letters, at most `rows` of them.
    pub(super) fn draw(
        &mut self,
        status: Status,
        columns: usize,
        rows: Option<usize>,
        is_coloured: bool,
    ) -> Vec<String> {
        let paint = |style: &str, line: String| match is_coloured {
            true => format!("{style}{line}{PLAIN}"),
            false => line,
        };
        let before = self.before.take();
        let before = before.filter(|before| before.pid == status.pid);
        let title = format!(
            "router {} (pid {}), up {:.0} s",
            status.router, status.pid, status.uptime_s
        );
        let (least, most) = NAME_WIDTH;
        let width = columns.saturating_sub(REST_WIDTH).clamp(least, most);
        let heads = [
            "IN Mb/s", "OUT Mb/s", "RATE", "QUEUE", "WAIT ms", "DROP/s", "MARK/s", "FLOWS",
        ];
        let mut lines = vec![
            cut(&title, columns),
            paint(
                BOLD,
                cut(&row(width, "LINK", &heads.map(String::from)), columns),
            ),
        ];
        for link in &status.links {
            let earlier = before.as_ref().and_then(|before| {
                let earlier = before.links.iter().find(|other| other.name == link.name)?;
                // A link that was made anew counts from 0 again.
                let is_same = earlier.total.arrived.packets <= link.total.arrived.packets;
                let seconds = status.uptime_s - before.uptime_s;
                (is_same && seconds > 0.0).then_some((earlier, seconds))
            });
            lines.push(cut(
                &row(width, &link.name, &figures(link, earlier)),
                columns,
            ));
            if let Some(degraded) = &link.degraded {
                let text = format!(
                    "DEGRADED for {:.0} s: {}",
                    degraded.since_s, degraded.reason
                );
                let parts = wrapped(&text, columns.saturating_sub(2).max(1)).into_iter();
                let parts = parts.map(|part| cut(&format!("  {part}"), columns));
                lines.extend(parts.map(|part| paint(RED, part)));
            }
        }
        if let Some(rows) = rows.filter(|rows| lines.len() > *rows) {
            let more = lines.len() + 1 - rows;
            lines.truncate(rows.saturating_sub(1));
            lines.push(cut(&format!("... {more} more lines"), columns));
        }
        self.before = Some(status);
        lines
    }
}

/// Returns what is in the columns of a link, given how it was some seconds ago.
fn figures(link: &LinkStatus, earlier: Option<(&LinkStatus, f64)>) -> [String; 8] {
    let per_second = |count: fn(&LinkStatus) -> u64| {
        let (earlier, seconds) = earlier?;
        Some(count(link).saturating_sub(count(earlier)) as f64 / seconds)
    };
    let megabits = |bytes: f64| bytes * 8.0 / 1e6;
    let rate = match link.rate_bps {
        Some(bps) => number(Some(bps as f64 / 1e6)),
        None if link.rate_varies => "varies".to_owned(),
        None => "none".to_owned(),
    };
    let wait_ms = link.rate_bps.filter(|bps| *bps > 0).map(|bps| {
        let bits = link.queued.bytes as f64 * 8.0;
        bits / bps as f64 * 1e3
    });
    let stamp = |name, figure| link.stamps.get(name)?.get(figure).copied();
    [
        number(per_second(|link| link.total.arrived.bytes).map(megabits)),
        number(per_second(|link| link.total.forwarded.bytes).map(megabits)),
        rate,
        link.queued.packets.to_string(),
        number(wait_ms),
        number(per_second(|link| {
            link.total.dropped.packets + link.total.ring_dropped
        })),
        number(per_second(|link| link.total.marked.packets)),
        number(stamp("flows", "flows").or_else(|| stamp("acp", "users"))),
    ]
}

fn row(width: usize, name: &str, cells: &[String; 8]) -> String {
    let [arrived, forwarded, rate, queue, wait, drops, marks, flows] = cells;
    let name = cut(name, width);
    format!(
        "{name:<width$} {arrived:>8} {forwarded:>8} {rate:>8} {queue:>6} {wait:>8} {drops:>7} \
         {marks:>6} {flows:>6}"
    )
}

/// Formats a number that is not negative, in at most six letters up to 10^11.
fn number(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(0.0) => "0".to_owned(),
        Some(value) if value < 9.9995 => format!("{value:.3}"),
        Some(value) if value < 99.995 => format!("{value:.2}"),
        Some(value) if value < 999.95 => format!("{value:.1}"),
        Some(value) if value < 1e5 => format!("{value:.0}"),
        Some(value) if value < 1e8 => format!("{:.0}k", value / 1e3),
        Some(value) => format!("{:.0}M", value / 1e6),
    }
}

/// Returns as much of a text as fits into these columns; control characters could do anything.
fn cut(text: &str, columns: usize) -> String {
    let text = text.chars().filter(|letter| !letter.is_control());
    text.take(columns).collect()
}

/// Cuts a text into lines of at most `columns` letters, where possible at spaces.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let letters: Vec<_> = word.chars().filter(|letter| !letter.is_control()).collect();
        for part in letters.chunks(columns) {
            let line = lines.last_mut().expect("there is one at least");
            let length = line.chars().count();
            if length > 0 && length + 1 + part.len() <= columns {
                line.push(' ');
                line.extend(part);
            } else if length == 0 {
                line.extend(part);
            } else {
                lines.push(part.iter().collect());
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests;
