//! A MoQ publisher and a subscriber on this machine, over noq. The publisher sends 2 s of live
//! frames with the controller that the command line names: `vegas` without one.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use moq_net::{Client, Server, Timestamp, Versions, origin};
use noq::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use noq::{ClientConfig, Connection, Endpoint, PathId, ServerConfig, TransportConfig};
use rcgen::generate_simple_self_signed;
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

const FRAMES: u64 = 50;
const FRAME_BYTES: usize = 20_000;
const INTERVAL: Duration = Duration::from_millis(40);

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Result<()> {
    let controller = std::env::args().nth(1).unwrap_or_else(|| "vegas".into());
    // The one line that MoQ over noq needs.
    let mut transport = TransportConfig::default();
    transport.congestion_controller_factory(evenkeel_noq::controller(&controller)?);

    let (server, certificate) = server_config(transport)?;
    let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = Endpoint::server(server, here)?;
    let address = server.local_addr()?;
    let publisher = tokio::spawn(publish(server));

    let client = Endpoint::client(here)?;
    let config = client_config(certificate)?;
    let connection = client.connect_with(config, address, "localhost")?.await?;
    let (frames, bytes) = subscribe(connection).await?;
    println!("{}", publisher.await??);
    println!(
        "received {frames} of {FRAMES} frames, {bytes} bytes, over MoQ, sent with {controller}"
    );
    // Live media: a subscriber may skip what is late.
    (frames > FRAMES / 2)
        .then_some(())
        .ok_or_else(|| "frames are missing".into())
}

/// Publishes to the first subscriber. Returns the controller's state, as a line for people.
async fn publish(server: Endpoint) -> Result<String> {
    let origin = spawn_origin();
    let broadcast = origin.create_broadcast("camera")?;
    let track = broadcast.create_track("video", None)?;
    broadcast.announce(Default::default())?;

    let incoming = server.accept().await.ok_or("the endpoint is closed")?;
    let connection = incoming.await?;
    let moq = Server::new().with_publisher(&origin);
    let (session, driver) = moq.accept(now(), session(&connection)).await?;
    tokio::spawn(moq_net::time::run(driver));

    track.used().await?;
    for frame in 0..FRAMES {
        let mut group = track.append_group()?;
        let at = Timestamp::from_millis(frame * INTERVAL.as_millis() as u64)?;
        group.write_frame(at, vec![frame as u8; FRAME_BYTES])?;
        group.finish()?;
        tokio::time::sleep(INTERVAL).await;
    }
    track.finish()?;
    let state = connection.congestion_state(PathId::ZERO);
    session.closed().await;
    Ok(format!("{state:?}").chars().take(100).collect())
}

/// Subscribes to the broadcast, and counts frames and bytes until it ends.
async fn subscribe(connection: Connection) -> Result<(u64, usize)> {
    let origin = spawn_origin();
    let moq = Client::new().with_subscriber(origin.clone());
    let (session, driver) = moq.connect(now(), session(&connection)).await?;
    tokio::spawn(moq_net::time::run(driver));

    let consumer = origin.consume();
    consumer.routed("camera").await.ok_or("no such broadcast")?;
    let broadcast = consumer.request_broadcast("camera").await?;
    let mut track = broadcast.track("video")?.subscribe(None).await?;
    let (mut frames, mut bytes) = (0, 0);
    while let Some(mut group) = track.recv_group().await? {
        while let Some(frame) = group.read_frame().await? {
            (frames, bytes) = (frames + 1, bytes + frame.payload.len());
        }
    }
    session.close().await?;
    Ok((frames, bytes))
}

/// A QUIC connection as a MoQ session sees it.
fn session(connection: &Connection) -> moq_tokio::transport::Session<web_transport_noq::Session> {
    moq_tokio::transport::Session::new(web_transport_noq::Session::raw(connection.clone()))
}

fn spawn_origin() -> origin::Producer {
    let (origin, driver) = origin::Producer::new(origin::Config::default());
    tokio::spawn(moq_net::time::run(driver));
    origin
}

fn now() -> Instant {
    Instant::now()
}

/// MoQ over QUIC without HTTP: the version is the ALPN.
fn alpns() -> Vec<Vec<u8>> {
    let versions = Versions::default();
    versions
        .alpns()
        .iter()
        .map(|alpn| alpn.as_bytes().to_vec())
        .collect()
}

fn server_config(transport: TransportConfig) -> Result<(ServerConfig, CertificateDer<'static>)> {
    let identity = generate_simple_self_signed(["localhost".to_owned()])?;
    let certificate = identity.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(identity.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], PrivateKeyDer::Pkcs8(key))?;
    tls.alpn_protocols = alpns();
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    config.transport_config(Arc::new(transport));
    Ok((config, certificate))
}

fn client_config(certificate: CertificateDer<'static>) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = alpns();
    Ok(ClientConfig::new(Arc::new(QuicClientConfig::try_from(
        tls,
    )?)))
}
