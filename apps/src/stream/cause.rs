//! What makes frames late or loses them.

use serde::{Deserialize, Serialize};

/// What a part of a frame's delay is put down to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The encoder took this long to make the frame.
    Encoder,
    /// The frame and those before it need this long at the rate that the path was known to carry.
    OwnQueue,
    /// The sender's congestion window or pacer held it back.
    Window,
    /// It queued behind others' packets, or the path's delay varied.
    OthersQueue,
    /// It queued in routers that say so in path headers.
    Hop,
    /// Packets were lost and sent again, or never arrived.
    Loss,
    /// The viewer's machine did not take what had come.
    Viewer,
}

/// Counts late and lost frames by the greatest part of their delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Causes {
    /// [`Cause::Encoder`].
    pub encoder: u64,
    /// [`Cause::OwnQueue`].
    pub own_queue: u64,
    /// [`Cause::Window`].
    pub window: u64,
    /// [`Cause::OthersQueue`].
    pub others_queue: u64,
    /// [`Cause::Hop`].
    pub hop: u64,
    /// [`Cause::Loss`].
    pub loss: u64,
    /// [`Cause::Viewer`].
    pub viewer: u64,
}

impl Cause {
    /// All of them, as a delay is stacked.
    pub const ALL: [Self; 7] = [
        Self::Encoder,
        Self::OwnQueue,
        Self::Window,
        Self::OthersQueue,
        Self::Hop,
        Self::Loss,
        Self::Viewer,
    ];

    /// Returns it, or none, as a byte of a frame's header.
    pub(super) fn byte(cause: Option<Self>) -> u8 {
        cause.map_or(0, |cause| cause as u8 + 1)
    }

    /// Returns what such a byte says; a number without meaning says nothing.
    pub(super) fn of_byte(byte: u8) -> Option<Self> {
        let number = byte.checked_sub(1)?;
        Self::ALL.get(usize::from(number)).copied()
    }
}

impl Causes {
    /// Returns the number of frames with that cause.
    pub fn of(&self, cause: Cause) -> u64 {
        let mut causes = *self;
        *causes.entry(cause)
    }

    /// Returns the number of all frames.
    pub fn total(&self) -> u64 {
        let counts = Cause::ALL.map(|cause| self.of(cause));
        counts.into_iter().fold(0, u64::saturating_add)
    }

    pub(super) fn add(&mut self, cause: Cause, frames: u64) {
        let count = self.entry(cause);
        *count = count.saturating_add(frames);
    }

    /// Adds all counts of another.
    pub(super) fn add_all(&mut self, others: Self) {
        for cause in Cause::ALL {
            self.add(cause, others.of(cause));
        }
    }

    fn entry(&mut self, cause: Cause) -> &mut u64 {
        match cause {
            Cause::Encoder => &mut self.encoder,
            Cause::OwnQueue => &mut self.own_queue,
            Cause::Window => &mut self.window,
            Cause::OthersQueue => &mut self.others_queue,
            Cause::Hop => &mut self.hop,
            Cause::Loss => &mut self.loss,
            Cause::Viewer => &mut self.viewer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_a_cause_or_none() {
        for byte in 0..=u8::MAX {
            let cause = Cause::of_byte(byte);
            assert_eq!(cause.is_some(), (1..=7).contains(&byte));
            assert!(cause.is_none() || Cause::byte(cause) == byte);
        }
        assert_eq!(Cause::byte(None), 0);
    }
}
