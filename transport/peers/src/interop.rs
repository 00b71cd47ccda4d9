//! Tries every stack with evenkeel's endpoint, and writes docs/interop.md.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::relay::Nat;
use crate::stack::{
    Evenkeel, Failure, Feature, Identity, Noq, Order, Quiche, Quinn, S2n, Serving, Side, Stack,
    with_causes,
};

const FEATURES: [Feature; 6] = [
    Feature::Transfer,
    Feature::KeyUpdate,
    Feature::EarlyData,
    Feature::Retry,
    Feature::Datagrams,
    Feature::Rebinding,
];

/// How long one try may take. Most take less than a second.
const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes each way.
const SIZE: u64 = 20_000_000;

/// What a cell of the table says.
enum Outcome {
    Works,
    /// The stack has no interface for it.
    Without,
    Fails(String),
}

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
                    let outcome = match peer.can(feature) {
                        true => patiently(move || attempt(peer, side, headers, feature)),
                        false => Outcome::Without,
                    };
                    let cell = match outcome {
                        Outcome::Works => "yes",
                        Outcome::Without => "-",
                        Outcome::Fails(why) => {
                            failures.push(format!(
                                "{} as {role}, headers {offered}, {feature}: {why}",
                                peer.name()
                            ));
                            "**no**"
                        }
                    };
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

/// Runs `attempt` on a thread of its own, and gives it up if it takes too long.
fn patiently(attempt: impl FnOnce() -> Result<(), Failure> + Send + 'static) -> Outcome {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || tell.send(attempt()));
    match told.recv_timeout(PATIENCE) {
        Ok(Ok(())) => Outcome::Works,
        Ok(Err(failure)) => Outcome::Fails(with_causes(&*failure)),
        Err(RecvTimeoutError::Timeout) => Outcome::Fails("it takes longer than 60 s".into()),
        Err(RecvTimeoutError::Disconnected) => Outcome::Fails("it panicked".into()),
    }
}

/// Lets the peer and our endpoint do one thing with each other.
fn attempt(peer: &dyn Stack, side: Side, headers: bool, feature: Feature) -> Result<(), Failure> {
    let identity = Identity::new()?;
    let ours = Evenkeel {
        controller: "keel",
        headers,
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
    let nat = Nat::new(server, feature == Feature::Rebinding)?;
    let address = match feature {
        Feature::Rebinding | Feature::Retry => nat.address,
        // The NAT has one client, and 0-RTT may take two sockets.
        _ => server,
    };
    let order = Order {
        up: SIZE,
        down: SIZE,
        feature,
    };
    client.exchange(address, &identity, order)?;
    match feature {
        Feature::Rebinding if nat.answers.load(Relaxed) == 0 => {
            Err("it was over before the address changed".into())
        }
        Feature::Retry if nat.retries.load(Relaxed) == 0 => Err("nobody had to retry".into()),
        _ => Ok(()),
    }
}
