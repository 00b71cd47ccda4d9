//! The applications' servers, and clients that only hold a place.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use evenkeel_apps::AppError;
use evenkeel_apps::bulk::{
    self, Amount, Direction, Host as BulkHost, Job, Limits, Local, OnOff, Outcome, Pings,
    ServeOptions, Source,
};
use quinn::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use quinn::{Connection, Endpoint, Runtime};

use super::pair::{plain, seconds};
use super::support::{
    Host, Net, Recorder, client_tls, identity, server_tls, stock_client, stock_server,
};

/// A bulk server, 40 ms away from its clients.
struct Served {
    net: Net,
    identity: (CertificateDer<'static>, PrivateKeyDer<'static>),
    server: Endpoint,
    socket: Arc<Recorder>,
    results: Arc<Results>,
}

/// How transfers ended, and when.
#[derive(Default)]
struct Results(Mutex<Vec<Result<(), String>>>);

impl BulkHost for Results {
    fn open<'a>(
        &'a self,
        _: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<Source, String>> + Send + 'a>> {
        Box::pin(async { Err("no files".into()) })
    }

    fn ended(&self, _: &Connection, result: &Result<Outcome, AppError>) {
        let result = result.as_ref().map(|_| ()).map_err(ToString::to_string);
        self.0.lock().unwrap().push(result);
    }
}

impl Served {
    fn new(connections: usize) -> Self {
        let mut net = Net::new(10_000_000, 10.0);
        let identity = identity();
        let socket = net.socket(Host::Receiver);
        let server = Endpoint::new_with_abstract_socket(
            net.endpoint_config(),
            Some(stock_server(server_tls(&identity), plain())),
            socket.clone(),
            net.runtime(),
        )
        .unwrap();
        let results = Arc::<Results>::default();
        let options = ServeOptions {
            host: results.clone(),
            limits: Limits {
                connections,
                ..Limits::default()
            },
            ..ServeOptions::default()
        };
        let runtime = net.runtime();
        net.spawn(bulk::serve(
            server.clone(),
            runtime,
            options,
            Arc::default(),
        ));
        Self {
            net,
            identity,
            server,
            socket,
            results,
        }
    }

    fn client(&mut self) -> (Endpoint, Arc<Recorder>) {
        let socket = self.net.socket(Host::Sender);
        let mut client = Endpoint::new_with_abstract_socket(
            self.net.endpoint_config(),
            None,
            socket.clone(),
            self.net.runtime(),
        )
        .unwrap();
        client.set_default_client_config(stock_client(client_tls(&self.identity), plain()));
        (client, socket)
    }

    fn connecting(&self, client: &Endpoint) -> quinn::Connecting {
        let address = self.server.local_addr().unwrap();
        client.connect(address, "localhost").unwrap()
    }

    /// Connects, and returns how long that took.
    fn connect(&mut self) -> Duration {
        let (client, _) = self.client();
        let (connecting, runtime) = (self.connecting(&client), self.net.runtime());
        let (start, end) = (runtime.now(), Arc::<Mutex<Option<Instant>>>::default());
        let at = end.clone();
        self.net.spawn(async move {
            let connection = connecting.await.unwrap();
            *at.lock().unwrap() = Some(runtime.now());
            connection.close(0u32.into(), b"");
        });
        self.net.run_for(seconds(1));
        let end = end.lock().unwrap().expect("it is served");
        end.duration_since(start)
    }

    /// Does this to a connection of a client.
    fn with<F: Future<Output = ()> + Send>(
        &mut self,
        client: impl FnOnce(Connection, Arc<dyn Runtime>) -> F + Send + 'static,
    ) {
        let (endpoint, _) = self.client();
        let (connecting, runtime) = (self.connecting(&endpoint), self.net.runtime());
        self.net
            .spawn(async move { client(connecting.await.unwrap(), runtime).await });
    }

    fn results(&self) -> Vec<Result<(), String>> {
        self.results.0.lock().unwrap().clone()
    }
}

#[test]
fn handshakes_that_never_finish_lock_nobody_out_and_are_over_after_10_s() {
    let mut served = Served::new(1);
    let (attacker, socket) = served.client();
    // Only first packets get through: those with the 20 bytes that a client chooses.
    socket.interfere(|datagram| match datagram[5] {
        20 => vec![datagram.to_vec()],
        _ => Vec::new(),
    });
    let mut unfinished = Vec::new();
    for _ in 0..10 {
        unfinished.extend((0..20).map(|_| served.connecting(&attacker)));
        served.net.run_for(Duration::from_millis(100));
    }
    // A round trip of 40 ms, and another to prove the address.
    let with_retry = served.connect();
    assert!(
        (80..120).contains(&with_retry.as_millis()),
        "{with_retry:?}"
    );
    served.net.run_for(seconds(9));
    let without = served.connect();
    assert!((40..80).contains(&without.as_millis()), "{without:?}");
    drop(unfinished);
}

/// Bytes of a client's first packet.
const INITIAL: usize = 1200;

/// quinn-proto 0.11.19 begins a datagram while one byte is left of what an address may be sent
/// before it is validated (RFC 9000, section 8.1), so the last one exceeds that.
#[test]
fn an_address_that_is_not_proved_gets_less_than_a_packet_more_than_three_times_what_it_sent() {
    let mut served = Served::new(1);
    let (attacker, socket) = served.client();
    let mut first = true;
    socket.interfere(move |datagram| match std::mem::take(&mut first) {
        true => vec![datagram.to_vec()],
        false => Vec::new(),
    });
    let unfinished = served.connecting(&attacker);
    served.net.run_for(seconds(10));
    assert_eq!(socket.take()[0].bytes, INITIAL);
    let sent: usize = served.socket.take().iter().map(|left| left.bytes).sum();
    // The second bound is quinn's; with the first it would keep the RFC.
    assert!(3 * INITIAL < sent && sent < 4 * INITIAL, "{sent}");
    drop(unfinished);
}

#[test]
fn an_address_that_is_asked_to_prove_itself_gets_less_than_it_sent() {
    let mut served = Served::new(1);
    let (attacker, socket) = served.client();
    socket.interfere(|datagram| match datagram[5] {
        20 => vec![datagram.to_vec()],
        _ => Vec::new(),
    });
    // As many as fit into the queue of the path; none is sent again before a second is over.
    let mut unfinished = Vec::new();
    let mut some = |served: &mut Served| {
        unfinished.extend((0..20).map(|_| served.connecting(&attacker)));
        served.net.run_for(Duration::from_millis(80));
    };
    (0..4).for_each(|_| some(&mut served));
    // Long headers of type 3 (RFC 9000, section 17.2.5).
    let retries = Arc::<Mutex<Vec<usize>>>::default();
    let seen = retries.clone();
    served.socket.interfere(move |datagram| {
        if datagram[0] >> 4 == 0xf {
            seen.lock().unwrap().push(datagram.len());
        }
        vec![datagram.to_vec()]
    });
    (0..5).for_each(|_| some(&mut served));
    let retries = retries.lock().unwrap();
    assert_eq!(retries.len(), 100);
    assert!(
        retries.iter().all(|bytes| *bytes < INITIAL / 5),
        "{retries:?}"
    );
}

#[test]
fn pings_tell_the_delay_of_the_path_and_that_of_the_queue_which_a_transfer_fills() {
    let mut served = Served::new(1);
    let pings = Arc::<Pings>::default();
    let measured = pings.clone();
    served.with(async move |connection, runtime| {
        measured.idle(&connection, &*runtime).await;
        let (beside, clock) = (connection.clone(), runtime.clone());
        runtime.spawn(Box::pin(async move {
            measured.loaded(&beside, &*clock, seconds(2)).await;
        }));
        let job = Job::new(Direction::Up, Amount::Duration(seconds(10)));
        let done = bulk::client(connection, runtime, job, Local::default(), Arc::default());
        done.await.unwrap();
    });
    served.net.run_for(seconds(15));
    assert_eq!(served.results(), [Ok(())]);
    let report = pings.report().unwrap();
    let (idle, loaded) = (report.idle_ms.unwrap(), report.loaded_ms.unwrap());
    assert_eq!(idle.samples, 20);
    assert!(40.0 <= idle.p50 && idle.p95 < 45.0, "{idle:?}");
    // Eight seconds of them. 50 packets of 1500 bytes take 60 ms, and CUBIC fills the queue.
    assert!((150..=175).contains(&loaded.samples), "{report:?}");
    assert!(55.0 < loaded.p50 && loaded.p99 < 110.0, "{loaded:?}");
}

#[test]
fn a_client_that_sends_a_byte_every_nine_seconds_is_given_up_after_minutes() {
    let mut served = Served::new(1);
    served.with(async |connection, runtime| {
        let (mut send, _recv) = connection.open_bi().await.unwrap();
        let job = concat!(
            r#"{"direction":"up","amount":{"bytes":1000000},"#,
            r#""streams":1,"omit_us":0,"verify":null}"#
        );
        let length = u16::try_from(job.len()).unwrap().to_be_bytes();
        send.write_all(&length).await.unwrap();
        send.write_all(job.as_bytes()).await.unwrap();
        let mut data = connection.open_uni().await.unwrap();
        data.write_all(&[0, 0]).await.unwrap();
        while data.write_all(b"x").await.is_ok() {
            let mut timer = runtime.new_timer(runtime.now() + seconds(9));
            poll_fn(|context| timer.as_mut().poll(context)).await;
        }
    });
    served.net.run_for(seconds(290));
    assert_eq!(served.results(), []);
    served.net.run_for(seconds(30));
    let results = served.results();
    let error = results[0].as_ref().unwrap_err();
    assert!(error.contains("too slow: less than 5000 bytes"), "{error}");
    served.connect();
}

#[test]
fn the_slowest_paced_clients_are_not_too_slow() {
    let mut served = Served::new(8);
    let patterns = [
        (Some(1000), None),
        (None, Some(OnOff(Duration::from_millis(1), seconds(20)))),
        (Some(1000), Some(OnOff(seconds(20), seconds(20)))),
    ];
    for (rate_bps, on_off) in patterns {
        for direction in [Direction::Up, Direction::Down] {
            let mut job = Job::new(direction, Amount::Duration(seconds(900)));
            job.rate_bps = rate_bps;
            job.on_off = on_off;
            served.with(async move |connection, runtime| {
                let local = Local::default();
                let done = bulk::client(connection, runtime, job, local, Arc::default());
                done.await.unwrap();
            });
        }
    }
    served.net.run_for(seconds(950));
    assert_eq!(served.results(), vec![Ok(()); 6]);
}
