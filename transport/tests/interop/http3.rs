//! HTTP/3 clients, and the server of `examples/h3_server.rs` in a process of its own, as
//! `cargo test -p evenkeel` builds it.

use std::future::poll_fn;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use bytes::Buf;
use evenkeel::Context;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::rustls::pki_types::CertificateDer;
use quinn::rustls::pki_types::pem::PemObject;
use quinn::rustls::{self, RootCertStore};
use quinn::{ClientConfig, Connection};

use crate::aioquic::{Peer, hexadecimal};
use crate::support::{LOOPBACK, run, transport};

/// What is asked for, at once over one connection: some text, nothing, more than is ever in
/// flight, the same again, and what is not there.
const PATHS: [&str; 7] = [
    "/",
    "/bytes/0",
    "/bytes/3000000",
    "/bytes/1200",
    "/bytes/3000000",
    "/bytes/many",
    "/elsewhere",
];

/// Path, status, body's length and SHA-256 of the answers to [`PATHS`], a line each.
fn right_answers() -> Vec<String> {
    let bytes = |count: usize| (0..count).map(|i| (i % 251) as u8).collect();
    let bodies: [(u16, Vec<u8>); 7] = [
        (200, b"evenkeel heard GET /\n".to_vec()),
        (200, Vec::new()),
        (200, bytes(3_000_000)),
        (200, bytes(1200)),
        (200, bytes(3_000_000)),
        (404, b"not here; try /bytes/1000000\n".to_vec()),
        (404, b"not here; try /bytes/1000000\n".to_vec()),
    ];
    PATHS
        .iter()
        .zip(&bodies)
        .map(|(path, (status, body))| answer(path, *status, body))
        .collect()
}

fn answer(path: &str, status: u16, body: &[u8]) -> String {
    format!("{path} {status} {} {}", body.len(), hexadecimal(body))
}

/// The example, which ends with the test.
struct Server {
    process: Child,
    port: u16,
    certificate: PathBuf,
    _directory: tempfile::TempDir,
}

impl Server {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let certificate = directory.path().join("certificate.pem");
        let test = std::env::current_exe().expect("this test's path");
        // target/debug/deps/interop-...
        let profile = test.ancestors().nth(2).expect("a directory of Cargo's");
        let example = profile.join("examples/h3_server");
        let mut process = Command::new(&example)
            .arg(&certificate)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| {
                let example = example.display();
                panic!("{example}: {error}; cargo build -p evenkeel --examples builds it")
            });
        let mut url = String::new();
        let output = process.stdout.take().expect("it is piped");
        BufReader::new(output)
            .read_line(&mut url)
            .expect("it prints text");
        let port = url
            .strip_prefix("https://localhost:")
            .and_then(|rest| rest.strip_suffix("/\n")?.parse().ok())
            .expect("https://localhost:PORT/");
        Self {
            process,
            port,
            certificate,
            _directory: directory,
        }
    }

    fn tls(&self) -> rustls::ClientConfig {
        let certificate = CertificateDer::from_pem_file(&self.certificate);
        let mut roots = RootCertStore::empty();
        roots
            .add(certificate.expect("the server writes one"))
            .expect("a well-formed certificate");
        let mut tls = rustls::ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"h3".to_vec()];
        tls
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn aioquic_fetches_from_the_example() {
    let server = Server::new();
    let certificate = server.certificate.display().to_string();
    let port = server.port.to_string();
    let arguments = [&["get", &port, &certificate], &PATHS[..]].concat();
    if let Some(peer) = Peer::new(&arguments) {
        assert_eq!(peer.printed_without_headers(), right_answers());
    }
}

#[test]
fn stock_quinn_fetches_from_the_example() {
    run(async {
        let server = Server::new();
        let crypto = QuicClientConfig::try_from(server.tls()).expect("the default provider");
        let mut client = quinn::Endpoint::client(LOOPBACK).expect("a free port");
        client.set_default_client_config(ClientConfig::new(Arc::new(crypto)));
        fetched(&client, &server).await;
    });
}

#[test]
fn a_headed_client_fetches_from_the_example_with_headers() {
    run(async {
        let server = Server::new();
        let evenkeel = evenkeel::EndpointBuilder::new().path_headers(1);
        let config = evenkeel.client_config(server.tls(), transport(&evenkeel));
        let mut client = evenkeel.bind(LOOPBACK, None).expect("a free port");
        client.set_default_client_config(config.expect("the default provider"));
        // On a busy machine a connection may end before an echo arrives. Its state says nothing: a
        // pause before its end lets it probe anew.
        for _ in 0..5 {
            let connection = fetched(&client, &server).await;
            let context = Context::of(&connection).expect("an evenkeel configuration");
            let (_, counters) = context.path_headers().expect("both take headers");
            assert_eq!(counters.forged, 0);
            if counters.echoes > 0 {
                return;
            }
        }
        panic!("no header was echoed on any of five connections");
    });
}

/// Asks for all of [`PATHS`] at once, and checks the answers.
async fn fetched(client: &quinn::Endpoint, server: &Server) -> Connection {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, server.port));
    let connecting = client.connect(address, "localhost");
    let connecting = connecting.expect("a right configuration");
    let connection = connecting.await.expect("a handshake");
    let http = h3_quinn::Connection::new(connection.clone());
    let (mut driver, requests) = h3::client::new(http).await.expect("an HTTP/3 connection");
    let driver = tokio::spawn(async move { poll_fn(|cx| driver.poll_close(cx)).await });
    let fetches = PATHS.map(|path| {
        let mut requests = requests.clone();
        tokio::spawn(async move {
            let uri = format!("https://localhost{path}");
            let request = http::Request::get(uri).body(()).expect("a right request");
            let mut stream = requests.send_request(request).await.expect("a stream");
            stream.finish().await.expect("it is open");
            let response = stream.recv_response().await.expect("an answer");
            let mut body = Vec::new();
            while let Some(mut part) = stream.recv_data().await.expect("the server sends") {
                body.extend_from_slice(&part.copy_to_bytes(part.remaining()));
            }
            let length = response.headers()[http::header::CONTENT_LENGTH].to_str();
            let length: usize = length.expect("text").parse().expect("a number");
            assert_eq!(body.len(), length);
            answer(path, response.status().as_u16(), &body)
        })
    });
    let mut answers = Vec::new();
    for fetch in fetches {
        answers.push(fetch.await.expect("it does not panic"));
    }
    assert_eq!(answers, right_answers());
    drop(requests);
    let end = driver.await.expect("it does not panic");
    assert!(end.is_h3_no_error(), "{end}");
    connection
}
