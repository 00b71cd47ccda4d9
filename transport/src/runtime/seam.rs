//! How quinn's calls are told apart by connection.
//!
//! quinn 0.11 hands neither controllers nor sockets the connection they act for. But in
//! `Endpoint::connect` and in accepting, one thread calls `start_session`,
//! `ControllerFactory::build`, `AsyncUdpSocket::create_io_poller` and `Runtime::spawn` one after
//! the other, and everything that a connection sends later is sent in a poll of the future that
//! was spawned. So a cell is handed along those calls, and its driver names it in every poll.

use std::cell::RefCell;
use std::sync::{Arc, Weak};
use std::time::Instant;

use crate::cell::Cell;

thread_local! {
    static BEGINNING: RefCell<Beginning> = const { RefCell::new(Beginning::Nothing) };
    static POLLED: RefCell<Option<Polled>> = const { RefCell::new(None) };
}

/// How far the beginning of a connection has come in this thread. Weak: a connection that fails
/// on the way leaves nothing behind.
#[derive(Debug)]
enum Beginning {
    Nothing,
    Session(Weak<Cell>),
    Built(Weak<Cell>),
    Placed(Weak<Cell>),
}

/// The driver that is being polled in this thread.
#[derive(Debug)]
struct Polled {
    cell: Arc<Cell>,
    /// The time by which quinn acts.
    now: Instant,
    /// The bucket has let data through that has not been seen to leave.
    let_through: bool,
    /// What was built last is data that the window let through.
    is_data: bool,
    /// When the bucket will have something again, if it held anything back.
    held_back_until: Option<Instant>,
    /// quinn was told the controller's window last, and has done nothing else since.
    told_window: bool,
}

impl Polled {
    fn is_probe_due(&self) -> bool {
        let probe = *self.cell.probe();
        probe.is_some_and(|probe| probe.at <= self.now)
    }
}

/// A TLS session of a new connection begins.
pub(crate) fn session_begins(cell: &Arc<Cell>) {
    BEGINNING.set(Beginning::Session(Arc::downgrade(cell)));
}

/// A controller is built: for a new connection, which has a cell already if it has a session of
/// ours, or for a path of the connection being polled.
pub(crate) fn built(new: impl FnOnce() -> Arc<Cell>) -> Built {
    let begun = match BEGINNING.replace(Beginning::Nothing) {
        Beginning::Session(cell) => cell.upgrade(),
        _ => None,
    };
    if begun.is_none()
        && let Some((cell, _)) = polled()
    {
        return Built::Path(cell);
    }
    let cell = begun.unwrap_or_else(new);
    BEGINNING.set(Beginning::Built(Arc::downgrade(&cell)));
    Built::Connection(cell)
}

/// The connection being polled, and the time by which quinn acts.
pub(crate) fn polled() -> Option<(Arc<Cell>, Instant)> {
    POLLED.with_borrow(|polled| polled.as_ref().map(|p| (p.cell.clone(), p.now)))
}

/// What a controller is built for.
#[derive(Debug)]
pub(crate) enum Built {
    /// A connection that begins.
    Connection(Arc<Cell>),
    /// A new path of a connection.
    Path(Arc<Cell>),
}

/// A poller is created: a new connection gets its socket, or an old one another.
pub(crate) fn placed() {
    if let Some((cell, _)) = polled() {
        cell.rebound();
        return;
    }
    BEGINNING.with_borrow_mut(|beginning| {
        *beginning = match std::mem::replace(beginning, Beginning::Nothing) {
            Beginning::Built(cell) => Beginning::Placed(cell),
            _ => Beginning::Nothing,
        };
    });
}

/// A future is spawned: the cell if it is a new connection's driver.
pub(crate) fn spawned() -> Option<Arc<Cell>> {
    match BEGINNING.replace(Beginning::Nothing) {
        Beginning::Placed(cell) => cell.upgrade(),
        _ => None,
    }
}

/// A driver's poll, until it is dropped or ended.
#[derive(Debug)]
pub(crate) struct Poll(());

impl Poll {
    /// Begins a poll of `cell`'s driver.
    pub(crate) fn begin(cell: Arc<Cell>, now: Instant) -> Self {
        POLLED.set(Some(Polled {
            cell,
            now,
            let_through: false,
            is_data: false,
            held_back_until: None,
            told_window: false,
        }));
        Self(())
    }

    /// Ends it; when to poll again because the bucket held something back, or for a probe.
    pub(crate) fn end(self) -> Option<Instant> {
        POLLED.with_borrow(|polled| {
            let polled = polled.as_ref()?;
            let probe = polled.cell.probe().as_mut().map(|probe| {
                // quinn had nothing to send: the next one has the same time to come.
                if probe.at <= polled.now {
                    probe.at = polled.now + probe.silence;
                }
                probe.at
            });
            polled.held_back_until.into_iter().chain(probe).min()
        })
    }
}

impl Drop for Poll {
    fn drop(&mut self) {
        POLLED.set(None);
    }
}

/// quinn has looked at the clock: in a poll, to see what there is to send; else because something
/// begins, which has nothing to do with what another runtime's endpoint may have left half begun.
pub(crate) fn looked_at_clock(now: Instant) {
    let in_poll = POLLED.with_borrow_mut(|polled| match polled {
        Some(polled) => {
            polled.now = now;
            polled.let_through = false;
            polled.told_window = false;
            true
        }
        None => false,
    });
    if !in_poll {
        BEGINNING.set(Beginning::Nothing);
    }
}

/// What may leave at present, as far as this crate has a say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leave {
    /// As much as the controller's window has room for.
    Window,
    /// Nothing: the bucket is empty.
    Nothing,
    /// One packet, whatever the window.
    Probe,
}

/// What `cell`'s connection may send at present. Outside of a poll of its driver, where it is only
/// the application that asks for the window, that is the window.
pub(crate) fn may_leave(cell: &Arc<Cell>) -> Leave {
    with_poll_of(cell, |polled| {
        if polled.is_probe_due() {
            polled.let_through = true;
            return Leave::Probe;
        }
        polled.held_back_until = polled.cell.pacer().check(polled.now).err();
        polled.let_through = polled.held_back_until.is_none();
        if polled.let_through {
            Leave::Window
        } else {
            Leave::Nothing
        }
    })
    .unwrap_or(Leave::Window)
}

/// Whether it is quinn's own pacer that asks for the window of `cell`'s connection. Before each
/// packet that counts against the window, quinn 0.11 asks twice: for what may be in flight and,
/// if that has room, for its pacer's rate. So the second question in a row is the pacer's.
pub(crate) fn is_for_pacer(cell: &Arc<Cell>) -> bool {
    with_poll_of(cell, |polled| {
        polled.told_window = !polled.told_window;
        !polled.told_window
    })
    .unwrap_or(false)
}

/// A batch of `bytes` bytes is built and leaves next. Only what the bucket let through is taken
/// from it: not ACKs, and not the probes of RFC 9002, section 6.2.4.
pub(crate) fn sent(cell: &Arc<Cell>, bytes: u64) {
    with_poll_of(cell, |polled| {
        polled.told_window = false;
        polled.is_data = std::mem::take(&mut polled.let_through);
        if polled.is_data {
            polled.cell.pacer().sent(polled.now, bytes);
        }
    });
}

/// Whether what was built last in this poll of `cell`'s driver is data that the window let
/// through: not ACKs alone, not a probe, and not what an earlier poll could not send.
pub(crate) fn is_data(cell: &Arc<Cell>) -> bool {
    with_poll_of(cell, |polled| polled.is_data).unwrap_or(false)
}

/// How many packets a batch of the connection being polled may have, if the socket can take
/// `most` at once.
pub(crate) fn batch(most: usize) -> usize {
    POLLED.with_borrow(|polled| {
        polled.as_ref().map_or(most, |p| {
            if p.is_probe_due() {
                return 1;
            }
            p.cell.pacer().batch(p.now, most)
        })
    })
}

fn with_poll_of<T>(cell: &Arc<Cell>, f: impl FnOnce(&mut Polled) -> T) -> Option<T> {
    POLLED.with_borrow_mut(|polled| {
        polled
            .as_mut()
            .filter(|polled| Arc::ptr_eq(&polled.cell, cell))
            .map(f)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::epoch;

    fn cell() -> Arc<Cell> {
        Cell::new(Arc::default())
    }

    fn is(cell: &Arc<Cell>, other: Option<Arc<Cell>>) -> bool {
        other.is_some_and(|other| Arc::ptr_eq(cell, &other))
    }

    #[test]
    fn a_cell_goes_from_the_session_to_the_driver() {
        let ours = cell();
        session_begins(&ours);
        let Built::Connection(built) = built(cell) else {
            panic!("no driver is polled")
        };
        assert!(Arc::ptr_eq(&ours, &built));
        placed();
        assert!(is(&ours, spawned()));
        assert!(spawned().is_none(), "the next future is another's");
    }

    #[test]
    fn without_a_session_of_ours_the_controller_brings_the_cell() {
        let ours = cell();
        assert!(matches!(built(|| ours.clone()), Built::Connection(_)));
        placed();
        assert!(is(&ours, spawned()));
    }

    #[test]
    fn other_orders_are_not_a_connection() {
        let ours = cell();
        placed();
        assert!(spawned().is_none(), "no controller of ours");
        built(|| ours.clone());
        assert!(spawned().is_none(), "no socket of ours");
        placed();
        assert!(spawned().is_none());
    }

    #[test]
    fn what_another_endpoint_left_half_begun_is_forgotten() {
        let theirs = cell();
        built(|| theirs.clone());
        looked_at_clock(epoch());
        placed();
        assert!(spawned().is_none());
    }

    #[test]
    fn a_connection_that_fails_leaves_nothing() {
        session_begins(&cell());
        let ours = cell();
        let Built::Connection(built) = built(|| ours.clone()) else {
            panic!("no driver is polled")
        };
        assert!(Arc::ptr_eq(&ours, &built), "the session's is gone");
        let weak = Arc::downgrade(&ours);
        drop((ours, built));
        placed();
        assert!(weak.upgrade().is_none() && spawned().is_none());
    }

    #[test]
    fn a_path_of_the_connection_being_polled_keeps_its_cell() {
        let ours = cell();
        let poll = Poll::begin(ours.clone(), epoch());
        let Built::Path(path) = built(cell) else {
            panic!("a driver is polled")
        };
        assert!(Arc::ptr_eq(&ours, &path));
        placed();
        assert!(poll.end().is_none() && spawned().is_none());
        assert!(polled().is_none(), "the poll is over");
    }

    #[test]
    fn only_the_connection_being_polled_is_held_back() {
        let (now, ours, other) = (epoch(), cell(), cell());
        for cell in [&ours, &other] {
            cell.new_path(1200);
            cell.pacer().set_rate(now, Some(1200));
        }
        let poll = Poll::begin(ours.clone(), now);
        assert!(may_leave(&ours) == Leave::Window);
        sent(&ours, 2400);
        assert!(may_leave(&ours) == Leave::Nothing && may_leave(&other) == Leave::Window);
        assert!(poll.end().is_some());
        assert!(
            may_leave(&ours) == Leave::Window,
            "outside of a poll the application asks"
        );
    }

    #[test]
    fn only_the_second_question_in_a_row_is_quinns_pacers() {
        let (now, ours, other) = (epoch(), cell(), cell());
        assert!(!is_for_pacer(&ours) && !is_for_pacer(&ours), "no poll");
        let _poll = Poll::begin(ours.clone(), now);
        assert!(!is_for_pacer(&ours));
        assert!(!is_for_pacer(&other), "the application asks for another");
        assert!(is_for_pacer(&ours));
        assert!(
            !is_for_pacer(&ours) && is_for_pacer(&ours),
            "the next packet"
        );
        // The window was full: what had been built leaves, or nothing.
        assert!(!is_for_pacer(&ours));
        sent(&ours, 1200);
        assert!(!is_for_pacer(&ours));
        looked_at_clock(now);
        assert!(!is_for_pacer(&ours) && is_for_pacer(&ours));
    }

    #[test]
    fn what_was_not_let_through_is_not_taken_from_the_bucket() {
        let (now, ours) = (epoch(), cell());
        ours.new_path(1200);
        ours.pacer().set_rate(now, Some(1200));
        let _poll = Poll::begin(ours.clone(), now);
        sent(&ours, 2400);
        assert!(!is_data(&ours));
        assert!(may_leave(&ours) == Leave::Window, "an ACK or a probe");
        // Let through, but nothing was sent; then an ACK, in another attempt.
        looked_at_clock(now);
        sent(&ours, 2400);
        assert!(!is_data(&ours));
        assert!(may_leave(&ours) == Leave::Window);
        sent(&ours, 2400);
        assert!(is_data(&ours) && !is_data(&cell()));
    }
}
