//! Writes figures as OpenMetrics. docs/router.md lists the names, which must not change.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use evenkeel_queue::{Amount, DurationHistogram};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use super::Figures;
use crate::status::{Counters, LinkStatus, Status};

/// Upper bounds of the sojourn histogram's buckets, in microseconds. Counts at a bound lack at most
/// what lies within 1.6 % below it ([`DurationHistogram::count_up_to`]).
const BOUNDS_US: [u64; 16] = [
    100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000,
    1_000_000, 2_000_000, 5_000_000, 10_000_000,
];

/// Where something is counted.
type Count<T> = fn(&Counters) -> T;

/// Counted in packets and in bytes: the name, what happened to them, and where it is counted.
const AMOUNTS: [(&str, &str, Count<Amount>); 7] = [
    ("arrived", "came to the queue", |count| count.arrived),
    ("forwarded", "left the queue", |count| count.forwarded),
    (
        "marked",
        "were marked with congestion experienced",
        |count| count.marked,
    ),
    ("duplicated", "were made behind the queue", |count| {
        count.duplicated
    }),
    (
        "lost",
        "were lost behind the queue: by chance, in a blackout, by a policer",
        |count| count.lost,
    ),
    ("delivered", "came out at the far end", |count| {
        count.delivered
    }),
    (
        "refused",
        "came out and were refused by the kernel",
        |count| count.refused,
    ),
];

/// Why packets are dropped, and where that is counted.
const DROPS: [(&str, Count<Amount>); 4] = [
    ("full", |count| count.dropped_full),
    ("early", |count| count.dropped_early),
    ("link_scope", |count| count.link_scope),
    ("not_ip", |count| count.not_ip),
];

/// Why stamps leave path headers alone, and where that is counted.
const REFUSALS: [(&str, Count<u64>); 4] = [
    ("truncated", |count| count.headers.truncated),
    ("version", |count| count.headers.version),
    ("kind", |count| count.headers.kind),
    ("untouchable", |count| count.headers.untouchable),
];

/// Where stamps tell how many flows there are, and which rate they offer each.
const FLOWS: [(&str, &str); 2] = [("flows", "flows"), ("acp", "users")];
const GRANTS: [(&str, &str); 2] = [("acp", "desired_bps"), ("rcp", "offered_bps")];

/// Writes a router's figures.
pub(super) fn text(figures: Figures) -> String {
    let router = Cow::from(figures.status.router.clone());
    let labels = [(Cow::from("router"), router)];
    let mut registry = Registry::with_prefix_and_labels("evenkeel_router", labels.into_iter());
    registry.register_collector(Box::new(figures));
    let mut text = String::new();
    text::encode(&mut text, &registry).expect("writing to a string cannot fail");
    text
}

impl Collector for Figures {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Writer {
            encoder,
            links: &self.status.links,
        };
        page.router(&self.status)?;
        page.states()?;
        page.counters()?;
        page.headers()?;
        page.stamps()?;
        page.sojourns(&self.sojourns)
    }
}

struct Writer<'e, 'a> {
    encoder: DescriptorEncoder<'e>,
    links: &'a [LinkStatus],
}

/// Labels of a link's figure.
type Labels<'a> = Vec<(&'a str, &'a str)>;

impl<'a> Writer<'_, 'a> {
    fn router(&mut self, status: &Status) -> fmt::Result {
        let help = "The program's version";
        let mut encoder = self
            .encoder
            .encode_descriptor("build", help, None, MetricType::Info)?;
        encoder.encode_info(&[("version", env!("CARGO_PKG_VERSION"))])?;
        let help = "Time since the links began";
        let mut encoder = self.encoder.encode_descriptor(
            "uptime",
            help,
            Some(&Unit::Seconds),
            MetricType::Gauge,
        )?;
        encoder.encode_gauge(&status.uptime_s)
    }

    fn states(&mut self) -> fmt::Result {
        self.gauges(
            "rate_bps",
            "Bits per second of IP packets now; missing without a rate, and where it varies",
            |link| Some(link.rate_bps? as f64),
        )?;
        self.gauges("queue_packets", "Packets that wait now", |link| {
            Some(link.queued.packets as f64)
        })?;
        self.gauges("queue_bytes", "Bytes that wait now", |link| {
            Some(link.queued.bytes as f64)
        })?;
        self.gauges("inside_packets", "Packets anywhere in the link", |link| {
            Some(link.inside.packets as f64)
        })?;
        self.gauges("inside_bytes", "Bytes anywhere in the link", |link| {
            Some(link.inside.bytes as f64)
        })?;
        self.gauges(
            "degraded",
            "1 if something keeps packets from taking the link as configured",
            |link| Some(f64::from(u8::from(link.degraded.is_some()))),
        )?;
        self.gauges(
            "degraded_seconds",
            "For how long something has been missing; 0 if nothing is",
            |link| {
                Some(
                    link.degraded
                        .as_ref()
                        .map_or(0.0, |degraded| degraded.since_s),
                )
            },
        )?;
        let reasons = self.links.iter().filter_map(|link| {
            let reason = &link.degraded.as_ref()?.reason;
            Some(vec![("link", &link.name[..]), ("reason", reason)])
        });
        let reasons = reasons.collect();
        let help = "What is missing, and what to do; only of degraded links";
        self.infos("link_degraded_reason", help, reasons)
    }

    fn counters(&mut self) -> fmt::Result {
        let links = self.links;
        for (name, what, count) in AMOUNTS {
            let rows = |value: fn(Amount) -> u64| {
                let rows = links.iter();
                let rows = rows.map(|link| (of(link), value(count(&link.total))));
                rows.collect()
            };
            let packets = rows(|amount| amount.packets);
            let help = format!("Packets that {what}");
            self.counter(&format!("link_{name}_packets"), &help, packets)?;
            let bytes = rows(|amount| amount.bytes);
            let help = format!("Bytes of packets that {what}");
            self.counter(&format!("link_{name}_bytes"), &help, bytes)?;
        }
        let drops = |value: fn(Amount) -> u64| {
            let rows = links.iter().flat_map(move |link| {
                DROPS.map(|(reason, count)| (because(link, reason), value(count(&link.total))))
            });
            rows.collect::<Vec<_>>()
        };
        let bytes = drops(|amount| amount.bytes);
        let mut packets = drops(|amount| amount.packets);
        // The kernel counts no bytes there.
        let ring = links.iter();
        packets.extend(ring.map(|link| (because(link, "ring"), link.total.ring_dropped)));
        let help = "Packets that did not enter the link, or not leave its queue, by reason";
        self.counter("link_dropped_packets", help, packets)?;
        let help =
            "Bytes of packets dropped, by reason; of those dropped by the device's ring unknown";
        self.counter("link_dropped_bytes", help, bytes)?;
        let rows = links.iter().map(|link| (of(link), link.total.full_ttl));
        let help = "Packets that went on with a hop too few: they came with 255";
        self.counter("link_full_ttl_packets", help, rows.collect())
    }

    fn headers(&mut self) -> fmt::Result {
        let links = self.links;
        let stamping = || links.iter().filter(|link| !link.stamps.is_empty());
        let of_all = |value: Count<u64>| {
            let rows = stamping().map(|link| (of(link), value(&link.total)));
            rows.collect::<Vec<_>>()
        };
        let recognised = of_all(|count| count.headers.recognised);
        let stamped = of_all(|count| count.headers.stamped);
        let foreign = of_all(|count| count.headers.foreign);
        let refused = stamping().flat_map(|link| {
            REFUSALS.map(|(reason, count)| (because(link, reason), count(&link.total)))
        });
        let refused = refused.collect();
        self.counter(
            "link_recognised_headers",
            "Path headers that came to a link with stamps",
            recognised,
        )?;
        self.counter(
            "link_stamped_headers",
            "Path headers that left with the link's stamps",
            stamped,
        )?;
        self.counter(
            "link_refused_headers",
            "Path headers that the stamps left alone, by reason",
            refused,
        )?;
        self.counter(
            "link_foreign_packets",
            "Packets without a path header",
            foreign,
        )
    }

    fn stamps(&mut self) -> fmt::Result {
        let links = self.links;
        let figures = |known: [(&'static str, &'static str); 2]| {
            let rows = links.iter().flat_map(move |link| {
                known.into_iter().filter_map(move |(stamp, figure)| {
                    let value = link.stamps.get(stamp)?.get(figure)?;
                    Some((vec![("link", &link.name[..]), ("stamp", stamp)], *value))
                })
            });
            rows.collect::<Vec<_>>()
        };
        let (flows, grants) = (figures(FLOWS), figures(GRANTS));
        let help = "How many flows the stamp counts, or how many users of its rate";
        self.gauge("link_flows", help, flows)?;
        let help = "Bits per second that the stamp offers to each flow";
        self.gauge("link_grant_bps", help, grants)?;
        self.gauges(
            "feedback_bytes",
            "By how many bytes XCP wants all windows together to change in a control period",
            |link| link.stamps.get("xcp")?.get("feedback_bytes").copied(),
        )
    }

    fn sojourns(&mut self, sojourns: &[DurationHistogram]) -> fmt::Result {
        let mut encoder = self.encoder.encode_descriptor(
            "link_sojourn",
            "Time from a packet's arrival to the start of its transmission",
            Some(&Unit::Seconds),
            MetricType::Histogram,
        )?;
        for (link, sojourn) in self.links.iter().zip(sojourns) {
            let labels = of(link);
            encoder
                .encode_family(&labels)?
                .encode_histogram::<NoLabelSet>(
                    sojourn.sum().as_secs_f64(),
                    sojourn.count(),
                    &buckets(sojourn),
                    None,
                )?;
        }
        Ok(())
    }

    /// A gauge of each link that has it.
    fn gauges(
        &mut self,
        name: &str,
        help: &str,
        value: impl Fn(&LinkStatus) -> Option<f64>,
    ) -> fmt::Result {
        let rows = self.links.iter();
        let rows = rows.filter_map(|link| Some((of(link), value(link)?)));
        let rows = rows.collect();
        self.gauge(&format!("link_{name}"), help, rows)
    }

    fn gauge(&mut self, name: &str, help: &str, rows: Vec<(Labels<'a>, f64)>) -> fmt::Result {
        if rows.is_empty() {
            return Ok(());
        }
        let mut encoder = self
            .encoder
            .encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in &rows {
            encoder.encode_family(labels)?.encode_gauge(value)?;
        }
        Ok(())
    }

    fn counter(&mut self, name: &str, help: &str, rows: Vec<(Labels<'a>, u64)>) -> fmt::Result {
        if rows.is_empty() {
            return Ok(());
        }
        let mut encoder = self
            .encoder
            .encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in &rows {
            let mut encoder = encoder.encode_family(labels)?;
            encoder.encode_counter::<NoLabelSet, u64, f64>(value, None)?;
        }
        Ok(())
    }

    fn infos(&mut self, name: &str, help: &str, rows: Vec<impl EncodeLabelSet>) -> fmt::Result {
        if rows.is_empty() {
            return Ok(());
        }
        let mut encoder = self
            .encoder
            .encode_descriptor(name, help, None, MetricType::Info)?;
        for labels in &rows {
            encoder.encode_info(labels)?;
        }
        Ok(())
    }
}

fn of(link: &LinkStatus) -> Labels<'_> {
    vec![("link", &link.name)]
}

fn because<'a>(link: &'a LinkStatus, reason: &'a str) -> Labels<'a> {
    vec![("link", &link.name), ("reason", reason)]
}

/// Returns upper bounds in seconds, and how many times lie between each and the one before.
fn buckets(sojourn: &DurationHistogram) -> Vec<(f64, u64)> {
    let mut before = 0;
    let mut bucket = |bound: f64, up_to: u64| {
        let between = up_to - before;
        before = up_to;
        (bound, between)
    };
    let bounds = BOUNDS_US.map(Duration::from_micros);
    let finite = bounds.map(|bound| (bound.as_secs_f64(), sojourn.count_up_to(bound)));
    let all = (f64::INFINITY, sojourn.count());
    let finite = finite.into_iter().chain([all]);
    finite.map(|(bound, up_to)| bucket(bound, up_to)).collect()
}

#[cfg(test)]
mod tests;
