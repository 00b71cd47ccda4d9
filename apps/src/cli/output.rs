//! Writes standard output, for people and for programs.

use std::io::{self, Write};

use serde::Serialize;

use super::args::OutputArgs;
use super::failure::{Failure, plain, say};
use super::units::show_bytes;
use crate::path::{HeaderReport, SampleRecord};

/// The form of standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Words and tables.
    People,
    /// A line for each interval, then words and tables.
    Lines,
    /// One JSON document at the end.
    Json,
    /// A JSON document on a line for each interval and at the end.
    JsonLines,
}

/// A JSON document; its kind is the field `record`. `docs/bulk.md` and `docs/stream.md` describe every
/// field.
pub(crate) trait Record: Serialize {
    /// Returns the same for people; empty if there is nothing to tell.
    fn text(&self) -> String {
        String::new()
    }
}

/// The record of a server that is ready.
#[derive(Debug, Serialize)]
#[serde(tag = "record", rename = "listening")]
pub(crate) struct Listening {
    pub(crate) version: &'static str,
    pub(crate) address: String,
    pub(crate) controller: String,
    pub(crate) pacing: &'static str,
    pub(crate) path_headers: String,
    pub(crate) pin: String,
    pub(crate) client_command: String,
    /// Whether the server listens on all addresses.
    #[serde(skip)]
    pub(crate) everywhere: bool,
}

/// The record of a server that stops.
#[derive(Debug, Serialize)]
#[serde(tag = "record", rename = "stopped")]
pub(crate) struct Stopped<'a, C, E> {
    pub(crate) version: &'static str,
    pub(crate) address: &'a str,
    pub(crate) controller: &'a str,
    #[serde(flatten)]
    pub(crate) counts: C,
    /// The last client that was served.
    pub(crate) last: Option<E>,
}

/// The state of this side of a connection at the end of an interval, and what it sent in it.
#[derive(Debug, Serialize)]
pub(crate) struct SenderInterval {
    pub(crate) rtt_ms: f64,
    pub(crate) window_bytes: u64,
    pub(crate) slow_start_threshold_bytes: Option<u64>,
    pub(crate) pacing_rate_bps: Option<u64>,
    pub(crate) packets_sent: u64,
    pub(crate) packets_lost: u64,
    pub(crate) path: Option<HeaderReport>,
}

/// The requested samples of an interval.
#[derive(Debug, Default, Serialize)]
pub(crate) struct SampleLists {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rtt_samples_ms: Option<Vec<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) path_samples: Option<Vec<SampleRecord>>,
}

impl Form {
    pub(crate) fn of(args: &OutputArgs) -> Self {
        match (args.json, args.json_lines, args.interval) {
            (true, ..) => Self::Json,
            (_, true, _) => Self::JsonLines,
            (.., Some(_)) => Self::Lines,
            _ => Self::People,
        }
    }

    /// Returns whether the form is words rather than JSON.
    pub(crate) fn is_words(self) -> bool {
        matches!(self, Self::People | Self::Lines)
    }

    /// Returns whether it prints something in each interval.
    pub(crate) fn has_intervals(self) -> bool {
        matches!(self, Self::Lines | Self::JsonLines)
    }

    /// Prints an event before the end; the form of one document omits it.
    pub(crate) fn event(self, record: &impl Record) -> Result<(), Failure> {
        match self {
            Self::Json => Ok(()),
            _ => self.print(record),
        }
    }

    /// Prints a record on its own line, or its text.
    pub(crate) fn print(self, record: &impl Record) -> Result<(), Failure> {
        if self.is_words() {
            return print(&record.text());
        }
        print(&serde_json::to_string(record).expect("records have string keys only"))
    }
}

impl Record for Listening {
    fn text(&self) -> String {
        let mut text = format!(
            "listening on {}, controller {}\ncertificate pin {}\nconnect with: {}",
            self.address, self.controller, self.pin, self.client_command
        );
        if self.everywhere {
            text += "\n(from elsewhere, with this machine's address instead of localhost)";
        }
        text
    }
}

impl<C: Serialize, E: Serialize> Record for Stopped<'_, C, E> {}

impl SenderInterval {
    pub(crate) fn text(&self) -> String {
        format!(
            "RTT {:.1} ms  window {}  {} lost",
            self.rtt_ms,
            show_bytes(self.window_bytes),
            self.packets_lost
        )
    }
}

/// Announces a server. If standard output is one document, standard error gets the words.
pub(crate) fn announce(form: Form, listening: &Listening) -> Result<(), Failure> {
    if form == Form::Json {
        say(&listening.text());
        return Ok(());
    }
    form.print(listening)
}

/// Prints a line on standard output, unless it is empty. A reader that has gone is no failure.
///
/// # Errors
/// If it cannot be written for another reason, such as a full disk.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    if text.is_empty() {
        return Ok(());
    }
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::failed(
            format!("cannot write to standard output: {}", plain(&error)),
            "send it elsewhere",
        )),
        _ => Ok(()),
    }
}
