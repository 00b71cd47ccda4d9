//! Names how the packets of a window are spread over its round trip.

use std::fmt;
use std::str::FromStr;

use evenkeel_congestion::SpecError;

/// How the packets that a window has room for are spread over its round trip (RFC 9002,
/// section 7.7).
///
/// ```
/// let evenkeel = evenkeel::EndpointBuilder::new().pacing("quinn".parse()?);
/// # drop(evenkeel);
/// # Ok::<(), evenkeel::SpecError>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Pacing {
    /// `controller`: one or two packets at a time, at the controller's rate or the rate that fills
    /// its window.
    #[default]
    Controller,
    /// `quinn`: by quinn's own pacer, at 1.25 windows per round trip after a burst of ten packets
    /// or more.
    Quinn,
    /// `none`: everything leaves as soon as an ACK makes room, as from TCP in most simulations. For
    /// comparisons: RFC 9002 wants such bursts limited.
    Unpaced,
}

impl Pacing {
    /// All variants.
    pub const ALL: [Self; 3] = [Self::Controller, Self::Quinn, Self::Unpaced];

    /// Returns its name in command lines, scenarios and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Controller => "controller",
            Self::Quinn => "quinn",
            Self::Unpaced => "none",
        }
    }
}

impl fmt::Display for Pacing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Pacing {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let found = Self::ALL.into_iter().find(|pacing| pacing.name() == text);
        let names = Self::ALL.map(Self::name).join(", ");
        found.ok_or_else(|| {
            SpecError::new(format!("no pacing is called {text:?}; use one of {names}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for pacing in Pacing::ALL {
            assert_eq!(pacing.to_string().parse(), Ok(pacing));
        }
        let error = "off".parse::<Pacing>().expect_err("it is none of them");
        assert_eq!(
            error.to_string(),
            r#"no pacing is called "off"; use one of controller, quinn, none"#
        );
    }
}
