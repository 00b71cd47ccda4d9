//! A transfer over plain quinn, with one of evenkeel's controllers on both sides.
//!
//! `cargo run -p evenkeel --example plain_quinn -- vegas:alpha=2,beta=4`

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;

use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::PrivatePkcs8KeyDer;
use quinn::{ClientConfig, Endpoint, ServerConfig, TransportConfig};

/// Bytes the client sends.
const AMOUNT: usize = 5_000_000;

fn main() -> ExitCode {
    let spec = std::env::args().nth(1).unwrap_or_else(|| "vegas".into());
    match run(&spec) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("plain_quinn: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(spec: &str) -> Result<(), Box<dyn Error>> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(transfer(spec))
}

async fn transfer(spec: &str) -> Result<(), Box<dyn Error>> {
    // The one line that matters.
    let mut transport = TransportConfig::default();
    transport.congestion_controller_factory(evenkeel::controller(spec)?);
    let transport = Arc::new(transport);

    // A certificate for this run, which the client trusts.
    let certified = rcgen::generate_simple_self_signed(["localhost".into()])?;
    let certificate = certified.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let mut trusted = RootCertStore::empty();
    trusted.add(certificate.clone())?;

    let mut server_config = ServerConfig::with_single_cert(vec![certificate], key.into())?;
    server_config.transport_config(transport.clone());
    let mut client_config = ClientConfig::with_root_certificates(Arc::new(trusted))?;
    client_config.transport_config(transport);

    let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = Endpoint::server(server_config, loopback)?;
    let client = Endpoint::client(loopback)?;
    let address = server.local_addr()?;
    let receiver = tokio::spawn(receive(server));

    let connection = client
        .connect_with(client_config, address, "localhost")?
        .await?;
    let mut stream = connection.open_uni().await?;
    stream.write_all(&vec![0; AMOUNT]).await?;
    stream.finish()?;
    stream.stopped().await?;

    let path = connection.stats().path;
    connection.close(0_u32.into(), b"done");
    let arrived = receiver.await?.map_err(|error| error as Box<dyn Error>)?;
    println!(
        "{spec}: {arrived} bytes arrived; window {} bytes, round trip {:?}, {} packets lost",
        path.cwnd, path.rtt, path.lost_packets,
    );
    Ok(())
}

/// Takes one connection and one stream; returns how many bytes it brought.
async fn receive(server: Endpoint) -> Result<usize, Box<dyn Error + Send + Sync>> {
    let incoming = server.accept().await.ok_or("the endpoint was closed")?;
    let connection = incoming.await?;
    let mut stream = connection.accept_uni().await?;
    let mut arrived = 0;
    while let Some(chunk) = stream.read_chunk(usize::MAX, true).await? {
        arrived += chunk.bytes.len();
    }
    connection.closed().await;
    Ok(arrived)
}
