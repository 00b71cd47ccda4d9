//! `evenkeel bulk server`.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use quinn::{Connection, Endpoint, Incoming, ServerConfig, TokioRuntime, VarInt};
use tokio::sync::mpsc;

use super::{
    Failure,
    args::ServerArgs,
    complain,
    files::Root,
    listen::{Listener, listen, unmapped},
    net::{BULK, Transport, farewell, plain},
    output::{Form, Record, ServerInterval, Stopped, Transfer, print},
    series::{Reception, ServerSeries},
    signals::Signals,
    units::{show_bytes, show_rate},
};
use crate::{
    AppError,
    bulk::{self, Host, Limits, Outcome, Progress, ServeOptions, Source},
    path::{HeaderReport, HeaderUse},
};

/// Serves until it is interrupted, or once.
pub(super) async fn run(args: ServerArgs) -> Result<(), Failure> {
    let qlog = args.output.qlog.clone();
    let transport = Transport::new(BULK, &args.transport, HeaderUse::Echo, qlog)?;
    let root = match &args.root {
        Some(directory) => Some(Root::new(directory).await.map_err(|error| {
            Failure::failed(
                format!("cannot offer {}: {}", directory.display(), plain(&error)),
                "give --root a directory",
            )
        })?),
        None => None,
    };
    let form = Form::of(&args.output);
    let Listener {
        endpoint,
        address,
        config,
        signals,
    } = listen(&args.at, &transport, &args.transport.controller, form).await?;

    let (report, ended) = mpsc::unbounded_channel();
    let traced = transport.clone();
    let server = Server {
        form,
        once: args.once,
        interval: args.output.interval(),
        progress: Arc::default(),
        reception: Arc::default(),
        endpoint: endpoint.clone(),
        signals,
    };
    let host = ServerHost {
        root,
        reception: server.reception.clone(),
        qlog: transport.traces().then_some((config, transport)),
        report,
    };
    let serving = bulk::serve(
        endpoint.clone(),
        Arc::new(TokioRuntime),
        ServeOptions {
            host: Arc::new(host),
            limits: Limits {
                connections: args.connections.into(),
                duration: args.max_time,
                patience: args.transport.idle_timeout,
            },
        },
        server.progress.clone(),
    );
    let serving = tokio::spawn(serving);
    let stopped = server.attend(ended, summary(&args, address)).await;
    server.reception.close(b"the server stops");
    endpoint.close(VarInt::from_u32(0), b"the server stops");
    farewell(&endpoint).await;
    serving.abort();
    stopped.and(traced.end_traces())
}

/// The closing record of a server at `address` before anything happened.
fn summary(args: &ServerArgs, address: SocketAddr) -> Stopped {
    Stopped {
        version: env!("CARGO_PKG_VERSION"),
        address: address.to_string(),
        controller: args.transport.controller.clone(),
        transfers: 0,
        failed: 0,
        bytes_sent: 0,
        bytes_received: 0,
        last: None,
    }
}

/// A transfer that ended, from the task that served it.
struct Ended {
    client: SocketAddr,
    outcome: Result<Outcome, String>,
    path: Option<HeaderReport>,
}

/// A server that runs, for those who look on.
struct Server {
    form: Form,
    once: bool,
    interval: Duration,
    progress: Arc<Progress>,
    reception: Arc<Reception>,
    endpoint: Endpoint,
    signals: Signals,
}

impl Server {
    /// Reports what happens until a signal or, with `--once`, a transfer's end.
    async fn attend(
        &self,
        mut ended: mpsc::UnboundedReceiver<Ended>,
        mut summary: Stopped,
    ) -> Result<(), Failure> {
        let mut series =
            ServerSeries::new(self.progress.clone(), self.reception.clone(), self.interval);
        let mut result = Ok(());
        loop {
            tokio::select! {
                biased;
                Some(Ended { client, outcome, path }) = ended.recv() => {
                    summary.transfers += 1;
                    summary.failed += u64::from(outcome.is_err());
                    let failure = outcome.as_ref().err().map(|error| transfer_failure(client, error));
                    let transfer = Transfer {
                        client: client.to_string(),
                        error: outcome.as_ref().err().cloned(),
                        path,
                        outcome: outcome.ok(),
                    };
                    summary.last = Some(transfer.clone());
                    self.print_transfer(transfer)?;
                    match failure {
                        Some(failure) if self.once => result = Err(failure),
                        Some(failure) => complain(&failure),
                        None => {}
                    }
                    if self.once {
                        break;
                    }
                }
                _ = self.signals.heard() => break,
                interval = series.next(), if self.form.has_intervals() => self.print_interval(interval)?,
            }
        }
        self.endpoint.set_server_config(None);
        if let Some(rest) = series.rest().filter(|_| self.form.has_intervals()) {
            self.print_interval(rest)?;
        }
        summary.bytes_sent = self.progress.sent();
        summary.bytes_received = self.progress.received();
        if !self.form.is_words() {
            Form::print(&Record::Stopped(summary))?;
        }
        result
    }

    fn print_interval(&self, interval: ServerInterval) -> Result<(), Failure> {
        self.form
            .print_interval(interval, ServerInterval::line, Record::ServerInterval)
    }

    fn print_transfer(&self, transfer: Transfer) -> Result<(), Failure> {
        match (self.form, &transfer.outcome) {
            (Form::JsonLines, _) => Form::print(&Record::Transfer(transfer)),
            (Form::People | Form::Lines, Some(outcome)) => {
                let receiver = &outcome.receiver;
                let verified = match &receiver.checksum {
                    Some(checksum) => format!("verified, SHA-256 {checksum}"),
                    None => "not verified".into(),
                };
                print(&format!(
                    "{}: {} in {:.2} s, {}, {:.2} % lost, {verified}",
                    transfer.client,
                    show_bytes(receiver.bytes),
                    receiver.duration_s,
                    receiver.goodput_bps.map_or("-".into(), show_rate),
                    outcome.sender.retransmitted_ratio * 100.0,
                ))
            }
            (Form::People | Form::Lines | Form::Json, _) => Ok(()),
        }
    }
}

/// The command line's decisions for the library's server.
struct ServerHost {
    root: Option<Root>,
    reception: Arc<Reception>,
    /// Settings to vary for each connection, if each has a trace.
    qlog: Option<(ServerConfig, Transport)>,
    report: mpsc::UnboundedSender<Ended>,
}

impl Host for ServerHost {
    fn open<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Source, String>> {
        Box::pin(async move {
            match &self.root {
                Some(root) => root.open(name).await,
                None => Err("this server offers no files; start it with --root DIR".into()),
            }
        })
    }

    fn configure(&self, incoming: &Incoming) -> Option<Arc<ServerConfig>> {
        let (config, transport) = self.qlog.as_ref()?;
        match transport.connection(&format!("server-{}", incoming.orig_dst_cid())) {
            Ok(transport) => {
                let mut config = config.clone();
                config.transport_config(transport);
                Some(Arc::new(config))
            }
            Err(failure) => {
                complain(&failure);
                None
            }
        }
    }

    fn accepted(&self, connection: &Connection) {
        self.reception.accepted(connection);
    }

    fn ended(&self, connection: &Connection, result: &Result<Outcome, AppError>) {
        self.reception.ended(connection);
        let ended = Ended {
            client: unmapped(connection.remote_address()),
            outcome: match result {
                Ok(outcome) => Ok(outcome.clone()),
                Err(error) => Err(error.to_string()),
            },
            path: HeaderReport::of(connection),
        };
        // Once the server stops nobody listens.
        let _ = self.report.send(ended);
    }
}

fn transfer_failure(client: SocketAddr, error: &str) -> Failure {
    Failure::failed(
        format!("the transfer with {client} failed: {error}"),
        "see the client's own messages",
    )
}
