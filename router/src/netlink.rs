//! The kernel's interfaces, routes and rules (rtnetlink(7)), one blocking request at a time.
//!
//! It blocks on purpose: the kernel answers at once, and a destructor must be able to undo changes.

mod beside;
mod events;
mod firewall;
mod rule;

use std::io;
use std::iter;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkHeader,
    NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::rule::RuleMessage;
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

use crate::config::MAIN_TABLE;
use crate::family::Family;
use crate::prefix::Prefix;

pub(crate) use beside::{Beside, ROUND, Watched, round};
pub(crate) use events::Events;
pub(crate) use firewall::dropping_chains;
pub(crate) use rule::{Action, RuleEntry};

/// The table of the host's own addresses (RT_TABLE_LOCAL, linux/rtnetlink.h).
pub(crate) const LOCAL_TABLE: u32 = 255;

/// Marks our routes and rules (rtm_protocol). Daemons may use 5 to 255; `ip` and linux/rtnetlink.h
/// name none with this number.
pub(crate) const OUR_PROTOCOL: u8 = 107;

/// Length of a message's header in bytes (netlink(7), struct nlmsghdr).
const HEADER_LEN: usize = 16;

/// System errors (errno(3)) that mean that something is gone, or never was.
const GONE: [i32; 3] = [2, 3, 19];

/// A netlink connection to the kernel, in the process's network namespace.
#[derive(Debug)]
pub(crate) struct Netlink {
    socket: Socket,
    sequence: u32,
}

/// An interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) index: u32,
    pub(crate) is_up: bool,
    /// In bytes.
    pub(crate) mtu: u32,
    /// Packets that found the ring to user space full, since the device was created.
    pub(crate) tx_dropped: u64,
}

/// A route, with the attributes that this program sets and compares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RouteEntry {
    pub(crate) table: u32,
    pub(crate) to: Prefix,
    pub(crate) way: Way,
    pub(crate) metric: u32,
    /// The type of service of the packets that it is for; 0 for all.
    pub(crate) tos: u8,
    /// Source address of the router's own packets.
    pub(crate) source: Option<IpAddr>,
    pub(crate) is_ours: bool,
}

/// Which routes to ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Selection {
    /// All, in all tables.
    All,
    /// Those that are ours.
    Ours,
    /// Those of the main table by the interface with this index.
    MainBy(u32),
    /// Those of the table with this number.
    Table(u32),
}

/// Where a route leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// By an interface, to a gateway or straight to the destination.
    Out { device: u32, via: Option<IpAddr> },
    /// Nowhere: the sender learns that the destination is unreachable.
    Unreachable,
    /// Somewhere that this program does not describe, or nowhere without saying so.
    Elsewhere,
}

impl Netlink {
    /// Opens a connection. That needs no privilege; changes do.
    pub(crate) fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        // The kernel then returns the selected routes only; before Linux 4.20 it returns all.
        let _ = socket.set_netlink_get_strict_chk(true);
        Ok(Self {
            socket,
            sequence: 0,
        })
    }

    /// Returns the interface with this name, if there is one.
    pub(crate) fn interface(&mut self, name: &str) -> io::Result<Option<Interface>> {
        let mut message = LinkMessage::default();
        message.attributes = vec![LinkAttribute::IfName(name.to_owned())];
        self.find_interface(message)
    }

    /// Returns the interface with this index, whatever its name is now.
    pub(crate) fn interface_at(&mut self, index: u32) -> io::Result<Option<Interface>> {
        self.find_interface(link_message(index))
    }

    /// Names an interface.
    pub(crate) fn rename(&mut self, index: u32, name: &str) -> io::Result<()> {
        let mut message = link_message(index);
        message.attributes = vec![LinkAttribute::IfName(name.to_owned())];
        self.change(RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Sets MTU (bytes) and ring length (packets) of an interface, and switches it on without
    /// multicast, so that services that look for neighbours (mDNS and the like) ignore it.
    pub(crate) fn bring_up(&mut self, index: u32, mtu: u32, ring_packets: u32) -> io::Result<()> {
        let mut quiet = link_message(index);
        quiet.header.change_mask = LinkFlags::Multicast;
        quiet.attributes = vec![
            LinkAttribute::Mtu(mtu),
            LinkAttribute::TxQueueLen(ring_packets),
        ];
        self.change(RouteNetlinkMessage::SetLink(quiet), 0)?;
        let mut up = link_message(index);
        up.header.flags = LinkFlags::Up;
        up.header.change_mask = LinkFlags::Up;
        self.change(RouteNetlinkMessage::SetLink(up), 0)
    }

    /// Returns the unicast and unreachable routes of a family that are selected.
    pub(crate) fn routes(
        &mut self,
        family: Family,
        selection: Selection,
    ) -> io::Result<Vec<RouteEntry>> {
        let mut message = RouteMessage::default();
        message.header.address_family = address_family(family);
        match selection {
            Selection::All => {}
            Selection::Ours => message.header.protocol = RouteProtocol::Other(OUR_PROTOCOL),
            Selection::MainBy(device) => {
                let table = RouteAttribute::Table(MAIN_TABLE);
                message.attributes = vec![table, RouteAttribute::Oif(device)];
            }
            Selection::Table(table) => message.attributes = vec![RouteAttribute::Table(table)],
        }
        let answers = self.request(RouteNetlinkMessage::GetRoute(message), NLM_F_DUMP)?;
        let routes = answers.iter().filter_map(|answer| match answer {
            RouteNetlinkMessage::NewRoute(route) => RouteEntry::read(family, route),
            _ => None,
        });
        Ok(routes.filter(|route| selection.holds(route)).collect())
    }

    /// Returns the route that the kernel finds for a packet of its own to an address, with this type of
    /// service.
    pub(crate) fn lookup(&mut self, to: IpAddr, tos: u8) -> io::Result<Option<RouteEntry>> {
        let found = self.find_route(to, tos, RouteFlags::FibMatch)?;
        Ok(found.and_then(|route| RouteEntry::read(Family::of(to), &route)))
    }

    /// Returns false if packets to an address stay on this host, or are for all of its neighbours.
    pub(crate) fn leaves(&mut self, to: IpAddr) -> bool {
        let stays = [RouteType::Local, RouteType::Broadcast, RouteType::Anycast];
        // What there is no route to may get one.
        let found = self.find_route(to, 0, RouteFlags::empty()).ok().flatten();
        found.is_none_or(|route| !stays.contains(&route.header.kind))
    }

    fn find_route(
        &mut self,
        to: IpAddr,
        tos: u8,
        flags: RouteFlags,
    ) -> io::Result<Option<RouteMessage>> {
        let family = Family::of(to);
        let mut message = RouteMessage::default();
        message.header.address_family = address_family(family);
        message.header.destination_prefix_length = family.bits();
        message.header.tos = tos;
        message.header.flags = flags;
        message.attributes = vec![RouteAttribute::Destination(to.into())];
        let answers = self.request(RouteNetlinkMessage::GetRoute(message), 0)?;
        Ok(answers.into_iter().find_map(|answer| match answer {
            RouteNetlinkMessage::NewRoute(route) => Some(route),
            _ => None,
        }))
    }

    /// Adds a route and marks it as ours; fails if there is one like it.
    pub(crate) fn add_route(&mut self, route: &RouteEntry) -> io::Result<()> {
        let message = RouteNetlinkMessage::NewRoute(route.message());
        self.change(message, NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Puts a route in the place of the one with its destination and metric.
    pub(crate) fn replace_route(&mut self, route: &RouteEntry) -> io::Result<()> {
        let message = RouteNetlinkMessage::NewRoute(route.message());
        self.change(message, NLM_F_CREATE | NLM_F_REPLACE)
    }

    /// Removes a route; succeeds if it is already gone.
    pub(crate) fn delete_route(&mut self, route: &RouteEntry) -> io::Result<()> {
        unless_gone(self.change(RouteNetlinkMessage::DelRoute(route.message()), 0))
    }

    /// Returns all rules of a family.
    pub(crate) fn rules(&mut self, family: Family) -> io::Result<Vec<RuleEntry>> {
        let mut message = RuleMessage::default();
        message.header.family = address_family(family);
        let answers = self.request(RouteNetlinkMessage::GetRule(message), NLM_F_DUMP)?;
        let rules = answers.iter().filter_map(|answer| match answer {
            RouteNetlinkMessage::NewRule(rule) => Some(RuleEntry::read(family, rule)),
            _ => None,
        });
        Ok(rules.collect())
    }

    /// Adds a rule and marks it as ours; fails if there is one like it.
    pub(crate) fn add_rule(&mut self, rule: &RuleEntry) -> io::Result<()> {
        let message = RouteNetlinkMessage::NewRule(rule.message());
        self.change(message, NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Removes a rule; succeeds if it is already gone.
    pub(crate) fn delete_rule(&mut self, rule: &RuleEntry) -> io::Result<()> {
        unless_gone(self.change(RouteNetlinkMessage::DelRule(rule.message()), 0))
    }

    fn find_interface(&mut self, message: LinkMessage) -> io::Result<Option<Interface>> {
        let answers = match self.request(RouteNetlinkMessage::GetLink(message), 0) {
            Err(error) if is_gone(&error) => return Ok(None),
            answers => answers?,
        };
        let interface = answers.into_iter().find_map(|answer| match answer {
            RouteNetlinkMessage::NewLink(link) => Some(Interface::read(&link)),
            _ => None,
        });
        Ok(interface)
    }

    fn change(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.request(message, NLM_F_ACK | flags).map(drop)
    }

    /// Sends a request and collects the answers, up to the acknowledgement or the end.
    fn request(
        &mut self,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(message));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;

        // Without flags there is exactly one answer.
        let is_single = flags == 0;
        let mut answers = Vec::new();
        loop {
            let (datagram, _) = self.socket.recv_from_full()?;
            let answers_to_this =
                |answer: &NetlinkMessage<_>| answer.header.sequence_number == self.sequence;
            for answer in messages(&datagram).filter(answers_to_this) {
                match answer.payload {
                    NetlinkPayload::Error(error) if error.code.is_some() => {
                        return Err(error.to_io());
                    }
                    NetlinkPayload::Error(_) | NetlinkPayload::Done(_) => return Ok(answers),
                    NetlinkPayload::InnerMessage(inner) => {
                        answers.push(inner);
                        if is_single {
                            return Ok(answers);
                        }
                    }
                    _ => {}
                }
            }
        }
    }
}

impl Interface {
    fn read(message: &LinkMessage) -> Self {
        let mut interface = Self {
            name: String::new(),
            index: message.header.index,
            is_up: message.header.flags.contains(LinkFlags::Up),
            mtu: 0,
            tx_dropped: 0,
        };
        for attribute in &message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => interface.name.clone_from(name),
                LinkAttribute::Mtu(mtu) => interface.mtu = *mtu,
                LinkAttribute::Stats64(stats) => interface.tx_dropped = stats.tx_dropped,
                _ => {}
            }
        }
        interface
    }
}

impl Selection {
    fn holds(self, route: &RouteEntry) -> bool {
        match self {
            Self::All => true,
            Self::Ours => route.is_ours,
            Self::MainBy(exit) => {
                let by_exit = matches!(route.way, Way::Out { device, .. } if device == exit);
                route.table == MAIN_TABLE && by_exit
            }
            Self::Table(table) => route.table == table,
        }
    }
}

impl RouteEntry {
    /// Makes a route of ours.
    pub(crate) fn ours(table: u32, to: Prefix, way: Way) -> Self {
        Self {
            table,
            to,
            way,
            metric: 0,
            tos: 0,
            source: None,
            is_ours: true,
        }
    }

    fn read(family: Family, message: &RouteMessage) -> Option<Self> {
        let any: IpAddr = match family {
            Family::V4 => Ipv4Addr::UNSPECIFIED.into(),
            Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
        };
        let mut table = u32::from(message.header.table);
        let mut destination = any;
        let mut metric = 0;
        let (mut device, mut via, mut source) = (None, None, None);
        for attribute in &message.attributes {
            match attribute {
                RouteAttribute::Table(number) => table = *number,
                RouteAttribute::Destination(address) => destination = ip_address(address)?,
                RouteAttribute::Priority(number) => metric = *number,
                RouteAttribute::Oif(index) => device = Some(*index),
                RouteAttribute::Gateway(address) => via = ip_address(address),
                RouteAttribute::PrefSource(address) => source = ip_address(address),
                _ => {}
            }
        }
        let way = match (message.header.kind, device) {
            (RouteType::Unicast, Some(device)) => Way::Out { device, via },
            (RouteType::Unicast, None) | (RouteType::BlackHole | RouteType::Prohibit, _) => {
                Way::Elsewhere
            }
            (RouteType::Unreachable, _) => Way::Unreachable,
            _ => return None,
        };
        let length = message.header.destination_prefix_length;
        (length <= family.bits()).then(|| Self {
            table,
            to: Prefix::of(destination, length),
            way,
            metric,
            tos: message.header.tos,
            source,
            is_ours: message.header.protocol == RouteProtocol::Other(OUR_PROTOCOL),
        })
    }

    fn message(&self) -> RouteMessage {
        let mut message = RouteMessage::default();
        let header = &mut message.header;
        header.address_family = address_family(self.to.family());
        header.destination_prefix_length = self.to.length();
        // The header cannot hold tables above 255: the attribute counts.
        header.table = 0;
        header.protocol = RouteProtocol::Other(OUR_PROTOCOL);
        header.kind = match self.way {
            Way::Unreachable => RouteType::Unreachable,
            Way::Out { .. } | Way::Elsewhere => RouteType::Unicast,
        };
        header.scope = match self.way {
            Way::Out { via: None, .. } => RouteScope::Link,
            _ => RouteScope::Universe,
        };
        let attributes = &mut message.attributes;
        attributes.push(RouteAttribute::Table(self.table));
        if self.to.length() > 0 {
            attributes.push(RouteAttribute::Destination(self.to.address().into()));
        }
        if self.metric > 0 {
            attributes.push(RouteAttribute::Priority(self.metric));
        }
        if let Way::Out { device, via } = self.way {
            attributes.push(RouteAttribute::Oif(device));
            attributes.extend(via.map(|via| RouteAttribute::Gateway(via.into())));
        }
        attributes.extend(
            self.source
                .map(|source| RouteAttribute::PrefSource(source.into())),
        );
        message
    }
}

/// Splits off the first message of a datagram.
fn split_message(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = u32::from_ne_bytes(*bytes.first_chunk()?);
    let length = usize::try_from(length).ok()?;
    let message = bytes.get(..length).filter(|_| length >= HEADER_LEN)?;
    // Messages begin at multiples of four bytes (netlink(7), NLMSG_ALIGN).
    let following = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((message, following))
}

/// The messages of a datagram. Some attributes the library cannot read: such a route or rule is none
/// of ours.
fn messages(mut rest: &[u8]) -> impl Iterator<Item = NetlinkMessage<RouteNetlinkMessage>> {
    let read = iter::from_fn(move || {
        let (message, following) = split_message(rest)?;
        rest = following;
        Some(NetlinkMessage::deserialize(message).ok())
    });
    read.flatten()
}

fn link_message(index: u32) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message
}

fn unless_gone(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|error| if is_gone(&error) { Ok(()) } else { Err(error) })
}

fn is_gone(error: &io::Error) -> bool {
    let number = error.raw_os_error();
    number.is_some_and(|number| GONE.contains(&number))
}

fn address_family(family: Family) -> AddressFamily {
    match family {
        Family::V4 => AddressFamily::Inet,
        Family::V6 => AddressFamily::Inet6,
    }
}

fn ip_address(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some((*address).into()),
        RouteAddress::Inet6(address) => Some((*address).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
