//! Interop with aioquic, a QUIC in Python that knows nothing of evenkeel.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use evenkeel_tests::skip::{Need, can_run};
use quinn::{Connection, Endpoint};
use sha2::{Digest, Sha256};

use crate::support::{
    Identity, LOOPBACK, echo, echoed, echoing, headed_client, headed_server,
    is_paced_without_headers, payload, run,
};

/// The Python that has aioquic, if somebody has named one.
fn python() -> Option<OsString> {
    let python = std::env::var_os("EVENKEEL_AIOQUIC");
    let how = "set EVENKEEL_AIOQUIC to a Python that has .ci/requirements.txt";
    can_run(&[Need::new("aioquic", how, python.is_some())]).then_some(python)?
}

/// A role of `aioquic_peer.py`, which ends when the test does.
pub(crate) struct Peer {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl Peer {
    /// `None` if there is no aioquic.
    pub(crate) fn new(arguments: &[&str]) -> Option<Self> {
        let python = python()?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop/aioquic_peer.py");
        let mut process = Command::new(&python)
            .arg(script)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| {
                let python = python.display();
                panic!("{python}: {error}; EVENKEEL_AIOQUIC is to be a Python with aioquic")
            });
        let output = process.stdout.take().expect("it is piped");
        Some(Self {
            process,
            output: BufReader::new(output),
        })
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it prints text");
        line
    }

    /// What it prints until it ends, but for the last line: no datagram that has come to it began
    /// with a path header.
    pub(crate) fn printed_without_headers(mut self) -> Vec<String> {
        // A server ends with its input.
        drop(self.process.stdin.take());
        let mut text = String::new();
        self.output
            .read_to_string(&mut text)
            .expect("it prints text");
        let status = self.process.wait().expect("it was started");
        assert!(status.success(), "{status}: {text}");
        let mut lines: Vec<String> = text.lines().map(Into::into).collect();
        let last = lines.pop().expect("it counts datagrams at the end");
        let ["datagrams", datagrams, "headed", headed] = last.split(' ').collect::<Vec<_>>()[..]
        else {
            panic!("{last}")
        };
        assert_ne!(datagrams, "0");
        assert_eq!(headed, "0", "of {datagrams}");
        lines
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The file of a certificate, and the directory that holds it.
fn file(directory: &tempfile::TempDir, name: &str, text: String) -> String {
    let path = directory.path().join(name);
    std::fs::write(&path, text).expect("a writable directory");
    path.display().to_string()
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

/// What `aioquic_peer.py` prints when it got back what it has sent.
fn whole() -> String {
    let payload = payload();
    format!("{} {}", payload.len(), hexadecimal(&payload))
}

/// SHA-256.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Lets aioquic in a `role` call on a headed server, which `serve` accepts connections of and
/// hands them out to be looked at. What aioquic prints; `None` if there is none.
fn called_on<F>(
    role: &str,
    arguments: &[&str],
    serve: impl FnOnce(Endpoint) -> F,
) -> Option<Vec<String>>
where
    F: Future<Output = Connection> + Send + 'static,
{
    let (identity, directory) = (Identity::new(), directory());
    let certificate = file(&directory, "certificate", identity.0.cert.pem());
    run(async {
        let server = headed_server(&identity);
        let port = server.local_addr().expect("it is bound").port().to_string();
        let serving = tokio::spawn(serve(server));
        let arguments = [&[role, &port, &certificate], arguments].concat();
        let peer = Peer::new(&arguments)?;
        let printed = tokio::task::spawn_blocking(|| peer.printed_without_headers());
        let printed = printed.await.expect("what it prints is right");
        let connection = serving.await.expect("it accepts a connection");
        is_paced_without_headers(&connection);
        Some(printed)
    })
}

/// Echoes; the first connection.
async fn first_of(server: Endpoint) -> Connection {
    echoing(server).recv().await.expect("a handshake")
}

#[test]
fn a_headed_server_serves_an_aioquic_client_that_updates_its_keys_and_moves() {
    let Some(printed) = called_on("send", &["3"], first_of) else {
        return;
    };
    assert_eq!(printed, [whole(), whole(), whole()]);
}

#[test]
fn an_aioquic_client_comes_back_with_a_retry() {
    let retrying = async |server: Endpoint| {
        let first = server.accept().await.expect("it is open");
        first.retry().map_err(drop).expect("a first attempt");
        let second = server.accept().await.expect("it is open");
        assert!(second.remote_address_validated());
        let connection = second.await.expect("a handshake");
        tokio::spawn(echo(connection.clone()));
        // Kept open, and so is the connection.
        connection.closed().await;
        connection
    };
    let Some(printed) = called_on("send", &["1"], retrying) else {
        return;
    };
    assert_eq!(printed, [whole()]);
}

#[test]
fn an_aioquic_client_resumes_with_early_data() {
    let second = async |server: Endpoint| {
        let mut accepted = echoing(server);
        accepted.recv().await.expect("a handshake");
        accepted.recv().await.expect("a resumption")
    };
    let Some(printed) = called_on("resume", &[], second) else {
        return;
    };
    let resumed = "resumed True early True".to_owned();
    assert_eq!(printed, [whole(), whole(), resumed]);
}

/// A headed client calls on an aioquic server, which has read `arguments`. `None` if there is
/// none.
fn calling<F>(
    arguments: &[&str],
    call: impl FnOnce(Endpoint, SocketAddr) -> F,
) -> Option<Vec<String>>
where
    F: Future<Output = Connection>,
{
    let (identity, directory) = (Identity::new(), directory());
    let certificate = file(&directory, "certificate", identity.0.cert.pem());
    let key = file(&directory, "key", identity.0.signing_key.serialize_pem());
    let arguments = [&["echo", &certificate, &key], arguments].concat();
    let mut peer = Peer::new(&arguments)?;
    let port = peer.line().trim().parse().expect("it prints its port");
    run(async {
        let client = headed_client(&identity);
        let connection = call(client, (Ipv4Addr::LOCALHOST, port).into()).await;
        is_paced_without_headers(&connection);
    });
    Some(peer.printed_without_headers())
}

async fn connected(client: &Endpoint, server: SocketAddr) -> Connection {
    let connecting = client.connect(server, "localhost");
    let connecting = connecting.expect("a right configuration");
    connecting.await.expect("a handshake")
}

#[test]
fn an_aioquic_server_serves_a_headed_client_that_updates_its_keys_and_moves() {
    calling(&[], async |client, server| {
        let connection = connected(&client, server).await;
        echoed(&connection).await;
        connection.force_key_update();
        echoed(&connection).await;
        client
            .rebind(std::net::UdpSocket::bind(LOOPBACK).expect("a free port"))
            .expect("a bound socket");
        echoed(&connection).await;
        connection
    });
}

#[test]
fn a_headed_client_comes_back_with_the_retry_of_an_aioquic_server() {
    calling(&["retry"], async |client, server| {
        let connection = connected(&client, server).await;
        echoed(&connection).await;
        connection
    });
}

#[test]
fn a_headed_client_resumes_with_early_data_at_an_aioquic_server() {
    calling(&[], async |client, server| {
        echoed(&connected(&client, server).await).await;
        let connecting = client.connect(server, "localhost");
        let connecting = connecting.expect("a right configuration");
        let (connection, accepted) = connecting.into_0rtt().map_err(drop).expect("a ticket");
        echoed(&connection).await;
        assert!(accepted.await);
        connection
    });
}
