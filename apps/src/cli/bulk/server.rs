//! `evenkeel bulk server`.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use evenkeel::Controllers;
use futures_util::future::BoxFuture;
use quinn::{Connection, ConnectionError, TokioRuntime};
use tokio::sync::mpsc;

use super::args::ServerArgs;
use super::files::Root;
use super::memories::Memories;
use super::output::Transfer;
use super::series::{Reception, ServerSeries};
use crate::accept::Setup;
use crate::bulk::{
    Host, Limits, NO_FILES, Outcome, Progress, SendersController, ServeOptions, Source,
};
use crate::cli::address::unmapped;
use crate::cli::controllers::Allowed;
use crate::cli::cpu::cpu_time;
use crate::cli::failure::{Failure, complain};
use crate::cli::net::{BULK, Transport};
use crate::cli::server::{Event, Server, Settings};
use crate::path::{HeaderReport, HeaderUse};
use crate::{AppError, bulk};

/// Serves until interrupted, or once.
pub(crate) async fn run(
    args: ServerArgs,
    memories: Option<Memories>,
    controllers: &Controllers,
) -> Result<(), Failure> {
    let qlog = args.output.qlog.as_deref();
    let transport = Transport::new(BULK, &args.transport, HeaderUse::Echo, qlog, controllers)?;
    let root = match &args.root {
        Some(directory) => {
            let what = format!("cannot offer {}", directory.display());
            let root = Root::new(directory).await;
            Some(root.map_err(Failure::of_system(what, "give --root a directory"))?)
        }
        None => None,
    };
    let controller = &args.transport.controller;
    let allowed = Allowed::new(controller, &args.others.controllers, controllers)?;
    let server = Server::start(&args.at, &args.output, controller, transport).await?;

    let (report, events) = mpsc::unbounded_channel();
    let (progress, reception) = (Arc::<Progress>::default(), Arc::<Reception>::default());
    let settings = server.settings.clone();
    let host = ServerHost {
        root,
        allowed,
        reception: reception.clone(),
        settings: (settings.transport.traces.is_some() || memories.is_some()).then_some(settings),
        memories,
        report,
    };
    let serving = tokio::spawn(bulk::serve(
        server.endpoint.clone(),
        Arc::new(TokioRuntime),
        ServeOptions {
            host: Arc::new(host),
            limits: Limits {
                connections: args.connections.into(),
                duration: args.max_time,
                patience: args.transport.settings.idle_timeout,
                ..Limits::default()
            },
            cpu: Some(cpu_time),
        },
        progress.clone(),
    ));
    let series = ServerSeries::new(progress, reception);
    server.attend(serving, args.once, events, series).await
}

/// Makes the command line's decisions for the library's server.
struct ServerHost {
    root: Option<Root>,
    /// Those that clients may ask for, by name.
    allowed: Allowed,
    reception: Arc<Reception>,
    /// Settings to vary for each connection; only with traces or memories.
    settings: Option<Settings>,
    /// Where connections find what their path carried.
    memories: Option<Memories>,
    report: mpsc::UnboundedSender<Event<Transfer>>,
}

impl Host for ServerHost {
    fn open<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Source, String>> {
        Box::pin(async move {
            match &self.root {
                Some(root) => root.open(name).await,
                None => Err(NO_FILES.into()),
            }
        })
    }

    fn controller(&self, asked_for: Option<&str>) -> Result<SendersController, String> {
        let name = asked_for.unwrap_or_else(|| self.allowed.own());
        Ok(SendersController {
            name: Some(name.to_owned()),
            replacement: asked_for.map(|name| self.allowed.find(name)).transpose()?,
        })
    }

    fn configure(&self, client: IpAddr) -> Option<Setup> {
        let settings = self.settings.as_ref()?;
        let memory = self
            .memories
            .as_ref()
            .and_then(|memories| memories.of(client));
        // Nobody knows yet over how many streams the client wants its data.
        let remembering = memory.map(|memory| settings.transport.remembering(&memory, client, 1));
        let transport = remembering.as_ref().unwrap_or(&settings.transport);
        Some(settings.next(transport, |_| {}))
    }

    fn accepted(&self, connection: &Connection) {
        self.reception.accepted(connection);
    }

    fn ended(&self, connection: &Connection, result: &Result<Outcome, AppError>) {
        self.reception.ended(connection);
        let client: SocketAddr = unmapped(connection.remote_address());
        let error = result.as_ref().err();
        if let (Some(memories), Ok(_)) = (&self.memories, result)
            && let Err(failure) = memories.keep(connection)
        {
            complain(&failure);
        }
        let failure = error.map(|error| {
            let cause = format!("the transfer with {client} failed: {error}");
            Failure::failed(cause, remedy(error))
        });
        let transfer = Transfer {
            client: client.to_string(),
            error: error.map(ToString::to_string),
            controller: result
                .as_ref()
                .ok()
                .and_then(|outcome| outcome.controller.clone()),
            path: HeaderReport::of(connection),
            outcome: result.as_ref().ok().cloned(),
        };
        // Nobody listens once the server stops.
        let _ = self.report.send(Event::Ended(transfer, failure));
    }
}

/// Returns what a server's owner can do about a failed transfer.
fn remedy(error: &AppError) -> &'static str {
    match error {
        AppError::Job(reason) if reason == NO_FILES => "start it with --root DIR to offer some",
        AppError::Job(_) => "the client has to ask for something else",
        AppError::TooLong(_) => "--max-time allows longer ones",
        AppError::Storage { .. } => "check the files below --root",
        AppError::Connection(ConnectionError::TimedOut) => {
            "the client, or the path to it, is gone: it has to try again"
        }
        _ => "see the client's own messages",
    }
}
