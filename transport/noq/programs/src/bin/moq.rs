//! Live sound and pictures over MoQ: a publisher of MPEG-TS, a relay, and a subscriber, each with a
//! controller of evenkeel for what it sends. See `docs/moq.md`.

#![expect(clippy::disallowed_methods, reason = "a program: it reads the clock")]

use std::collections::BTreeSet;
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use evenkeel_noq_programs::{Arguments, Result, end};
use moq_mux::Source;
use moq_mux::catalog::hang::Catalog;
use moq_mux::catalog::{self, CatalogFormat, Consumer, Stream};
use moq_mux::container::ts;
use moq_net::{Client, Server, Versions, origin};
use noq::congestion::Bbr3Config;
use noq::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use noq::{ClientConfig, Connection, Endpoint, ServerConfig, TransportConfig, VarInt};
use rustls::RootCertStore;
use rustls::client::verify_server_name;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::ParsedCertificate;
use tokio::io::AsyncReadExt;
use tokio::signal;

const USAGE: &str = "\
usage: moq relay                     forwards what is published to all who subscribe
       moq publish HOST:PORT NAME    publishes the MPEG-TS of standard input
       moq subscribe HOST:PORT NAME  writes it to standard output; --latency MS (2000)
options: --controller NAME           keel, cubic, bbr, ..., or default: moq-tokio's own, BBRv3
         --certificate FILE          of the relay, in PEM; a relay makes it (relay.pem)
         --key FILE                  of the relay, likewise (relay.key)
         --listen ADDRESS:PORT       of the relay: 127.0.0.1:4443";

fn main() -> ExitCode {
    let result = tokio::runtime::Runtime::new().map_err(Into::into);
    end(result.and_then(|runtime| {
        let result = runtime.block_on(run());
        // Standard input may be read until its writer ends.
        runtime.shutdown_background();
        result
    }))
}

async fn run() -> Result<()> {
    let options = ["controller", "certificate", "key", "listen", "latency"];
    let arguments = Arguments::of_process(&options)?;
    match arguments.words()[..] {
        ["help"] => {
            println!("{USAGE}");
            Ok(())
        }
        [_, _, ""] => Err("NAME is empty; give the broadcast a name".into()),
        ["relay"] => relay(&arguments).await,
        ["publish", relay, name] => publish(&arguments, relay, name).await,
        ["subscribe", relay, name] => subscribe(&arguments, relay, name).await,
        _ => Err(USAGE.into()),
    }
}

/// Forwards between all who connect: each may publish, and subscribe to what others publish.
async fn relay(arguments: &Arguments) -> Result<()> {
    let listen = arguments.option("listen", SocketAddr::from(([127, 0, 0, 1], 4443)))?;
    let config = server_config(arguments, listen)?;
    let server = Endpoint::server(config, listen).map_err(|error| format!("{listen}: {error}"))?;
    let origin = spawn_origin();
    println!("listening on {}", server.local_addr()?);
    let mut stop = pin!(stopped());
    loop {
        let incoming = tokio::select! {
            incoming = server.accept() => incoming.ok_or("the endpoint is closed")?,
            () = &mut stop => {
                server.close(0_u32.into(), b"the relay stops");
                server.wait_idle().await;
                return Ok(());
            }
        };
        let origin = origin.clone();
        tokio::spawn(async move {
            let peer = incoming.remote_address();
            let served = async {
                let moq = Server::new().with_origin(origin);
                let (moq, driver) = moq.accept(now(), session(&incoming.await?)).await?;
                tokio::spawn(moq_net::time::run(driver));
                Result::Ok(moq.closed().await)
            };
            match served.await {
                Ok(end) => eprintln!("{peer} has gone: {end}"),
                Err(error) => eprintln!("{peer} is not served: {error}"),
            }
        });
    }
}

async fn publish(arguments: &Arguments, relay: &str, name: &str) -> Result<()> {
    let origin = spawn_origin();
    let mut broadcast = origin.create_broadcast(name)?;
    let mut catalog = catalog::Producer::new(&mut broadcast, catalog::Config::default())?;
    // The broadcast's clock is this machine's: a picture is captured when it comes in.
    let mut media = ts::Import::new(broadcast.clone(), catalog.reserve()).live();
    broadcast.announce(Default::default())?;
    let connection = connect(arguments, relay).await?;
    let moq = Client::new().with_publisher(&origin);
    let (moq, driver) = moq.connect(now(), session(&connection)).await?;
    tokio::spawn(moq_net::time::run(driver));

    let (mut input, mut piece) = (tokio::io::stdin(), vec![0; 64 * 1024]);
    let mut stop = pin!(stopped());
    loop {
        let read = tokio::select! {
            read = input.read(&mut piece) => read?,
            error = moq.closed() => return Err(format!("the relay is gone: {error}").into()),
            () = &mut stop => 0,
        };
        if read == 0 {
            break;
        }
        media.decode(&piece[..read])?;
    }
    media.finish()?;
    let tracks = catalog.snapshot();
    if tracks.video.renditions.is_empty() && tracks.audio.renditions.is_empty() {
        return Err(
            "standard input had no picture and no sound that MoQ takes; send MPEG-TS with \
                    H.264 or HEVC, as `ffmpeg ... -f mpegts -` does"
                .into(),
        );
    }
    catalog.finish()?;
    broadcast.close();
    // What is queued may take a while.
    let _ = tokio::time::timeout(Duration::from_secs(2), moq.closed()).await;
    Ok(moq.close().await?)
}

async fn subscribe(arguments: &Arguments, relay: &str, name: &str) -> Result<()> {
    let latency = Duration::from_millis(arguments.option("latency", 2000)?);
    let origin = spawn_origin();
    let connection = connect(arguments, relay).await?;
    let moq = Client::new().with_subscriber(origin.clone());
    let (moq, driver) = moq.connect(now(), session(&connection)).await?;
    tokio::spawn(moq_net::time::run(driver));

    let mut viewer = Viewer::default();
    let watched = tokio::select! {
        watched = watch(origin.consume(), name, latency, &mut viewer) => watched,
        error = moq.closed() => Err(error.into()),
        () = stopped() => Ok(()),
    };
    eprintln!("{}", viewer.report());
    match watched {
        Err(error) if connection.close_reason().is_some() => {
            Err(format!("the relay is gone: {error}").into())
        }
        Err(error) => Err(format!("the broadcast broke off: {error}").into()),
        Ok(()) => {
            // The relay may have gone first.
            let _ = moq.close().await;
            Ok(())
        }
    }
}

/// Writes a broadcast to standard output, until it ends or its reader does.
async fn watch(
    relay: origin::Consumer,
    name: &str,
    latency: Duration,
    viewer: &mut Viewer,
) -> Result<()> {
    let mut routed = pin!(relay.routed(name));
    let route = tokio::select! {
        route = &mut routed => route,
        () = tokio::time::sleep(Duration::from_secs(1)) => {
            eprintln!("nobody publishes {name} yet; waiting");
            routed.await
        }
    };
    route.ok_or("the relay is gone")?;
    let source = Source::new(relay.clone(), name);
    let mut catalogs = source.catalog::<()>(CatalogFormat::default()).await?;
    let catalog = catalogs
        .next()
        .await?
        .ok_or("the broadcast has no catalog")?;
    let clock = catalog.clock.ok_or("the publisher's clock is not set")?;
    let mut media = ts::Export::new(source.clone()).await?.with_max_age(latency);
    tokio::spawn(rank(source, catalog, catalogs));
    let mut output = std::io::stdout();
    while let Some(slice) = media.next().await? {
        for packet in slice.payload.chunks(188) {
            match frame(packet) {
                Some((true, ticks)) => {
                    viewer.see(clock.wall_clock(near(slice.timestamp, ticks)?)?);
                }
                Some((false, _)) => viewer.sounds += 1,
                None => {}
            }
        }
        let written = output.write_all(&slice.payload);
        match written.and_then(|()| output.flush()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => break, // the player has ended
            written => written?,
        }
    }
    Ok(())
}

/// Asks for each track with the priority that its publisher gives it, sound before pictures, while
/// the catalog lasts. `ts::Export` asks with 0 for all, and moq-net 0.3 then sends first what was
/// asked for first: pictures, every other time.
async fn rank(source: Source, mut catalog: Catalog, mut catalogs: Consumer) -> Result<()> {
    let mut ranked = BTreeSet::new();
    loop {
        let pictures = catalog.video.renditions.iter();
        let sounds = catalog.audio.renditions.iter();
        let tracks = pictures
            .map(|(name, track)| (name, &track.broadcast))
            .chain(sounds.map(|(name, track)| (name, &track.broadcast)));
        for (name, broadcast) in tracks {
            if ranked.insert(name.clone()) {
                let mut track = source.subscribe_track(broadcast.as_ref(), name).await?;
                let priority = track.info().priority;
                track.update(track.subscription().with_priority(priority))?;
                // The export reads the track. This one only asks, as long as it is polled.
                tokio::spawn(async move { while let Ok(Some(_)) = track.recv_group().await {} });
            }
        }
        catalog = catalogs.next().await?.ok_or("the broadcast has ended")?;
    }
}

/// Waits for Ctrl-C or SIGTERM.
async fn stopped() {
    #[cfg(unix)]
    if let Ok(mut terminated) = signal::unix::signal(signal::unix::SignalKind::terminate()) {
        tokio::select! {
            _ = signal::ctrl_c() => return,
            _ = terminated.recv() => return,
        }
    }
    let _ = signal::ctrl_c().await;
}

/// What a viewer has seen: how old each picture was when it left for the player.
#[derive(Default)]
struct Viewer {
    delays_ms: Vec<f64>,
    /// Packets of sound.
    sounds: u64,
    last: Option<Instant>,
    stalls: u32,
    stalled: Duration,
}

impl Viewer {
    /// No picture for this long is a stall.
    const STALL: Duration = Duration::from_millis(200);

    fn see(&mut self, captured: SystemTime) {
        // Less than nothing, if the clocks differ.
        let age = match SystemTime::now().duration_since(captured) {
            Ok(age) => age.as_secs_f64(),
            Err(ahead) => -ahead.duration().as_secs_f64(),
        };
        self.delays_ms.push(age * 1e3);
        let gap = self
            .last
            .replace(now())
            .map_or(Duration::ZERO, |last| last.elapsed());
        if gap > Self::STALL {
            (self.stalls, self.stalled) = (self.stalls + 1, self.stalled + gap);
        }
    }

    fn report(mut self) -> String {
        self.delays_ms.sort_by(f64::total_cmp);
        let (pictures, sounds) = (self.delays_ms.len(), self.sounds);
        let rank = |share: f64| (share * pictures as f64).ceil() as usize;
        let delay = |share| self.delays_ms.get(rank(share).saturating_sub(1)).copied();
        let [Some(p50), Some(p95), Some(most)] = [0.5, 0.95, 1.0].map(delay) else {
            return format!("0 pictures, {sounds} of sound");
        };
        let (stalls, stalled) = (self.stalls, self.stalled.as_secs_f64());
        format!(
            "{pictures} pictures, {sounds} of sound, delay p50 {p50:.1} ms, p95 {p95:.1} ms, \
             max {most:.1} ms, {stalls} stalls of {stalled:.2} s"
        )
    }
}

/// Whether the frame that begins in a packet of MPEG-TS is a picture, and its presentation time, in
/// 90 kHz modulo 2^33.
fn frame(packet: &[u8]) -> Option<(bool, i64)> {
    let (header, rest) = packet.split_at_checked(4)?;
    let begins = header[0] == 0x47 && header[1] & 0x40 != 0;
    let skip = if header[3] & 0x20 != 0 {
        1 + usize::from(*rest.first()?)
    } else {
        0
    };
    let pes = rest.get(skip..)?;
    let is_frame = begins && pes.starts_with(&[0, 0, 1]);
    let time = pes.get(9..14).filter(|_| is_frame && pes[7] & 0x80 != 0)?;
    let bits = |at: usize| i64::from(time[at]);
    let ticks = (bits(0) & 0xe) << 29
        | bits(1) << 22
        | (bits(2) & 0xfe) << 14
        | bits(3) << 7
        | bits(4) >> 1;
    Some(((0xe0..0xf0).contains(&pes[3]), ticks))
}

/// The time nearest to `at` that is `ticks` of 90 kHz modulo 2^33.
fn near(at: moq_net::Timestamp, ticks: i64) -> Result<moq_net::Timestamp> {
    let at = Duration::from(at).as_micros() as i64;
    let wrap = 1_i64 << 33;
    let difference = (ticks - at * 9 / 100 + wrap / 2).rem_euclid(wrap) - wrap / 2;
    let micros = at.saturating_add(difference * 100 / 9).max(0);
    Ok(moq_net::Timestamp::from_micros(micros as u64)?)
}

/// Connects to the first address of `relay` that answers.
async fn connect(arguments: &Arguments, relay: &str) -> Result<Connection> {
    let (host, _) = relay.rsplit_once(':').ok_or("the relay is HOST:PORT")?;
    let config = client_config(arguments)?;
    let mut error = format!("{relay} has no address").into();
    for address in tokio::net::lookup_host(relay).await? {
        let any = if address.is_ipv4() {
            "0.0.0.0:0"
        } else {
            "[::]:0"
        };
        let client = Endpoint::client(any.parse()?)?;
        let host = host.trim_matches(['[', ']']);
        match client.connect_with(config.clone(), address, host)?.await {
            Ok(connection) => return Ok(connection),
            Err(refusal) => error = format!("{address}: {refusal}").into(),
        }
    }
    Err(error)
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

/// With the settings of moq-tokio 0.19, but for the controller.
fn transport(arguments: &Arguments) -> Result<Arc<TransportConfig>> {
    let mut transport = TransportConfig::default();
    let controller = arguments.option("controller", "keel".to_owned())?;
    if controller == "default" {
        transport.congestion_controller_factory(Arc::new(Bbr3Config::default()));
    } else {
        transport.congestion_controller_factory(evenkeel_noq::controller(&controller)?);
    }
    transport
        .max_concurrent_uni_streams(VarInt::from_u32(10_000))
        .max_concurrent_bidi_streams(VarInt::from_u32(10_000))
        .receive_window(VarInt::from_u32(64 << 20))
        .max_idle_timeout(Some(VarInt::from_u32(10_000).into()))
        .keep_alive_interval(Some(Duration::from_secs(3)))
        .mtu_discovery_config(None);
    Ok(Arc::new(transport))
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

fn server_config(arguments: &Arguments, listen: SocketAddr) -> Result<ServerConfig> {
    let certificate = arguments.option("certificate", PathBuf::from("relay.pem"))?;
    let key = arguments.option("key", PathBuf::from("relay.key"))?;
    if !certificate.exists() {
        if listen.ip().is_unspecified() {
            let error = "a certificate cannot name every address of this machine; listen on the one \
                         that clients use, or give --certificate and --key";
            return Err(error.into());
        }
        let names = [
            "localhost".to_owned(),
            "127.0.0.1".to_owned(),
            listen.ip().to_string(),
        ];
        let identity = rcgen::generate_simple_self_signed(names)?;
        let mut secret = std::fs::File::options();
        secret.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut secret, 0o600);
        secret
            .open(&key)?
            .write_all(identity.signing_key.serialize_pem().as_bytes())?;
        std::fs::write(&certificate, identity.cert.pem())?;
    }
    let chain: Vec<_> = CertificateDer::pem_file_iter(&certificate)
        .and_then(Iterator::collect)
        .map_err(|error| format!("{}: {error}", certificate.display()))?;
    let key = PrivateKeyDer::from_pem_file(&key)
        .map_err(|error| format!("{}: {error}", key.display()))?;
    let parsed = chain.first().ok_or("there is no certificate in it")?;
    let name = listen.ip().into();
    if verify_server_name(&ParsedCertificate::try_from(parsed)?, &name).is_err() {
        let file = certificate.display();
        eprintln!(
            "{file} is not for {}; clients call the relay by a name in it",
            listen.ip()
        );
    }
    let mut tls = rustls::ServerConfig::builder_with_provider(ring::default_provider().into())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    tls.alpn_protocols = alpns();
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    config.transport_config(transport(arguments)?);
    Ok(config)
}

fn client_config(arguments: &Arguments) -> Result<ClientConfig> {
    let certificate = arguments.option("certificate", PathBuf::from("relay.pem"))?;
    let mut roots = RootCertStore::empty();
    let trusted = CertificateDer::from_pem_file(&certificate)
        .map_err(|error| format!("{}: {error}; --certificate", certificate.display()))?;
    roots.add(trusted)?;
    let mut tls = rustls::ClientConfig::builder_with_provider(ring::default_provider().into())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = alpns();
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    config.transport_config(transport(arguments)?);
    Ok(config)
}
