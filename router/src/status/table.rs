//! Prints figures for people.

use evenkeel_queue::HeaderCounts;

use super::{LinkStatus, Route, Status, flows};

/// Formats a router's figures as a table, one block per link.
pub fn table(status: &Status) -> String {
    let Status {
        router,
        pid,
        uptime_s,
        reloads,
        config_read_s,
        ..
    } = status;
    let config = status.config.display();
    let sandbox = status.sandbox.as_ref().map(ToString::to_string);
    let sandbox = sandbox.as_deref().unwrap_or("off (--no-sandbox)");
    let links: String = status.links.iter().map(block).collect();
    format!(
        "router {router} (pid {pid}), up {uptime_s:.1} s\n\
         config: {config}, read {config_read_s:.1} s ago, {reloads} reloads\n\
         sandbox: {sandbox}\n{links}"
    )
}

fn block(link: &LinkStatus) -> String {
    let LinkStatus {
        name,
        tun,
        table,
        window_s,
        window,
        queued,
        queue_packets: queue,
        ..
    } = link;
    let degraded = link.degraded.as_ref().map_or(String::new(), |degraded| {
        let (since_s, reason) = (degraded.since_s, &degraded.reason);
        format!("  DEGRADED   for {since_s:.1} s: {reason}\n")
    });
    let keys = link.configured.as_object().into_iter().flatten();
    // What is empty or zero does nothing.
    let keys = keys.filter(|(_, value)| {
        let nothing = [0.0.into(), serde_json::json!([])];
        !nothing.contains(value)
    });
    let keys = keys.map(|(key, value)| format!("{key} = {value}"));
    let keys = keys.collect::<Vec<_>>().join(", ");
    let since_s = link.since_s;
    let routes = link.routes.iter().map(|route| {
        let Route {
            to, via, dev, only, ..
        } = route;
        let only = match &only[..] {
            "" => String::new(),
            only => format!(" {only}"),
        };
        let table = route.table;
        let table = table.map_or(String::new(), |table| format!(" in table {table}"));
        let via = via
            .as_ref()
            .map_or(String::new(), |via| format!(" via {via}"));
        format!("  route      {to}{only}{table}{via} dev {dev}\n")
    });
    let routes: String = routes.collect();
    let rate = match link.rate_bps {
        Some(bps) => format!("{:.3} Mb/s", bps as f64 / 1e6),
        None if link.rate_varies => "varies".to_owned(),
        None => "no rate".to_owned(),
    };
    let beside = link.passed_beside;
    let beside = beside.map_or("-".to_owned(), |beside| beside.packets.to_string());
    let [used, lost] = [link.utilization, link.loss_rate]
        .map(|share| share.map_or("-".to_owned(), |share| format!("{:.2} %", share * 100.0)));
    let sojourn = link.sojourn_us.map_or("-".to_owned(), |sojourn| {
        let [p50, p95, p99] = [sojourn.p50, sojourn.p95, sojourn.p99].map(|us| us / 1e3);
        format!("p50 {p50:.3}  p95 {p95:.3}  p99 {p99:.3} ms")
    });
    format!(
        "\
link {name} on {tun}, table {table}
{degraded}  is         {keys}
  since      {since_s:.1} s
{routes}  rate       {rate}
  window     {window_s:.1} s, {used} of the link used
  arrived    {} packets, {} bytes
  forwarded  {} packets, {} bytes
  dropped    {} full, {} early ({lost})
  marked     {}, {} more behind the queue
  changed    ECN of {}, {} corrupted behind the queue
  duplicated {} behind the queue
  lost       {} behind the queue, {} of them too big
  ring       {} dropped before the router saw them
  beside     {beside} packets took another way
  queue      {} now, mean {:.2}, sd {:.2}, p95 {}, max {} packets
  sojourn    {sojourn}
{}",
        window.arrived.packets,
        window.arrived.bytes,
        window.forwarded.packets,
        window.forwarded.bytes,
        window.dropped_full.packets,
        window.dropped_early.packets,
        window.marked.packets,
        window.wire.marked_on_wire.packets,
        window.wire.ecn_changed.packets,
        window.wire.corrupted.packets,
        window.duplicated.packets,
        window.lost.packets,
        window.wire.too_big.packets,
        window.ring_dropped,
        queued.packets,
        queue.mean,
        queue.sd,
        queue.p95,
        queue.max,
        stamps(link) + &flows::lines(link)
    )
}

fn stamps(link: &LinkStatus) -> String {
    if link.stamps.is_empty() {
        return String::new();
    }
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
    let mut text = format!(
        "  headers    {stamped} stamped of {recognised}; {refused} left as they came (truncated \
         {truncated}, version {version}, unknown kind {kind}, of which endpoints send some, untouchable \
         {untouchable}); {foreign} packets without\n"
    );
    for (stamp, figures) in &link.stamps {
        let figures = figures
            .iter()
            .map(|(name, value)| format!("{name} {value:.2}"));
        let figures = figures.collect::<Vec<_>>().join(", ");
        text += &format!("  {stamp:<10} {figures}\n");
    }
    text
}
