//! Rules that say in which table the kernel looks (ip-rule(8)).

use netlink_packet_route::route::RouteProtocol;
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleFlags, RuleMessage};

use super::{OUR_PROTOCOL, address_family};
use crate::config::{Mark, Selector};
use crate::family::Family;
use crate::prefix::Prefix;

/// A rule, with the attributes that this program sets and compares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RuleEntry {
    pub(crate) family: Family,
    /// The destinations that it is for; `None` for all.
    pub(crate) to: Option<Prefix>,
    /// Which packets to them.
    pub(crate) selector: Selector,
    /// Whether it selects packets by something else too, or those that it does not describe.
    pub(crate) selects_else: bool,
    /// Routes whose prefixes have at most this length do not count; `None` if all do.
    pub(crate) suppressed: Option<u32>,
    /// Where it looks them up; 0 if it does something else.
    pub(crate) table: u32,
    pub(crate) priority: u32,
    pub(crate) is_ours: bool,
}

impl RuleEntry {
    /// A rule of ours: which packets look in which table.
    pub(crate) fn ours(family: Family, selector: Selector, table: u32, priority: u32) -> Self {
        Self {
            family,
            to: None,
            selector,
            selects_else: false,
            suppressed: None,
            table,
            priority,
            is_ours: true,
        }
    }

    /// Returns whether it is for some packets alone, or does not heed all routes.
    pub(crate) fn selects(&self) -> bool {
        let is_all = self.to.is_none() && self.selector.is_empty();
        !is_all || self.selects_else || self.suppressed.is_some()
    }

    /// Returns false if no packet that `selector` selects can be one of this rule's.
    pub(crate) fn may_meet(&self, selector: &Selector) -> bool {
        if self.selects_else {
            return true;
        }
        let own = &self.selector;
        let marks_differ = own
            .mark
            .zip(selector.mark)
            .is_some_and(|(one, other)| (one.value ^ other.value) & one.mask & other.mask != 0);
        let sources = own.from.zip(selector.from);
        let sources_differ =
            sources.is_some_and(|(one, other)| !one.covers(other) && !other.covers(one));
        let devices = own.iif.as_ref().zip(selector.iif.as_ref());
        let devices_differ = devices.is_some_and(|(one, other)| one != other);
        !(marks_differ || sources_differ || devices_differ)
    }

    pub(super) fn read(family: Family, message: &RuleMessage) -> Self {
        let header = &message.header;
        let mut rule = Self {
            family,
            to: None,
            selector: Selector::default(),
            selects_else: header.tos > 0 || header.flags.contains(RuleFlags::Invert),
            suppressed: None,
            table: message.header.table.into(),
            priority: 0,
            is_ours: false,
        };
        let (mut mark, mut mask) = (0, None);
        let prefix =
            |address, length| (length <= family.bits()).then(|| Prefix::of(address, length));
        for attribute in &message.attributes {
            rule.selects_else |= matches!(
                attribute,
                RuleAttribute::Oifname(_)
                    | RuleAttribute::TunId(_)
                    | RuleAttribute::UidRange(_)
                    | RuleAttribute::IpProtocol(_)
                    | RuleAttribute::SourcePortRange(_)
                    | RuleAttribute::DestinationPortRange(_)
            );
            match attribute {
                RuleAttribute::Iifname(name) => rule.selector.iif = Some(name.clone()),
                RuleAttribute::FwMark(value) => mark = *value,
                RuleAttribute::FwMask(value) => mask = Some(*value),
                RuleAttribute::Source(address) => {
                    rule.selector.from = prefix(*address, header.src_len);
                }
                RuleAttribute::Destination(address) => rule.to = prefix(*address, header.dst_len),
                // The kernel writes -1 for none.
                RuleAttribute::SuppressPrefixLen(length) if *length <= family.bits().into() => {
                    rule.suppressed = Some(*length);
                }
                RuleAttribute::Table(table) => rule.table = *table,
                RuleAttribute::Priority(priority) => rule.priority = *priority,
                RuleAttribute::Protocol(RouteProtocol::Other(OUR_PROTOCOL)) => rule.is_ours = true,
                _ => {}
            }
        }
        // The kernel leaves out a mark of 0, and the mask if there is no mark.
        let mask = mask.unwrap_or(if mark == 0 { 0 } else { u32::MAX });
        rule.selector.mark = Mark::new(mark & mask, mask);
        rule
    }

    pub(super) fn message(&self) -> RuleMessage {
        let mut message = RuleMessage::default();
        let header = &mut message.header;
        header.family = address_family(self.family);
        header.action = RuleAction::ToTable;
        let mut attributes = vec![
            RuleAttribute::Table(self.table),
            RuleAttribute::Priority(self.priority),
            RuleAttribute::Protocol(RouteProtocol::Other(OUR_PROTOCOL)),
        ];
        if let Some(to) = self.to {
            header.dst_len = to.length();
            attributes.push(RuleAttribute::Destination(to.address()));
        }
        let Selector { mark, from, iif } = &self.selector;
        if let Some(from) = from {
            header.src_len = from.length();
            attributes.push(RuleAttribute::Source(from.address()));
        }
        if let Some(Mark { value, mask }) = mark {
            attributes.push(RuleAttribute::FwMark(*value));
            attributes.push(RuleAttribute::FwMask(*mask));
        }
        attributes.extend(iif.clone().map(RuleAttribute::Iifname));
        attributes.extend(self.suppressed.map(RuleAttribute::SuppressPrefixLen));
        message.attributes = attributes;
        message
    }
}
