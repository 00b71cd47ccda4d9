//! Writes figures as OpenMetrics. docs/router.md lists the names, which must not change.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use evenkeel_queue::{Amount, DurationHistogram, HeaderCounts};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use super::Figures;
use crate::status::{ClassStatus, Counters, FlowStatus, LinkStatus, Status};

/// Upper bounds of the sojourn histogram's buckets, in microseconds. Counts at a bound lack at most
/// what lies within 1.6 % below it ([`DurationHistogram::count_up_to`]).
const BOUNDS_US: [u64; 16] = [
    100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000,
    1_000_000, 2_000_000, 5_000_000, 10_000_000,
];

/// Where in figures something is counted.
type Count<F, T> = fn(&F) -> T;

/// Counted in packets and in bytes: the name, what happened to them, and where it is counted.
const AMOUNTS: [(&str, &str, Count<Counters, Amount>); 11] = [
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
        "were lost behind the queue: by chance, in a blackout, by a policer, because of their size",
        |count| count.lost,
    ),
    (
        "too_big",
        "were lost because they were larger than the link's mtu",
        |count| count.wire.too_big,
    ),
    ("marked_on_wire", "were marked behind the queue", |count| {
        count.wire.marked_on_wire
    }),
    ("ecn_changed", "left with another ECN codepoint", |count| {
        count.wire.ecn_changed
    }),
    ("corrupted", "left with a flipped bit", |count| {
        count.wire.corrupted
    }),
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
const DROPS: [(&str, Count<Counters, Amount>); 4] = [
    ("full", |count| count.dropped_full),
    ("early", |count| count.dropped_early),
    ("link_scope", |count| count.link_scope),
    ("not_ip", |count| count.not_ip),
];

/// Why stamps leave path headers alone, and where that is counted.
const REFUSALS: [(&str, Count<HeaderCounts, u64>); 4] = [
    ("truncated", |headers| headers.truncated),
    ("version", |headers| headers.version),
    ("kind", |headers| headers.kind),
    ("untouchable", |headers| headers.untouchable),
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
        page.classes()?;
        page.flows()?;
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
        let seconds = Some(&Unit::Seconds);
        let mut encoder =
            self.encoder
                .encode_descriptor("uptime", help, seconds, MetricType::Gauge)?;
        encoder.encode_gauge(&status.uptime_s)
    }

    fn states(&mut self) -> fmt::Result {
        self.gauge(
            "rate_bps",
            "Bits per second of IP packets now; missing without a rate, and where it varies",
            |link| Some(link.rate_bps? as f64),
        )?;
        let amounts: [(_, _, Count<LinkStatus, u64>); 4] = [
            ("queue_packets", "Packets that wait now", |link| {
                link.queued.packets
            }),
            ("queue_bytes", "Bytes that wait now", |link| {
                link.queued.bytes
            }),
            ("inside_packets", "Packets anywhere in the link", |link| {
                link.inside.packets
            }),
            ("inside_bytes", "Bytes anywhere in the link", |link| {
                link.inside.bytes
            }),
        ];
        for (name, help, value) in amounts {
            self.gauge(name, help, |link| Some(value(link) as f64))?;
        }
        self.gauge(
            "degraded",
            "1 if something keeps packets from taking the link as configured",
            |link| Some(f64::from(u8::from(link.degraded.is_some()))),
        )?;
        self.gauge(
            "degraded_seconds",
            "For how long something has been missing; 0 if nothing is",
            |link| Some(link.degraded.as_ref().map_or(0.0, |lack| lack.since_s)),
        )?;
        let reasons = self.links.iter().filter_map(|link| {
            let reason = &link.degraded.as_ref()?.reason;
            Some(because(link, reason))
        });
        let reasons: Vec<_> = reasons.collect();
        if reasons.is_empty() {
            return Ok(());
        }
        let help = "What is missing, and what to do; only of degraded links";
        let name = "link_degraded_reason";
        let mut encoder = self
            .encoder
            .encode_descriptor(name, help, None, MetricType::Info)?;
        reasons
            .iter()
            .try_for_each(|labels| encoder.encode_info(labels))
    }

    fn counters(&mut self) -> fmt::Result {
        for (name, what, count) in AMOUNTS {
            let help = format!("Packets that {what}");
            let packets = self.of_all(|link| Some(count(&link.total).packets));
            self.counter(&format!("{name}_packets"), &help, packets)?;
            let help = format!("Bytes of packets that {what}");
            let bytes = self.of_all(|link| Some(count(&link.total).bytes));
            self.counter(&format!("{name}_bytes"), &help, bytes)?;
        }
        let mut packets = self.by_reason(DROPS, |link, count| Some(count(&link.total).packets));
        // The kernel counts no bytes there.
        let ring = self.links.iter();
        packets.extend(ring.map(|link| (because(link, "ring"), link.total.ring_dropped)));
        let help = "Packets that did not enter the link, or not leave its queue, by reason";
        self.counter("dropped_packets", help, packets)?;
        let bytes = self.by_reason(DROPS, |link, count| Some(count(&link.total).bytes));
        let help =
            "Bytes of packets dropped, by reason; of those dropped by the device's ring unknown";
        self.counter("dropped_bytes", help, bytes)?;
        let rows = self.of_all(|link| Some(link.passed_beside?.packets));
        let help = "Packets to the link's destinations that took another way";
        self.counter("passed_beside_packets", help, rows)?;
        let rows = self.of_all(|link| Some(link.total.full_ttl));
        let help = "Packets that went on with a hop too few: they came with 255";
        self.counter("full_ttl_packets", help, rows)
    }

    fn headers(&mut self) -> fmt::Result {
        let headers = |link: &LinkStatus| (!link.stamps.is_empty()).then_some(link.total.headers);
        let recognised = self.of_all(|link| Some(headers(link)?.recognised));
        let help = "Path headers that came to a link with stamps";
        self.counter("recognised_headers", help, recognised)?;
        let stamped = self.of_all(|link| Some(headers(link)?.stamped));
        let help = "Path headers that left with the link's stamps";
        self.counter("stamped_headers", help, stamped)?;
        let refused = self.by_reason(REFUSALS, |link, count| Some(count(&headers(link)?)));
        let help = "Path headers that the stamps left alone, by reason";
        self.counter("refused_headers", help, refused)?;
        let foreign = self.of_all(|link| Some(headers(link)?.foreign));
        self.counter("foreign_packets", "Packets without a path header", foreign)
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
        let help = "How many flows the stamp counts, or how many users of its rate";
        self.gauges("flows", help, figures(FLOWS))?;
        let help = "Bits per second that the stamp offers to each flow";
        self.gauges("grant_bps", help, figures(GRANTS))?;
        self.gauge(
            "feedback_bytes",
            "By how many bytes XCP wants all windows together to change in a control period",
            |link| link.stamps.get("xcp")?.get("feedback_bytes").copied(),
        )
    }

    fn classes(&mut self) -> fmt::Result {
        let counts: [(_, _, Count<ClassStatus, Amount>); 3] = [
            ("forwarded", "left the queue", |class| class.forwarded),
            ("dropped", "were dropped at the queue", |class| {
                class.dropped
            }),
            ("marked", "were marked at the queue", |class| class.marked),
        ];
        for (name, what, count) in counts {
            let help = format!("Packets of a class that {what}");
            let packets = self.by_class(|class| count(class).packets);
            self.counter(&format!("class_{name}_packets"), &help, packets)?;
            let help = format!("Bytes of packets of a class that {what}");
            let bytes = self.by_class(|class| count(class).bytes);
            self.counter(&format!("class_{name}_bytes"), &help, bytes)?;
        }
        let waiting = self.by_class(|class| class.queued.packets as f64);
        self.gauges(
            "class_queue_packets",
            "Packets of a class that wait now",
            waiting,
        )?;
        let flows = self.by_class(|class| class.flows as f64);
        let help = "Flows of a class that have sent something in the last seconds";
        self.gauges("class_flows", help, flows)
    }

    fn flows(&mut self) -> fmt::Result {
        let figures: [(_, _, Count<FlowStatus, Option<u64>>); 5] = [
            (
                "flow_rate_bps",
                "Bits per second of the ten flows that sent most in the last second",
                |flow| Some(flow.rate_bps),
            ),
            (
                "flow_queue_packets",
                "Packets of these flows that wait now",
                |flow| Some(flow.queued.packets),
            ),
            (
                "flow_dropped_packets",
                "Packets of these flows that were dropped since they were first seen",
                |flow| Some(flow.dropped),
            ),
            (
                "flow_marked_packets",
                "Packets of these flows that were marked since they were first seen",
                |flow| Some(flow.marked),
            ),
            (
                "flow_grant_bps",
                "Bits per second that the last stamped header offers these flows",
                |flow| flow.grant_bps,
            ),
        ];
        for (name, help, value) in figures {
            let rows = self.links.iter().flat_map(|link| {
                link.flows.iter().filter_map(move |flow| {
                    let class = flow.class.as_deref().unwrap_or("");
                    let labels = vec![
                        ("link", &link.name[..]),
                        ("flow", &flow.flow[..]),
                        ("class", class),
                    ];
                    Some((labels, value(flow)? as f64))
                })
            });
            let rows = rows.collect();
            self.gauges(name, help, rows)?;
        }
        Ok(())
    }

    fn by_class<T>(&self, value: impl Fn(&ClassStatus) -> T) -> Vec<(Labels<'a>, T)> {
        let rows = self.links.iter().flat_map(|link| {
            let value = &value;
            link.classes.iter().map(move |class| {
                let labels = vec![("link", &link.name[..]), ("class", &class.class[..])];
                (labels, value(class))
            })
        });
        rows.collect()
    }

    fn sojourns(&mut self, sojourns: &[DurationHistogram]) -> fmt::Result {
        let mut encoder = self.encoder.encode_descriptor(
            "link_sojourn",
            "Time from a packet's arrival to the start of its transmission",
            Some(&Unit::Seconds),
            MetricType::Histogram,
        )?;
        for (link, sojourn) in self.links.iter().zip(sojourns) {
            let (sum, buckets) = (sojourn.sum().as_secs_f64(), buckets(sojourn));
            encoder
                .encode_family(&of(link))?
                .encode_histogram::<NoLabelSet>(sum, sojourn.count(), &buckets, None)?;
        }
        Ok(())
    }

    /// A figure of each link that has it.
    fn of_all<T>(&self, value: impl Fn(&LinkStatus) -> Option<T>) -> Vec<(Labels<'a>, T)> {
        let rows = self.links.iter();
        rows.filter_map(|link| Some((of(link), value(link)?)))
            .collect()
    }

    /// Counters of each link that has them, by reason.
    fn by_reason<T: Copy>(
        &self,
        reasons: [(&'static str, T); 4],
        value: impl Fn(&LinkStatus, T) -> Option<u64>,
    ) -> Vec<(Labels<'a>, u64)> {
        let rows = self.links.iter().flat_map(|link| {
            let value = &value;
            let rows = reasons.into_iter();
            rows.filter_map(move |(reason, count)| {
                Some((because(link, reason), value(link, count)?))
            })
        });
        rows.collect()
    }

    /// A gauge of each link that has it.
    fn gauge(
        &mut self,
        name: &str,
        help: &str,
        value: impl Fn(&LinkStatus) -> Option<f64>,
    ) -> fmt::Result {
        self.gauges(name, help, self.of_all(value))
    }

    fn gauges(&mut self, name: &str, help: &str, rows: Vec<(Labels<'a>, f64)>) -> fmt::Result {
        self.family(name, help, MetricType::Gauge, rows, |mut encoder, value| {
            encoder.encode_gauge(&value)
        })
    }

    fn counter(&mut self, name: &str, help: &str, rows: Vec<(Labels<'a>, u64)>) -> fmt::Result {
        let kind = MetricType::Counter;
        self.family(name, help, kind, rows, |mut encoder, value| {
            encoder.encode_counter::<NoLabelSet, u64, f64>(&value, None)
        })
    }

    /// Writes the rows of a name, if there are any.
    fn family<T>(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricType,
        rows: Vec<(Labels<'a>, T)>,
        write: impl Fn(MetricEncoder<'_>, T) -> fmt::Result,
    ) -> fmt::Result {
        if rows.is_empty() {
            return Ok(());
        }
        let name = format!("link_{name}");
        let mut encoder = self.encoder.encode_descriptor(&name, help, None, kind)?;
        rows.into_iter()
            .try_for_each(|(labels, value)| write(encoder.encode_family(&labels)?, value))
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
