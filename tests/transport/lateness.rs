//! Frames that come late or not at all, for each reason there is, in virtual time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel::{Context, SharedFactory};
use evenkeel_apps::bulk::TransportSettings;
use evenkeel_apps::stream::{
    self, AccessUnit, AdaptConfig, Cause, Clock, Delivery, EncoderConfig, Host as Owner, Live,
    Media, SendOptions, Sending, ServeOptions, SyntheticTrack, Track, TrackReport, ViewOptions,
    ViewReport, Viewing,
};
use quinn::{Connection, Runtime, TransportConfig, VarInt};

use super::pair::seconds;
use super::support::{Host, Net, client_tls, constant, flood, identity, server_tls, sink};

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
    media: Media,
    /// Bytes that somebody else keeps on the way from 4 s on.
    others: Option<u64>,
    /// How long after its capture a picture is shown, instead of the buffer.
    latency: Option<Duration>,
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
            media: Media::Synthetic(EncoderConfig::default()),
            others: None,
            latency: None,
        }
    }

    fn report(mut self) -> ViewReport {
        let (runtime, identity) = (self.net.runtime(), identity());
        let evenkeel = evenkeel::EndpointBuilder::new()
            .path_headers(1)
            .hop_limit(64);
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
                evenkeel.transport(std::mem::take(&mut self.viewer), self.controller.clone()),
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
                media: self.media.clone(),
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
        let viewing = (self.latency).map_or_else(Viewing::default, Viewing::with_latency);
        let viewing = Arc::new(viewing);
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
        if let Some(window) = self.others {
            self.net.run_for(seconds(2));
            self.disturb(window);
        }
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

    /// Somebody else keeps `window` bytes on the way.
    fn disturb(&mut self, window: u64) {
        let (runtime, identity) = (self.net.runtime(), identity());
        let evenkeel = evenkeel::EndpointBuilder::new();
        let transport =
            || evenkeel.transport(TransportConfig::default(), constant(u64::MAX, window));
        let (config, socket) = (self.net.endpoint_config(), self.net.socket(Host::Receiver));
        let server = evenkeel.server_config(server_tls(&identity), transport());
        let server = evenkeel
            .bind_abstract(
                config,
                Some(server.expect("it is right")),
                socket,
                runtime.clone(),
            )
            .expect("a bound socket");
        let address = server.local_addr().expect("it is bound");
        self.net.spawn(sink(server, runtime.clone()));
        let (config, socket) = (self.net.endpoint_config(), self.net.socket(Host::Sender));
        let mut client = evenkeel
            .bind_abstract(config, None, socket, runtime)
            .expect("a bound socket");
        let config = evenkeel.client_config(client_tls(&identity), transport());
        client.set_default_client_config(config.expect("it is right"));
        self.net.spawn(async move {
            let connecting = client
                .connect(address, "localhost")
                .expect("a right configuration");
            flood(connecting.await.expect("a path")).await;
        });
    }

    /// Asserts that one cause is that of most frames that were late or lost.
    fn blames(self, what: &str, cause: Cause) -> ViewReport {
        let report = self.report();
        let (frames, causes) = (report.frames, report.causes);
        println!("{what}: {causes:?} of {frames:?}");
        let late = frames.late + frames.skipped + frames.dropped + frames.lost;
        assert!(late >= 5, "{what}: {frames:?}");
        assert_eq!(causes.total(), late, "{what}: {causes:?}, {frames:?}");
        assert!(2 * causes.of(cause) > late, "{what}: {causes:?}");
        report
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

/// Live pictures of `bytes` each, 25 a second in groups of a second. Those of every third second are
/// whole `late` after their capture.
fn encoded(net: &Net, bytes: usize, late: Duration) -> Media {
    let live = Arc::new(Live::new(25.0));
    let (media, runtime) = (Media::Live(live.clone()), net.runtime());
    net.spawn(async move {
        for number in 0..800 {
            let captured = runtime.epoch() + Duration::from_millis(40) * number;
            let is_slow = number / 25 % 3 == 2;
            let whole = captured + if is_slow { late } else { Duration::ZERO };
            runtime.sleep_until(whole).await;
            let picture = AccessUnit {
                track: Track::VIDEO,
                bytes: vec![0; bytes].into(),
                entry: (number % 25 == 0).then_some(0),
                parameters: Vec::new().into(),
                time: None,
            };
            live.push(captured, picture);
        }
    });
    media
}

#[test]
fn an_encoder_that_takes_long_is_the_cause_of_late_frames() {
    let mut watch = Watch::new(Net::new(10_000_000, 10.0), keel());
    watch.media = encoded(&watch.net, 4_000, Duration::from_millis(300));
    watch.latency = Some(Duration::from_millis(250));
    watch.blames("encoder", Cause::Encoder);
}

#[test]
fn a_link_too_small_for_what_is_captured_is_the_cause() {
    let mut watch = Watch::new(Net::new(2_000_000, 10.0), keel());
    watch.adapt = AdaptConfig {
        ceiling_bps: 3_000_000,
        fixed: true,
        ..AdaptConfig::default()
    };
    watch.blames("link, keel", Cause::OwnQueue);
    // The queue is in the network: it sends whatever it has.
    let deep = Net::with(2_000_000, 10.0, 1500, |link| link.queue_packets(2_000));
    let mut watch = Watch::new(deep, constant(u64::MAX, 10_000_000));
    watch.adapt = AdaptConfig {
        ceiling_bps: 2_200_000,
        fixed: true,
        ..AdaptConfig::default()
    };
    watch.blames("link, no control", Cause::OwnQueue);
}

#[test]
fn a_window_that_closes_on_captured_frames_is_the_cause() {
    let mut watch = Watch::new(Net::new(10_000_000, 10.0), constant(u64::MAX, 60_000));
    // One packet in 40 ms.
    watch.every_third_second = Some(constant(u64::MAX, 1_200));
    watch.blames("window", Cause::Window);
}

#[test]
fn a_viewer_that_takes_too_little_at_a_time_is_the_cause() {
    let mut watch = Watch::new(Net::new(10_000_000, 50.0), constant(u64::MAX, 1_000_000));
    watch.viewer.receive_window(VarInt::from_u32(20_000));
    watch.blames("flow control", Cause::Viewer);
}

/// A stream of 500 kb/s over 4 Mb/s, of which somebody else takes all he gets, with a queue of up to
/// 0.6 s.
fn beside_another(stamps: &[&str]) -> Watch {
    let net = Net::stamping(4_000_000, 10.0, 1500, stamps, |link| {
        link.queue_packets(2_000)
    });
    let mut watch = Watch::new(net, constant(u64::MAX, 1_000_000));
    watch.adapt = AdaptConfig::fixed(500_000);
    watch.latency = Some(Duration::from_millis(200));
    watch.others = Some(300_000);
    watch
}

#[test]
fn a_queue_that_others_fill_is_the_cause() {
    beside_another(&[]).blames("others", Cause::OthersQueue);
}

#[test]
fn a_hop_that_reports_its_queue_is_the_cause() {
    beside_another(&["aqt"]).blames("hop", Cause::Hop);
}

#[test]
fn lost_packets_are_the_cause_however_frames_are_sent() {
    for delivery in [Delivery::Frames, Delivery::Groups] {
        let mut watch = Watch::new(Net::new(10_000_000, 50.0), constant(u64::MAX, 1_000_000));
        watch.delivery = delivery;
        watch.loses = Some(70);
        watch.blames(&format!("loss, {delivery:?}"), Cause::Loss);
    }
}

#[test]
fn of_a_source_larger_than_the_link_what_is_sent_comes_within_the_fixed_delay() {
    // 8 Mb/s over 5 Mb/s. Frames that go out a second late are of no use to this viewer.
    let mut watch = Watch::new(Net::new(5_000_000, 10.0), keel());
    watch.media = encoded(&watch.net, 40_000, Duration::ZERO);
    watch.latency = Some(Duration::from_millis(250));
    let report = watch.blames("source, keel", Cause::OwnQueue);
    let frames = report.frames;
    let captured = frames.received + frames.lost;
    let whole = frames.on_time - frames.damaged;
    // Of each group at most a third: it is 250 ms late by then.
    assert!(6 * whole > captured, "{whole} of {captured}: {frames:?}");
    assert!(frames.dropped < frames.on_time, "{frames:?}");
}

#[test]
fn sound_never_waits_for_pictures() {
    // Pictures of 3 Mb/s where 1.8 Mb/s leave, so that all that waits is in the sender.
    let mut watch = Watch::new(Net::new(2_000_000, 10.0), constant(230_000, 1_000_000));
    let specs = ["sound:bytes=80,rate=50", "video:bytes=12500,rate=30"];
    let tracks = SyntheticTrack::all(specs).expect("they are right");
    watch.adapt = AdaptConfig::fixed(SyntheticTrack::total_bps(&tracks));
    watch.media = Media::Tracks(tracks.into());
    let report = watch.report();
    let [sound, pictures] = &report.tracks[..] else {
        panic!("{:?}", report.tracks)
    };
    let most_ms = |track: &TrackReport| track.queueing_ms.expect("frames came").max;
    println!(
        "sound {:.1} ms, pictures {:.1} ms",
        most_ms(sound),
        most_ms(pictures)
    );
    assert!(
        sound.frames.received > 600 && sound.frames.lost == 0,
        "{:?}",
        sound.frames
    );
    assert!(most_ms(sound) < 30.0, "{} ms", most_ms(sound));
    assert!(most_ms(pictures) > 500.0, "{} ms", most_ms(pictures));
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
