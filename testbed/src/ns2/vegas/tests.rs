//! Rounds worked by hand.

use evenkeel_congestion::InitialWindow;
use evenkeel_tests::time::{epoch, ms};

use super::*;

const MTU: u16 = 1000;

const PLAIN: Config = Config {
    vegas: vegas::Config::VEGAS_1,
    acceleration: None,
    rtt: RoundRtt::Least,
    diff: DiffOf::Window,
    decrease: 0.5,
    slow_start_limit: None,
};

const SENT: Config = Config {
    diff: DiffOf::Sent,
    ..PLAIN
};

fn ack(bytes: u64) -> Ack {
    Ack::new(epoch() + ms(100), epoch(), bytes)
}

/// For two packets of 1000 bytes, with ten in flight before.
fn pair() -> Ack {
    let mut pair = ack(2000);
    pair.newest_bytes = 1000;
    pair.in_flight = 10_000;
    pair
}

fn round(rtt: u64) -> Round {
    Round::new(epoch(), ms(rtt), 10_000)
}

fn loss() -> Congestion {
    Congestion::loss(epoch(), 1000)
}

/// In the holding round of slow start with a window of `packets` and a BaseRTT of 100 ms.
fn starting(config: Config, packets: u16) -> Vegas {
    let vegas = vegas::Config {
        initial_window: InitialWindow::Packets(packets),
        ..config.vegas
    };
    let mut started = Vegas::new(Config { vegas, ..config }, MTU);
    started.window.base_rtt(&round(100));
    started
}

/// In congestion avoidance with a window of `packets` and a BaseRTT of 100 ms.
fn avoiding(config: Config, packets: u16) -> Vegas {
    let mut vegas = starting(config, 2 * packets);
    vegas.window.reduce(0.5);
    vegas
}

#[test]
fn by_the_mean_bursts_that_queue_for_a_moment_count() {
    let mean = Config {
        rtt: RoundRtt::Mean,
        ..PLAIN
    };
    // Diff = 20 x 25 / 125 = 4 by the mean, 0 by the least and by the last sample.
    for (config, start, after) in [
        (mean, avoiding as fn(Config, u16) -> Vegas, 19_000),
        (PLAIN, avoiding, 21_000),
        (mean, starting, 17_500),
        (PLAIN, starting, 20_000),
    ] {
        let mut vegas = start(config, 20);
        // A reordered packet has no sample.
        for rtt in [Some(ms(100)), Some(ms(150)), None] {
            let mut ack = ack(0);
            ack.rtt = rtt;
            vegas.on_ack(&ack);
        }
        vegas.on_round(&round(100));
        assert_eq!(vegas.window(), after, "{:?}", config.rtt);
    }
}

#[test]
fn the_mean_counts_every_sample_of_the_round_once() {
    let mut rtts = RttSum::default();
    rtts.add(ms(40));
    assert_eq!(rtts.end_round(ms(1)), ms(40));
    for rtt in [50, 58] {
        rtts.add(ms(rtt));
    }
    assert_eq!(rtts.end_round(ms(1)), ms(54));
    assert_eq!(rtts.end_round(ms(1)), ms(1), "no sample");
}

/// A round of five ACKs for two packets each, with ten in flight before each, after another round
/// such as this; all samples are `rtt` milliseconds.
fn after_pairs(start: fn(Config, u16) -> Vegas, config: Config, rtt: u64) -> Vegas {
    let mut vegas = start(config, 10);
    for round_rtt in [100, rtt] {
        vegas.window = start(config, 10).window;
        for _ in 0..5 {
            vegas.sent.on_ack(&pair());
        }
        vegas.on_round(&round(round_rtt));
    }
    vegas
}

#[test]
fn by_what_was_sent_an_ack_of_two_packets_hides_one_that_queues() {
    // 9 packets are left in flight with the newest acknowledged one, and 10 were sent:
    // Diff = 9 - 10 x 100 / RTT, where the window's is 10 - 10 x 100 / RTT.
    for (rtt, diff) in [(100, -1.0), (125, 1.0), (200, 4.0)] {
        let by_rule = diff_of_sent(9000, 10_000, ms(100), ms(rtt), MTU);
        assert!((by_rule - diff).abs() < 1e-12, "{rtt} ms: {by_rule}");
    }
    assert_eq!(diff_of_sent(9000, 10_000, ms(0), ms(0), MTU), 0.0);
    for (config, rtt, window) in [
        (SENT, 124, 11_000),
        (SENT, 125, 10_000), // Diff = alpha holds
        (SENT, 166, 10_000),
        (SENT, 167, 9000),
        (PLAIN, 111, 11_000),
        (PLAIN, 112, 10_000),
        (PLAIN, 143, 9000),
    ] {
        let vegas = after_pairs(avoiding, config, rtt);
        assert_eq!(vegas.window(), window, "{:?}, {rtt} ms", config.diff);
    }
    assert_eq!(
        after_pairs(starting, SENT, 125).slow_start_threshold(),
        None
    );
    assert_eq!(after_pairs(starting, SENT, 126).window(), 8750);
}

#[test]
fn what_was_sent_in_a_round_without_decision_is_of_no_other_round() {
    let mut vegas = avoiding(SENT, 10);
    for (acknowledged, app_limited) in [(2000, true), (10_000, false)] {
        for _ in 0..acknowledged / 2000 {
            vegas.on_ack(&pair());
        }
        let mut round = round(125);
        round.app_limited = app_limited;
        vegas.on_round(&round);
    }
    assert_eq!(vegas.window(), 10_000, "Diff = 9 - 10 x 100 / 125 = alpha");
}

#[test]
fn slow_start_adds_no_more_for_an_ack_than_its_limit() {
    // (limit in packets, bytes acknowledged at once, window after)
    for (limit, acknowledged, after) in [
        (None, 4000, 14_000),
        (Some(1), 4000, 11_000),
        (Some(1), 1000, 11_000),
        (Some(1), 400, 10_400),
        (Some(2), 4000, 12_000),
    ] {
        let config = Config {
            slow_start_limit: limit,
            ..PLAIN
        };
        let mut vegas = starting(config, 10);
        vegas.on_round(&round(100));
        vegas.on_ack(&ack(acknowledged));
        assert_eq!(vegas.window(), after, "{limit:?}, {acknowledged} bytes");
    }
}

#[test]
fn what_a_loss_leaves_can_be_set() {
    let gentle = Config {
        decrease: 0.75,
        ..PLAIN
    };
    let ada = Config {
        acceleration: Some((&ada_vegas::TABLE_I, true)),
        ..gentle
    };
    for config in [gentle, ada] {
        let mut vegas = avoiding(config, 20);
        vegas.on_congestion(&loss());
        assert_eq!(
            (vegas.window(), vegas.slow_start_threshold()),
            (15_000, Some(15_000))
        );
        // A timeout's threshold is half of the window all the same.
        let mut vegas = avoiding(config, 20);
        vegas.on_timeout(&loss());
        assert_eq!(
            (vegas.window(), vegas.slow_start_threshold()),
            (2000, Some(10_000))
        );
    }
    let mut least = avoiding(gentle, 2);
    least.on_congestion(&loss());
    assert_eq!(least.window(), 2000);
}

#[test]
fn without_parameters_every_round_is_as_the_original_has_it() {
    let values = |name: &str| {
        let controllers = crate::controllers();
        let row = controllers.rows().iter().find(|row| row.name == name);
        let row = row.expect("a row").clone();
        SpecValues::parse(row.name, row.parameters, None).expect("defaults")
    };
    let vegas_8 = vegas::Vegas::new(vegas::Config::VEGAS_8, MTU);
    let ada = ada_vegas::AdaVegas::new(ada_vegas::Config::PAPER, MTU);
    let own_8 = Config::read(&values("ns2-vegas8")).expect("defaults are in order");
    let own_ada = Config::read_ada(&values("ns2-ada-vegas"));
    let pairs: [(Box<dyn Controller>, Config); 2] =
        [(Box::new(vegas_8), own_8), (Box::new(ada), own_ada)];
    for (mut original, config) in pairs {
        let mut own = Vegas::new(config, MTU);
        for rtt in [
            100, 100, 101, 120, 100, 100, 100, 100, 100, 110, 150, 130, 100, 102,
        ] {
            for controller in [&mut *original, &mut own as &mut dyn Controller] {
                controller.on_ack(&ack(5000));
                controller.on_round(&round(rtt));
                if rtt == 150 {
                    controller.on_congestion(&loss());
                }
            }
            assert_eq!(own.window(), original.window(), "{rtt} ms");
            assert_eq!(own.slow_start_threshold(), original.slow_start_threshold());
        }
    }
}
