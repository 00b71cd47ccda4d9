//! Measures how fast the path delivers: for each packet, what was delivered while it was under way.
//!
//! The rule is that of draft-cheng-iccrg-delivery-rate-estimation-02. A packet remembers what had
//! been delivered when it left, and when. Its acknowledgement then gives a sample over the longer
//! of the time in which the packets before it left and the time in which their acknowledgements
//! came: acknowledgements that come in a bunch do not make the path look faster. quinn names
//! batches by their sending time, so packets that leave at the same time share a record.

use std::collections::VecDeque;
use std::time::Instant;

use crate::controller::Delivery;

/// What a path has delivered, and what packets under way remember of it.
#[derive(Debug, Clone)]
pub(super) struct Deliveries {
    /// Bytes acknowledged in all.
    total: u64,
    /// When the latest of them were acknowledged.
    at: Instant,
    /// When the packet was sent whose acknowledgement ended the latest sample.
    first_sent: Instant,
    /// Packets sent before more than that many bytes have been delivered saw an application that had
    /// too little to send.
    limited_until: Option<u64>,
    in_flight: u64,
    /// A record for each sending time, oldest first.
    records: VecDeque<Record>,
}

/// What the packets of one sending time remember.
#[derive(Debug, Clone)]
struct Record {
    sent: Instant,
    total: u64,
    at: Instant,
    first_sent: Instant,
    app_limited: bool,
}

impl Deliveries {
    /// A path begins at `now`.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            total: 0,
            at: now,
            first_sent: now,
            limited_until: None,
            in_flight: 0,
            records: VecDeque::new(),
        }
    }

    /// `bytes` leave at `now`.
    pub(super) fn on_sent(&mut self, now: Instant, bytes: u64) {
        if self.in_flight == 0 {
            (self.first_sent, self.at) = (now, now);
        }
        self.in_flight = self.in_flight.saturating_add(bytes);
        if self.records.back().is_some_and(|last| last.sent == now) {
            return;
        }
        self.records.push_back(Record {
            sent: now,
            total: self.total,
            at: self.at,
            first_sent: self.first_sent,
            app_limited: self.limited_until.is_some_and(|until| self.total <= until),
        });
    }

    /// An ACK frame acknowledges `bytes` at `now` and leaves `in_flight` bytes. Its newest packet
    /// was sent at `sent`. Returns the sample; `None` if a packet sent later was acknowledged
    /// before.
    pub(super) fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        in_flight: u64,
        app_limited: bool,
    ) -> Option<Delivery> {
        self.total = self.total.saturating_add(bytes);
        self.at = now;
        self.in_flight = in_flight;
        if app_limited {
            self.limited_until = Some(self.total.saturating_add(in_flight));
        }
        while self
            .records
            .front()
            .is_some_and(|record| record.sent < sent)
        {
            self.records.pop_front();
        }
        let record = self.records.front().filter(|record| record.sent == sent)?;
        self.first_sent = sent;
        Some(Delivery {
            total: self.total,
            before: record.total,
            send_interval: sent.saturating_duration_since(record.first_sent),
            ack_interval: now.saturating_duration_since(record.at),
            app_limited: record.app_limited,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::testing::{epoch, ms};

    #[test]
    fn acknowledgements_in_a_bunch_do_not_make_the_path_look_faster() {
        let t0 = epoch();
        let mut deliveries = Deliveries::new(t0);
        for packet in 0..10 {
            deliveries.on_sent(t0 + ms(10 * packet), 1000);
        }
        // All ACKs come at once, 100 ms after the first packet left.
        for packet in 0..10 {
            let sample = deliveries.on_ack(
                t0 + ms(100),
                t0 + ms(10 * packet),
                1000,
                1000 * (9 - packet),
                false,
            );
            let sample = sample.expect("packets are in order");
            assert_eq!(sample.total - sample.before, 1000 * (packet + 1));
            assert_eq!(sample.ack_interval, ms(100));
        }
        // The next packets leave in a bunch, and their ACKs come one by one.
        for packet in 0..10 {
            let now = t0 + ms(200 + 10 * packet);
            if packet == 0 {
                deliveries.on_sent(now, 10_000);
            }
            let sample = deliveries.on_ack(now, t0 + ms(200), 1000, 9000 - 1000 * packet, false);
            let sample = sample.expect("packets are in order");
            assert_eq!(sample.send_interval, Duration::ZERO);
            assert_eq!(sample.ack_interval, ms(10 * packet));
        }
    }

    #[test]
    fn packets_of_an_application_with_little_to_send_are_marked() {
        let t0 = epoch();
        let mut deliveries = Deliveries::new(t0);
        deliveries.on_sent(t0, 1000);
        deliveries.on_sent(t0 + ms(1), 1000);
        let limited = |sample: Option<Delivery>| sample.expect("in order").app_limited;
        assert!(!limited(deliveries.on_ack(
            t0 + ms(10),
            t0,
            1000,
            1000,
            true
        )));
        // Sent while the mark holds, that is until 2000 bytes are delivered.
        deliveries.on_sent(t0 + ms(11), 1000);
        assert!(!limited(deliveries.on_ack(
            t0 + ms(12),
            t0 + ms(1),
            1000,
            1000,
            false
        )));
        deliveries.on_sent(t0 + ms(13), 1000);
        assert!(limited(deliveries.on_ack(
            t0 + ms(21),
            t0 + ms(11),
            1000,
            1000,
            false
        )));
        deliveries.on_sent(t0 + ms(22), 1000);
        assert!(limited(deliveries.on_ack(
            t0 + ms(23),
            t0 + ms(13),
            1000,
            1000,
            false
        )));
        assert!(!limited(deliveries.on_ack(
            t0 + ms(32),
            t0 + ms(22),
            1000,
            0,
            false
        )));
    }

    #[test]
    fn a_packet_that_was_overtaken_gives_no_sample() {
        let t0 = epoch();
        let mut deliveries = Deliveries::new(t0);
        deliveries.on_sent(t0, 1000);
        deliveries.on_sent(t0 + ms(1), 1000);
        assert!(
            deliveries
                .on_ack(t0 + ms(10), t0 + ms(1), 1000, 1000, false)
                .is_some()
        );
        assert_eq!(deliveries.on_ack(t0 + ms(11), t0, 1000, 0, false), None);
        // What it carried counts as delivered.
        deliveries.on_sent(t0 + ms(20), 1000);
        let sample = deliveries.on_ack(t0 + ms(30), t0 + ms(20), 1000, 0, false);
        let sample = sample.expect("in order");
        assert_eq!((sample.before, sample.total), (2000, 3000));
        assert_eq!(sample.ack_interval, ms(10), "silence before does not count");
    }
}
