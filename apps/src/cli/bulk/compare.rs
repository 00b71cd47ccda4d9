//! `evenkeel bulk compare`: runs that transfer data for a time.

use std::sync::Arc;
use std::time::Duration;

use quinn::TokioRuntime;
use serde::{Deserialize, Serialize};

use crate::AppError;
use crate::bulk::{self, Amount, Direction, Job, Local, Pings, Progress, Report};
use crate::cli::compare::{Better, Kind, Measured, Metric, Scale, Site, Watch, since};
use crate::cli::cpu::cpu_time;
use crate::cli::failure::Failure;
use crate::cli::net::{Application, BULK};
use crate::time::milliseconds;

/// What a transfer measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::cli) struct Transfer {
    pub(in crate::cli) sender: Report,
    pub(in crate::cli) receiver: Report,
    pub(in crate::cli) pings_lost: u64,
}

impl Kind for Transfer {
    const APPLICATION: Application = BULK;

    const METRICS: &'static [Metric<Self>] = &[
        Metric::rate(|run| run.of.receiver.goodput_bps.map(|rate| rate / 1e6)),
        Metric::idle("round trip, idle, p50"),
        Metric::time("round trip, loaded, p50", "ms", |run| {
            Some(run.delayed()?.p50)
        }),
        Metric::time("round trip, loaded, p95", "ms", |run| {
            Some(run.delayed()?.p95)
        }),
        Metric::time("round trip, loaded, p99", "ms", |run| {
            Some(run.delayed()?.p99)
        }),
        Metric {
            name: "packets lost",
            unit: "%",
            better: Better::Lower,
            scale: Some(Scale::Difference(0.1)),
            value: |run| Some(run.of.sender.retransmitted_ratio * 100.0),
        },
        Metric::time("time to 1 MB", "s", |run| run.of.receiver.first_1mb_s),
        Metric::time("time to 10 MB", "s", |run| run.of.receiver.first_10mb_s),
    ];

    const DELAYS: &'static str = "Round trip beside the data";

    const DRAWN: [&'static str; 2] = ["rate", "round trip, loaded, p95"];

    const MARGINS: &'static str = "2 % of rate, 5 % of time and 0.1 points of losses";

    fn way(direction: Direction) -> &'static str {
        match direction {
            Direction::Up => "upload",
            Direction::Down => "download",
        }
    }

    fn words(measured: &Measured<Self>) -> String {
        let rate = measured.of.receiver.goodput_bps.unwrap_or(0.0) / 1e6;
        let lost = measured.of.sender.retransmitted_ratio * 100.0;
        let delay = measured.delayed();
        let delay = delay.map_or("-".into(), |delay| format!("{:.1} ms", delay.p95));
        format!("{rate:.1} Mb/s, round trip p95 {delay}, {lost:.2} % lost")
    }

    async fn run(site: &Site<'_>) -> Result<Result<Measured<Self>, AppError>, Failure> {
        let (connection, direction) = (&site.connection, site.turn.direction);
        let pings = Arc::<Pings>::default();
        site.first(pings.idle(connection, &TokioRuntime)).await?;
        let progress = Arc::<Progress>::default();
        let watch = Watch::begin({
            let progress = progress.clone();
            move || progress.of(direction)
        });
        let begun = watch.begun;
        let beside = tokio::spawn({
            let (pings, connection) = (pings.clone(), connection.clone());
            async move {
                let no_warm_up = Duration::ZERO;
                pings.loaded(&connection, &TokioRuntime, no_warm_up).await
            }
        });
        let job = Job {
            verify: None,
            controller: (direction == Direction::Down).then(|| site.controller().to_owned()),
            ..Job::new(direction, Amount::Duration(site.plan.time))
        };
        let local = Local {
            cpu: Some(cpu_time),
            ..Local::default()
        };
        let runtime = Arc::new(TokioRuntime);
        let moving = bulk::client(connection.clone(), runtime, job, local, progress);
        let ended = site.attend(moving).await;
        beside.abort();
        let course = watch.end();
        Ok(ended?.map(|outcome| {
            let (idle, loaded, pings_lost) = pings.samples();
            let delays = (loaded.into_iter())
                .map(|(left, rtt)| (since(begun, left), milliseconds(rtt)))
                .collect();
            let of = Self {
                sender: outcome.sender,
                receiver: outcome.receiver,
                pings_lost,
            };
            Measured::new(of, &idle, delays, course)
        }))
    }
}
