//! Tries every stack with evenkeel's endpoint, and writes docs/interop.md.

use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use evenkeel::{Context, EcnCounts, EcnFault, EcnMode, EcnReport};

use crate::relay::{Conduct, Counts, Relay};
use crate::stack::{
    Evenkeel, Failure, Feature, Identity, Noq, Order, Quiche, Quinn, S2n, Serving, Side, Stack,
    with_causes,
};

const FEATURES: [Feature; 7] = [
    Feature::Transfer,
    Feature::KeyUpdate,
    Feature::EarlyData,
    Feature::Retry,
    Feature::Datagrams,
    Feature::Rebinding,
    Feature::L4s,
];

/// How long one try may take. Most take less than a second.
const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes each way.
const SIZE: u64 = 20_000_000;

/// Bytes that our side sends as ECT(1).
const SCALABLE: u64 = 5_000_000;

/// How many marks the peer may not have reported when the connection ends: 100 packets are in flight,
/// of which two are marked.
const UNREPORTED: u64 = 2;

/// What a cell says if all is as it should be.
const WORKS: &str = "yes";

/// Tries all, reports progress to standard error, and returns the page and how many tries failed.
pub(crate) fn interop() -> Result<(String, usize), Failure> {
    let peers: [&'static dyn Stack; 4] = [&Quinn, &Noq, &S2n, &Quiche];
    let mut rows = String::new();
    let mut failures = Vec::new();
    for peer in peers {
        for side in [Side::Server, Side::Client] {
            for headers in [false, true] {
                let role = match side {
                    Side::Server => "server",
                    Side::Client => "client",
                };
                let offered = if headers { "offered" } else { "off" };
                let mut row = format!("| {} | {role} | {offered} |", peer.name());
                for feature in FEATURES {
                    let attempt = || patiently(move || attempt(peer, side, headers, feature));
                    let outcome = match feature {
                        _ if !peer.can(feature) => Ok("-"),
                        // A busy machine spoils a try: behind a queue of its making, keel takes the
                        // router for a classic one.
                        Feature::L4s => attempt().or_else(|_| attempt()).or_else(|_| attempt()),
                        _ => attempt(),
                    };
                    let cell = outcome.unwrap_or_else(|why| {
                        failures.push(format!(
                            "{} as {role}, headers {offered}, {feature}: {why}",
                            peer.name()
                        ));
                        "**no**"
                    });
                    eprintln!(
                        "{}, {role}, headers {offered}, {feature}: {cell}",
                        peer.name()
                    );
                    row = format!("{row} {cell} |");
                }
                rows = format!("{rows}{row}\n");
            }
        }
    }
    let failed = failures.len();
    let failures = match failed {
        0 => "Nothing failed.\n".to_owned(),
        _ => format!("What failed:\n\n- {}\n", failures.join("\n- ")),
    };
    let page = include_str!("interop.md")
        .replace("{rows}", rows.trim_end())
        .replace("{failures}", failures.trim_end());
    Ok((page, failed))
}

/// Runs `attempt` on a thread of its own, and gives it up if it takes too long. Returns what the cell
/// says, or why it failed.
fn patiently(
    attempt: impl FnOnce() -> Result<&'static str, Failure> + Send + 'static,
) -> Result<&'static str, String> {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || tell.send(attempt()));
    match told.recv_timeout(PATIENCE) {
        Ok(attempted) => attempted.map_err(|failure| with_causes(&*failure)),
        Err(RecvTimeoutError::Timeout) => Err("it takes longer than 60 s".into()),
        Err(RecvTimeoutError::Disconnected) => Err("it panicked".into()),
    }
}

/// Lets the peer and our endpoint do one thing with each other.
fn attempt(
    peer: &dyn Stack,
    side: Side,
    headers: bool,
    feature: Feature,
) -> Result<&'static str, Failure> {
    let identity = Identity::new()?;
    let context: &OnceLock<Context> = Box::leak(Box::default());
    let ours = Evenkeel {
        controller: "keel",
        headers,
        l4s: (feature == Feature::L4s).then_some(context),
    };
    let (server, client): (&dyn Stack, &dyn Stack) = match side {
        Side::Server => (peer, &ours),
        Side::Client => (&ours, peer),
    };
    let serving = Serving {
        retry: feature == Feature::Retry,
        key_update: feature == Feature::KeyUpdate && side == Side::Client,
    };
    let server = server.serve(&identity, serving)?;
    let conduct = match feature {
        Feature::Rebinding => Some(Conduct::Forgets),
        Feature::Retry => Some(Conduct::Passes),
        Feature::L4s => Some(Conduct::Marks(side)),
        // A relay has one client, and 0-RTT may take two sockets.
        _ => None,
    };
    let relay = conduct.map(|conduct| Relay::new(server, conduct));
    let relay = relay.transpose()?;
    let (up, down) = match (feature, side) {
        (Feature::L4s, Side::Server) => (SCALABLE, 1),
        (Feature::L4s, Side::Client) => (0, SCALABLE),
        _ => (SIZE, SIZE),
    };
    let order = Order { up, down, feature };
    let address = relay.as_ref().map_or(server, |relay| relay.address);
    client.exchange(address, &identity, order)?;
    let Some(Relay { counts, .. }) = relay else {
        return Ok(WORKS);
    };
    match feature {
        Feature::Rebinding if counts.answers.load(Relaxed) == 0 => {
            Err("it was over before the address changed".into())
        }
        Feature::Retry if counts.retries.load(Relaxed) == 0 => Err("nobody had to retry".into()),
        Feature::L4s => {
            let context = context.get().ok_or("our side has no connection")?;
            // Our server may be behind: the client ends the connection.
            thread::sleep(Duration::from_millis(100));
            let does = l4s(context.state().ecn, &counts)?;
            if does != WORKS && does != peer.l4s() {
                return Err(does.into());
            }
            Ok(does)
        }
        _ => Ok(WORKS),
    }
}

/// Returns what the peer did with ECT(1) and marks.
fn l4s(ours: EcnReport, relay: &Counts) -> Result<&'static str, Failure> {
    if relay.scalable.load(Relaxed) == 0 {
        return Err("no ECT(1) came to the relay".into());
    }
    if ours.arrived == EcnCounts::default() && ours.fault == Some(EcnFault::Unconfirmed) {
        return Ok("no counts");
    }
    if ours.fault == Some(EcnFault::Remarked) {
        return Ok("as ECT(0)");
    }
    if ours.fault.is_some() || ours.sends != Some(EcnMode::Scalable) {
        let (sends, fault) = (ours.sends, ours.fault);
        return Err(
            format!("at the end our side sends {sends:?}, with the fault {fault:?}").into(),
        );
    }
    let (reported, marked) = (ours.arrived.ce, relay.marked.load(Relaxed));
    if reported == 0 || reported > marked || marked - reported > UNREPORTED {
        return Err(format!("the peer reports {reported} marks of {marked}").into());
    }
    Ok(WORKS)
}
