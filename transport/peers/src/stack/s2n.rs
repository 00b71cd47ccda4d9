//! s2n-quic, on rustls.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use s2n_quic::client::Connect;
use s2n_quic::connection::{Connection, Handle};
use s2n_quic::provider::datagram::default::{DatagramError, Endpoint, Receiver, Sender};
use s2n_quic::provider::endpoint_limits;
use s2n_quic::provider::limits::Limits;
use s2n_quic::provider::tls::default as tls;
use s2n_quic::stream::BidirectionalStream;
use s2n_quic::{Client, Server};

use super::{
    ALPN, DATAGRAM, DATAGRAMS, DATAGRAMS_BACK, Failure, Feature, Identity, LOOPBACK, Order,
    Pattern, Request, SERVER_NAME, Serving, Stack, WINDOW, on_thread, runtime,
};

/// s2n-quic as crates.io has it.
pub(crate) struct S2n;

impl Stack for S2n {
    fn name(&self) -> String {
        "s2n-quic 1.91".into()
    }

    fn serve(&self, identity: &Identity, serving: Serving) -> Result<SocketAddr, Failure> {
        let (certificate, key) = identity.pem();
        let tls = tls::Server::builder()
            .with_certificate(certificate.as_str(), key.as_str())?
            .with_application_protocols([ALPN].into_iter())?
            .build()?;
        let mut most = endpoint_limits::Default::builder();
        if serving.retry {
            most = most.with_inflight_handshake_limit(0)?;
        }
        let most = most.build()?;
        on_thread(move || async move {
            let server = Server::builder()
                .with_tls(tls)?
                .with_io(LOOPBACK)?
                .with_endpoint_limits(most)?
                .with_limits(limits()?)?
                .with_datagram(datagrams()?)?
                .start()?;
            Ok((server.local_addr()?, serve(server)))
        })
    }

    fn exchange(
        &self,
        server: SocketAddr,
        identity: &Identity,
        order: Order,
    ) -> Result<(), Failure> {
        let (certificate, _) = identity.pem();
        let tls = tls::Client::builder()
            .with_certificate(certificate.as_str())?
            .with_application_protocols([ALPN].into_iter())?
            .build()?;
        runtime()?.block_on(async {
            let client = Client::builder()
                .with_tls(tls)?
                .with_io(LOOPBACK)?
                .with_limits(limits()?)?
                .with_datagram(datagrams()?)?
                .start()?;
            let connect = Connect::new(server).with_server_name(SERVER_NAME);
            let mut connection = client.connect(connect).await?;
            match order.feature {
                Feature::Datagrams => exchange_datagrams(&connection.handle()).await?,
                _ => transfer(&mut connection, order).await?,
            }
            connection.close(0_u32.into());
            // A connection that is closed at once informs nobody.
            let mut client = client;
            client.wait_idle().await?;
            Ok(())
        })
    }

    fn can(&self, feature: Feature) -> bool {
        feature != Feature::EarlyData
    }
}

fn limits() -> Result<Limits, Failure> {
    Ok(Limits::new()
        .with_data_window(WINDOW.into())?
        .with_bidirectional_local_data_window(WINDOW.into())?
        .with_bidirectional_remote_data_window(WINDOW.into())?)
}

fn datagrams() -> Result<Endpoint, Failure> {
    Ok(Endpoint::builder()
        .with_send_capacity(DATAGRAMS)?
        .with_recv_capacity(DATAGRAMS)?
        .build()?)
}

async fn serve(mut server: Server) {
    while let Some(connection) = server.accept().await {
        let (handle, mut acceptor) = connection.split();
        tokio::spawn(async move {
            while let Ok(datagram) = receive(&handle).await {
                if send(&handle, datagram).is_err() {
                    return;
                }
            }
        });
        tokio::spawn(async move {
            while let Ok(Some(stream)) = acceptor.accept_bidirectional_stream().await {
                tokio::spawn(answer(stream));
            }
        });
    }
}

async fn answer(mut stream: BidirectionalStream) -> Result<(), Failure> {
    let pattern = Pattern::new();
    let mut request = Request::default();
    while let Some(bytes) = stream.receive().await? {
        request.read(&pattern, &bytes)?;
    }
    let wanted = request.wanted()?;
    let mut sent = 0;
    while sent < wanted {
        let piece = pattern.piece(sent, wanted);
        stream.send(Bytes::copy_from_slice(piece)).await?;
        sent += piece.len() as u64;
    }
    stream.finish()?;
    Ok(())
}

async fn transfer(connection: &mut Connection, order: Order) -> Result<(), Failure> {
    let pattern = Pattern::new();
    let (mut receive, mut send) = connection.open_bidirectional_stream().await?.split();
    let sending = async {
        send.send(Bytes::copy_from_slice(&order.down.to_be_bytes()))
            .await?;
        let mut sent = 0;
        while sent < order.up {
            let piece = pattern.piece(sent, order.up);
            send.send(Bytes::copy_from_slice(piece)).await?;
            sent += piece.len() as u64;
        }
        send.finish()?;
        Ok::<_, Failure>(())
    };
    let receiving = async {
        let mut received = 0;
        while let Some(bytes) = receive.receive().await? {
            pattern.check(received, &bytes)?;
            received += bytes.len() as u64;
        }
        Ok::<_, Failure>(received)
    };
    let ((), received) = tokio::try_join!(sending, receiving)?;
    order.check(received)
}

async fn exchange_datagrams(connection: &Handle) -> Result<(), Failure> {
    for _ in 0..DATAGRAMS {
        send(connection, vec![7; DATAGRAM].into())?;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for _ in 0..DATAGRAMS_BACK {
        if receive(connection).await? != vec![7; DATAGRAM] {
            return Err("a datagram came back changed".into());
        }
    }
    Ok(())
}

fn send(connection: &Handle, datagram: Bytes) -> Result<(), Failure> {
    let sent = connection.datagram_mut(|sender: &mut Sender| sender.send_datagram(datagram))?;
    Ok(sent.map_err(refused)?)
}

async fn receive(connection: &Handle) -> Result<Bytes, Failure> {
    let received = poll_fn(|context| {
        let poll = |receiver: &mut Receiver| receiver.poll_recv_datagram(context);
        match connection.datagram_mut(poll) {
            Ok(poll) => poll.map_err(|error| refused(error).into()),
            Err(failure) => std::task::Poll::Ready(Err(failure.into())),
        }
    });
    received.await
}

fn refused(error: DatagramError) -> String {
    format!("{error:?}")
}
