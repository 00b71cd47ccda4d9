//! Options that applications share.

use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use evenkeel::{Controllers, EcnUse, Pacing, SpecError};

use super::address::{self, DEFAULT_PORT, HostPort};
use super::controllers::{Names, names};
use crate::bulk::TransportSettings;
use crate::path::HeaderUse;
use crate::time::within;
use crate::tls::Fingerprint;

/// Where a server listens, and how it proves who it is.
#[derive(Debug, Args)]
pub(crate) struct ListenArgs {
    /// Address and port to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value_t = (Ipv6Addr::UNSPECIFIED, DEFAULT_PORT).into())]
    pub(crate) listen: SocketAddr,
    /// Certificate chain in PEM, instead of a fresh self-signed one
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// Private key of --cert in PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// Keep all rights, to find out what the sandbox is in the way of
    #[arg(long)]
    pub(crate) no_sandbox: bool,
}

/// A server to connect to, and how to recognise it.
#[derive(Debug, Args)]
pub(crate) struct ReachArgs {
    /// The server, as HOST, HOST:PORT or [IPV6]:PORT; the default port is 4433
    #[arg(value_name = "HOST[:PORT]")]
    pub(crate) server: HostPort,
    /// Local address and port to send from; by default any free port
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = address::local)]
    pub(crate) bind: Option<SocketAddr>,
    /// Trust the one certificate with this fingerprint, which the server prints
    #[arg(long, value_name = "sha256:HEX", conflicts_with_all = ["ca", "insecure"])]
    pub(crate) pin: Option<Fingerprint>,
    /// Trust certificates of the authorities in this PEM file
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub(crate) ca: Option<PathBuf>,
    /// Trust any certificate: anybody on the path can pose as the server
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Name to expect in the certificate, if it is not HOST
    #[arg(long, value_name = "NAME", value_parser = address::server_name)]
    pub(crate) server_name: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct TransportArgs {
    #[arg(long, value_name = "NAME", default_value = evenkeel::DEFAULT_CONTROLLER, help = controller_help())]
    pub(crate) controller: String,
    #[command(flatten)]
    pub(crate) settings: TransportSettings,
    /// Pace packets at the `controller`'s rate, as `quinn` does in bursts of ten and more, or not at
    /// all (`none`)
    #[arg(long, value_name = "BY", default_value_t)]
    pub(crate) pacing: Pacing,
    /// ECN: `classic`; `l4s`, if the controller asks for it; or `off`
    #[arg(long, value_name = "USE", default_value_t)]
    pub(crate) ecn: EcnUse,
    /// While data is in flight, send a packet at least this often, 0.01 to 60 [default: of streams
    /// 0.5; else each probe doubles the interval]
    #[arg(long, value_name = "SECONDS", value_parser = within(0.01, 60.0))]
    pub(crate) probe_interval: Option<Duration>,
    /// Path headers: send one on every N-th datagram; only answer those of the other side; or none
    ///
    /// [default: 1 if the controller uses them; otherwise a client that sends uses none, and all
    /// others answer]
    #[arg(long, value_name = "N|echo|off")]
    path_headers: Option<HeaderUse>,
}

/// What a server's clients may ask for.
#[derive(Debug, Args)]
pub(crate) struct OthersArgs {
    /// Besides --controller, send with these if clients ask for one: names separated by commas
    #[arg(long, value_name = "NAMES", value_parser = names, default_value = "",
          hide_default_value = true)]
    pub(crate) controllers: Names,
}

#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// Print one JSON document at the end
    #[arg(long, conflicts_with = "json_lines")]
    pub(crate) json: bool,
    /// Print a JSON record for each interval and at the end
    #[arg(long)]
    pub(crate) json_lines: bool,
    /// Print a line for each interval of this length, 0.01 to 3600; the default with --json-lines
    /// is 1
    #[arg(short = 'i', long, value_name = "SECONDS", value_parser = within(0.01, 3600.0),
          conflicts_with = "json")]
    pub(crate) interval: Option<Duration>,
    /// Write a qlog trace of each connection to this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) qlog: Option<PathBuf>,
}

/// Samples in the records of intervals.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct SampleArgs {
    /// List every round-trip time in the records of --json-lines
    #[arg(long, requires = "json_lines", conflicts_with = "json")]
    pub(crate) rtt_samples: bool,
    /// List the measurements of each path header in the records of --json-lines
    #[arg(long, requires = "json_lines", conflicts_with = "json")]
    pub(crate) path_samples: bool,
}

impl OutputArgs {
    pub(crate) fn interval(&self) -> Duration {
        self.interval.unwrap_or(Duration::from_secs(1))
    }
}

impl TransportArgs {
    /// Returns the defaults of all but the controller.
    pub(crate) fn of(controller: &str) -> Self {
        Self {
            controller: controller.to_owned(),
            settings: TransportSettings::default(),
            pacing: Pacing::default(),
            ecn: EcnUse::default(),
            probe_interval: None,
            path_headers: None,
        }
    }

    /// Returns how to use path headers: `unasked` if neither the command line nor the controller
    /// asks for them.
    pub(crate) fn headers(
        &self,
        unasked: HeaderUse,
        controllers: &Controllers,
    ) -> Result<HeaderUse, SpecError> {
        Ok(match self.path_headers {
            Some(headers) => headers,
            None if controllers.uses_path_headers(&self.controller)? => HeaderUse::of_every(1),
            None => unasked,
        })
    }
}

fn controller_help() -> String {
    let names: Vec<&str> = evenkeel::controllers().iter().map(|row| row.name).collect();
    format!(
        "Congestion controller of this side: {}; parameters as NAME:KEY=VALUE,...",
        names.join(", ")
    )
}
