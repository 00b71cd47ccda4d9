//! What others have done to a link that is over by now.

use std::time::{Duration, Instant};

use crate::clock;
use crate::failure::Failure;

/// For how long it degrades the link: longer than it takes to put back what a program keeps removing.
const LASTS: Duration = Duration::from_secs(5);

/// The latest of it.
#[derive(Debug, Default)]
pub(super) struct Suspicion {
    latest: Option<(Failure, Instant)>,
    /// Packets that have come out of a link and were led into this one.
    came_round: u64,
}

impl Suspicion {
    /// Something was missing, and has been put back.
    pub(super) fn removed(&mut self, what: &str) {
        self.note(format!(
            "another program has removed {what}: packets passed beside the link until it was put \
             back; find that program with `ip monitor route rule`"
        ));
    }

    /// This many packets have come round into the device `tun`; why `is_known` or not.
    pub(super) fn came_round(&mut self, tun: &str, packets: u64, is_known: bool) {
        let before = std::mem::replace(&mut self.came_round, packets);
        if before < packets && !is_known {
            self.note(format!(
                "packets that came out of a link were led into {tun} again, and dropped: a rule leads \
                 there what a firewall marks; have it mark nothing that comes in by {tun} (nft: \
                 iifname != {tun})"
            ));
        }
    }

    /// What was wrong a moment ago.
    pub(super) fn lasting(&self) -> Option<Failure> {
        let (cause, at) = self.latest.as_ref()?;
        (clock::now() - *at < LASTS).then(|| cause.clone())
    }

    fn note(&mut self, cause: String) {
        self.latest = Some((Failure::new(cause), clock::now()));
    }
}
