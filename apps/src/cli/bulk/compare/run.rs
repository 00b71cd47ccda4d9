//! One run of a comparison: a transfer over a connection of its own.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use quinn::{Connection, Runtime, TokioRuntime};
use serde::{Deserialize, Serialize};

use super::machine::{Machine, Watch};
use super::plan::{Plan, Turn};
use crate::AppError;
use crate::bulk::{self, Amount, Direction, Job, Local, Outcome, Pings, Progress, Report};
use crate::cli::client::Client;
use crate::cli::cpu::cpu_time;
use crate::cli::failure::Failure;
use crate::cli::net::Transport;
use crate::lock::lock;
use crate::time::{milliseconds, sleep_until};

/// Distance of the points of a run's progress.
const STEP: Duration = Duration::from_millis(100);

/// A run, as its file keeps it. docs/bulk.md describes every field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Run {
    pub(super) round: u32,
    pub(super) direction: Direction,
    pub(super) controller: String,
    /// When it began, in seconds since 1970.
    pub(super) began_unix_s: f64,
    /// Why it failed.
    pub(super) error: Option<String>,
    pub(super) measured: Option<Measured>,
}

/// What a run measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Measured {
    pub(super) sender: Report,
    pub(super) receiver: Report,
    /// Round trips before the data, in milliseconds.
    pub(super) idle_ms: Vec<f64>,
    /// Round trips beside the data: when the ping left, in seconds since the data began, and
    /// milliseconds.
    pub(super) loaded: Vec<(f64, f64)>,
    pub(super) pings_lost: u64,
    /// Seconds since the data began, and bytes on the client's side by then.
    pub(super) progress: Vec<(f64, u64)>,
    pub(super) machine: Machine,
}

/// How a run ended.
pub(super) enum End {
    Measured(Box<Measured>),
    /// It failed, and the next may not.
    Failed(String),
    /// No run would go better.
    Hopeless(Failure),
}

impl Run {
    pub(super) fn failed(turn: &Turn, plan: &Plan, began_unix_s: f64, error: String) -> Self {
        Self {
            error: Some(error),
            ..Self::new(turn, plan, began_unix_s)
        }
    }

    pub(super) fn measured(turn: &Turn, plan: &Plan, began: f64, measured: Measured) -> Self {
        Self {
            measured: Some(measured),
            ..Self::new(turn, plan, began)
        }
    }

    fn new(turn: &Turn, plan: &Plan, began_unix_s: f64) -> Self {
        Self {
            round: turn.round,
            direction: turn.direction,
            controller: plan.controllers[turn.controller].clone(),
            began_unix_s,
            error: None,
            measured: None,
        }
    }

    /// Returns whether it is the run of this turn.
    pub(super) fn is_of(&self, turn: &Turn, plan: &Plan) -> bool {
        self.round == turn.round
            && self.direction == turn.direction
            && self.controller == plan.controllers[turn.controller]
    }
}

/// Returns the time of the calendar, in seconds since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "people want to know when a run was, also in another process"
)]
pub(super) fn calendar() -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0.0, |now| now.as_secs_f64())
}

/// Does the run of `turn`, with `transport`'s controller if this side sends.
///
/// # Errors
/// Only if a signal interrupts it.
pub(super) async fn run(
    client: &Client<'_>,
    transport: &Transport,
    plan: &Plan,
    turn: &Turn,
) -> Result<End, Failure> {
    let connection = match client.connect(transport, "").await {
        Ok(connection) => connection,
        Err(failure) if failure.is_interruption() => return Err(failure),
        Err(failure) => return Ok(End::Failed(failure.cause)),
    };
    let pings = Arc::<Pings>::default();
    let idle = async {
        pings.idle(&connection, &TokioRuntime).await;
        Ok(())
    };
    client.signals.or_signal(idle).await?;
    let (watch, begun) = (Watch::begin(), TokioRuntime.now());
    let beside = {
        let (pings, connection) = (pings.clone(), connection.clone());
        tokio::spawn(async move {
            pings
                .loaded(&connection, &TokioRuntime, Duration::ZERO)
                .await
        })
    };
    let progress = Arc::<Progress>::default();
    let points = Arc::<Mutex<Vec<_>>>::default();
    let noting = tokio::spawn({
        let (progress, points, direction) = (progress.clone(), points.clone(), turn.direction);
        async move { note(&progress, &points, direction, begun).await }
    });
    let ended = transfer(client, &connection, plan, turn, progress).await;
    beside.abort();
    noting.abort();
    let machine = watch.end();
    match ended {
        Err(failure) if failure.is_interruption() => Err(failure),
        Err(failure) => Ok(End::Failed(failure.cause)),
        Ok(Err(error @ AppError::Refused(_))) => Ok(End::Hopeless(Failure::failed(
            format!(
                "{} cannot be compared: {error}",
                plan.controllers[turn.controller]
            ),
            format!(
                "restart the server with --controllers {}",
                plan.controllers.join(",")
            ),
        ))),
        Ok(Err(error)) => Ok(End::Failed(error.to_string())),
        Ok(Ok(outcome)) => {
            let (idle, loaded, pings_lost) = pings.samples();
            let since = |at: Instant| at.saturating_duration_since(begun).as_secs_f64();
            Ok(End::Measured(Box::new(Measured {
                sender: outcome.sender,
                receiver: outcome.receiver,
                idle_ms: idle.into_iter().map(milliseconds).collect(),
                loaded: (loaded.into_iter())
                    .map(|(left, rtt)| (since(left), milliseconds(rtt)))
                    .collect(),
                pings_lost,
                progress: std::mem::take(&mut lock(&points)),
                machine,
            })))
        }
    }
}

/// Moves the data of one run. The outer failure is a signal, or a server that is gone.
async fn transfer(
    client: &Client<'_>,
    connection: &Connection,
    plan: &Plan,
    turn: &Turn,
    progress: Arc<Progress>,
) -> Result<Result<Outcome, AppError>, Failure> {
    let name = &plan.controllers[turn.controller];
    let job = Job {
        verify: None,
        controller: (turn.direction == Direction::Down).then(|| name.clone()),
        ..Job::new(turn.direction, Amount::Duration(plan.time))
    };
    let local = Local {
        cpu: Some(cpu_time),
        ..Local::default()
    };
    let runtime = Arc::new(TokioRuntime);
    let moving = bulk::client(connection.clone(), runtime, job, local, progress);
    let running = async { Ok(moving.await) };
    let interrupted = || ("interrupted".into(), "nothing of this run was kept");
    let failed = format!("the transfer with {} failed", plan.server);
    let nothing_to_show = std::future::pending();
    client
        .attend(connection, running, nothing_to_show, &failed, interrupted)
        .await
}

/// Notes the bytes that have moved, until cancelled.
async fn note(
    progress: &Progress,
    points: &Mutex<Vec<(f64, u64)>>,
    direction: Direction,
    begun: Instant,
) {
    loop {
        sleep_until(&TokioRuntime, TokioRuntime.now() + STEP).await;
        let at = TokioRuntime.now().saturating_duration_since(begun);
        lock(points).push((at.as_secs_f64(), progress.of(direction)));
    }
}
