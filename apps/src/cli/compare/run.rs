//! One run of a comparison, over a connection of its own.

use std::time::Duration;

use quinn::{Connection, Runtime, TokioRuntime};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::judge::{Better, Scale};
use super::machine::{Course, Machine};
use super::plan::{Plan, Turn};
use crate::AppError;
use crate::bulk::{Direction, Quantiles};
use crate::cli::client::Client;
use crate::cli::failure::Failure;
use crate::cli::net::{Application, Transport};
use crate::time::{milliseconds, sleep_until};

/// A figure of a run.
pub(in crate::cli) struct Metric<K> {
    pub(in crate::cli) name: &'static str,
    pub(in crate::cli) unit: &'static str,
    pub(in crate::cli) better: Better,
    /// What differences are made of; `None` if a difference would not be the controllers'.
    pub(in crate::cli) scale: Option<Scale>,
    pub(in crate::cli) value: fn(&Measured<K>) -> Option<f64>,
}

impl<K> Metric<K> {
    /// The rate, in Mb/s: better the higher it is, by 2 %.
    pub(in crate::cli) const fn rate(value: fn(&Measured<K>) -> Option<f64>) -> Self {
        Self {
            name: "rate",
            unit: "Mb/s",
            better: Better::Higher,
            scale: Some(Scale::Ratio(0.02)),
            value,
        }
    }

    /// The round trip before the data: no controller's doing.
    pub(in crate::cli) const fn idle(name: &'static str) -> Self {
        Self {
            name,
            unit: "ms",
            better: Better::Lower,
            scale: None,
            value: |run| Some(run.idle()?.p50),
        }
    }

    /// A time: better the lower it is, by 5 %.
    pub(in crate::cli) const fn time(
        name: &'static str,
        unit: &'static str,
        value: fn(&Measured<K>) -> Option<f64>,
    ) -> Self {
        Self {
            name,
            unit,
            better: Better::Lower,
            scale: Some(Scale::Ratio(0.05)),
            value,
        }
    }
}

/// What runs consist of: what is special about what they measured.
pub(in crate::cli) trait Kind: Serialize + DeserializeOwned + 'static {
    /// Whose connections they use.
    const APPLICATION: Application;
    /// All figures, in the order of reports.
    const METRICS: &'static [Metric<Self>];
    /// What a page's delays are of.
    const DELAYS: &'static str;
    /// The figures that a page draws over the rounds.
    const DRAWN: [&'static str; 2];
    /// What differences are too small to matter, in words.
    const MARGINS: &'static str;

    /// Names a direction.
    fn way(direction: Direction) -> &'static str;

    /// Says in words how a run went.
    fn words(measured: &Measured<Self>) -> String;

    /// Does a run. The outer failure is a signal, or a server that is gone.
    async fn run(site: &Site<'_>) -> Result<Result<Measured<Self>, AppError>, Failure>;
}

/// Where a run takes place.
pub(in crate::cli) struct Site<'a> {
    client: &'a Client<'a>,
    pub(in crate::cli) connection: Connection,
    pub(in crate::cli) plan: &'a Plan,
    pub(in crate::cli) turn: &'a Turn,
}

/// A run, as its file keeps it. docs/bulk.md describes every field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Run<K> {
    pub(super) round: u32,
    pub(super) direction: Direction,
    pub(super) controller: String,
    /// When it began, in seconds since 1970.
    pub(super) began_unix_s: f64,
    /// Why it failed.
    pub(super) error: Option<String>,
    pub(super) measured: Option<Measured<K>>,
}

/// What a run measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::cli) struct Measured<K> {
    #[serde(flatten)]
    pub(in crate::cli) of: K,
    /// Round trips before the data, in milliseconds.
    pub(in crate::cli) idle_ms: Vec<f64>,
    /// Delays beside the data or of it: when they began, in seconds since the run did, and
    /// milliseconds.
    pub(in crate::cli) delays: Vec<(f64, f64)>,
    /// Seconds since the run began, and bytes on the client's side by then.
    pub(in crate::cli) progress: Vec<(f64, u64)>,
    pub(in crate::cli) machine: Machine,
}

/// How a run ended.
pub(super) enum End<K> {
    Measured(Box<Measured<K>>),
    /// It failed, and the next may not.
    Failed(String),
    /// No run would go better.
    Hopeless(Failure),
}

impl<K> Run<K> {
    pub(super) fn failed(turn: &Turn, plan: &Plan, began_unix_s: f64, error: String) -> Self {
        Self {
            error: Some(error),
            ..Self::new(turn, plan, began_unix_s)
        }
    }

    pub(super) fn measured(turn: &Turn, plan: &Plan, began: f64, measured: Measured<K>) -> Self {
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

impl<K> Measured<K> {
    pub(in crate::cli) fn new(
        of: K,
        idle: &[Duration],
        delays: Vec<(f64, f64)>,
        course: Course,
    ) -> Self {
        Self {
            of,
            idle_ms: idle.iter().map(|time| milliseconds(*time)).collect(),
            delays,
            progress: course.progress,
            machine: course.machine,
        }
    }

    /// Returns the quantiles of round trips before the data.
    pub(in crate::cli) fn idle(&self) -> Option<Quantiles> {
        quantiles(self.idle_ms.iter().copied())
    }

    /// Returns the quantiles of `delays`.
    pub(in crate::cli) fn delayed(&self) -> Option<Quantiles> {
        quantiles(self.delays.iter().map(|(_, ms)| *ms))
    }
}

fn quantiles(milliseconds: impl Iterator<Item = f64>) -> Option<Quantiles> {
    let times = milliseconds.map(|ms| Duration::try_from_secs_f64(ms / 1e3).unwrap_or_default());
    Quantiles::of(&times.collect::<Vec<_>>())
}

impl Site<'_> {
    /// Returns the controller's name.
    pub(in crate::cli) fn controller(&self) -> &str {
        &self.plan.controllers[self.turn.controller]
    }

    /// Waits for `before`, which precedes the data, unless a signal comes.
    pub(in crate::cli) async fn first(
        &self,
        before: impl Future<Output = ()>,
    ) -> Result<(), Failure> {
        let before = async {
            before.await;
            Ok(())
        };
        self.client.signals.or_signal(before).await
    }

    /// Waits for the end of `running`. The outer failure is a signal, or a server that is gone.
    pub(in crate::cli) async fn attend<T>(
        &self,
        running: impl Future<Output = Result<T, AppError>>,
    ) -> Result<Result<T, AppError>, Failure> {
        let running = async { Ok(running.await) };
        let interrupted = || ("interrupted".into(), "nothing of this run was kept");
        let nothing_to_show = std::future::pending();
        let failed = format!("the run with {} failed", self.plan.server);
        self.client
            .attend(
                &self.connection,
                running,
                nothing_to_show,
                &failed,
                interrupted,
            )
            .await
    }
}

/// Does the run of `turn` after a pause, with `transport`'s controller if this side sends. `is_known`:
/// the server has answered before.
///
/// # Errors
/// Only if a signal interrupts it.
pub(super) async fn run<K: Kind>(
    client: &Client<'_>,
    transport: &Transport,
    plan: &Plan,
    turn: &Turn,
    is_known: bool,
) -> Result<End<K>, Failure> {
    let pause = async {
        sleep_until(&TokioRuntime, TokioRuntime.now() + plan.pause).await;
        Ok(())
    };
    client.signals.or_signal(pause).await?;
    let connection = match client.connect(transport, "").await {
        Ok(connection) => connection,
        Err(failure) if failure.is_interruption() => return Err(failure),
        Err(failure) if !is_known => return Ok(End::Hopeless(failure)),
        Err(failure) => return Ok(End::Failed(failure.cause)),
    };
    let site = Site {
        client,
        connection,
        plan,
        turn,
    };
    match K::run(&site).await {
        Err(failure) if failure.is_interruption() => Err(failure),
        Err(failure) => Ok(End::Failed(failure.cause)),
        Ok(Err(error @ AppError::Refused(_))) => Ok(End::Hopeless(refused(&site, &error))),
        Ok(Err(error)) => Ok(End::Failed(error.to_string())),
        Ok(Ok(measured)) => Ok(End::Measured(Box::new(measured))),
    }
}

/// Says what a server that refuses a run would need.
fn refused(site: &Site<'_>, error: &AppError) -> Failure {
    let error = error.to_string();
    let remedy = match error.contains("--controllers") {
        true => format!(
            "restart the server with --controllers {}",
            site.plan.controllers.join(",")
        ),
        false => "ask for what it offers, or ask its owner to allow it".into(),
    };
    let cause = format!("{} cannot be compared: {error}", site.controller());
    Failure::failed(cause, remedy)
}
