//! The server: accepts connections and does its clients' jobs, within limits.

use std::{net::IpAddr, sync::Arc, time::Duration};

use evenkeel::{Context, SharedFactory};
use futures_util::future::BoxFuture;
use quinn::{Connection, Endpoint, Runtime};
use tracing::debug;

use super::data::{PATIENCE, Sink, Source};
use super::job::{Amount, Direction, Job, MAX_DURATION};
use super::memory::Memory;
use super::pings::answer;
use super::protocol::{Answer, OfferedFile, Plan};
use super::receive::receive;
use super::report::{CpuClock, Outcome};
use super::send::send;
use super::session::{Control, Progress, Session, log_end};
use crate::accept::{Door, HANDSHAKE_TIMEOUT, Setup, accept};
use crate::error::{AppError, OWN_CONTROLLER, close, printable};
use crate::time::timeout;

/// Settings of a server.
#[derive(Clone)]
pub struct ServeOptions {
    /// Makes the owner's decisions.
    pub host: Arc<dyn Host>,
    /// The limits for clients.
    pub limits: Limits,
    /// Reads the processor time for reports.
    pub cpu: Option<CpuClock>,
}

/// Bounds on what clients may use of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at the same time, half of them from one host; more are closed. Default 256.
    pub connections: usize,
    /// The longest handshake. The default is 10 s.
    pub handshake: Duration,
    /// Whether unfinished handshakes, and new ones of one host, are bounded as `docs/security.md`
    /// says. Default true; false where one address stands for many clients and none is hostile.
    pub guard_handshakes: bool,
    /// The longest transfer. The default is a day.
    pub duration: Duration,
    /// A transfer fails after this long without any byte moving. The default is 30 s.
    pub patience: Duration,
    /// Bytes that all peers together can make the server hold, and 2 MiB for each connection.
    /// Needs the settings of [`server_transport_config`](super::server_transport_config). Default
    /// 1 GiB.
    pub memory: u64,
}

/// Decides for the owner of a server, and informs the owner.
pub trait Host: Send + Sync {
    /// Opens the file that a client asks for by name. The name comes from the client: it is
    /// hostile. The error goes to the client and should name no local path.
    /// By default there are no files.
    fn open<'a>(&'a self, _name: &'a str) -> BoxFuture<'a, Result<Source, String>> {
        Box::pin(async { Err(NO_FILES.into()) })
    }

    /// Chooses the controller of what the server sends to a client, which may ask for one by name.
    /// The name comes from the client: it is hostile. The error goes to the client.
    /// By default the connection keeps its own.
    fn controller(&self, asked_for: Option<&str>) -> Result<SendersController, String> {
        match asked_for {
            None => Ok(SendersController::default()),
            Some(_) => Err(OWN_CONTROLLER.into()),
        }
    }

    /// Returns the settings of the next connection, from this address, whose handshake may yet fail;
    /// `None` for those of the endpoint.
    fn configure(&self, _client: IpAddr) -> Option<Setup> {
        None
    }

    /// Called after a connection's handshake; [`Host::ended`] follows.
    fn accepted(&self, _connection: &Connection) {}

    /// Called after a connection was served, but not after a failed handshake. The connection
    /// closes as soon as nobody holds it.
    fn ended(&self, _connection: &Connection, _result: &Result<Outcome, AppError>) {}
}

/// The controller of what a server sends over one connection.
#[derive(Clone, Default)]
pub struct SendersController {
    /// Its name for the client, if it is known.
    pub name: Option<String>,
    /// Builds it, if it is to take the place of the connection's own; it begins as on a new path.
    /// Needs a connection that evenkeel has configured.
    pub replacement: Option<SharedFactory>,
}

/// The refusal of a transfer from a server that offers no files.
pub const NO_FILES: &str = "this server offers no files";

/// The host of a server without files.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFiles;

/// Accepts connections until the endpoint is closed, and serves each in its own task on `runtime`;
/// `progress` counts over all of them.
pub async fn serve(
    endpoint: Endpoint,
    runtime: Arc<dyn Runtime>,
    options: ServeOptions,
    progress: Arc<Progress>,
) {
    let (host, limits, tasks) = (options.host.clone(), options.limits, runtime.clone());
    let memory = Arc::new(Memory::new(limits.memory));
    let serve = move |connection: Connection, slot| {
        let (runtime, options, progress) = (runtime.clone(), options.clone(), progress.clone());
        let share = memory.share();
        async move {
            let host = options.host.clone();
            host.accepted(&connection);
            let window = share.window;
            connection.set_receive_window(window.into());
            let result =
                serve_connection(&connection, &*runtime, &options, &progress, window).await;
            drop((slot, share));
            host.ended(&connection, &result);
        }
    };
    let door = Door {
        connections: limits.connections,
        patience: limits.handshake,
        guarded: limits.guard_handshakes,
    };
    accept(
        endpoint,
        tasks,
        door,
        |client| host.configure(client),
        serve,
    )
    .await;
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            host: Arc::new(NoFiles),
            limits: Limits::default(),
            cpu: None,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            handshake: HANDSHAKE_TIMEOUT,
            guard_handshakes: true,
            duration: MAX_DURATION,
            patience: PATIENCE,
            memory: 1 << 30,
        }
    }
}

impl Host for NoFiles {}

/// Does the one job that the client of `connection` asks for, with at most `window` bytes in quinn's
/// buffers for sending.
///
/// # Errors
/// See [`AppError`]; the connection is closed and the client learns why.
pub async fn serve_connection(
    connection: &Connection,
    runtime: &dyn Runtime,
    options: &ServeOptions,
    progress: &Progress,
    window: u32,
) -> Result<Outcome, AppError> {
    let session = Session {
        connection,
        runtime,
        progress,
        patience: options.limits.patience,
        send_window: window.into(),
        cpu: options.cpu,
        demanding: true,
    };
    let _answering = answer(connection, runtime);
    let limit = options.limits.duration;
    let result = timeout(runtime, limit, transfer(&session, options)).await;
    let result = result.unwrap_or(Err(AppError::TooLong(limit)));
    log_end(connection, &result);
    // The client closes the connection after a successful transfer.
    if result.is_err() {
        close(connection, &result);
    }
    result
}

async fn transfer(session: &Session<'_>, options: &ServeOptions) -> Result<Outcome, AppError> {
    let accept = async { Ok(session.connection.accept_bi().await?) };
    let mut control = Control::from(session.soon(accept).await?);
    let job: Job = session.read(&mut control).await?;
    let peer = session.connection.remote_address();
    debug!(%peer, ?job, "transfer asked for");
    let (source, controller) = match admit(&job, options).await {
        Ok(admitted) => admitted,
        Err(reason) => {
            let reason = printable(&reason);
            let refused = Answer::Refused {
                reason: reason.clone(),
            };
            session.write(&mut control, &refused).await?;
            session.conclude(&mut control).await;
            return Err(AppError::Job(reason));
        }
    };
    let file = match job.amount {
        Amount::File(_) => source.length().map(|bytes| OfferedFile {
            bytes,
            attributes: source.attributes(),
        }),
        Amount::Bytes(_) | Amount::Duration(_) => None,
    };
    let plan = Plan::new(&job, file.map(|file| file.bytes))?;
    let SendersController { name, replacement } = controller;
    let context = Context::of(session.connection);
    let begun = match (replacement, context) {
        (None, _) => None,
        (Some(replacement), Some(context)) => Some(context.restart_controller(replacement)),
        (Some(_), None) => {
            return Err(AppError::Job(
                "the server cannot change its controller".into(),
            ));
        }
    };
    let accepted = Answer::Accepted {
        file,
        controller: name.clone(),
    };
    session.write(&mut control, &accepted).await?;
    if let Some(begun) = begun {
        // The client acknowledges the answer.
        session.soon(async { Ok(begun.await) }).await?;
    }
    let outcome = match job.direction {
        Direction::Up => receive(session, &mut control, &plan, &Sink::Discard).await,
        Direction::Down => send(session, &mut control, &plan, &source).await,
    };
    outcome.map(|outcome| Outcome {
        controller: name,
        ..outcome
    })
}

/// Decides whether this server does the job, and returns what it sends if the direction is down, and
/// with which controller.
async fn admit(job: &Job, options: &ServeOptions) -> Result<(Source, SendersController), String> {
    job.check().map_err(|error| error.to_string())?;
    let controller = match job.direction {
        Direction::Up => SendersController::default(),
        Direction::Down => options.host.controller(job.controller.as_deref())?,
    };
    let source = match &job.amount {
        Amount::Duration(time) if *time > options.limits.duration => Err(format!(
            "it sends for at most {} s",
            options.limits.duration.as_secs_f64()
        )),
        Amount::File(name) => options.host.open(name).await,
        Amount::Bytes(_) | Amount::Duration(_) => Ok(Source::Generated),
    };
    Ok((source?, controller))
}
