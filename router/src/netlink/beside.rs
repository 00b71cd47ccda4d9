//! Counts packets that pass beside links, and drops those that come round into one, by nftables
//! (nft(8)): a table `evenkeel-NAME` that belongs to this process's socket. The kernel removes it
//! with the socket, whatever becomes of the process (NFT_TABLE_F_OWNER, since Linux 5.12).

use std::collections::HashMap;
use std::net::IpAddr;
use std::{io, iter};

use evenkeel_queue::Amount;
use netlink_packet_core::{NLM_F_APPEND, NLM_F_CREATE, NLM_F_DUMP, NLM_F_REQUEST};
use netlink_sys::protocols::NETLINK_NETFILTER;
use netlink_sys::{Socket, SocketAddr};

use super::{HEADER_LEN, split_message};
use crate::config::{Mark, Selector};
use crate::family::Family;
use crate::prefix::Prefix;

/// What shall take a link.
#[derive(Debug, Clone)]
pub(crate) struct Watched {
    /// The name of its device.
    pub(crate) device: String,
    /// Destinations, and which packets to them.
    pub(crate) packets: Vec<(Prefix, Selector)>,
}

/// The counters of a router.
#[derive(Debug)]
pub(crate) struct Beside {
    socket: Socket,
    table: String,
    /// The kernel has it.
    has_table: bool,
}

/// NLMSG_ERROR and NLMSG_DONE (linux/netlink.h).
pub(super) const ERROR: u16 = 2;
pub(super) const DONE: u16 = 3;

/// The beginning and end of changes that are made together (linux/netfilter/nfnetlink.h).
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;

/// Messages of nf_tables, NFNL_SUBSYS_NFTABLES with NFT_MSG_* (linux/netfilter/nf_tables.h).
const NF_TABLES: u16 = 10;
const NEW_TABLE: u16 = NF_TABLES << 8;
const DELETE_TABLE: u16 = (NF_TABLES << 8) | 2;
pub(super) const NEW_CHAIN: u16 = (NF_TABLES << 8) | 3;
const NEW_RULE: u16 = (NF_TABLES << 8) | 6;
const NEW_OBJECT: u16 = (NF_TABLES << 8) | 18;
const GET_OBJECT: u16 = (NF_TABLES << 8) | 19;

/// NFPROTO_*: rules of both versions of IP, and what packets of either have.
pub(super) const INET: u8 = 1;
pub(super) const IPV4: u8 = 2;
pub(super) const IPV6: u8 = 10;

/// NF_INET_*: what is forwarded, and what this host sends.
const CHAINS: [(&str, u32); 2] = [("forward", 2), ("output", 3)];

/// NFT_TABLE_F_OWNER.
const OWNED: u32 = 2;

/// NFT_OBJECT_COUNTER.
const COUNTER: u32 = 1;

/// A register, and the one for verdicts (NFT_REG_1, NFT_REG_VERDICT).
const REGISTER: u32 = 1;
const VERDICT: u32 = 0;

/// NF_DROP; NFT_GOTO: the rules of another chain; NFT_RETURN: no further rule of the chain.
const DROP: i32 = 0;
const GOTO: i32 = -4;
const RETURN: i32 = -5;

/// The chain of what comes out of links: by none of them may it leave.
pub(crate) const ROUND: &str = "round";

/// Bytes of an interface's name (IFNAMSIZ, linux/if.h).
const NAME: usize = 16;

/// NFT_META_*.
const MARK: u32 = 3;
const IN_BY: u32 = 6;
const OUT_BY: u32 = 7;
const PROTOCOL: u32 = 15;

/// NLA_F_NESTED, and what is left without the flags (linux/netlink.h).
const NESTED: u16 = 1 << 15;
const KIND: u16 = 0x3fff;

impl Beside {
    /// Opens a socket for the counters of the router with this name.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn open(router: &str) -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_NETFILTER)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        // The kernel has answered when a message is sent.
        socket.set_non_blocking(true)?;
        Ok(Self {
            socket,
            table: format!("evenkeel-{router}"),
            has_table: false,
        })
    }

    /// Counts for these links from now on, and for no others. All counts begin at 0.
    ///
    /// # Errors
    /// The kernel's: it has no nf_tables, or one that knows no owners.
    pub(crate) fn count(&mut self, links: &[Watched]) -> io::Result<()> {
        let table = string(1, &self.table);
        let mut changes = Vec::new();
        if self.has_table {
            changes.push((DELETE_TABLE, 0, table.clone()));
        }
        changes.push((
            NEW_TABLE,
            NLM_F_CREATE,
            [table.clone(), number(2, OWNED)].concat(),
        ));
        for link in links {
            for name in [&link.device, &round(&link.device)] {
                let kind = number(3, COUNTER);
                let data = nested(4, &[]);
                let object = [table.clone(), string(2, name), kind, data].concat();
                changes.push((NEW_OBJECT, NLM_F_CREATE, object));
            }
        }
        let rule = |chain: &str, expressions: Vec<u8>| {
            let expressions = nested(4, &expressions);
            let body = [table.clone(), string(2, chain), expressions].concat();
            (NEW_RULE, NLM_F_CREATE | NLM_F_APPEND, body)
        };
        let chain = [table.clone(), string(3, ROUND)].concat();
        changes.push((NEW_CHAIN, NLM_F_CREATE, chain));
        for Watched { device, .. } in links {
            let comes_round = [equals_name(OUT_BY, device), counts(&round(device))];
            let drops = verdict(&attribute(1, &DROP.to_be_bytes()));
            changes.push(rule(ROUND, [comes_round.concat(), drops].concat()));
        }
        for (chain, hook) in CHAINS {
            let at = nested(4, &[number(1, hook), number(2, 0)].concat());
            let body = [table.clone(), string(3, chain), at, string(7, "filter")].concat();
            changes.push((NEW_CHAIN, NLM_F_CREATE, body));
            let mut rule = |expressions| changes.push(rule(chain, expressions));
            for link in links {
                let goes = [attribute(1, &GOTO.to_be_bytes()), string(2, ROUND)];
                let goes = verdict(&goes.concat());
                rule([equals_name(IN_BY, &link.device), goes].concat());
            }
            for link in links {
                rule([equals_name(OUT_BY, &link.device), returns()].concat());
            }
            rule([equals_name(OUT_BY, "lo"), returns()].concat());
            for link in links {
                for (to, selector) in &link.packets {
                    rule([matches(*to, selector), counts(&link.device)].concat());
                }
            }
        }
        self.change(&changes)?;
        self.has_table = true;
        Ok(())
    }

    /// Returns what has passed beside links since counting began, by the names of their devices.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn read(&mut self) -> io::Result<HashMap<String, Amount>> {
        let body = [string(1, &self.table), number(3, COUNTER)].concat();
        self.socket
            .send(&message(GET_OBJECT, NLM_F_DUMP, 0, INET, 0, &body), 0)?;
        let mut counts = HashMap::new();
        loop {
            let (datagram, _) = self.socket.recv_from_full()?;
            let mut rest = &datagram[..];
            while let Some((message, following)) = split_message(rest) {
                rest = following;
                match kind(message) {
                    DONE => return Ok(counts),
                    ERROR => {
                        return Err(error(message).unwrap_or(io::ErrorKind::InvalidData.into()));
                    }
                    NEW_OBJECT => counts.extend(counter(message)),
                    _ => {}
                }
            }
        }
    }

    /// Makes changes, all or none.
    fn change(&mut self, changes: &[(u16, u16, Vec<u8>)]) -> io::Result<()> {
        let mut batch = message(BATCH_BEGIN, 0, 0, 0, NF_TABLES, &[]);
        for (sequence, (kind, flags, body)) in (1..).zip(changes) {
            batch.extend(message(*kind, *flags, sequence, INET, 0, body));
        }
        batch.extend(message(BATCH_END, 0, 0, 0, NF_TABLES, &[]));
        self.socket.send(&batch, 0)?;
        // The kernel answers with errors alone.
        let mut failure = None;
        loop {
            match self.socket.recv_from_full() {
                Err(none) if none.kind() == io::ErrorKind::WouldBlock => {
                    return failure.map_or(Ok(()), Err);
                }
                Err(error) => return Err(error),
                Ok((datagram, _)) => {
                    let mut rest = &datagram[..];
                    while let Some((message, following)) = split_message(rest) {
                        rest = following;
                        if kind(message) == ERROR {
                            failure = failure.or(error(message));
                        }
                    }
                }
            }
        }
    }
}

/// The counter of packets that have come out of a link and would go into the one with this device. No
/// device has a slash in its name.
pub(crate) fn round(device: &str) -> String {
    format!("{device}/{ROUND}")
}

/// What must hold of a packet to a destination that is selected.
fn matches(to: Prefix, selector: &Selector) -> Vec<u8> {
    let (protocol, source, destination) = match to.family() {
        Family::V4 => (IPV4, 12, 16),
        Family::V6 => (IPV6, 8, 24),
    };
    let mut expressions = [meta(PROTOCOL), equals(&[protocol])].concat();
    if let Some(iif) = &selector.iif {
        expressions.extend(equals_name(IN_BY, iif));
    }
    if let Some(Mark { value, mask }) = selector.mark {
        expressions.extend(meta(MARK));
        expressions.extend(masked(&mask.to_ne_bytes()));
        expressions.extend(equals(&value.to_ne_bytes()));
    }
    if let Some(from) = selector.from {
        expressions.extend(address(from, source));
    }
    expressions.extend(address(to, destination));
    expressions
}

/// The address at this offset in a packet lies in a block.
fn address(block: Prefix, offset: u32) -> Vec<u8> {
    let bytes = |address| match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let value = bytes(block.address());
    let ones = match block.family() {
        Family::V4 => IpAddr::from([0xff; 4]),
        Family::V6 => IpAddr::from([0xff; 16]),
    };
    let mask = bytes(Prefix::of(ones, block.length()).address());
    // Of the network header.
    let load = [
        number(1, REGISTER),
        number(2, 1),
        number(3, offset),
        number(4, value.len() as u32),
    ];
    let load = expression("payload", &load.concat());
    [load, masked(&mask), equals(&value)].concat()
}

fn meta(key: u32) -> Vec<u8> {
    expression("meta", &[number(1, REGISTER), number(2, key)].concat())
}

fn equals_name(key: u32, name: &str) -> Vec<u8> {
    let mut padded = [0; NAME];
    let length = name.len().min(NAME - 1);
    padded[..length].copy_from_slice(&name.as_bytes()[..length]);
    [meta(key), equals(&padded)].concat()
}

fn equals(value: &[u8]) -> Vec<u8> {
    let value = nested(3, &attribute(1, value));
    expression("cmp", &[number(1, REGISTER), number(2, 0), value].concat())
}

fn masked(mask: &[u8]) -> Vec<u8> {
    let parts = [
        number(1, REGISTER),
        number(2, REGISTER),
        number(3, mask.len() as u32),
        nested(4, &attribute(1, mask)),
        nested(5, &attribute(1, &vec![0; mask.len()])),
    ];
    expression("bitwise", &parts.concat())
}

fn returns() -> Vec<u8> {
    verdict(&attribute(1, &RETURN.to_be_bytes()))
}

/// A verdict with these attributes.
fn verdict(attributes: &[u8]) -> Vec<u8> {
    let verdict = nested(2, &nested(2, attributes));
    expression("immediate", &[number(1, VERDICT), verdict].concat())
}

fn counts(counter: &str) -> Vec<u8> {
    expression("objref", &[number(1, COUNTER), string(2, counter)].concat())
}

fn expression(name: &str, data: &[u8]) -> Vec<u8> {
    nested(1, &[string(1, name), nested(2, data)].concat())
}

pub(super) fn message(
    kind: u16,
    flags: u16,
    sequence: u32,
    family: u8,
    resource: u16,
    body: &[u8],
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_LEN + 4 + body.len());
    let length = (HEADER_LEN + 4 + body.len()) as u32;
    bytes.extend(length.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend((flags | NLM_F_REQUEST).to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4]);
    // struct nfgenmsg.
    bytes.extend([family, 0]);
    bytes.extend(resource.to_be_bytes());
    bytes.extend(body);
    bytes
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = ((4 + value.len()) as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn nested(kind: u16, attributes: &[u8]) -> Vec<u8> {
    attribute(kind | NESTED, attributes)
}

fn number(kind: u16, number: u32) -> Vec<u8> {
    attribute(kind, &number.to_be_bytes())
}

fn string(kind: u16, text: &str) -> Vec<u8> {
    attribute(kind, &[text.as_bytes(), b"\0"].concat())
}

pub(super) fn kind(message: &[u8]) -> u16 {
    let bytes = message.get(4..6).and_then(|bytes| bytes.first_chunk());
    bytes.map_or(0, |bytes| u16::from_ne_bytes(*bytes))
}

/// The error of a message that tells one; `None` for an acknowledgement.
pub(super) fn error(message: &[u8]) -> Option<io::Error> {
    let code = i32::from_ne_bytes(*message.get(HEADER_LEN..)?.first_chunk()?);
    (code != 0).then(|| io::Error::from_raw_os_error(code.saturating_abs()))
}

/// The name of a counter, and what it has counted.
fn counter(message: &[u8]) -> Option<(String, Amount)> {
    let object = message.get(HEADER_LEN + 4..)?;
    let name = find(object, 2)?.strip_suffix(b"\0")?;
    let data = find(object, 4)?;
    let count = |kind| Some(u64::from_be_bytes(*find(data, kind)?.first_chunk()?));
    let amount = Amount {
        packets: count(2)?,
        bytes: count(1)?,
    };
    Some((String::from_utf8(name.to_vec()).ok()?, amount))
}

/// The value of the first attribute of a kind.
pub(super) fn find(attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    let mut rest = attributes;
    let mut all = iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(*rest.first_chunk()?));
        let kind = u16::from_ne_bytes(*rest.get(2..)?.first_chunk()?);
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind & KIND, value))
    });
    all.find(|(kind, _)| *kind == wanted)
        .map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_counter_reads_back_from_its_message() {
        let data = [
            attribute(1, &7u64.to_be_bytes()),
            attribute(2, &3u64.to_be_bytes()),
        ];
        let body = [
            string(1, "evenkeel-r1"),
            string(2, "ek-bn"),
            nested(4, &data.concat()),
        ];
        let read = counter(&message(NEW_OBJECT, 0, 1, INET, 0, &body.concat()));
        let amount = Amount {
            packets: 3,
            bytes: 7,
        };
        assert_eq!(read, Some(("ek-bn".to_owned(), amount)));
    }

    proptest! {
        #[test]
        fn no_message_makes_the_reader_panic_or_hang(bytes: Vec<u8>) {
            let _ = (counter(&bytes), error(&bytes), kind(&bytes), find(&bytes, 1));
        }
    }
}
