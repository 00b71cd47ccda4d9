//! Links by the kernel's own netem: what it can do, the commands that build it, its counters.
//! Linux's own disciplines replace netem's queue on links that ask for them.
//!
//! A direction of a link is two netems on an ifb device at its far end, through which everything
//! goes that comes in there. The outer one loses and delays, the inner one has the rate and the
//! queue. At the far end packets are single: what the sender's kernel carries as one large packet
//! for speed (GSO) is split when it leaves, where netem on the sender's device would count, delay
//! and drop all of it as one. The delay comes first because one netem's limit would also count
//! what is on its way. The order of the two does not change when a packet comes out.

use evenkeel_queue::description::LinkDescription;
use evenkeel_queue::disciplines;
use evenkeel_spec::find;
use serde::Deserialize;

use crate::metrics::QueueObservation;
use crate::scenario::{Emulator, LinkSpec};

/// Most packets that may be on their way at once: more than any link here holds.
const UNLIMITED: u32 = 10_000_000;

/// Ethernet's header, which netem counts and the rates of scenarios, of IP packets, do not.
const ETHERNET: u64 = 14;

/// The discipline that netem's queue has too.
const DROP_TAIL: &str = "drop-tail";

/// The handles of the outer and the inner netem, or what has rate and queue instead of the latter.
const OUTER: &str = "1:";
const INNER: &str = "2:";

/// How long the token bucket of a discipline may make up for being woken too late.
const LATENESS_S: f64 = 0.005;

/// The least that such a bucket holds: a packet of Ethernet.
const LEAST_BURST: f64 = 1600.0;

/// The first key of a link that netem cannot do as this project does it.
pub(super) fn unsupported_key(spec: &LinkSpec) -> Option<&'static str> {
    let link = &spec.description;
    let has_rate = link.rate_bps.is_some();
    // Linux's own is taken only if it is asked for.
    let is_linux = has_rate && spec.emulator == Emulator::Netem && discipline(spec).is_some();
    let is_on = |key: Option<f64>| key.is_some_and(|value| value > 0.0);
    let keys = [
        ("trace", link.trace.is_some()),
        ("cellular", link.cellular.is_some()),
        (
            "overhead_bytes",
            link.overhead_bytes.is_some_and(|bytes| bytes > 0),
        ),
        // What jumps netem's delay also jumps the netem with rate and queue behind it.
        ("reorder beside rate_bps", has_rate && is_on(link.reorder)),
        (
            "discipline",
            link.discipline.value != DROP_TAIL && !is_linux,
        ),
        ("stamps", !link.stamps.is_empty()),
        ("queue_bytes", link.queue_bytes.is_some()),
        ("mtu", link.has_mtu()),
        ("ecn", link.recoding().is_some()),
        ("mark", is_on(link.mark)),
        // netem's own leaves checksums wrong; it is taken only if it is asked for.
        (
            "corrupt",
            is_on(link.corrupt) && spec.emulator != Emulator::Netem,
        ),
        ("police_bps", link.police_bps.is_some_and(|rate| rate > 0)),
        ("duplicate", is_on(link.duplicate)),
        ("wifi_jitter_ms", is_on(link.wifi_jitter_ms)),
        ("aggregate_ms", is_on(link.aggregate_ms)),
        ("blackouts", !link.blackouts.is_empty()),
        ("changes", !link.changes.is_empty()),
    ];
    let mut set = keys.into_iter().filter(|(_, is_set)| *is_set);
    set.next().map(|(key, _)| key)
}

/// The arguments of Linux's own discipline of the same name; `None` if it has none, or not with these
/// parameters.
fn discipline(link: &LinkSpec) -> Option<String> {
    let link = &link.description;
    let (row, values) = find("discipline", disciplines(), &link.discipline.value).ok()?;
    // The packet in transmission is one more.
    let limit = link.queue_packets.unwrap_or(UNLIMITED).saturating_add(1);
    let codel = || {
        let [target, interval] = ["target_ms", "interval_ms"].map(|name| values.number(name) * 1e3);
        let ecn = if values.flag("ecn") { "ecn" } else { "noecn" };
        format!("target {target:.0}us interval {interval:.0}us {ecn}")
    };
    match row.name {
        "codel" => Some(format!("codel limit {limit} {}", codel())),
        "fq-codel" if values.word("hosts") == "false" => {
            let [quantum, flows] = ["quantum", "flows"].map(|name| values.count::<u32>(name));
            let codel = codel();
            Some(format!(
                "fq_codel limit {limit} flows {flows} quantum {quantum} {codel}"
            ))
        }
        _ => None,
    }
}

/// The commands for `tc` that need all of netem that a link may need, on the devices `lo` and
/// `ifb0`.
pub(in crate::backend) fn trial() -> String {
    format!(
        "{}qdisc add dev ifb0 root handle {OUTER} netem delay 1ms\n\
         qdisc add dev ifb0 parent {OUTER}1 handle {INNER} netem rate 1mbit\n",
        redirection("lo", "ifb0")
    )
}

/// The commands for `tc` that send IP packets that come in by one device through another. ARP
/// takes no part: it is no load.
pub(super) fn redirection(from: &str, to: &str) -> String {
    let mut commands = format!("qdisc add dev {from} ingress\n");
    for (priority, protocol) in [(1, "ip"), (2, "ipv6")] {
        commands += &format!(
            "filter add dev {from} parent ffff: protocol {protocol} prio {priority} \
             matchall action mirred egress redirect dev {to}\n"
        );
    }
    commands
}

/// The arguments of `tc qdisc add dev DEV`, outermost first.
pub(super) fn qdiscs(spec: &LinkSpec) -> Vec<String> {
    let link = &spec.description;
    let discipline = discipline(spec).map(|own| format!("parent {INNER}1 {own}"));
    let (delay, jitter) = (link.delay_ms * 1e3, link.jitter_ms * 1e3);
    let corrupt = link.corrupt.filter(|share| *share > 0.0);
    let alone = (delay, jitter) == (0.0, 0.0) && losses(link).is_none() && corrupt.is_none();
    // A token bucket cannot leave out Ethernet's header itself; only a root can, for all below it.
    let stab = |is_root: bool| match discipline {
        Some(_) if is_root => format!(" stab overhead -{ETHERNET} linklayer ethernet"),
        _ => String::new(),
    };
    let inner = link.rate_bps.map(|rate| {
        if discipline.is_some() {
            let stab = stab(alone);
            let burst = (rate as f64 / 8.0 * LATENESS_S).max(LEAST_BURST);
            return format!(
                "handle {INNER}{stab} tbf rate {rate}bit burst {burst:.0} limit {burst:.0}"
            );
        }
        // The packet in transmission is one more.
        let limit = link.queue_packets.unwrap_or(UNLIMITED).saturating_add(1);
        format!("handle {INNER} netem rate {rate}bit -{ETHERNET} limit {limit}")
    });
    if let Some(inner) = &inner
        && alone
    {
        return std::iter::once(format!("root {inner}"))
            .chain(discipline)
            .collect();
    }
    let mut outer = format!("root handle {OUTER}{} netem limit {UNLIMITED}", stab(true));
    if jitter > 0.0 {
        // Around the mean, evenly. A rate keeps the order, and this one costs no time.
        let mean = delay + jitter / 2.0;
        outer += &format!(" delay {mean:.0}us {:.0}us rate 32gbit", jitter / 2.0);
    } else if delay > 0.0 {
        outer += &format!(" delay {delay:.0}us");
    }
    if let Some(reorder) = link.reorder.filter(|share| *share > 0.0) {
        outer += &format!(" reorder {}%", reorder * 100.0);
    }
    outer += &losses(link).unwrap_or_default();
    if let Some(share) = corrupt {
        outer += &format!(" corrupt {}%", share * 100.0);
    }
    let inner = inner.map(|inner| format!("parent {OUTER}1 {inner}"));
    std::iter::once(outer)
        .chain(inner)
        .chain(discipline)
        .collect()
}

/// netem's arguments for random loss; `None` without.
fn losses(link: &LinkDescription) -> Option<String> {
    if let Some(keys) = link.gilbert_elliott {
        let [p, r, bad, good] =
            [keys.p, keys.r, keys.bad, keys.good].map(|probability| probability * 100.0);
        return Some(format!(" loss gemodel {p}% {r}% {bad}% {good}%"));
    }
    (link.loss > 0.0).then(|| format!(" loss random {}%", link.loss * 100.0))
}

/// What `tc -s -j qdisc show` reports of one, as far as it is needed.
#[derive(Debug, Deserialize)]
pub(super) struct Qdisc {
    kind: String,
    handle: String,
    dev: String,
    bytes: u64,
    packets: u64,
    drops: u64,
    qlen: u64,
}

/// Totals since the link was built.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counters {
    pub(super) forwarded: u64,
    pub(super) forwarded_bytes: u64,
    pub(super) dropped: u64,
    pub(super) lost: u64,
    /// Waiting now, with the packet in transmission.
    pub(super) inside: u64,
}

impl Counters {
    /// Those of the link whose netems are on the device `ifb`. One with a rate has an inner netem.
    pub(super) fn of(qdiscs: &[Qdisc], ifb: &str, has_rate: bool) -> Self {
        let find = |handle: &str| {
            qdiscs
                .iter()
                .find(|qdisc| qdisc.dev == ifb && qdisc.handle == handle)
        };
        let (outer, inner) = (find(OUTER), find(INNER));
        // The outer one counts what the inner one refused as its own too.
        let refused = inner.map_or(0, |inner| inner.drops);
        let lost = outer.map_or(0, |outer| outer.drops.saturating_sub(refused));
        let last = if has_rate { inner } else { outer };
        let Some(last) = last else {
            return Self::default();
        };
        // A token bucket here does not count Ethernet's header.
        let header = if last.kind == "tbf" { 0 } else { ETHERNET };
        Self {
            forwarded: last.packets,
            forwarded_bytes: last.bytes.saturating_sub(header * last.packets),
            dropped: refused,
            lost,
            inside: inner.map_or(0, |inner| inner.qlen),
        }
    }
}

/// The figures of queue lengths that were read at regular times.
pub(super) fn summary(mut lengths: Vec<u64>) -> QueueObservation {
    if lengths.is_empty() {
        return QueueObservation::default();
    }
    let count = lengths.len() as f64;
    let mean = lengths.iter().sum::<u64>() as f64 / count;
    let squares = lengths.iter().map(|length| (*length as f64 - mean).powi(2));
    let sd = (squares.sum::<f64>() / count).sqrt();
    lengths.sort_unstable();
    QueueObservation {
        mean,
        sd,
        p95: lengths[(lengths.len() * 95).div_ceil(100) - 1],
        max: lengths[lengths.len() - 1],
    }
}

#[cfg(test)]
mod tests;
