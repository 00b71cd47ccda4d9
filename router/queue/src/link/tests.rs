//! Tests of links: made of parts that have their own.

use rand::SeedableRng;
use rand_pcg::Pcg64;

use super::*;
use crate::testing::{epoch, ms, packet};

const KILOBYTE_PER_MS: Option<Rate> = Rate::new(8_000_000);

fn rng() -> Box<dyn Rng + Send> {
    Box::new(Pcg64::seed_from_u64(7))
}

fn service() -> Service {
    Service::Rate(KILOBYTE_PER_MS.expect("not zero"))
}

/// Follows `next_timeout` to the end; when which packet came out, in time since `start`.
fn drain(link: &mut Link<u64>, start: Instant) -> Vec<(Duration, u64)> {
    let mut out = Vec::new();
    while let Some(at) = link.next_timeout() {
        while let Some(packet) = link.pop(at) {
            out.push((at - start, packet.payload));
        }
    }
    out
}

#[test]
fn a_packet_takes_its_transmission_and_the_delay() {
    let start = epoch();
    let config = LinkConfig {
        service: service(),
        delay: ms(18),
        ..LinkConfig::default()
    };
    let mut link = Link::new(start, config, rng()).unwrap();
    for number in 1..=3 {
        assert_eq!(link.push(start, packet(1000, number)), Verdict::Admit);
    }
    assert_eq!(
        drain(&mut link, start),
        [(ms(19), 1), (ms(20), 2), (ms(21), 3)]
    );
    assert_eq!(link.check_conservation(), Ok(()));
}
