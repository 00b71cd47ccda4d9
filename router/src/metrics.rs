//! Figures for monitoring: OpenMetrics over HTTP, as Prometheus scrapes them.
//!
//! They are served on a thread of their own. It asks the router for its figures at most a few times
//! a second, however many ask it: clients take the time of that thread, not of packets.

mod families;
mod server;

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::thread;

use evenkeel_queue::DurationHistogram;
use tokio::runtime;
use tokio::sync::{mpsc, oneshot};
use tracing::debug;

use crate::config::MetricsAddress;
use crate::failure::Failure;
use crate::status::{self, SocketFile, Status};

/// The key of the configuration that names the address.
const KEY: &str = "metrics";

/// What a router knows at a moment.
#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) status: Status,
    /// Waiting times at each link since its start.
    pub(crate) sojourns: Vec<DurationHistogram>,
}

/// What the thread asks the router: to send its figures, or nothing if it cannot read them.
type Question = oneshot::Sender<Figures>;

/// A bound socket.
#[derive(Debug)]
pub(crate) struct Endpoint {
    listener: Listener,
    name: String,
    file: Option<SocketFile>,
}

#[derive(Debug)]
enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Endpoint {
    /// Finds out whether an address can be bound; leaves nothing behind.
    ///
    /// # Errors
    /// What is in the way.
    pub(crate) fn check(address: &MetricsAddress) -> Result<(), Failure> {
        match address {
            MetricsAddress::Tcp(_) => Self::bind(address).map(drop),
            MetricsAddress::Unix(path) => status::check_vacant(path, KEY),
        }
    }

    /// Binds an address. A socket in the file system is for its owner only.
    pub(crate) fn bind(address: &MetricsAddress) -> Result<Self, Failure> {
        let name = address.to_string();
        let failed = status::failed(name.clone(), KEY);
        let (listener, file) = match address {
            MetricsAddress::Tcp(address) => {
                let listener = TcpListener::bind(address).map_err(&failed)?;
                listener.set_nonblocking(true).map_err(&failed)?;
                (Listener::Tcp(listener), None)
            }
            MetricsAddress::Unix(path) => {
                let (listener, file) = status::bind(path, KEY)?;
                (Listener::Unix(listener), Some(file))
            }
        };
        debug!(address = name, "metrics socket bound");
        Ok(Self {
            listener,
            name,
            file,
        })
    }

    /// Starts the thread that answers. It ends with the process.
    pub(crate) fn serve(self) -> io::Result<Scrapes> {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (router, questions) = mpsc::channel(1);
        let Self {
            listener,
            name,
            file,
        } = self;
        thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || server::run(&runtime, listener, &name, router))?;
        Ok(Scrapes {
            questions,
            _file: file,
        })
    }
}

/// What the thread wants to know.
#[derive(Debug)]
pub(crate) struct Scrapes {
    questions: mpsc::Receiver<Question>,
    _file: Option<SocketFile>,
}

impl Scrapes {
    /// Answers with what `figures` returns, for ever.
    pub(crate) async fn answer(mut self, figures: impl AsyncFn() -> Option<Figures>) -> Infallible {
        while let Some(question) = self.questions.recv().await {
            if let Some(figures) = figures().await {
                // The asking task may have gone.
                let _ = question.send(figures);
            }
        }
        // The thread has panicked, and said so: packets go on.
        std::future::pending().await
    }
}
