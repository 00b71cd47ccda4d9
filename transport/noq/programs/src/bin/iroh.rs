//! Two iroh endpoints on this machine. One sends 5 MB with the controller that the command line
//! names: `keel` without one.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};

use iroh::endpoint::{PathId, QuicTransportConfig, VarInt, presets};
use iroh::{Endpoint, EndpointAddr, RelayMode};

const PROTOCOL: &[u8] = b"evenkeel/example/0";
const BYTES: usize = 5_000_000;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Result<()> {
    let controller = std::env::args().nth(1).unwrap_or_else(|| "keel".into());
    // The one line that iroh needs.
    let transport = QuicTransportConfig::builder()
        .congestion_controller_factory(evenkeel_noq::controller(&controller)?)
        .build();
    let server = endpoint(transport).await?;
    let here = server.bound_sockets()[0];
    let address = EndpointAddr::new(server.id()).with_ip_addr(here);
    let sender = tokio::spawn(send(server));

    let client = endpoint(QuicTransportConfig::builder().build()).await?;
    let connection = client.connect(address, PROTOCOL).await?;
    let mut stream = connection.accept_uni().await?;
    let received = stream.read_to_end(BYTES).await?;
    connection.close(VarInt::from_u32(0), b"");
    client.close().await;
    println!("{}", sender.await??);
    println!(
        "received {} bytes over iroh, sent with {controller}",
        received.len()
    );
    (received.len() == BYTES)
        .then_some(())
        .ok_or_else(|| "bytes are missing".into())
}

/// An endpoint of this machine alone: no relay, no look-up of addresses.
async fn endpoint(transport: QuicTransportConfig) -> Result<Endpoint> {
    let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let builder = Endpoint::builder(presets::Minimal)
        .relay_mode(RelayMode::Disabled)
        .clear_ip_transports()
        .bind_addr(here)?
        .alpns(vec![PROTOCOL.to_vec()])
        .transport_config(transport);
    Ok(builder.bind().await?)
}

/// Sends to the first client. Returns the controller's state, as a line for people.
async fn send(server: Endpoint) -> Result<String> {
    let incoming = server.accept().await.ok_or("the endpoint is closed")?;
    let connection = incoming.await?;
    let mut stream = connection.open_uni().await?;
    stream.write_all(&vec![7; BYTES]).await?;
    stream.finish()?;
    connection.closed().await;
    let state = connection.congestion_state(PathId::ZERO);
    let line = format!("{state:?}").chars().take(100).collect();
    server.close().await;
    Ok(line)
}
