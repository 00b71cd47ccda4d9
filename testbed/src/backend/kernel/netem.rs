//! Links by the kernel's own netem, and what it says of them.
//!
//! A direction of a link is two netems on an ifb device at its far end, through which everything
//! that comes in there goes: the outer one loses and delays, the inner one has the rate and the
//! queue. At the far end packets are single: what the sender's kernel carries as one large packet
//! for speed (GSO) is split when it leaves, where netem on the sender's device would count, delay
//! and drop all of it as one. The delay comes first because one netem's limit would also count
//! what is on its way; in a line of both the order makes no difference to what comes out when.

use std::io::Write as _;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::time::Duration;

use serde::Deserialize;

use super::KernelError;
use super::plan::{NetemLink, Plan, is_single_rate};
use super::process::Process;
use super::site::Site as _;
use crate::backend::netns::{self as sandbox, Sandbox};
use crate::metrics::{LinkObservation, QueueObservation, QueueSample};
use crate::scenario::{LinkSpec, Scenario, ServiceSpec};

/// How long `tc` may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Most packets that may be on their way at once: more than any link here holds.
const UNLIMITED: u32 = 10_000_000;

/// Ethernet's header, which netem counts and the rates of scenarios, of IP packets, do not.
const ETHERNET: u64 = 14;

/// The outer and the inner netem.
const OUTER: &str = "1:";
const INNER: &str = "2:";

/// Tries all that is needed in a namespace of its own, which goes again.
pub(in crate::backend) fn is_available(sandbox: &Sandbox) -> Result<bool, KernelError> {
    // Left to itself the kernel would load ifb with two devices in the caller's namespace.
    let _ = Command::new("modprobe")
        .args(["ifb", "numifbs=0"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let name = format!("{}-netem", sandbox.run);
    sandbox.write("namespaces", &format!("{name}\n"))?;
    sandbox::ip(&[], &format!("netns add {name}\n"))?;
    let device = sandbox::ip(&["-n", &name], "link add ifb0 type ifb\n");
    let commands = format!(
        "{}qdisc add dev ifb0 root handle {OUTER} netem delay 1ms\n\
         qdisc add dev ifb0 parent {OUTER}1 handle {INNER} netem rate 1mbit\n",
        redirection("lo", "ifb0")
    );
    let found = device.and_then(|()| sandbox::batch("tc", &["-n", &name], &commands));
    sandbox::ip(&[], &format!("netns delete {name}\n"))?;
    Ok(found.is_ok())
}

/// Builds the plan's links of this kind.
pub(in crate::backend) fn build(scenario: &Scenario, plan: &Plan) -> Result<(), KernelError> {
    for link in &plan.netem {
        let near = &plan.namespaces[link.near.0].name;
        let far = &plan.namespaces[link.far.0].name;
        let NetemLink { device, ifb, .. } = link;
        sandbox::ip(
            &["-n", near],
            &format!("link set {device} gso_max_segs 1\n"),
        )?;
        let mtu = scenario.mtu;
        sandbox::ip(
            &["-n", far],
            &format!("link add {ifb} mtu {mtu} type ifb\nlink set {ifb} up\n"),
        )?;
        let mut commands = redirection(device, ifb);
        for qdisc in qdiscs(&scenario.links[link.index.0]) {
            commands += &format!("qdisc add dev {ifb} {qdisc}\n");
        }
        sandbox::batch("tc", &["-n", far], &commands)?;
    }
    Ok(())
}

/// IP packets that come in by one device go through another. ARP does not: it is no load.
fn redirection(from: &str, to: &str) -> String {
    let mut commands = format!("qdisc add dev {from} ingress\n");
    for (priority, protocol) in [(1, "ip"), (2, "ipv6")] {
        commands += &format!(
            "filter add dev {from} parent ffff: protocol {protocol} prio {priority} \
             matchall action mirred egress redirect dev {to}\n"
        );
    }
    commands
}

/// What follows `qdisc add dev DEV`, outermost first.
fn qdiscs(link: &LinkSpec) -> Vec<String> {
    let inner = match link.service {
        ServiceSpec::Rate(rate) => {
            // The packet in transmission is one more.
            let limit = link.queue.packets.unwrap_or(UNLIMITED).saturating_add(1);
            Some(format!(
                "handle {INNER} netem rate {rate}bit -{ETHERNET} limit {limit}"
            ))
        }
        ServiceSpec::Unlimited | ServiceSpec::Trace(_) => None,
    };
    if let Some(inner) = &inner
        && is_single_rate(link)
    {
        return vec![format!("root {inner}")];
    }
    let jitter = link.jitter.as_secs_f64() * 1e6;
    let delay = link.delay.as_secs_f64() * 1e6;
    let mut outer = format!("root handle {OUTER} netem limit {UNLIMITED}");
    if jitter > 0.0 {
        // Around the mean, evenly. A rate keeps the order, and this one costs no time.
        let mean = delay + jitter / 2.0;
        outer += &format!(" delay {mean:.0}us {:.0}us rate 32gbit", jitter / 2.0);
    } else if delay > 0.0 {
        outer += &format!(" delay {delay:.0}us");
    }
    if link.reorder > 0.0 {
        outer += &format!(" reorder {}%", link.reorder * 100.0);
    }
    if link.loss > 0.0 {
        outer += &format!(" loss random {}%", link.loss * 100.0);
    }
    let inner = inner.map(|inner| format!("parent {OUTER}1 {inner}"));
    std::iter::once(outer).chain(inner).collect()
}

/// Follows the reported links of this kind through a run.
pub(in crate::backend) struct Followed {
    links: Vec<Link>,
    readers: Vec<Reader>,
}

/// A `tc` in a namespace, asked again and again.
struct Reader {
    node: usize,
    input: ChildStdin,
    process: Process,
}

struct Link {
    /// Position among the reported links.
    position: usize,
    /// Which reader, and which device it tells of.
    reader: usize,
    ifb: String,
    has_inner: bool,
    /// When the warm-up ended; at the last sample.
    base: Counters,
    last: Counters,
    /// Since the warm-up.
    lengths: Vec<u64>,
    queue_series: Vec<QueueSample>,
    drop_series: Vec<u64>,
}

/// Totals since the link was built.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counters {
    forwarded: u64,
    forwarded_bytes: u64,
    dropped: u64,
    lost: u64,
    /// Waiting now, with the packet in transmission.
    inside: u64,
}

impl Followed {
    /// The links are built.
    pub(in crate::backend) fn start(scenario: &Scenario, plan: &Plan) -> Result<Self, KernelError> {
        let reported: Vec<_> = (0..scenario.links.len())
            .filter(|index| scenario.links[*index].reported)
            .collect();
        let mut followed = Self {
            links: Vec::new(),
            readers: Vec::new(),
        };
        for link in &plan.netem {
            let Some(position) = reported.iter().position(|index| *index == link.index.0) else {
                continue;
            };
            let known = followed.readers.iter().position(|r| r.node == link.far.0);
            let reader = match known {
                Some(reader) => reader,
                None => {
                    followed.readers.push(Reader::start(plan, link.far.0)?);
                    followed.readers.len() - 1
                }
            };
            followed.links.push(Link {
                position,
                reader,
                ifb: link.ifb.clone(),
                has_inner: matches!(scenario.links[link.index.0].service, ServiceSpec::Rate(_)),
                base: Counters::default(),
                last: Counters::default(),
                lengths: Vec::new(),
                queue_series: Vec::new(),
                drop_series: Vec::new(),
            });
        }
        Ok(followed)
    }

    /// The warm-up is over: counters and averages begin.
    pub(in crate::backend) fn restart_measurement(&mut self) -> Result<(), KernelError> {
        let counters = self.read()?;
        for (link, counters) in self.links.iter_mut().zip(counters) {
            link.base = counters;
            link.lengths.clear();
        }
        Ok(())
    }

    /// A sampling interval is over.
    pub(in crate::backend) fn sample(&mut self) -> Result<(), KernelError> {
        let counters = self.read()?;
        for (link, counters) in self.links.iter_mut().zip(counters) {
            let queued = counters.inside.saturating_sub(1);
            link.lengths.push(queued);
            // netem tells of now only: the greatest that was seen is that.
            link.queue_series.push(QueueSample {
                packets: queued,
                max: queued,
            });
            link.drop_series.push(counters.dropped - link.last.dropped);
            link.last = counters;
        }
        Ok(())
    }

    /// Puts what was seen where the reported links' figures are.
    pub(in crate::backend) fn finish(
        mut self,
        links: &mut [LinkObservation],
    ) -> Result<(), KernelError> {
        let counters = self.read()?;
        for (link, now) in self.links.into_iter().zip(counters) {
            let base = link.base;
            let observation = &mut links[link.position];
            observation.emulator = Some("netem");
            observation.forwarded = now.forwarded - base.forwarded;
            observation.forwarded_bytes = now.forwarded_bytes - base.forwarded_bytes;
            observation.dropped = now.dropped - base.dropped;
            observation.lost = now.lost - base.lost;
            let came = observation.forwarded + observation.dropped + now.inside;
            observation.arrived = came.saturating_sub(base.inside);
            observation.queue = summary(link.lengths);
            observation.queue_series = link.queue_series;
            observation.drop_series = link.drop_series;
        }
        Ok(())
    }

    fn read(&mut self) -> Result<Vec<Counters>, KernelError> {
        let answers: Vec<Vec<Qdisc>> = self
            .readers
            .iter_mut()
            .map(Reader::ask)
            .collect::<Result<_, _>>()?;
        let links = self.links.iter();
        Ok(links
            .map(|link| Counters::of(&answers[link.reader], &link.ifb, link.has_inner))
            .collect())
    }
}

impl Reader {
    fn start(plan: &Plan, node: usize) -> Result<Self, KernelError> {
        let namespace = &plan.namespaces[node];
        let what = format!("tc on {}", namespace.host);
        let arguments = ["-s", "-j", "-batch", "-"].map(Into::into);
        let mut process = Process::start(what, &namespace.place, Path::new("tc"), &arguments)?;
        let input = process.stdin().expect("it is asked for once");
        Ok(Self {
            node,
            input,
            process,
        })
    }

    fn ask(&mut self) -> Result<Vec<Qdisc>, KernelError> {
        // If it has ended, there is no answer, and its last words say why.
        let _ = self.input.write_all(b"qdisc show\n");
        let line = match self.process.line(PATIENCE)? {
            Some(line) => line,
            None => return Err(self.process.failure()),
        };
        serde_json::from_str(&line.text).map_err(|error| KernelError::Protocol {
            what: "tc".into(),
            reason: error.to_string(),
        })
    }
}

/// What `tc -s -j qdisc show` says of one, as far as it is needed.
#[derive(Debug, Deserialize)]
struct Qdisc {
    kind: String,
    handle: String,
    dev: String,
    bytes: u64,
    packets: u64,
    drops: u64,
    qlen: u64,
}

impl Counters {
    /// The link whose netems are on the device `ifb`.
    fn of(qdiscs: &[Qdisc], ifb: &str, has_inner: bool) -> Self {
        let find = |handle: &str| {
            qdiscs
                .iter()
                .find(|qdisc| qdisc.dev == ifb && qdisc.kind == "netem" && qdisc.handle == handle)
        };
        let (outer, inner) = (find(OUTER), find(INNER));
        // The outer one counts what the inner one refused as its own too.
        let refused = inner.map_or(0, |inner| inner.drops);
        let lost = outer.map_or(0, |outer| outer.drops.saturating_sub(refused));
        let last = if has_inner { inner } else { outer };
        let Some(last) = last else {
            return Self::default();
        };
        Self {
            forwarded: last.packets,
            forwarded_bytes: last.bytes.saturating_sub(ETHERNET * last.packets),
            dropped: refused,
            lost,
            inside: inner.map_or(0, |inner| inner.qlen),
        }
    }
}

/// Of lengths that were seen at regular times.
fn summary(mut lengths: Vec<u64>) -> QueueObservation {
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
mod tests {
    use super::*;

    fn first_link(keys: &str) -> LinkSpec {
        let text = format!(
            "name = 'line'\nduration_s = 1\n[[links]]\nname = 'ab'\nfrom = 'a'\nto = 'b'\n{keys}\n\
             [[flows]]\nname = 'f'\napp = 'bulk'\ncontroller = 'reno'\nfrom = 'a'\nto = 'b'\n"
        );
        let scenario = Scenario::parse(&text, "test.toml", &[]);
        scenario.unwrap_or_else(|error| panic!("{error}")).links[0].clone()
    }

    #[test]
    fn delay_and_loss_come_before_rate_and_queue_and_ethernet_is_not_counted() {
        let link =
            first_link("rate_bps = 2000000\ndelay_ms = 18.5\nqueue_packets = 50\nloss = 0.01");
        assert_eq!(
            qdiscs(&link),
            [
                "root handle 1: netem limit 10000000 delay 18500us loss random 1%",
                "parent 1:1 handle 2: netem rate 2000000bit -14 limit 51"
            ]
        );
    }

    #[test]
    fn jitter_is_spread_above_the_delay_and_keeps_the_order() {
        let link = first_link("delay_ms = 10\njitter_ms = 4");
        assert_eq!(
            qdiscs(&link),
            ["root handle 1: netem limit 10000000 delay 12000us 2000us rate 32gbit"]
        );
    }

    #[test]
    fn packets_that_jump_the_delay_are_netems_reordering() {
        let link = first_link("delay_ms = 10\nreorder = 0.25\nloss = 0.01");
        assert_eq!(
            qdiscs(&link),
            ["root handle 1: netem limit 10000000 delay 10000us reorder 25% loss random 1%"]
        );
    }

    #[test]
    fn a_mere_rate_is_a_single_netem() {
        let link = first_link("rate_bps = 1000000");
        assert_eq!(
            qdiscs(&link),
            ["root handle 2: netem rate 1000000bit -14 limit 101"]
        );
    }

    #[test]
    fn losses_are_told_from_what_the_queue_refused() {
        let qdisc = |handle: &str, packets, bytes, drops, qlen| Qdisc {
            kind: "netem".into(),
            handle: handle.into(),
            dev: "ifb0".into(),
            bytes,
            packets,
            drops,
            qlen,
        };
        let both = [
            qdisc("1:", 90, 90_000, 15, 12),
            qdisc("2:", 90, 91_260, 5, 4),
        ];
        assert_eq!(
            Counters::of(&both, "ifb0", true),
            Counters {
                forwarded: 90,
                forwarded_bytes: 90_000,
                dropped: 5,
                lost: 10,
                inside: 4
            }
        );
    }

    #[test]
    fn the_summary_of_sampled_lengths_is_that_of_their_distribution() {
        let summary = summary(vec![4, 0, 2, 2]);
        assert_eq!((summary.mean, summary.p95, summary.max), (2.0, 4, 4));
        assert!((summary.sd - 2.0_f64.sqrt()).abs() < 1e-12);
    }
}
