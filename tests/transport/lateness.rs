//! Frames that come late or not at all, for each reason there is, in virtual time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel::{Context, SharedFactory};
use evenkeel_apps::bulk::TransportSettings;
use evenkeel_apps::stream::{
    self, AdaptConfig, Causes, Clock, Delivery, EncoderConfig, Host as Owner, Media, SendOptions,
    Sending, ServeOptions, ViewOptions, ViewReport, Viewing,
};
use quinn::{Connection, Runtime, TransportConfig, VarInt};

use super::pair::seconds;
use super::support::{Host, Net, client_tls, constant, identity, server_tls};

/// A stream over `net`, 20 s of it.
struct Watch {
    net: Net,
    controller: SharedFactory,
    adapt: AdaptConfig,
    delivery: Delivery,
    /// The viewer's settings.
    viewer: TransportConfig,
    /// From 2 s on the network loses one in this many of the server's packets.
    loses: Option<u32>,
    /// The controller of the third second of every three.
    every_third_second: Option<SharedFactory>,
}

impl Watch {
    fn new(net: Net, controller: SharedFactory) -> Self {
        Self {
            net,
            controller,
            adapt: AdaptConfig {
                start_bps: 2_000_000,
                ..AdaptConfig::default()
            },
            delivery: Delivery::Frames,
            viewer: stream::transport_config(TransportSettings::default()),
            loses: None,
            every_third_second: None,
        }
    }

    fn report(mut self) -> ViewReport {
        let (runtime, identity) = (self.net.runtime(), identity());
        let evenkeel = evenkeel::EndpointBuilder::new();
        let settings = stream::transport_config(TransportSettings::default());
        let mut tls = server_tls(&identity);
        tls.alpn_protocols = vec![stream::ALPN.to_vec()];
        let server = evenkeel
            .server_config(tls, evenkeel.transport(settings, self.controller.clone()))
            .expect("a right configuration");
        let (config, wire) = (self.net.endpoint_config(), self.net.socket(Host::Sender));
        let server = evenkeel
            .bind_abstract(config, Some(server), wire.clone(), runtime.clone())
            .expect("a bound socket");
        let address = server.local_addr().expect("it is bound");
        let mut tls = client_tls(&identity);
        tls.alpn_protocols = vec![stream::ALPN.to_vec()];
        let client = evenkeel
            .client_config(
                tls,
                evenkeel.transport(self.viewer, self.controller.clone()),
            )
            .expect("a right configuration");
        let (config, socket) = (self.net.endpoint_config(), self.net.socket(Host::Receiver));
        let mut viewer = evenkeel
            .bind_abstract(config, None, socket, runtime.clone())
            .expect("a bound socket");
        viewer.set_default_client_config(client);
        let (clock, sender) = (
            Clock {
                at: runtime.epoch(),
                micros: 0,
                shared: true,
            },
            Arc::<Accepted>::default(),
        );
        self.net.spawn(stream::serve(
            server,
            runtime.clone(),
            ServeOptions {
                media: Media::Synthetic(EncoderConfig::default()),
                send: SendOptions {
                    delivery: self.delivery,
                    adapt: self.adapt,
                    ..SendOptions::default()
                },
                viewers: 1,
                patience: seconds(60),
                clock,
                host: sender.clone(),
            },
        ));
        let viewing = Arc::<Viewing>::default();
        let (seen, watching) = (viewing.clone(), runtime.clone());
        self.net.spawn(async move {
            let connecting = viewer.connect(address, "localhost");
            let connection = connecting.expect("a right configuration").await;
            let options = ViewOptions {
                began: watching.epoch(),
                clock,
                controller: None,
                buffer: Duration::from_millis(100),
                skip_damaged: false,
                reconnect: None,
                omit: Duration::ZERO,
                time: None,
                patience: seconds(60),
                output: None,
            };
            let _ = stream::view(connection.expect("a path"), watching, options, seen).await;
        });
        self.net.run_for(seconds(2));
        if let Some(one_in) = self.loses {
            let mut count = 0;
            wire.interfere(move |datagram| {
                count += 1;
                match count % one_in {
                    0 => Vec::new(),
                    _ => vec![datagram.to_vec()],
                }
            });
        }
        let connection = sender.0.lock().expect("no test panics in here").take();
        let context = Context::of(&connection.expect("a viewer")).expect("it is evenkeel's");
        for _ in 0..6 {
            if let Some(controller) = &self.every_third_second {
                context.switch_controller(controller.clone());
                self.net.run_for(seconds(1));
                context.switch_controller(self.controller.clone());
            }
            self.net.run_for(seconds(2));
        }
        viewing.report(runtime.now()).expect("frames came")
    }

    /// Asserts that most of the late frames are those of one cause.
    fn blames(self, what: &str, cause: impl Fn(Causes) -> u64) {
        let report = self.report();
        let (frames, causes) = (report.frames, report.causes);
        println!("{what}: {causes:?} of {frames:?}");
        let late = frames.late + frames.skipped;
        let counts = [
            causes.encoder,
            causes.window,
            causes.flow_control,
            causes.queue,
            causes.loss,
        ];
        assert!(late >= 5, "{what}: {frames:?}");
        assert_eq!(
            counts.iter().sum::<u64>(),
            late,
            "{what}: {causes:?}, {frames:?}"
        );
        assert!(2 * cause(causes) > late, "{what}: {causes:?}");
    }
}

/// Keeps the viewer's connection.
#[derive(Default)]
struct Accepted(Mutex<Option<Connection>>);

impl Owner for Accepted {
    fn accepted(&self, connection: &Connection) -> Arc<Sending> {
        *self.0.lock().expect("no test panics in here") = Some(connection.clone());
        Arc::default()
    }
}

fn keel() -> SharedFactory {
    evenkeel::controller("keel").expect("a name of the table")
}

#[test]
fn an_encoder_that_makes_more_than_it_is_told_is_the_cause_of_late_frames() {
    let mut watch = Watch::new(Net::new(2_000_000, 10.0), keel());
    watch.adapt = AdaptConfig {
        ceiling_bps: 3_000_000,
        fixed: true,
        ..AdaptConfig::default()
    };
    watch.blames("encoder", |causes| causes.encoder);
}

#[test]
fn a_window_that_closes_on_captured_frames_is_the_cause() {
    let mut watch = Watch::new(Net::new(10_000_000, 10.0), constant(u64::MAX, 60_000));
    // One packet in 40 ms.
    watch.every_third_second = Some(constant(u64::MAX, 1_200));
    watch.blames("window", |causes| causes.window);
}

#[test]
fn a_viewers_small_window_is_the_cause() {
    let mut watch = Watch::new(Net::new(10_000_000, 50.0), constant(u64::MAX, 1_000_000));
    watch.viewer.receive_window(VarInt::from_u32(20_000));
    watch.blames("flow control", |causes| causes.flow_control);
}

#[test]
fn a_queue_in_the_network_is_the_cause() {
    let deep = Net::with(2_000_000, 10.0, 1500, |link| link.queue_packets(2_000));
    // It sends whatever it has.
    let mut watch = Watch::new(deep, constant(u64::MAX, 10_000_000));
    watch.adapt = AdaptConfig {
        ceiling_bps: 2_200_000,
        fixed: true,
        ..AdaptConfig::default()
    };
    watch.blames("queue", |causes| causes.queue);
}

#[test]
fn lost_packets_are_the_cause_however_frames_are_sent() {
    for delivery in [Delivery::Frames, Delivery::Groups] {
        let mut watch = Watch::new(Net::new(10_000_000, 50.0), constant(u64::MAX, 1_000_000));
        watch.delivery = delivery;
        watch.loses = Some(70);
        watch.blames(&format!("loss, {delivery:?}"), |causes| causes.loss);
    }
}

#[test]
fn a_slow_link_gets_the_ends_of_groups_too() {
    let slow = Net::with(200_000, 25.0, 1500, |link| link.queue_packets(10));
    let vegas = evenkeel::controller("vegas").expect("a name of the table");
    let mut watch = Watch::new(slow, vegas);
    watch.adapt.start_bps = 150_000;
    let frames = watch.report().frames;
    println!("slow link: {frames:?}");
    assert!(frames.received > 300, "{frames:?}");
    // What waits in quinn cannot be given up frame by frame. With 16 KiB of it, which are more than
    // half a second, the end of each group was: one frame in ten here.
    assert!(20 * frames.lost < frames.received, "{frames:?}");
}
