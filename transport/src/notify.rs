//! Decides when to notify an application that its connection's state has changed.

use std::time::{Duration, Instant};

use tokio::sync::watch;

/// Notifies of changes, at most once in a round trip.
#[derive(Debug, Default)]
pub(crate) struct Notifier {
    /// `None` before anybody listens, and after the end.
    sender: Option<watch::Sender<()>>,
    /// When it last notified.
    notified: Option<Instant>,
    /// When it will notify of a change.
    due: Option<Instant>,
    is_over: bool,
}

/// The shortest time between two changes: what follows them, an encoder, takes tens of
/// milliseconds.
const LEAST_INTERVAL: Duration = Duration::from_millis(10);

impl Notifier {
    /// Returns what becomes ready with the next change; `None` if the connection has ended.
    pub(crate) fn subscribe(&mut self) -> Option<watch::Receiver<()>> {
        if self.is_over {
            return None;
        }
        let sender = self.sender.get_or_insert_with(|| watch::channel(()).0);
        Some(sender.subscribe())
    }

    /// The state has changed at `now`, on a path with this round trip time.
    pub(crate) fn changed(&mut self, now: Instant, rtt: Duration) {
        if self.sender.is_some() && self.due.is_none() {
            let next = self.notified.map(|at| at + rtt.max(LEAST_INTERVAL));
            self.due = Some(next.map_or(now, |next| next.max(now)));
        }
    }

    /// Returns when to call [`take_due`](Self::take_due).
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Returns the channel to notify, if it is time. Unlock before using it: it wakes tasks.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<watch::Sender<()>> {
        self.due.take_if(|due| *due <= now)?;
        self.notified = Some(now);
        // Nobody listens any more: save the wake-ups.
        self.sender.take_if(|sender| sender.receiver_count() == 0);
        self.sender.clone()
    }

    /// Returns true once the connection has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// The connection has ended, and so have all changes. Unlock before dropping what this returns.
    pub(crate) fn end(&mut self) -> Option<watch::Sender<()>> {
        self.is_over = true;
        self.due = None;
        self.sender.take()
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_tests::time::{epoch, ms};

    use super::*;

    #[test]
    fn changes_are_notified_once_a_round_trip_and_the_last_is_not_lost() {
        let t0 = epoch();
        let mut notifier = Notifier::default();
        notifier.changed(t0, ms(40));
        assert_eq!(notifier.due(), None, "nobody listens");
        let receiver = notifier.subscribe().expect("it is not over");
        notifier.changed(t0, ms(40));
        assert_eq!(notifier.due(), Some(t0));
        assert!(notifier.take_due(t0).is_some());
        // More changes within the round trip are notified at its end.
        notifier.changed(t0 + ms(1), ms(40));
        notifier.changed(t0 + ms(39), ms(40));
        assert_eq!(notifier.due(), Some(t0 + ms(40)));
        assert!(notifier.take_due(t0 + ms(39)).is_none());
        assert!(notifier.take_due(t0 + ms(40)).is_some());
        notifier.changed(t0 + ms(41), ms(1));
        assert_eq!(notifier.due(), Some(t0 + ms(50)), "not more often");
        drop(receiver);
        assert!(notifier.take_due(t0 + ms(50)).is_none());
        notifier.changed(t0 + ms(60), ms(1));
        assert_eq!(notifier.due(), None, "nobody listens");
        notifier.end();
        assert!(notifier.subscribe().is_none());
    }
}
