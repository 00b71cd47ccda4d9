//! Prints figures for people.

use std::fmt::Write;

use evenkeel_queue::HeaderCounts;

use super::{LinkStatus, Status};

/// Formats a router's figures as a table, one block per link.
pub fn table(status: &Status) -> String {
    let mut text = format!(
        "router {} (pid {}), up {:.1} s\n",
        status.router, status.pid, status.uptime_s
    );
    let sandbox = status.sandbox.as_ref().map(ToString::to_string);
    let sandbox = sandbox.as_deref().unwrap_or("off (--no-sandbox)");
    writeln!(text, "sandbox: {sandbox}").expect("writing to a string cannot fail");
    for link in &status.links {
        write_link(&mut text, link);
    }
    text
}

fn write_link(text: &mut String, link: &LinkStatus) {
    let window = &link.window;
    let rate = match link.rate_bps {
        Some(bps) => format!("{:.3} Mb/s", bps as f64 / 1e6),
        None if link.rate_varies => "varies".to_owned(),
        None => "no rate".to_owned(),
    };
    let share = |share: Option<f64>| {
        share.map_or("-".to_owned(), |share| format!("{:.2} %", share * 100.0))
    };
    let sojourn = link.sojourn_us.map_or("-".to_owned(), |sojourn| {
        let [p50, p95, p99] = [sojourn.p50, sojourn.p95, sojourn.p99].map(|us| us / 1e3);
        format!("p50 {p50:.3}  p95 {p95:.3}  p99 {p99:.3} ms")
    });
    let queue = &link.queue_packets;
    let rows = [
        ("rate", rate),
        (
            "window",
            format!(
                "{:.1} s, {} of the link used",
                link.window_s,
                share(link.utilization)
            ),
        ),
        (
            "arrived",
            format!(
                "{} packets, {} bytes",
                window.arrived.packets, window.arrived.bytes
            ),
        ),
        (
            "forwarded",
            format!(
                "{} packets, {} bytes",
                window.forwarded.packets, window.forwarded.bytes
            ),
        ),
        (
            "dropped",
            format!(
                "{} full, {} early ({})",
                window.dropped_full.packets,
                window.dropped_early.packets,
                share(link.loss_rate)
            ),
        ),
        ("marked", window.marked.packets.to_string()),
        (
            "duplicated",
            format!("{} behind the queue", window.duplicated.packets),
        ),
        ("lost", format!("{} behind the queue", window.lost.packets)),
        (
            "ring",
            format!("{} dropped before the router saw them", window.ring_dropped),
        ),
        (
            "queue",
            format!(
                "{} now, mean {:.2}, sd {:.2}, p95 {}, max {} packets",
                link.queued.packets, queue.mean, queue.sd, queue.p95, queue.max
            ),
        ),
        ("sojourn", sojourn),
    ];
    let write = writeln!(
        text,
        "link {} on {}, table {}",
        link.name, link.tun, link.table
    );
    write.expect("writing to a string cannot fail");
    let degraded = link.degraded.iter().map(|degraded| {
        let text = format!("for {:.1} s: {}", degraded.since_s, degraded.reason);
        ("DEGRADED", text)
    });
    for (label, value) in degraded.chain(rows) {
        writeln!(text, "  {label:<10} {value}").expect("writing to a string cannot fail");
    }
    if !link.stamps.is_empty() {
        write_stamps(text, link);
    }
}

fn write_stamps(text: &mut String, link: &LinkStatus) {
    let HeaderCounts {
        recognised,
        stamped,
        foreign,
        truncated,
        version,
        kind,
        untouchable,
    } = link.window.headers;
    let refused = link.window.headers.refused();
    let headers = format!(
        "{stamped} stamped of {recognised}; {refused} refused (truncated {truncated}, version {version}, \
         kind {kind}, untouchable {untouchable}); {foreign} packets without"
    );
    let stamps = link.stamps.iter().map(|(stamp, figures)| {
        let figures = figures
            .iter()
            .map(|(name, value)| format!("{name} {value:.2}"));
        (&stamp[..], figures.collect::<Vec<_>>().join(", "))
    });
    for (label, value) in std::iter::once(("headers", headers)).chain(stamps) {
        writeln!(text, "  {label:<10} {value}").expect("writing to a string cannot fail");
    }
}
