//! Removes what killed routers left.

use std::io;

use tracing::debug;

use super::Plumbing;
use super::present::Present;
use crate::config::{LinkSpec, RULE_PRIORITY};
use crate::netlink::{Netlink, RuleEntry};

impl Plumbing {
    /// Removes what killed routers left, as far as this process may: it would lead packets nowhere
    /// until a router starts.
    pub(crate) fn remove_killed() {
        let swept = Netlink::open().and_then(|netlink| Self::empty(netlink).sweep_killed());
        debug!(?swept, "killed routers");
    }

    /// Removes rules and routes of links whose devices there are no more: the kernel removes them
    /// with the process.
    pub(super) fn sweep_killed(&mut self) -> io::Result<()> {
        for rule in Present::read(&mut self.netlink)?.rules {
            if let Some(tun) = rule.selector.iif
                && rule.is_ours
                && rule.priority == RULE_PRIORITY
                && self.netlink.interface(&tun)?.is_none()
            {
                let tables = [rule.table, rule.table + LinkSpec::ENTRY_TABLE_OFFSET];
                self.sweep(&tun, tables)?;
            }
        }
        Ok(())
    }

    /// Removes our rules and routes of a link.
    pub(super) fn sweep(&mut self, tun: &str, tables: [u32; 2]) -> io::Result<()> {
        let present = Present::read(&mut self.netlink)?;
        let is_own = |rule: &RuleEntry| {
            let is_from_device = rule.selector.iif.as_deref() == Some(tun);
            rule.is_ours && (tables.contains(&rule.table) || is_from_device)
        };
        let own: Vec<_> = present.rules.iter().filter(|rule| is_own(rule)).collect();
        let precedes_own = |rule: &RuleEntry| {
            let mut own = own.iter().filter(|own| own.table == tables[1]);
            rule.is_ours && own.any(|own| rule.precedes(own)) && !present.is_shared(rule, &tables)
        };
        for rule in present
            .rules
            .iter()
            .filter(|rule| is_own(rule) || precedes_own(rule))
        {
            debug!(?rule, "removing rule");
            self.netlink.delete_rule(rule)?;
        }
        for route in present.routes {
            if tables.contains(&route.table) {
                debug!(?route, "removing route");
                self.netlink.delete_route(&route)?;
            }
        }
        Ok(())
    }
}
