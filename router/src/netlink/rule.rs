//! Rules that say in which table the kernel looks (ip-rule(8)).

use netlink_packet_route::route::RouteProtocol;
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleFlags, RuleMessage};

use super::{OUR_PROTOCOL, address_family};
use crate::config::{MAIN_TABLE, Mark, Selector};
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
    /// Whether it selects packets by something else too.
    pub(crate) selects_else: bool,
    /// Whether it can be for the host's own packets alone, and not for forwarded ones.
    pub(crate) is_for_own: bool,
    /// Whether it is for the packets that it does not describe.
    pub(crate) is_inverted: bool,
    pub(crate) action: Action,
    /// Routes whose prefixes have at most this length do not count; `None` if all do.
    pub(crate) suppressed: Option<u32>,
    /// Where it looks them up; 0 if it does not.
    pub(crate) table: u32,
    pub(crate) priority: u32,
    pub(crate) is_ours: bool,
}

/// What a rule does with packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Looks in its table, if it has one.
    Lookup,
    /// Goes on with the rule of this priority.
    Goto(u32),
    /// Drops them; the sender may be told.
    Drop,
    /// Something that this program does not describe, or nothing.
    Other,
}

impl RuleEntry {
    /// A rule of ours: which packets look in which table.
    pub(crate) fn ours(family: Family, selector: Selector, table: u32, priority: u32) -> Self {
        Self {
            family,
            to: None,
            selector,
            selects_else: false,
            is_for_own: false,
            is_inverted: false,
            action: Action::Lookup,
            suppressed: None,
            table,
            priority,
            is_ours: true,
        }
    }

    /// Returns whether it looks for all packets to these destinations, and heeds a route to just
    /// them.
    pub(crate) fn heeds(&self, to: Prefix) -> bool {
        let is_for_all = self.selector.is_empty() && !self.selects_else && !self.is_inverted;
        let concerns = self.to.is_none_or(|own| own.covers(to));
        self.action == Action::Lookup && is_for_all && concerns && !self.suppresses(to)
    }

    /// Returns whether a route to these destinations does not count.
    pub(crate) fn suppresses(&self, to: Prefix) -> bool {
        let longest = self.suppressed;
        longest.is_some_and(|longest| u32::from(to.length()) <= longest)
    }

    /// Returns false if no packet to these destinations that `selector` selects can be one of this
    /// rule's.
    pub(crate) fn may_meet(&self, to: Prefix, selector: &Selector) -> bool {
        let own = &self.selector;
        if self.is_inverted {
            // It is for none of them if it describes all.
            return !self.describes_all(to, selector);
        }
        let marks_differ = own
            .mark
            .zip(selector.mark)
            .is_some_and(|(one, other)| (one.value ^ other.value) & one.mask & other.mask != 0);
        let is_apart = |(one, other): (Prefix, Prefix)| !one.covers(other) && !other.covers(one);
        let sources_differ = own.from.zip(selector.from).is_some_and(is_apart);
        let destinations_differ = self.to.is_some_and(|own| is_apart((own, to)));
        let devices = own.iif.as_ref().zip(selector.iif.as_ref());
        let devices_differ = devices.is_some_and(|(one, other)| one != other);
        let ways_differ = self.is_for_own && selector.iif.is_some();
        !(marks_differ || sources_differ || destinations_differ || devices_differ || ways_differ)
    }

    /// Returns whether it describes all packets to these destinations that `selector` selects.
    pub(crate) fn describes_all(&self, to: Prefix, selector: &Selector) -> bool {
        let own = &self.selector;
        let has_mark = |own: Mark| {
            let is_so =
                |other: Mark| own.mask & !other.mask == 0 && other.value & own.mask == own.value;
            selector.mark.is_some_and(is_so)
        };
        let is_from = |own: Prefix| selector.from.is_some_and(|other| own.covers(other));
        !self.selects_else
            && self.to.is_none_or(|own| own.covers(to))
            && own.mark.is_none_or(has_mark)
            && own.from.is_none_or(is_from)
            && (own.iif.is_none() || own.iif == selector.iif)
    }

    /// Returns whether it is looked at right before another one, for the same packets, and only for
    /// routes longer than some.
    pub(crate) fn precedes(&self, other: &Self) -> bool {
        let is_alike = self.selector == other.selector && self.to == other.to;
        let is_next = self.priority + 1 == other.priority && self.family == other.family;
        is_alike && is_next && self.table == MAIN_TABLE && self.suppressed.is_some()
    }

    pub(super) fn read(family: Family, message: &RuleMessage) -> Self {
        let header = &message.header;
        let mut rule = Self {
            family,
            to: None,
            selector: Selector::default(),
            selects_else: header.tos > 0,
            is_for_own: false,
            is_inverted: header.flags.contains(RuleFlags::Invert),
            action: match header.action {
                RuleAction::ToTable => Action::Lookup,
                RuleAction::Blackhole | RuleAction::Unreachable | RuleAction::Prohibit => {
                    Action::Drop
                }
                _ => Action::Other,
            },
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
            // The kernel asks for forwarded packets as user 0, and knows no device yet by which they
            // leave.
            rule.is_for_own |= match attribute {
                RuleAttribute::Oifname(_) => true,
                RuleAttribute::UidRange(range) => range.start > 0,
                _ => false,
            };
            match attribute {
                RuleAttribute::Goto(priority) => rule.action = Action::Goto(*priority),
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
