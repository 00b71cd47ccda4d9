//! Says what became of ECN on a connection.

use evenkeel::{Context, EcnCounts, EcnFault, EcnMode};
use quinn::Connection;
use serde::Serialize;

/// ECN of one connection, as this side knows it at the end.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct EcnRecord {
    /// As what this side's packets leave at last: `ect0`, `ect1`; `None` for not ECN-capable.
    sends: Option<&'static str>,
    /// What keeps them from leaving as wanted.
    fault: Option<&'static str>,
    /// How many of this side's packets have arrived with each codepoint, as the other side reports.
    there: CountRecord,
    /// How many of the other side's packets have arrived here.
    back: CountRecord,
    #[serde(skip)]
    why: Option<EcnFault>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct CountRecord {
    ect0: u64,
    ect1: u64,
    ce: u64,
}

impl EcnRecord {
    /// Returns that of a connection that has a context.
    pub(crate) fn of(connection: &Connection) -> Option<Self> {
        let report = Context::of(connection)?.state().ecn;
        Some(Self {
            sends: report.sends.map(|mode| match mode {
                EcnMode::Classic => "ect0",
                EcnMode::Scalable => "ect1",
            }),
            fault: report.fault.map(EcnFault::name),
            there: CountRecord::of(report.arrived),
            back: CountRecord::of(report.received),
            why: report.fault,
        })
    }

    /// Formats it for people.
    pub(crate) fn text(&self) -> String {
        let why = match self.why {
            Some(EcnFault::Unconfirmed) => "; the path or the other side does not take ECN",
            Some(EcnFault::Remarked) => "; the path turns ECT(1) into ECT(0)",
            Some(EcnFault::Saturated) => "; the L4S queue marks everything: it is full",
            Some(EcnFault::AllMarked) => "; the path marks everything, so ECN is off",
            None if self.sends == Some("ect0") && self.there.ect1 > 0 => {
                "; the marks are a classic router's, as keel judges: ECT(1) is tried again after 60 s"
            }
            _ => "",
        };
        let (there, back) = (self.there.text(), self.back.text());
        format!("there {there}, back {back}{why}")
    }
}

impl CountRecord {
    fn of(EcnCounts { ect0, ect1, ce }: EcnCounts) -> Self {
        Self { ect0, ect1, ce }
    }

    fn text(self) -> String {
        let of = [
            (self.ect0, "ECT(0)"),
            (self.ect1, "ECT(1)"),
            (self.ce, "marked"),
        ];
        let seen = of.into_iter().filter(|(count, _)| *count > 0);
        let seen: Vec<_> = seen
            .map(|(count, name)| format!("{count} {name}"))
            .collect();
        match seen.is_empty() {
            true => "none".to_owned(),
            false => seen.join(" and "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_with_which_codepoints_packets_arrived_and_what_went_wrong() {
        let none = CountRecord::of(EcnCounts::default());
        let some = CountRecord {
            ect0: 0,
            ect1: 1200,
            ce: 7,
        };
        let record = |there, why: Option<EcnFault>| EcnRecord {
            sends: None,
            fault: why.map(EcnFault::name),
            there,
            back: none,
            why,
        };
        assert_eq!(
            record(some, None).text(),
            "there 1200 ECT(1) and 7 marked, back none"
        );
        assert_eq!(
            record(none, Some(EcnFault::Unconfirmed)).text(),
            "there none, back none; the path or the other side does not take ECN"
        );
        let fallen_back = EcnRecord {
            sends: Some("ect0"),
            ..record(some, None)
        };
        assert_eq!(
            fallen_back.text(),
            "there 1200 ECT(1) and 7 marked, back none; the marks are a classic router's, as keel \
             judges: ECT(1) is tried again after 60 s"
        );
    }
}
