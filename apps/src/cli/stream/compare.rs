//! `evenkeel stream compare`: runs that watch a stream for a time.

use std::sync::Arc;
use std::time::Duration;

use quinn::{Runtime, TokioRuntime};
use serde::{Deserialize, Serialize};

use super::system::wall_clock;
use crate::AppError;
use crate::bulk::Direction;
use crate::cli::compare::{Better, Kind, Measured, Metric, Scale, Site, Watch};
use crate::cli::failure::Failure;
use crate::cli::net::{Application, STREAM};
use crate::stream::{self, DelayReport, ViewOptions, ViewReport, Viewing};
use crate::time::sleep_until;

/// How long to wait at most for what is still in the network's queues when a viewer has left: as
/// long as its frames did.
const MOST_LEFT: Duration = Duration::from_secs(10);

/// What a viewer measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::cli) struct Watched {
    report: ViewReport,
}

impl Kind for Watched {
    /// A server that is gone is a failed run.
    const APPLICATION: Application = STREAM.without_reconnecting();

    const METRICS: &'static [Metric<Self>] = &[
        Metric::rate(|run| run.of.report.throughput_bps.map(|rate| rate / 1e6)),
        Metric::idle("round trip, idle"),
        Metric::time("frame delay, p50", "ms", |run| Some(delays(run)?.p50)),
        Metric::time("frame delay, p95", "ms", |run| Some(delays(run)?.p95)),
        Metric::time("frame delay, p99", "ms", |run| Some(delays(run)?.p99)),
        Metric {
            name: "stalled",
            unit: "s",
            better: Better::Lower,
            scale: Some(Scale::Difference(0.1)),
            value: |run| Some(run.of.report.stalls.total_s),
        },
        Metric {
            name: "frames lost",
            unit: "%",
            better: Better::Lower,
            scale: Some(Scale::Difference(0.1)),
            value: |run| Some(lost(run)),
        },
    ];

    const DELAYS: &'static str = "Delay of frames";

    const DRAWN: [&'static str; 2] = ["rate", "frame delay, p95"];

    const MARGINS: &'static str =
        "2 % of rate, 5 % of delay, 0.1 s of stalls and 0.1 points of losses";

    fn way(_: Direction) -> &'static str {
        "stream"
    }

    fn words(measured: &Measured<Self>) -> String {
        let report = &measured.of.report;
        let rate = report.throughput_bps.unwrap_or(0.0) / 1e6;
        let delay = delays(measured);
        let delay = delay.map_or("-".into(), |delay| format!("{:.1} ms", delay.p95));
        let (stalls, lost) = (report.stalls, lost(measured));
        format!(
            "{rate:.1} Mb/s, frame delay p95 {delay}, {} stalls ({:.1} s), {lost:.2} % lost",
            stalls.count, stalls.total_s
        )
    }

    async fn run(site: &Site<'_>) -> Result<Result<Measured<Self>, AppError>, Failure> {
        let idle = [site.connection.rtt()];
        let viewing = Arc::<Viewing>::default();
        let watch = Watch::begin({
            let viewing = viewing.clone();
            move || viewing.received()
        });
        let clock = wall_clock(false);
        let options = ViewOptions {
            began: clock.at,
            clock,
            controller: Some(site.controller().to_owned()),
            buffer: Duration::from_millis(site.plan.buffer_ms),
            skip_damaged: false,
            omit: Duration::ZERO,
            time: Some(site.plan.time),
            patience: crate::bulk::TransportSettings::default().idle_timeout,
            output: None,
            reconnect: None,
        };
        let (connection, runtime) = (site.connection.clone(), Arc::new(TokioRuntime));
        let seeing = stream::view(connection, runtime, options, viewing.clone());
        let ended = site.attend(seeing).await;
        let course = watch.end();
        let now = TokioRuntime.now();
        let delays = viewing.delays(now);
        let longest = delays.iter().map(|(_, ms)| *ms).fold(0.0, f64::max);
        let longest = Duration::from_secs_f64(longest / 1e3).min(MOST_LEFT);
        site.first(sleep_until(&TokioRuntime, now + longest))
            .await?;
        Ok(ended?.and_then(|()| match viewing.report(now) {
            Some(report) if report.frames.received > 0 => {
                Ok(Measured::new(Self { report }, &idle, delays, course))
            }
            _ => Err(AppError::Job("no frame came".into())),
        }))
    }
}

fn delays(run: &Measured<Watched>) -> Option<DelayReport> {
    run.of.report.delay_ms
}

/// Returns the share of frames that never came whole, in percent.
fn lost(run: &Measured<Watched>) -> f64 {
    let frames = &run.of.report.frames;
    frames.lost as f64 * 100.0 / (frames.received + frames.lost).max(1) as f64
}
