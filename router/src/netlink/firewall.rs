//! Chains of nftables that drop what they forward unless a rule accepts it (nft(8)).

use std::{fmt, io};

use netlink_packet_core::NLM_F_DUMP;
use netlink_sys::protocols::NETLINK_NETFILTER;
use netlink_sys::{Socket, SocketAddr};

use super::beside::{DONE, ERROR, INET, IPV4, IPV6, NEW_CHAIN, error, find, kind, message};
use super::{HEADER_LEN, split_message};
use crate::family::Family;

/// NFT_MSG_GETCHAIN of NFNL_SUBSYS_NFTABLES (linux/netfilter/nf_tables.h).
const GET_CHAIN: u16 = NEW_CHAIN + 1;

/// NF_INET_FORWARD, and the policy NF_DROP.
const FORWARD: u32 = 2;
const DROP: u32 = 0;

/// A chain. Displays as nft(8) names it: `inet filter forward`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chain {
    family: u8,
    table: String,
    name: String,
}

impl Chain {
    /// Whether packets of a family pass it.
    pub(crate) fn meets(&self, family: Family) -> bool {
        let own = match family {
            Family::V4 => IPV4,
            Family::V6 => IPV6,
        };
        [INET, own].contains(&self.family)
    }
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = match self.family {
            IPV4 => "ip",
            IPV6 => "ip6",
            _ => "inet",
        };
        write!(f, "{family} {} {}", self.table, self.name)
    }
}

/// Returns the chains at the forward hook whose policy is drop.
///
/// # Errors
/// The kernel's: it has no nf_tables, or the process may not ask.
pub(crate) fn dropping_chains() -> io::Result<Vec<Chain>> {
    let mut socket = Socket::new(NETLINK_NETFILTER)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(&message(GET_CHAIN, NLM_F_DUMP, 0, 0, 0, &[]), 0)?;
    let mut chains = Vec::new();
    loop {
        let (datagram, _) = socket.recv_from_full()?;
        let mut rest = &datagram[..];
        while let Some((message, following)) = split_message(rest) {
            rest = following;
            match kind(message) {
                DONE => return Ok(chains),
                ERROR => return Err(error(message).unwrap_or(io::ErrorKind::InvalidData.into())),
                NEW_CHAIN => chains.extend(dropping(message)),
                _ => {}
            }
        }
    }
}

/// The chain of a message, if it drops what it forwards.
fn dropping(message: &[u8]) -> Option<Chain> {
    let family = *message.get(HEADER_LEN)?;
    let chain = message.get(HEADER_LEN + 4..)?;
    let number = |bytes: &[u8]| Some(u32::from_be_bytes(*bytes.first_chunk()?));
    let text = |kind| {
        let text = find(chain, kind)?.strip_suffix(b"\0")?;
        String::from_utf8(text.to_vec()).ok()
    };
    let hook = number(find(find(chain, 4)?, 1)?)?;
    let policy = number(find(chain, 5)?)?;
    let drops = [INET, IPV4, IPV6].contains(&family) && (hook, policy) == (FORWARD, DROP);
    drops.then_some(Chain {
        family,
        table: text(1)?,
        name: text(3)?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_message_makes_the_reader_panic(bytes: Vec<u8>) {
            let _ = dropping(&bytes);
        }
    }
}
