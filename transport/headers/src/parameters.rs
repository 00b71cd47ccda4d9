//! Writes our QUIC transport parameter as bytes, and reads the peer's:
//! `docs/path-header.md`, section 3.1.

use std::time::Duration;

/// Id of the transport parameter `path_header`: section 3.1.
pub const PARAMETER: u64 = 0x0ed2_b74c;

/// Id of `max_ack_delay`, in milliseconds, and its default: RFC 9000, section 18.2.
const MAX_ACK_DELAY: u64 = 0x0b;
const DEFAULT_MAX_ACK_DELAY: Duration = Duration::from_millis(25);

/// Id of `ack_delay_exponent`, its default and its greatest value: RFC 9000, section 18.2.
const ACK_DELAY_EXPONENT: u64 = 0x0a;
const DEFAULT_ACK_DELAY_EXPONENT: u32 = 3;
const GREATEST_ACK_DELAY_EXPONENT: u64 = 20;

/// How a peer delays ACKs, and in which unit it reports that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckDelays {
    /// The longest delay, unless this endpoint asks for more.
    pub max: Duration,
    /// The unit of ACK Delay is 2^exponent microseconds, at most 2^20.
    pub exponent: u32,
}

/// The greatest `max_ack_delay`, (2^14 - 1) ms: RFC 9000, section 18.2.
const GREATEST_MAX_ACK_DELAY: u64 = (1 << 14) - 1;

/// Added to `max_ack_delay` in the probe timeout (RFC 9002, section 6.2.1) of senders that follow
/// routers. Routers that assign rates make round trips so steady that the timeout leaves only a
/// millisecond for variation, and the ACK of a single packet takes all of `max_ack_delay`. A few
/// more queued packets, or a late timer of the receiver, would then trigger two probes, which no
/// pacer holds back.
const PATIENCE: Duration = DEFAULT_MAX_ACK_DELAY;

/// The header versions that this endpoint understands.
pub const VERSIONS: [u8; 1] = [1];

/// Returns only the parameters that quinn fills with random bytes (RFC 9000, section 18.1).
/// `EndpointConfig::rng_seed` seeds quinn's generator, so runs in virtual time repeat.
pub fn reserved_parameters(mut parameters: &[u8]) -> Vec<u8> {
    let mut reserved = Vec::new();
    while let Some((id, value)) = next_parameter(&mut parameters) {
        if id % 31 == 27 {
            reserved.extend_from_slice(&id.to_be_bytes());
            reserved.extend_from_slice(value);
        }
    }
    reserved
}

/// Returns the value of a parameter, if present.
pub fn parameter(mut parameters: &[u8], id: u64) -> Option<&[u8]> {
    loop {
        let (found, value) = next_parameter(&mut parameters)?;
        if found == id {
            return Some(value);
        }
    }
}

/// Returns whether a peer with these transport parameters understands our header version.
pub fn understands_headers(parameters: &[u8]) -> bool {
    parameter(parameters, PARAMETER)
        .is_some_and(|offered| VERSIONS.iter().any(|version| offered.contains(version)))
}

/// Returns how long a peer with these transport parameters may delay an ACK.
pub fn max_ack_delay(parameters: &[u8]) -> Duration {
    parameter(parameters, MAX_ACK_DELAY)
        .and_then(|mut value| variable_length(&mut value))
        .filter(|milliseconds| *milliseconds <= GREATEST_MAX_ACK_DELAY)
        .map_or(DEFAULT_MAX_ACK_DELAY, Duration::from_millis)
}

/// Returns how a peer with these transport parameters delays its ACKs.
pub fn ack_delays(parameters: &[u8]) -> AckDelays {
    let exponent = parameter(parameters, ACK_DELAY_EXPONENT)
        .and_then(|mut value| variable_length(&mut value))
        .filter(|exponent| *exponent <= GREATEST_ACK_DELAY_EXPONENT)
        .map_or(DEFAULT_ACK_DELAY_EXPONENT, |exponent| exponent as u32);
    AckDelays {
        max: max_ack_delay(parameters),
        exponent,
    }
}

/// Returns the peer's transport parameters with `max_ack_delay` longer by 25 ms, for senders that
/// follow routers: steady round trips leave a probe timeout too little room. Leaves parameters that
/// a stack will refuse as they are.
pub fn patient(parameters: &[u8]) -> Vec<u8> {
    let (mut rest, mut others) = (parameters, Vec::new());
    let mut delay = None;
    while !rest.is_empty() {
        let from_here = rest;
        match next_parameter(&mut rest) {
            Some((MAX_ACK_DELAY, mut value)) if delay.is_none() => {
                delay = variable_length(&mut value).filter(|_| value.is_empty());
                if delay.is_none_or(|milliseconds| milliseconds > GREATEST_MAX_ACK_DELAY) {
                    return parameters.to_vec();
                }
            }
            Some((id, _)) if id != MAX_ACK_DELAY => {
                others.extend_from_slice(&from_here[..from_here.len() - rest.len()]);
            }
            _ => return parameters.to_vec(),
        }
    }
    let delay = delay.map_or(DEFAULT_MAX_ACK_DELAY, Duration::from_millis) + PATIENCE;
    let milliseconds = u16::try_from(delay.as_millis())
        .unwrap_or(u16::MAX)
        .min(GREATEST_MAX_ACK_DELAY as u16);
    // RFC 9000, section 16: in the fewest bytes, or quinn refuses it.
    let value = match u8::try_from(milliseconds) {
        Ok(byte) if byte < 1 << 6 => vec![byte],
        _ => (1 << 14 | milliseconds).to_be_bytes().to_vec(),
    };
    others.extend_from_slice(&[MAX_ACK_DELAY as u8, value.len() as u8]);
    others.extend_from_slice(&value);
    others
}

/// Reads one parameter: RFC 9000, section 18. `None` at the end and where malformed.
fn next_parameter<'a>(bytes: &mut &'a [u8]) -> Option<(u64, &'a [u8])> {
    let id = variable_length(bytes)?;
    let len = usize::try_from(variable_length(bytes)?).ok()?;
    let (value, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some((id, value))
}

/// Reads a variable-length integer: RFC 9000, section 16.
pub fn variable_length(bytes: &mut &[u8]) -> Option<u64> {
    let first = *bytes.first()?;
    let (number, rest) = bytes.split_at_checked(1 << (first >> 6))?;
    *bytes = rest;
    let value = number
        .iter()
        .fold(0, |value, byte| value << 8 | u64::from(*byte));
    Some(value & (u64::MAX >> (66 - 8 * number.len())))
}

#[cfg(test)]
mod tests;
