//! Joins what a connection sends in one poll of its driver, so that it costs fewer system calls.
//!
//! quinn 0.11 puts ten datagrams into a batch at most (`MAX_TRANSMIT_SEGMENTS`), and twenty and some
//! into a poll (`MAX_TRANSMIT_DATAGRAMS`). Systems with generic segmentation offload take 64 KiB.

use std::cell::Cell;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use quinn::udp::{EcnCodepoint, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};

/// The most bytes that leave in one system call: what a UDP datagram over IPv4 can hold.
const LARGEST: usize = 65_507;

/// After this many datagrams quinn ends a poll, and asks for another.
const MOST_OF_A_POLL: usize = 20;

thread_local! {
    /// Memory of trains that have left: idle connections need none.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Datagrams of one connection that leave together, in the order in which quinn sent them.
#[derive(Default)]
pub(crate) struct Train {
    /// How the datagrams leave; `None` while there are none.
    route: Option<Route>,
    contents: Vec<u8>,
    /// Wakes the driver when the system takes what waits.
    poller: Option<Pin<Box<dyn UdpPoller>>>,
    /// Why earlier datagrams did not leave. quinn does not know yet.
    error: Option<io::Error>,
}

/// What the datagrams of a train have in common.
struct Route {
    socket: Arc<dyn AsyncUdpSocket>,
    destination: SocketAddr,
    ecn: Option<EcnCodepoint>,
    src_ip: Option<IpAddr>,
    /// Bytes in each datagram except the last, which may have fewer.
    segment: usize,
}

impl Train {
    /// Appends what quinn sends through `socket`; first lets the datagrams before it leave if it
    /// differs from them.
    ///
    /// # Errors
    /// `WouldBlock` if the system takes nothing now: quinn tries again later. Otherwise what kept an
    /// earlier train from leaving.
    pub(crate) fn add(
        &mut self,
        socket: &Arc<dyn AsyncUdpSocket>,
        transmit: &Transmit<'_>,
    ) -> io::Result<()> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let more = transmit.contents;
        let joins = |route: &Route| {
            let is_alike = Arc::ptr_eq(&route.socket, socket)
                && route.destination == transmit.destination
                && route.ecn == transmit.ecn
                && route.src_ip == transmit.src_ip
                && match transmit.segment_size {
                    Some(size) => size == route.segment,
                    None => more.len() <= route.segment,
                };
            let length = self.contents.len() + more.len();
            let most = socket.max_transmit_segments();
            let is_short = length <= LARGEST && length.div_ceil(route.segment) <= most;
            is_alike && is_short && self.contents.len().is_multiple_of(route.segment)
        };
        if !self.route.as_ref().is_some_and(joins) {
            self.depart()?;
            self.contents = SPARE.take();
            self.route = Some(Route {
                socket: socket.clone(),
                destination: transmit.destination,
                ecn: transmit.ecn,
                src_ip: transmit.src_ip,
                segment: transmit.segment_size.unwrap_or(more.len()).max(1),
            });
        }
        self.contents.extend_from_slice(more);
        Ok(())
    }

    /// Whether quinn has ended the poll although the system would take as much again.
    pub(crate) fn has_room(&self) -> bool {
        self.route.as_ref().is_some_and(|route| {
            let datagrams = self.contents.len().div_ceil(route.segment);
            datagrams >= MOST_OF_A_POLL
                && 2 * datagrams <= route.socket.max_transmit_segments()
                && 2 * self.contents.len() <= LARGEST
        })
    }

    /// Lets all datagrams leave.
    ///
    /// # Errors
    /// Those of the system. After `WouldBlock` the datagrams wait, after others they are lost.
    fn depart(&mut self) -> io::Result<()> {
        let Some(route) = &self.route else {
            return Ok(());
        };
        let left = route.socket.try_send(&Transmit {
            destination: route.destination,
            ecn: route.ecn,
            contents: &self.contents,
            segment_size: (self.contents.len() > route.segment).then_some(route.segment),
            src_ip: route.src_ip,
        });
        let waits = |error: &io::Error| error.kind() == ErrorKind::WouldBlock;
        if !left.as_ref().is_err_and(waits) {
            self.clear();
        }
        left
    }

    /// Lets all datagrams leave, or wakes the task when the system takes them. quinn hears of
    /// errors when it sends again.
    pub(crate) fn poll_depart(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while let Err(error) = self.depart() {
            let Some(route) = &self.route else {
                self.error = Some(error);
                continue;
            };
            let poller = self
                .poller
                .get_or_insert_with(|| route.socket.clone().create_io_poller());
            if let Err(error) = ready!(poller.as_mut().poll_writable(cx)) {
                self.clear();
                self.error = Some(error);
            }
        }
        Poll::Ready(())
    }

    fn clear(&mut self) {
        (self.route, self.poller) = (None, None);
        self.contents.clear();
        SPARE.set(std::mem::take(&mut self.contents));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::task::Waker;

    use evenkeel_headers::locked;
    use proptest::prelude::*;
    use quinn::udp::RecvMeta;

    use super::*;

    /// A datagram with what it leaves by.
    type Datagram = (SocketAddr, Option<EcnCodepoint>, Vec<u8>);

    /// A system that takes up to `most` datagrams at once, or answers what is next in `answers`.
    #[derive(Debug, Default)]
    struct System {
        most: usize,
        answers: Mutex<Vec<Option<ErrorKind>>>,
        calls: Mutex<Vec<Vec<Datagram>>>,
    }

    impl System {
        fn new(most: usize, answers: &[Option<ErrorKind>]) -> Arc<Self> {
            Arc::new(Self {
                most,
                answers: Mutex::new(answers.to_vec()),
                calls: Mutex::default(),
            })
        }

        fn left(&self) -> Vec<Datagram> {
            locked(&self.calls).concat()
        }
    }

    impl AsyncUdpSocket for System {
        fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
            Box::pin(Busy)
        }

        fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
            if let Some(Some(kind)) = locked(&self.answers).pop() {
                return Err(kind.into());
            }
            let segment = transmit.segment_size.unwrap_or(transmit.contents.len());
            let datagrams = transmit.contents.chunks(segment);
            let call: Vec<_> = datagrams
                .map(|bytes| (transmit.destination, transmit.ecn, bytes.to_vec()))
                .collect();
            assert!(call.len() <= self.most.max(1));
            locked(&self.calls).push(call);
            Ok(())
        }

        fn poll_recv(
            &self,
            _: &mut Context<'_>,
            _: &mut [io::IoSliceMut<'_>],
            _: &mut [RecvMeta],
        ) -> Poll<io::Result<usize>> {
            unreachable!("nothing is received")
        }

        fn local_addr(&self) -> io::Result<SocketAddr> {
            unreachable!("nobody asks")
        }

        fn max_transmit_segments(&self) -> usize {
            self.most
        }
    }

    /// Nothing can be sent at once; the task is woken later.
    #[derive(Debug)]
    struct Busy;

    impl UdpPoller for Busy {
        fn poll_writable(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    fn address(port: u16) -> SocketAddr {
        ([192, 0, 2, 1], port).into()
    }

    fn add(train: &mut Train, system: &Arc<System>, port: u16, sizes: &[usize]) -> io::Result<()> {
        let socket: Arc<dyn AsyncUdpSocket> = system.clone();
        let transmit = Transmit {
            destination: address(port),
            ecn: None,
            contents: &vec![7; sizes.iter().sum()],
            segment_size: (sizes.len() > 1).then(|| sizes[0]),
            src_ip: None,
        };
        train.add(&socket, &transmit)
    }

    fn depart(train: &mut Train) -> Poll<()> {
        train.poll_depart(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn batches_of_one_poll_leave_in_one_call_up_to_what_the_system_takes() {
        let system = System::new(24, &[]);
        let mut train = Train::default();
        for _ in 0..3 {
            add(&mut train, &system, 1, &[1200; 10]).expect("room");
        }
        assert!(depart(&mut train).is_ready());
        let calls: Vec<_> = locked(&system.calls).iter().map(Vec::len).collect();
        assert_eq!(calls, [20, 10]);
    }

    #[test]
    fn a_poll_that_quinn_has_cut_short_has_room_if_the_system_takes_twice_as_much() {
        for (most, batches, has_room) in [(64, 2, true), (64, 1, false), (10, 2, false)] {
            let system = System::new(most, &[]);
            let mut train = Train::default();
            for _ in 0..batches {
                add(&mut train, &system, 1, &[1452; 10]).expect("room");
            }
            assert_eq!(train.has_room(), has_room, "{most}, {batches}");
        }
    }

    #[test]
    fn what_the_system_does_not_take_leaves_before_anything_else() {
        let busy = Some(ErrorKind::WouldBlock);
        let system = System::new(64, &[busy, busy]);
        let mut train = Train::default();
        add(&mut train, &system, 1, &[100]).expect("room");
        assert!(depart(&mut train).is_pending());
        let refused = add(&mut train, &system, 2, &[200]).expect_err("another way");
        assert_eq!(refused.kind(), ErrorKind::WouldBlock);
        add(&mut train, &system, 2, &[200]).expect("the system takes it");
        assert!(depart(&mut train).is_ready());
        let ports: Vec<_> = system.left().iter().map(|left| left.0.port()).collect();
        assert_eq!(ports, [1, 2]);
    }

    #[test]
    fn quinn_hears_of_an_error_when_it_sends_again() {
        let system = System::new(64, &[Some(ErrorKind::PermissionDenied)]);
        let mut train = Train::default();
        add(&mut train, &system, 1, &[100]).expect("room");
        assert!(depart(&mut train).is_ready());
        let error = add(&mut train, &system, 1, &[100]).expect_err("the error of before");
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        add(&mut train, &system, 1, &[100]).expect("reported once");
    }

    proptest! {
        #[test]
        fn all_datagrams_leave_once_in_order_and_whole(
            sent in prop::collection::vec((1_u16..3, any::<bool>(), 1_usize..=10, 1_usize..1500, 1_usize..1500), 1..40),
            most in 10_usize..64,
            busy in prop::collection::vec(any::<bool>(), 0..60),
            polls in prop::collection::vec(any::<bool>(), 40),
        ) {
            let answers: Vec<_> = busy.iter().map(|busy| busy.then_some(ErrorKind::WouldBlock)).collect();
            let system = System::new(most, &answers);
            let socket: Arc<dyn AsyncUdpSocket> = system.clone();
            let mut train = Train::default();
            let mut expected = Vec::new();
            for (nth, (&(port, marked, count, size, short), &ends)) in sent.iter().zip(&polls).enumerate() {
                let ecn = marked.then_some(EcnCodepoint::Ect0);
                // All of one size, but for the last.
                let length = (count - 1) * size + short.min(size);
                let contents: Vec<u8> = (0..length).map(|at| (at + nth) as u8).collect();
                expected.extend(contents.chunks(size).map(|datagram| (address(port), ecn, datagram.to_vec())));
                let transmit = Transmit {
                    destination: address(port),
                    ecn,
                    contents: &contents,
                    segment_size: (count > 1).then_some(size),
                    src_ip: None,
                };
                // As quinn does after the task was woken.
                while train.add(&socket, &transmit).is_err() {}
                if ends {
                    let _ = depart(&mut train);
                }
            }
            while depart(&mut train).is_pending() {}
            prop_assert_eq!(system.left(), expected);
        }
    }
}
