//! Controllers that follow routers, on noq and on quinn: the same path, the same stamps.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_noq::{Observer, PathSample};

use super::ends::{Kind, Pair};
use super::support::Net;

const RATE_BPS: u64 = 10_000_000;
const WARMUP_S: f64 = 10.0;
const MEASURED_S: f64 = 30.0;
/// What IP and UDP add to a packet of 1200 bytes and its header.
const PACKET: f64 = 1200.0 + 32.0 + 28.0;

/// What a flow did after its warm-up.
#[derive(Debug, Clone, Copy)]
struct Figures {
    /// Bytes of the application, of what the link can carry.
    used: f64,
    /// Of the packets.
    lost: f64,
    /// Packets, as routers tell.
    queue: f64,
    /// Largest, as routers tell.
    longest: f64,
}

/// Hears the queueing times that routers report.
#[derive(Default)]
struct Reported(Mutex<Vec<Duration>>);

impl Observer for Reported {
    fn on_path(&self, sample: &PathSample) {
        let mut reported = self.0.lock().expect("no test panics in here");
        reported.extend(sample.forward_queueing);
    }
}

fn measure(client: Kind, server: Kind, spec: &str, stamps: &[&str]) -> Figures {
    let net = Net::stamping(RATE_BPS, 10.0, 1500, stamps, |link| link);
    let reported = Arc::<Reported>::default();
    let mut pair = Pair::on(net, client, server, spec, reported.clone());
    pair.run(WARMUP_S);
    let [end, _] = pair.ends();
    let (received, (sent, lost)) = (pair.received(), end.packets());
    reported.0.lock().expect("no test panics in here").clear();
    pair.run(MEASURED_S);
    let (now_sent, now_lost) = end.packets();
    let queues = reported.0.lock().expect("no test panics in here");
    let packets = |time: Duration| time.as_secs_f64() * RATE_BPS as f64 / 8.0 / PACKET;
    let sum: f64 = queues.iter().copied().map(packets).sum();
    let longest = queues.iter().max().copied().unwrap_or_default();
    Figures {
        used: (pair.received() - received) as f64 * 8.0 / MEASURED_S / RATE_BPS as f64,
        lost: (now_lost - lost) as f64 / (now_sent - sent) as f64,
        queue: sum / queues.len().max(1) as f64,
        longest: packets(longest),
    }
}

fn compare(spec: &str, stamps: &[&str], queue: f64) {
    let ends = [
        (Kind::Quinn, Kind::QuinnAnswers),
        (Kind::Noq, Kind::QuinnAnswers),
        (Kind::Noq, Kind::NoqAnswers),
        (Kind::Quinn, Kind::NoqAnswers),
    ];
    let figures = ends.map(|(client, server)| measure(client, server, spec, stamps));
    for ((client, server), figures) in ends.iter().zip(&figures) {
        println!(
            "{spec} {stamps:?}, {client:?} to {server:?}: {:.1} % of the link, {:.2} % lost, queue \
             {:.1} packets, at most {:.1}",
            100.0 * figures.used,
            100.0 * figures.lost,
            figures.queue,
            figures.longest,
        );
    }
    let quinn = figures[0];
    for figures in &figures[1..] {
        assert!((quinn.used - figures.used).abs() < 0.03, "{spec}");
        assert!((quinn.lost - figures.lost).abs() < 0.003, "{spec}");
        assert!((quinn.queue - figures.queue).abs() < queue, "{spec}");
    }
}

#[test]
fn on_stamping_links_a_controller_does_on_noq_what_it_does_on_quinn() {
    compare("ro-vegas", &["aqt"], 2.0);
    compare("acp", &["aqt", "acp"], 2.0);
    compare("xcp", &["aqt", "xcp"], 2.0);
    compare("rcp", &["aqt", "rcp"], 2.0);
    compare("keel", &["aqt"], 4.0);
}
