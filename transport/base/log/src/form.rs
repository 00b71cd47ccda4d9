//! How events are printed: for people, as JSON, with the levels of systemd's journal.

use std::ffi::OsString;
use std::fmt;
use std::io;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::fmt::{self as print, FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::LogFormat;
use crate::impatient::Impatient;

/// What is said of lines for which there was no room.
const LOST: &str = "lines of this log are lost: nobody has read it for a while";

/// Makes what prints events on standard error. If it `may_wait`, it does for their reader;
/// else it loses lines.
pub(crate) fn printer<S>(
    format: LogFormat,
    is_journal: bool,
    is_coloured: bool,
    may_wait: bool,
) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let notice = match (format, is_journal) {
        (LogFormat::Human, false) => |lost| format!("evenkeel: {lost} {LOST}\n"),
        (LogFormat::Human, true) => |lost| format!("<4>{lost} {LOST}\n"),
        (LogFormat::Json, _) => {
            |lost| format!("{{\"level\":\"WARN\",\"message\":\"{lost} {LOST}\"}}\n")
        }
    };
    let writer = match may_wait {
        true => BoxMakeWriter::new(io::stderr),
        false => BoxMakeWriter::new(move || Impatient { notice }),
    };
    let layer = print::layer()
        .with_writer(writer)
        .with_ansi(is_coloured)
        .log_internal_errors(false);
    let human = |layer: print::Layer<S, _, _, _>| layer;
    let json = |layer: print::Layer<S, _, _, _>| layer.json().flatten_event(true);
    match (format, is_journal) {
        (LogFormat::Human, false) => human(layer).boxed(),
        // The journal has the time, and the level by its number.
        (LogFormat::Human, true) => human(layer)
            .without_time()
            .with_level(false)
            .map_event_format(Numbered)
            .boxed(),
        (LogFormat::Json, false) => json(layer).boxed(),
        (LogFormat::Json, true) => json(layer).map_event_format(Numbered).boxed(),
    }
}

/// Whether standard error is the journal's stream. systemd names the stream in `JOURNAL_STREAM` as
/// `DEVICE:INODE`, which a program that sends its output elsewhere inherits too (systemd.exec(5)).
pub(crate) fn goes_to_journal(named: Option<OsString>) -> bool {
    named.is_some_and(|named| standard_error().is_some_and(|ours| named == *ours))
}

#[cfg(unix)]
fn standard_error() -> Option<String> {
    use std::os::fd::AsFd;
    use std::os::unix::fs::MetadataExt;

    let stream = io::stderr().as_fd().try_clone_to_owned().ok()?;
    let metadata = std::fs::File::from(stream).metadata().ok()?;
    Some(format!("{}:{}", metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn standard_error() -> Option<String> {
    None
}

/// Puts the level before each line as the journal reads it: `<4>` (sd-daemon(3)).
struct Numbered<F>(F);

impl<S, N, F> FormatEvent<S, N> for Numbered<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        write!(writer, "<{}>", number(*event.metadata().level()))?;
        self.0.format_event(context, writer, event)
    }
}

/// The journal's number of a level (syslog(3)).
fn number(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_that_is_not_standard_error_is_no_journal() {
        assert!(!goes_to_journal(None));
        for named in ["", ":", "1:1", "journal"] {
            assert!(!goes_to_journal(Some(named.into())), "{named}");
        }
    }

    #[test]
    fn the_more_serious_the_smaller_the_number() {
        let levels = [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG];
        assert_eq!(levels.map(number), [3, 4, 6, 7]);
    }
}
