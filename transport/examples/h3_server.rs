//! An HTTP/3 server on an evenkeel endpoint, by the h3 crate, which knows nothing of evenkeel.
//!
//! `cargo run -p evenkeel --example h3_server -- CERTIFICATE.pem` writes its certificate there,
//! prints its address and answers every request with some text and a megabyte behind it. Any
//! HTTP/3 client will do:
//!
//! `curl --http3-only --cacert CERTIFICATE.pem https://localhost:4433/`

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;

use bytes::Bytes;
use h3::server::RequestResolver;
use quinn::TransportConfig;
use quinn::rustls;
use quinn::rustls::pki_types::PrivatePkcs8KeyDer;

type Failure = Box<dyn Error + Send + Sync>;

/// Bytes behind the greeting.
const BODY: usize = 1_000_000;

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

    let evenkeel = evenkeel::Endpoint::new().path_headers(1);
    let controller = evenkeel::controller("vegas")?;
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
    while let Some(request) = connection.accept().await? {
        tokio::spawn(async {
            if let Err(error) = answer(request).await {
                eprintln!("h3_server: {error}");
            }
        });
    }
    Ok(())
}

async fn answer(request: RequestResolver<h3_quinn::Connection, Bytes>) -> Result<(), Failure> {
    let (request, mut stream) = request.resolve_request().await?;
    stream.send_response(http::Response::new(())).await?;
    let greeting = format!(
        "evenkeel heard {} {}\n",
        request.method(),
        request.uri().path()
    );
    stream.send_data(greeting.into()).await?;
    stream.send_data(vec![b'.'; BODY].into()).await?;
    stream.finish().await?;
    Ok(())
}
