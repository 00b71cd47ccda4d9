//! What all servers share: certificate, socket, reports, the end.

use std::cell::Cell;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::{io, sync::Arc, time::Duration};

use quinn::{Connection, Endpoint, Runtime, ServerConfig, TokioRuntime, VarInt};
use sd_notify::NotifyState;
use serde::Serialize;
use tokio::{sync::mpsc, task::JoinHandle};
use tracing::debug;

use super::args::{ListenArgs, OutputArgs};
use super::failure::{Failure, complain};
use super::net::{Application, Transport, farewell, read_file, untraced};
use super::output::{Form, Listening, Record, Stopped, announce};
use super::series::{Periods, Span};
use super::signals::Signals;
use crate::accept::Setup;
use crate::tls::{Fingerprint, Identity};

/// How often to tell systemd that the server is alive.
const ALIVE: Duration = Duration::from_secs(1);

/// What clients are told when the server stops.
const STOPPING: &[u8] = b"the server stops";

/// A listening server.
pub(crate) struct Server {
    pub(crate) endpoint: Endpoint,
    form: Form,
    /// The settings of its connections, which may vary for each.
    pub(crate) settings: Settings,
    interval: Duration,
    signals: Signals,
    /// Whether standard output has failed, and standard error tells so.
    is_output_lost: Cell<bool>,
    /// The address on which it listens.
    address: String,
    controller: String,
}

/// The settings of connections.
#[derive(Clone)]
pub(crate) struct Settings {
    config: ServerConfig,
    pub(crate) transport: Transport,
}

/// An event while a server runs.
pub(crate) enum Event<E> {
    /// The work for one client has ended; the failure, if it failed.
    Ended(E, Option<Failure>),
    /// The server has nothing more to do, or cannot continue.
    Over(Result<(), Failure>),
}

/// The clients of a server, and what it records of them.
pub(crate) trait Clients {
    /// Returns the records of a completed interval, or of the rest when the server stops.
    fn intervals(&mut self, span: Span, is_rest: bool) -> Vec<impl Record>;

    /// Returns what the last record counts: `served` clients, of which `failed` did.
    fn counts(&self, served: u64, failed: u64) -> impl Serialize;

    fn connections(&self) -> Vec<Connection>;
}

impl Server {
    /// Starts to listen, and announces it.
    pub(crate) async fn start(
        at: &ListenArgs,
        output: &OutputArgs,
        controller: &str,
        transport: Transport,
    ) -> Result<Self, Failure> {
        let identity = identity(at).await?;
        let pin = identity.fingerprint();
        let tls = identity
            .server(transport.application.alpn)
            .map_err(|error| {
                Failure::failed(error, "give --cert and --key that belong together")
            })?;
        let config = transport.server(tls);
        let listening = Some(config.clone());
        let endpoint = transport
            .bind(at.listen, listening)
            .map_err(|error| cannot_listen(at.listen, error))?;
        if let Some(key) = &at.key {
            warn_of_open_key(key).await;
        }
        // A program that reads the announcement may end the server.
        let signals = Signals::listen()?;
        let form = Form::of(output);
        let listening = listening_record(&endpoint, controller, &transport, pin)?;
        let announced = announce(form, &listening);
        tell_systemd(&[
            NotifyState::Ready,
            NotifyState::Status(&format!("listening on {}", listening.address)),
        ]);
        let server = Self {
            endpoint,
            form,
            settings: Settings { config, transport },
            interval: output.interval(),
            signals,
            is_output_lost: Cell::new(false),
            address: listening.address,
            controller: listening.controller,
        };
        server.go_on(announced);
        Ok(server)
    }

    /// Reports events until a signal arrives or the server is over; with `once`, until the first
    /// client is served. Then closes all connections and stops `serving`.
    pub(crate) async fn attend<E: Record>(
        self,
        serving: JoinHandle<()>,
        once: bool,
        mut events: mpsc::UnboundedReceiver<Event<E>>,
        mut clients: impl Clients,
    ) -> Result<(), Failure> {
        let (mut served, mut failed, mut last) = (0, 0, None);
        let mut periods = Periods::new(TokioRuntime.now(), self.interval);
        let mut alive = Periods::new(TokioRuntime.now(), ALIVE);
        let result = loop {
            tokio::select! {
                biased;
                Some(event) = events.recv() => {
                    let (ended, failure) = match event {
                        Event::Ended(ended, failure) => (ended, failure),
                        Event::Over(result) => break result,
                    };
                    served += 1;
                    failed += u64::from(failure.is_some());
                    self.go_on(self.form.event(&ended));
                    last = Some(ended);
                    match failure {
                        Some(failure) if once => break Err(failure),
                        Some(failure) => complain(&failure),
                        None if once => break Ok(()),
                        None => {}
                    }
                }
                _ = self.signals.received() => break Ok(()),
                _ = alive.next() => tell_systemd(&[NotifyState::Watchdog]),
                span = periods.next(), if self.form.has_intervals() => {
                    self.go_on(self.print_all(&clients.intervals(span, false)));
                }
            }
        };
        tell_systemd(&[NotifyState::Stopping]);
        self.endpoint.set_server_config(None);
        let rest = match self.form.has_intervals() {
            true => self.print_all(&clients.intervals(periods.cut(), true)),
            false => Ok(()),
        };
        let printed = match self.form.is_words() {
            true => rest,
            false => rest.and_then(|()| {
                self.form.print(&Stopped {
                    version: env!("CARGO_PKG_VERSION"),
                    address: &self.address,
                    controller: &self.controller,
                    counts: clients.counts(served, failed),
                    last,
                })
            }),
        };
        for connection in clients.connections() {
            evenkeel::close(&connection, VarInt::from_u32(0), STOPPING);
        }
        self.endpoint.close(VarInt::from_u32(0), STOPPING);
        farewell(&self.endpoint).await;
        serving.abort();
        let traced = self.settings.transport.end_traces();
        printed.and(result).and(traced)
    }

    fn print_all(&self, records: &[impl Record]) -> Result<(), Failure> {
        let mut records = records.iter();
        records.try_for_each(|record| self.form.event(record))
    }

    /// Goes on after a record, printed or not: a full disk behind standard output is no reason to
    /// leave clients alone. Tells of the first failure.
    fn go_on(&self, printed: Result<(), Failure>) {
        if let Err(failure) = printed
            && !self.is_output_lost.replace(true)
        {
            let remedy = "make room there: the server goes on, and records get lost";
            complain(&Failure::failed(failure.cause, remedy));
        }
    }
}

impl Settings {
    /// Returns the settings of the next connection with its own trace and controller, and what to
    /// do after its handshake.
    pub(crate) fn next(
        &self,
        transport: &Transport,
        accepted: impl FnOnce(&Connection) + Send + 'static,
    ) -> Setup {
        let (transport, trace) = transport.attempt();
        let mut config = self.config.clone();
        config.transport_config(transport);
        let begin = move |connection: &Connection| {
            let name = format!("server-{}", std::process::id());
            if let Some(Err(error)) = trace.map(|trace| trace.begin(&name)) {
                complain(&untraced(error));
            }
            accepted(connection);
        };
        Setup {
            config: Arc::new(config),
            accepted: Box::new(begin),
        }
    }
}

/// Tells systemd how the server is (sd_notify(3)); without systemd nobody hears it.
fn tell_systemd(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        debug!(%error, "systemd does not hear");
    }
}

async fn identity(args: &ListenArgs) -> Result<Identity, Failure> {
    let (Some(cert), Some(key)) = (&args.cert, &args.key) else {
        return Identity::self_signed()
            .map_err(|error| Failure::failed(error, "give --cert and --key"));
    };
    let chain = read_file(cert, "--cert").await?;
    let key_pem = read_file(key, "--key").await?;
    Identity::from_pem(&chain, &key_pem).map_err(|error| {
        Failure::failed(
            format!(
                "cannot use {} and {}: {error}",
                cert.display(),
                key.display()
            ),
            "give --cert and --key PEM files that belong together",
        )
    })
}

/// Says so if every user of this machine may use the key.
async fn warn_of_open_key(key: &Path) {
    let metadata = tokio::fs::metadata(key).await;
    if metadata.is_ok_and(|metadata| metadata.mode() & 0o007 != 0) {
        complain(&Failure::failed(
            format!(
                "every user of this machine may use the key {}",
                key.display()
            ),
            format!("take that away: chmod o= {}", key.display()),
        ));
    }
}

/// Reports that a server cannot listen on `address`.
fn cannot_listen(address: SocketAddr, error: io::Error) -> Failure {
    let remedy = match error.kind() {
        io::ErrorKind::AddrInUse => "stop the other program or choose another --listen",
        io::ErrorKind::AddrNotAvailable => "give --listen an address of this machine",
        io::ErrorKind::PermissionDenied => {
            "choose a port above 1023 with --listen, or run as a user who may use this one"
        }
        _ => "choose another --listen",
    };
    Failure::of_system(format!("cannot listen on {address}"), remedy)(error)
}

/// Makes the record that says where the server is and how to reach it.
fn listening_record(
    endpoint: &Endpoint,
    controller: &str,
    transport: &Transport,
    pin: Fingerprint,
) -> Result<Listening, Failure> {
    let what = "cannot tell the address it listens on";
    let address = endpoint.local_addr();
    let address = address.map_err(Failure::of_system(what, "choose another --listen"))?;
    let everywhere = address.ip().is_unspecified();
    let target = match everywhere {
        true => format!("localhost:{}", address.port()),
        false => address.to_string(),
    };
    let Application {
        name, client_name, ..
    } = transport.application;
    Ok(Listening {
        version: env!("CARGO_PKG_VERSION"),
        address: address.to_string(),
        controller: controller.to_owned(),
        pacing: transport.pacing.name(),
        path_headers: transport.headers.to_string(),
        pin: pin.to_string(),
        client_command: format!("evenkeel {name} {client_name} {target} --pin {pin}"),
        everywhere,
    })
}
