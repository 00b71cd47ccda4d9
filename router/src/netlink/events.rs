//! What others change in interfaces, addresses, routes and rules, as the kernel tells it.

use std::io;

use netlink_packet_core::NetlinkPayload;
use netlink_packet_route::AddressFamily;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::{RouteEntry, messages};
use crate::family::Family;

/// The multicast groups of interfaces, and of addresses, routes and rules of both versions of IP
/// (RTNLGRP_*, linux/rtnetlink.h).
const GROUPS: [u32; 7] = [1, 5, 7, 8, 9, 11, 19];

/// The kernel had more to tell than the socket holds (ENOBUFS, netlink(7)).
const LOST: i32 = 105;

/// Listens to changes of the process's network namespace.
pub(crate) struct Events {
    socket: AsyncFd<Socket>,
}

impl Events {
    /// Begins to listen. Call it within a tokio runtime.
    ///
    /// # Errors
    /// The system's.
    #[expect(
        deprecated,
        reason = "its successor is unsafe, for descriptors that others may close; this one is owned"
    )]
    pub(crate) fn listen() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind(&SocketAddr::new(0, 0))?;
        for group in GROUPS {
            socket.add_membership(group)?;
        }
        socket.set_non_blocking(true)?;
        let socket = AsyncFd::with_interest(socket, Interest::READABLE)?;
        Ok(Self { socket })
    }

    /// Waits until something has changed: an interface, an address, a rule, or a route that is
    /// `of_interest`.
    ///
    /// # Errors
    /// The system's.
    pub(crate) async fn changed(
        &self,
        of_interest: impl Fn(&RouteEntry) -> bool,
    ) -> io::Result<()> {
        let mut has_changed = false;
        while !has_changed {
            let mut guard = self.socket.readable().await?;
            // All that is there: one look at the kernel serves for everything before it.
            while let Ok(read) = guard.try_io(|socket| socket.get_ref().recv_from_full()) {
                match read {
                    Ok((datagram, _)) => has_changed |= is_relevant(&datagram, &of_interest),
                    Err(error) if error.raw_os_error() == Some(LOST) => has_changed = true,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}

fn is_relevant(datagram: &[u8], of_interest: impl Fn(&RouteEntry) -> bool) -> bool {
    messages(datagram).any(|message| match message.payload {
        NetlinkPayload::InnerMessage(
            RouteNetlinkMessage::NewRoute(route) | RouteNetlinkMessage::DelRoute(route),
        ) => {
            let family = match route.header.address_family {
                AddressFamily::Inet => Family::V4,
                _ => Family::V6,
            };
            RouteEntry::read(family, &route).is_some_and(|route| of_interest(&route))
        }
        NetlinkPayload::InnerMessage(_) => true,
        _ => false,
    })
}
