//! What quinn and noq share: noq began as quinn, and most of its interface is the same to the letter.

/// Writes `$stack`, with `serve` and `exchange` on the types of the crate `$quic`.
macro_rules! streams {
    ($quic:ident, $stack:ident, $name:literal) => {
        use crate::stack::{
            DATAGRAM, DATAGRAMS, DATAGRAMS_BACK, Failure, Feature, Identity, LOOPBACK, Order,
            Pattern, Request, SERVER_NAME, Serving, Stack, WINDOW, on_thread, runtime,
        };
        use ::$quic::crypto::rustls::{QuicClientConfig, QuicServerConfig};
        use ::$quic::{
            ClientConfig, Connection, Endpoint, RecvStream, SendStream, ServerConfig,
            TransportConfig, VarInt,
        };
        use std::net::SocketAddr;
        use std::sync::Arc;
        use std::time::Duration;

        /// The stack as crates.io has it.
        pub(crate) struct $stack;

        impl Stack for $stack {
            fn name(&self) -> String {
                $name.into()
            }

            fn serve(&self, identity: &Identity, serving: Serving) -> Result<SocketAddr, Failure> {
                let tls = QuicServerConfig::try_from(identity.server()?)?;
                let mut config = ServerConfig::with_crypto(Arc::new(tls));
                config.transport_config(Arc::new(transport()));
                let bind = || Ok(Endpoint::server(config, LOOPBACK)?);
                spawn_server(serving, bind, |_| ())
            }

            fn exchange(
                &self,
                server: SocketAddr,
                identity: &Identity,
                order: Order,
            ) -> Result<(), Failure> {
                let tls = QuicClientConfig::try_from(identity.client()?)?;
                let mut config = ClientConfig::new(Arc::new(tls));
                config.transport_config(Arc::new(transport()));
                runtime()?.block_on(async {
                    let endpoint = Endpoint::client(LOOPBACK)?;
                    exchange(&endpoint, config, server, order, |_| ()).await
                })
            }
        }

        fn transport() -> TransportConfig {
            let mut config = TransportConfig::default();
            config
                .stream_receive_window(VarInt::from_u32(WINDOW))
                .receive_window(VarInt::from_u32(WINDOW))
                .send_window(WINDOW.into());
            config
        }

        /// Makes an endpoint and serves on a thread of its own, as long as the process lives. `watch`
        /// is shown every connection.
        fn spawn_server(
            serving: Serving,
            bind: impl FnOnce() -> Result<Endpoint, Failure> + Send + 'static,
            watch: impl Fn(&Connection) + Copy + Send + 'static,
        ) -> Result<SocketAddr, Failure> {
            on_thread(move || async move {
                let endpoint = bind()?;
                let address = endpoint.local_addr()?;
                Ok((address, serve(endpoint, serving, watch)))
            })
        }

        /// Serves every connection until the endpoint is closed.
        async fn serve(
            endpoint: Endpoint,
            serving: Serving,
            watch: impl Fn(&Connection) + Copy + Send + 'static,
        ) {
            while let Some(incoming) = endpoint.accept().await {
                if serving.retry && !incoming.remote_address_validated() {
                    let _ = incoming.retry();
                    continue;
                }
                tokio::spawn(async move {
                    // The peer that asked sees that there is no answer.
                    let Ok(connecting) = incoming.accept() else {
                        return;
                    };
                    // At once: a request may come in 0-RTT packets.
                    let connection = match connecting.into_0rtt() {
                        Ok((connection, _)) => connection,
                        Err(connecting) => match connecting.await {
                            Ok(connection) => connection,
                            Err(_) => return,
                        },
                    };
                    watch(&connection);
                    tokio::spawn(send_back(connection.clone()));
                    while let Ok((send, receive)) = connection.accept_bi().await {
                        tokio::spawn(answer(connection.clone(), send, receive, serving));
                    }
                });
            }
        }

        async fn send_back(connection: Connection) {
            while let Ok(datagram) = connection.read_datagram().await {
                if connection.send_datagram(datagram).is_err() {
                    return;
                }
            }
        }

        async fn answer(
            connection: Connection,
            mut send: SendStream,
            mut receive: RecvStream,
            serving: Serving,
        ) -> Result<(), Failure> {
            let pattern = Pattern::new();
            let mut request = Request::default();
            if serving.key_update {
                connection.force_key_update();
            }
            while let Some(bytes) = next(&mut receive).await? {
                request.read(&pattern, &bytes)?;
            }
            write(&mut send, &pattern, request.wanted()?).await?;
            send.finish()?;
            Ok(())
        }

        async fn write(
            send: &mut SendStream,
            pattern: &Pattern,
            length: u64,
        ) -> Result<(), Failure> {
            let mut sent = 0;
            while sent < length {
                let piece = pattern.piece(sent, length);
                send.write_all(piece).await?;
                sent += piece.len() as u64;
            }
            Ok(())
        }

        async fn exchange(
            endpoint: &Endpoint,
            config: ClientConfig,
            server: SocketAddr,
            order: Order,
            watch: impl Fn(&Connection),
        ) -> Result<(), Failure> {
            let connect = || endpoint.connect_with(config.clone(), server, SERVER_NAME);
            let connection = connect()?.await?;
            watch(&connection);
            let connection = match order.feature {
                Feature::EarlyData => {
                    transfer(&connection, Order::FIRST).await?;
                    connection.close(0_u32.into(), b"");
                    let Ok((connection, accepted)) = connect()?.into_0rtt() else {
                        return Err("no ticket for 0-RTT".into());
                    };
                    transfer(&connection, order).await?;
                    if !accepted.await {
                        return Err("0-RTT was refused".into());
                    }
                    connection
                }
                Feature::Datagrams => {
                    for _ in 0..DATAGRAMS {
                        connection.send_datagram(vec![7; DATAGRAM].into())?;
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                    for _ in 0..DATAGRAMS_BACK {
                        let back = connection.read_datagram().await?;
                        if back != vec![7; DATAGRAM] {
                            return Err("a datagram came back changed".into());
                        }
                    }
                    connection
                }
                _ => {
                    transfer(&connection, order).await?;
                    connection
                }
            };
            connection.close(0_u32.into(), b"");
            endpoint.wait_idle().await;
            Ok(())
        }

        async fn transfer(connection: &Connection, order: Order) -> Result<(), Failure> {
            let pattern = Pattern::new();
            let (mut send, mut receive) = connection.open_bi().await?;
            let sending = async {
                send.write_all(&order.down.to_be_bytes()).await?;
                if order.feature == Feature::KeyUpdate {
                    connection.force_key_update();
                }
                write(&mut send, &pattern, order.up).await?;
                send.finish()?;
                Ok::<_, Failure>(())
            };
            let receiving = async {
                let mut received = 0;
                while let Some(bytes) = next(&mut receive).await? {
                    pattern.check(received, &bytes)?;
                    received += bytes.len() as u64;
                }
                Ok::<_, Failure>(received)
            };
            let ((), received) = tokio::try_join!(sending, receiving)?;
            order.check(received)
        }
    };
}

pub(super) use streams;
