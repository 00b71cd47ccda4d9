//! Contexts live as long as their connections, whatever becomes of these.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel::Context;
use quinn::TransportConfig;

use super::support::{
    Host, Net, client_tls, flood, identity, server_tls, sink, stock_client, stock_server,
};

/// Two evenkeel endpoints with configurations of their own, so that each counts its own.
struct Pair {
    net: Net,
    client_side: evenkeel::EndpointBuilder,
    server_side: evenkeel::EndpointBuilder,
    client: quinn::Endpoint,
    server: quinn::Endpoint,
    connections: Arc<Mutex<Vec<quinn::Connection>>>,
}

impl Pair {
    fn new(server_name_known: bool) -> Self {
        let mut net = Net::new(10_000_000, 5.0);
        let (client_side, server_side) = (
            evenkeel::EndpointBuilder::new(),
            evenkeel::EndpointBuilder::new(),
        );
        let identity_of_server = identity();
        let controller = evenkeel::controller("reno").expect("a name of the table");
        let transport = |side: &evenkeel::EndpointBuilder| {
            let mut config = TransportConfig::default();
            config.max_idle_timeout(Some(Duration::from_secs(5).try_into().expect("short")));
            side.transport(config, controller.clone())
        };
        let server_config = stock_server(server_tls(&identity_of_server), transport(&server_side));
        let socket = net.socket(Host::Receiver);
        let server = server_side
            .bind_abstract(
                net.endpoint_config(),
                Some(server_config),
                socket,
                net.runtime(),
            )
            .expect("a bound socket");
        let trusted = if server_name_known {
            identity_of_server
        } else {
            identity()
        };
        let socket = net.socket(Host::Sender);
        let mut client = client_side
            .bind_abstract(net.endpoint_config(), None, socket, net.runtime())
            .expect("a bound socket");
        client
            .set_default_client_config(stock_client(client_tls(&trusted), transport(&client_side)));
        net.spawn(sink(server.clone(), net.runtime()));
        Self {
            net,
            client_side,
            server_side,
            client,
            server,
            connections: Arc::default(),
        }
    }

    /// Connects `count` times and sends until the connections end.
    fn flood(&self, count: usize) {
        let address = self.server.local_addr().expect("it is bound");
        for _ in 0..count {
            let connecting = self
                .client
                .connect(address, "localhost")
                .expect("a right configuration");
            let connections = self.connections.clone();
            self.net.spawn(async move {
                if let Ok(connection) = connecting.await {
                    connections
                        .lock()
                        .expect("no test panics in here")
                        .push(connection.clone());
                    flood(connection).await;
                }
            });
        }
    }

    fn close_all(&self) {
        for connection in
            std::mem::take(&mut *self.connections.lock().expect("no test panics in here"))
        {
            connection.close(0_u32.into(), b"done");
        }
    }

    fn contexts(&self) -> (usize, usize) {
        (
            self.client_side.context_count(),
            self.server_side.context_count(),
        )
    }
}

#[test]
fn contexts_end_with_their_connections() {
    let mut pair = Pair::new(true);
    for _ in 0..3 {
        pair.flood(7);
        pair.net.run_for(Duration::from_secs(2));
        assert_eq!(pair.contexts(), (7, 7));
        pair.close_all();
        pair.net.run_for(Duration::from_secs(20));
        assert_eq!(pair.contexts(), (0, 0));
    }
}

#[test]
fn a_handshake_that_fails_leaves_nothing() {
    let mut pair = Pair::new(false);
    pair.flood(5);
    pair.net.run_for(Duration::from_secs(30));
    assert_eq!(pair.contexts(), (0, 0));
}

#[test]
fn an_application_that_keeps_a_context_keeps_it_alone() {
    let mut pair = Pair::new(true);
    let address = pair.server.local_addr().expect("it is bound");
    let connecting = pair
        .client
        .connect(address, "localhost")
        .expect("a right configuration");
    let (done, kept) = std::sync::mpsc::channel();
    pair.net.spawn(async move {
        let connection = connecting.await.expect("a path without loss");
        let context = Context::of(&connection).expect("an evenkeel configuration");
        done.send(context).expect("the test waits");
    });
    pair.net.run_for(Duration::from_secs(30));
    let context = kept.try_recv().expect("it connected");
    assert_eq!(pair.contexts(), (1, 0), "the connection is gone");
    assert!(context.state().smoothed_rtt.is_some());
    drop(context);
    assert_eq!(pair.contexts(), (0, 0));
}

#[test]
fn rebinding_and_migration_keep_contexts_and_their_pacing() {
    let mut pair = Pair::new(true);
    pair.flood(1);
    pair.net.run_for(Duration::from_secs(2));
    // Another port, then another address: quinn clones the controller, then builds another.
    for host in [Host::Sender, Host::Router, Host::Sender] {
        let socket = pair.net.socket(host);
        pair.client
            .rebind_abstract(
                pair.client_side
                    .wrap_socket(socket.clone(), pair.net.runtime()),
            )
            .expect("a bound socket");
        pair.net.run_for(Duration::from_secs(1));
        socket.take();
        pair.net.run_for(Duration::from_secs(2));
        let left = socket.take();
        assert!(left.len() > 1000, "{host:?}: {} packets", left.len());
        for three in left.windows(3) {
            assert!(three[2].at - three[0].at >= Duration::from_micros(50));
        }
        assert_eq!(pair.contexts(), (1, 1));
    }
    pair.close_all();
    pair.net.run_for(Duration::from_secs(20));
    assert_eq!(pair.contexts(), (0, 0));
}
