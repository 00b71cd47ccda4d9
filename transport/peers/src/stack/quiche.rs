//! quiche, which leaves sockets and timers to its user.

use std::collections::HashMap;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::time::Duration;

use quiche::{Config, Connection, ConnectionId, Header, RecvInfo, Type};
use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::{
    ALPN, DATAGRAM, DATAGRAMS, DATAGRAMS_BACK, Failure, Feature, Identity, LOOPBACK, Order,
    Pattern, Request, SERVER_NAME, Serving, Stack, WINDOW, on_thread, runtime,
};

/// quiche as crates.io has it. Its packets leave in batches (GSO) and unpaced: the times that quiche
/// gives them are not kept, so that its speed here says nothing about quiche.
pub(crate) struct Quiche;

impl Stack for Quiche {
    fn name(&self) -> String {
        "quiche 0.30".into()
    }

    fn serve(&self, identity: &Identity, serving: Serving) -> Result<SocketAddr, Failure> {
        let files = identity.files()?;
        let mut config = config()?;
        config.load_cert_chain_from_pem_file(&files.certificate.to_string_lossy())?;
        config.load_priv_key_from_pem_file(&files.key.to_string_lossy())?;
        on_thread(move || async move {
            let link = Link::bind()?;
            let address = link.local;
            let server = Server {
                link,
                config,
                serving,
                current: None,
            };
            Ok((address, server.run()))
        })
    }

    fn exchange(
        &self,
        server: SocketAddr,
        identity: &Identity,
        order: Order,
    ) -> Result<(), Failure> {
        let files = identity.files()?;
        let mut config = config()?;
        config.verify_peer(true);
        config.load_verify_locations_from_file(&files.certificate.to_string_lossy())?;
        runtime()?.block_on(async {
            if order.feature != Feature::EarlyData {
                return connect(server, &mut config, order, None).await.map(drop);
            }
            let session = connect(server, &mut config, Order::FIRST, None).await?;
            let session = session.ok_or("no ticket for 0-RTT")?;
            connect(server, &mut config, order, Some(session)).await?;
            Ok(())
        })
    }

    fn l4s(&self) -> &'static str {
        "no counts"
    }
}

fn config() -> Result<Config, Failure> {
    let mut config = Config::new(quiche::PROTOCOL_VERSION)?;
    config.set_application_protos(&[ALPN])?;
    config.set_max_idle_timeout(30_000);
    config.set_max_recv_udp_payload_size(1472);
    config.set_max_send_udp_payload_size(1452);
    config.set_initial_max_data(WINDOW.into());
    config.set_initial_max_stream_data_bidi_local(WINDOW.into());
    config.set_initial_max_stream_data_bidi_remote(WINDOW.into());
    config.set_initial_max_streams_bidi(100);
    config.enable_dgram(true, DATAGRAMS, DATAGRAMS);
    config.enable_early_data();
    config.enable_pacing(false);
    Ok(config)
}

/// Opens a connection, exchanges and closes. Returns what resumes the session.
async fn connect(
    server: SocketAddr,
    config: &mut Config,
    order: Order,
    session: Option<Vec<u8>>,
) -> Result<Option<Vec<u8>>, Failure> {
    let mut link = Link::bind()?;
    let id = connection_id();
    let mut connection = quiche::connect(Some(SERVER_NAME), &id, link.local, server, config)?;
    if let Some(session) = &session {
        connection.set_session(session)?;
    }
    let mut exchange = Exchange::new(order);
    loop {
        link.send_all(&mut connection).await?;
        if connection.is_established() || connection.is_in_early_data() {
            exchange.go_on(&mut connection)?;
            link.send_all(&mut connection).await?;
        }
        if connection.is_closed() {
            return Err(match (connection.local_error(), connection.peer_error()) {
                (None, None) => "the connection timed out".into(),
                errors => format!("the connection was closed: {errors:?}").into(),
            });
        }
        if exchange.is_done() {
            break;
        }
        link.wait(&mut connection).await?;
        let to = link.local;
        link.receive(|bytes, from| {
            // What is no packet of this connection is dropped (RFC 9000, section 5.2).
            let _ = connection.recv(bytes, RecvInfo { from, to });
        })?;
    }
    /// `ssl_early_data_accepted` of BoringSSL.
    const ACCEPTED: u32 = 2;
    if session.is_some() && connection.early_data_reason() != ACCEPTED {
        return Err(format!("0-RTT was refused: {}", connection.early_data_reason()).into());
    }
    let session = connection.session().map(<[u8]>::to_vec);
    connection.close(true, 0, b"")?;
    link.send_all(&mut connection).await?;
    Ok(session)
}

/// A client's side of an exchange.
struct Exchange {
    order: Order,
    pattern: Pattern,
    /// Of the stream, with the eight bytes before.
    sent: u64,
    received: u64,
    ended: bool,
    datagrams_sent: usize,
    datagrams_back: usize,
}

impl Exchange {
    /// The first bidirectional stream of a client.
    const STREAM: u64 = 0;

    fn new(order: Order) -> Self {
        Self {
            order,
            pattern: Pattern::new(),
            sent: 0,
            received: 0,
            ended: false,
            datagrams_sent: 0,
            datagrams_back: 0,
        }
    }

    fn is_done(&self) -> bool {
        match self.order.feature {
            Feature::Datagrams => self.datagrams_back >= DATAGRAMS_BACK,
            _ => self.ended,
        }
    }

    fn go_on(&mut self, connection: &mut Connection) -> Result<(), Failure> {
        if self.order.feature == Feature::Datagrams {
            return self.datagrams(connection);
        }
        if self.sent == 0 {
            let head = self.order.down.to_be_bytes();
            self.sent = connection.stream_send(Self::STREAM, &head, self.order.up == 0)? as u64;
            if self.sent < 8 {
                return Err("no room for eight bytes".into());
            }
        }
        self.sent = 8 + send(
            connection,
            Self::STREAM,
            &self.pattern,
            self.sent - 8,
            self.order.up,
        )?;
        let (pattern, received) = (&self.pattern, &mut self.received);
        self.ended = read(connection, Self::STREAM, |bytes| {
            pattern.check(*received, bytes)?;
            *received += bytes.len() as u64;
            Ok(())
        })?;
        if self.ended {
            self.order.check(self.received)?;
        }
        Ok(())
    }

    fn datagrams(&mut self, connection: &mut Connection) -> Result<(), Failure> {
        while self.datagrams_sent < DATAGRAMS && !connection.is_dgram_send_queue_full() {
            connection.dgram_send(&[7; DATAGRAM])?;
            self.datagrams_sent += 1;
        }
        let mut buffer = [0; 2000];
        while let Ok(length) = connection.dgram_recv(&mut buffer) {
            if buffer[..length] != [7; DATAGRAM] {
                return Err("a datagram came back changed".into());
            }
            self.datagrams_back += 1;
        }
        Ok(())
    }
}

/// Sends what a stream takes of `length` bytes from `offset`, and its end; returns the new offset.
fn send(
    connection: &mut Connection,
    stream: u64,
    pattern: &Pattern,
    mut offset: u64,
    length: u64,
) -> Result<u64, Failure> {
    while offset < length {
        let piece = pattern.piece(offset, length);
        let is_last = offset + piece.len() as u64 == length;
        match connection.stream_send(stream, piece, is_last) {
            Ok(0) | Err(quiche::Error::Done) => break,
            Ok(sent) => offset += sent as u64,
            Err(failure) => return Err(failure.into()),
        }
    }
    Ok(offset)
}

/// Reads what a stream has; returns whether it has ended.
fn read(
    connection: &mut Connection,
    stream: u64,
    mut take: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<bool, Failure> {
    let mut buffer = vec![0; Pattern::PIECE];
    loop {
        match connection.stream_recv(stream, &mut buffer) {
            Ok((length, ended)) => {
                take(&buffer[..length])?;
                if ended {
                    return Ok(true);
                }
            }
            Err(quiche::Error::Done | quiche::Error::InvalidStreamState(_)) => return Ok(false),
            Err(failure) => return Err(failure.into()),
        }
    }
}

/// Serves one client after the other.
struct Server {
    link: Link,
    config: Config,
    serving: Serving,
    current: Option<Served>,
}

/// A connection of the server.
struct Served {
    connection: Connection,
    /// What the client called us before it knew our name.
    first_id: Vec<u8>,
    requests: HashMap<u64, Answer>,
}

#[derive(Default)]
struct Answer {
    request: Request,
    /// Bytes to send, once the request has ended.
    wanted: Option<u64>,
    sent: u64,
}

impl Server {
    async fn run(mut self) {
        loop {
            // A client that fails says so itself; the next one may do better.
            if self.step().await.is_err() {
                self.current = None;
            }
        }
    }

    async fn step(&mut self) -> Result<(), Failure> {
        match &mut self.current {
            Some(served) => self.link.wait(&mut served.connection).await?,
            None => self.link.socket.readable().await?,
        }
        let to = self.link.local;
        let mut out = Vec::new();
        let (config, serving, current) = (&mut self.config, self.serving, &mut self.current);
        self.link.receive(|bytes, from| {
            if let Some(retry) = accept(current, config, serving, bytes, from, to) {
                out.push((retry, from));
            }
            if let Some(served) = current {
                let _ = served.connection.recv(bytes, RecvInfo { from, to });
            }
        })?;
        for (retry, to) in out {
            self.link.socket.send_to(&retry, to).await?;
        }
        if let Some(served) = &mut self.current {
            served.go_on()?;
            self.link.send_all(&mut served.connection).await?;
        }
        Ok(())
    }
}

/// Begins a connection if `bytes` ask for one; returns a Retry packet if there is to be one.
fn accept(
    current: &mut Option<Served>,
    config: &mut Config,
    serving: Serving,
    bytes: &mut [u8],
    from: SocketAddr,
    to: SocketAddr,
) -> Option<Vec<u8>> {
    let header = Header::from_slice(bytes, quiche::MAX_CONN_ID_LEN).ok()?;
    let is_known = current.as_ref().is_some_and(|served| {
        served.connection.source_id() == header.dcid || served.first_id[..] == header.dcid[..]
    });
    if header.ty != Type::Initial || is_known {
        return None;
    }
    let token = header.token.as_deref().unwrap_or_default();
    let new_id = connection_id();
    if serving.retry && token.is_empty() {
        let mut packet = vec![0; 1200];
        // The name that must come back. A server that has anything to lose signs it.
        let token = &header.dcid;
        let length = quiche::retry(
            &header.scid,
            &header.dcid,
            &new_id,
            token,
            header.version,
            &mut packet,
        );
        packet.truncate(length.ok()?);
        return Some(packet);
    }
    let original = ConnectionId::from_ref(token);
    // After a Retry the client uses the name that this gave us.
    let (id, original) = match serving.retry {
        true => (header.dcid.clone(), Some(&original)),
        false => (new_id, None),
    };
    *current = Some(Served {
        connection: quiche::accept(&id, original, to, from, config).ok()?,
        first_id: header.dcid.to_vec(),
        requests: HashMap::new(),
    });
    None
}

impl Served {
    fn go_on(&mut self) -> Result<(), Failure> {
        let (connection, pattern) = (&mut self.connection, Pattern::new());
        let mut buffer = [0; 2000];
        while let Ok(length) = connection.dgram_recv(&mut buffer) {
            connection.dgram_send(&buffer[..length])?;
        }
        for stream in connection.readable() {
            let answer = self.requests.entry(stream).or_default();
            if read(connection, stream, |bytes| {
                answer.request.read(&pattern, bytes)
            })? {
                answer.wanted = Some(answer.request.wanted()?);
            }
        }
        for (stream, answer) in &mut self.requests {
            if let Some(wanted) = answer.wanted {
                answer.sent = send(connection, *stream, &pattern, answer.sent, wanted)?;
            }
        }
        Ok(())
    }
}

/// A socket, with what it sends and receives at once.
struct Link {
    socket: UdpSocket,
    state: UdpSocketState,
    local: SocketAddr,
    received: Vec<Vec<u8>>,
    sending: Vec<u8>,
}

impl Link {
    fn bind() -> Result<Self, Failure> {
        let socket = std::net::UdpSocket::bind(LOOPBACK)?;
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        let local = socket.local_addr()?;
        Ok(Self {
            received: vec![vec![0; state.gro_segments() * 1500]; BATCH_SIZE],
            socket: UdpSocket::from_std(socket)?,
            state,
            local,
            sending: Vec::new(),
        })
    }

    /// Waits until something arrives or a timer of the connection ends, and tells it of the latter.
    async fn wait(&self, connection: &mut Connection) -> io::Result<()> {
        let timeout = connection.timeout().unwrap_or(Duration::from_secs(60));
        match tokio::time::timeout(timeout, self.socket.readable()).await {
            Ok(ready) => ready,
            Err(_) => {
                connection.on_timeout();
                Ok(())
            }
        }
    }

    /// Takes the datagrams that are there.
    fn receive(&mut self, mut take: impl FnMut(&mut [u8], SocketAddr)) -> io::Result<()> {
        let mut metas = [RecvMeta::default(); BATCH_SIZE];
        loop {
            let mut buffers: Vec<IoSliceMut> = self
                .received
                .iter_mut()
                .map(|buffer| IoSliceMut::new(buffer))
                .collect();
            let socket = &self.socket;
            let count = socket.try_io(Interest::READABLE, || {
                self.state
                    .recv(UdpSockRef::from(socket), &mut buffers, &mut metas)
            });
            let count = match count {
                Ok(count) => count,
                Err(nothing) if nothing.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(failure) => return Err(failure),
            };
            for (buffer, meta) in self.received.iter_mut().zip(&metas).take(count) {
                for datagram in buffer[..meta.len].chunks_mut(meta.stride.max(1)) {
                    take(datagram, meta.addr);
                }
            }
        }
    }

    /// Sends all that the connection has to send, in batches of equal datagrams.
    async fn send_all(&mut self, connection: &mut Connection) -> Result<(), Failure> {
        let most = self.state.max_gso_segments();
        loop {
            self.sending.resize(most * 1452, 0);
            let (mut length, mut segment, mut target) = (0, 0, None);
            for _ in 0..most {
                let (size, info) = match connection.send(&mut self.sending[length..]) {
                    Ok(sent) => sent,
                    Err(quiche::Error::Done) => break,
                    Err(failure) => return Err(failure.into()),
                };
                length += size;
                target = Some(info.to);
                if segment == 0 {
                    segment = size;
                }
                // A batch ends with the first that is shorter.
                if size < connection.max_send_udp_payload_size() {
                    break;
                }
            }
            let Some(destination) = target else {
                return Ok(());
            };
            self.send(destination, segment, length).await?;
        }
    }

    async fn send(&self, destination: SocketAddr, segment: usize, length: usize) -> io::Result<()> {
        let transmit = Transmit {
            destination,
            ecn: None,
            contents: &self.sending[..length],
            segment_size: (length > segment).then_some(segment),
            src_ip: None,
        };
        loop {
            self.socket.writable().await?;
            let sent = self.socket.try_io(Interest::WRITABLE, || {
                self.state.send(UdpSockRef::from(&self.socket), &transmit)
            });
            match sent {
                Err(full) if full.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
        }
    }
}

/// A name for a connection that nobody else chooses.
fn connection_id() -> ConnectionId<'static> {
    ConnectionId::from_vec(rand::random::<[u8; 16]>().to_vec())
}
