//! An HTTP/3 server on an evenkeel endpoint, by the h3 crate, which knows nothing of evenkeel.
//!
//! `cargo run -p evenkeel --example h3_server -- CERTIFICATE.pem 4433` writes its certificate there
//! and prints its address. `/` is some text, `/bytes/N` is N bytes. Any HTTP/3 client will do:
//!
//! `curl --http3-only --cacert CERTIFICATE.pem https://localhost:4433/bytes/1000000`
//!
//! In a crate of your own it needs, beside what the README names: `h3 = "0.0.8"`,
//! `h3-quinn = "0.0.10"`, `http = "1"`, `bytes = "1"`.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;

use bytes::Bytes;
use h3::server::RequestResolver;
use http::header::CONTENT_LENGTH;
use http::{Method, StatusCode};
use quinn::TransportConfig;
use quinn::rustls;
use quinn::rustls::pki_types::PrivatePkcs8KeyDer;

type Failure = Box<dyn Error + Send + Sync>;

/// Bytes that are handed to the stream at once.
const PART: u64 = 64 * 1024;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(certificate) = arguments.next() else {
        eprintln!("usage: h3_server CERTIFICATE.pem [PORT]");
        return ExitCode::from(2);
    };
    let port = arguments.next().map_or(Ok(0), |port| port.parse());
    let run = || -> Result<(), Failure> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port?));
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?
            .block_on(serve(&certificate, address))
    };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("h3_server: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(certificate: &str, address: SocketAddr) -> Result<(), Failure> {
    let identity = rcgen::generate_simple_self_signed(["localhost".into()])?;
    std::fs::write(certificate, identity.cert.pem())?;
    let key = PrivatePkcs8KeyDer::from(identity.signing_key.serialize_der());
    let mut tls = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![identity.cert.der().clone()], key.into())?;
    tls.alpn_protocols = vec![b"h3".to_vec()];

    let evenkeel = evenkeel::EndpointBuilder::new().path_headers(1);
    let controller = evenkeel::controller("keel")?;
    let transport = evenkeel.transport(TransportConfig::default(), controller);
    let server = evenkeel.server_config(tls, transport)?;
    let endpoint = evenkeel.bind(address, Some(server))?;
    println!("https://localhost:{}/", endpoint.local_addr()?.port());

    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async {
            if let Err(error) = connection(incoming).await {
                eprintln!("h3_server: {error}");
            }
        });
    }
    Ok(())
}

async fn connection(incoming: quinn::Incoming) -> Result<(), Failure> {
    let connection = h3_quinn::Connection::new(incoming.await?);
    let mut connection = h3::server::Connection::new(connection).await?;
    loop {
        let request = match connection.accept().await {
            Ok(Some(request)) => request,
            Ok(None) => return Ok(()),
            Err(end) if end.is_h3_no_error() => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        tokio::spawn(async {
            if let Err(error) = answer(request).await {
                eprintln!("h3_server: {error}");
            }
        });
    }
}

async fn answer(request: RequestResolver<h3_quinn::Connection, Bytes>) -> Result<(), Failure> {
    let (request, mut stream) = request.resolve_request().await?;
    let path = request.uri().path();
    let (status, body) = match path.strip_prefix("/bytes/").map(str::parse) {
        Some(Ok(count)) => (StatusCode::OK, Body::Bytes(count)),
        None if path == "/" => {
            let greeting = format!("evenkeel heard {} {path}\n", request.method());
            (StatusCode::OK, Body::Text(greeting))
        }
        _ => {
            let advice = "not here; try /bytes/1000000\n".into();
            (StatusCode::NOT_FOUND, Body::Text(advice))
        }
    };
    let response = http::Response::builder()
        .status(status)
        .header(CONTENT_LENGTH, body.len())
        .body(())?;
    stream.send_response(response).await?;
    if request.method() != Method::HEAD {
        for part in body.parts() {
            stream.send_data(part).await?;
        }
    }
    stream.finish().await?;
    Ok(())
}

/// What a response holds.
enum Body {
    Text(String),
    /// As many bytes, of which each 251 are the same.
    Bytes(u64),
}

impl Body {
    fn len(&self) -> u64 {
        match self {
            Self::Text(text) => text.len() as u64,
            Self::Bytes(count) => *count,
        }
    }

    /// The parts in order, made as they are asked for.
    fn parts(self) -> impl Iterator<Item = Bytes> {
        let len = self.len();
        (0..len.div_ceil(PART)).map(move |nth| {
            let range = nth * PART..len.min((nth + 1) * PART);
            match &self {
                Self::Text(text) => Bytes::copy_from_slice(
                    &text.as_bytes()[range.start as usize..range.end as usize],
                ),
                Self::Bytes(_) => range.map(|at| (at % 251) as u8).collect(),
            }
        })
    }
}
