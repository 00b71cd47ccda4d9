//! Frames that did not come, and why.

use std::collections::BTreeMap;

use super::cause::{Cause, Causes};

/// The most gaps of which frames may yet come.
const MAX_GAPS: usize = 1024;

/// The gaps in the numbers of a track's frames.
#[derive(Debug, Default)]
pub(super) struct Missing {
    /// The lowest and the highest number that came.
    ends: Option<(u32, u32)>,
    /// By the first number that is missing: the last one, and what the sender says of them.
    gaps: BTreeMap<u32, (u32, Option<Cause>)>,
    /// Frames that will not come.
    lost: Causes,
}

impl Missing {
    /// Takes the number of a frame that came; the sender gave up others before it for a reason.
    pub(super) fn came(&mut self, number: u32, given_up: Option<Cause>) {
        let (first, last) = self.ends.unwrap_or((number, number));
        self.ends = Some((first.min(number), last.max(number)));
        if number > last {
            self.add(last + 1, number - 1, None);
        } else if number < first {
            self.add(number + 1, first - 1, None);
        } else if let Some((&from, &(to, cause))) = self.gaps.range(..=number).next_back()
            && number <= to
        {
            self.gaps.remove(&from);
            self.add(number + 1, to, cause);
            if number > from {
                self.add(from, number - 1, cause);
            }
        }
        if given_up.is_some() {
            let gaps = self.gaps.range_mut(..number).map(|(_, (_, cause))| cause);
            gaps.filter(|cause| cause.is_none())
                .for_each(|cause| *cause = given_up);
        }
    }

    /// Goes on with the numbers of another connection: what is missing was lost with this one.
    pub(super) fn restart(&mut self) {
        *self = Self {
            lost: self.causes(),
            ..Self::default()
        };
    }

    /// Forgets what is missing after this number: it may yet come. Returns how many frames that is.
    pub(super) fn forget_after(&mut self, number: u32) -> u64 {
        let later = self.gaps.split_off(&number.saturating_add(1));
        let frames = later.iter().map(|(from, (to, _))| u64::from(to - from) + 1);
        frames.sum()
    }

    /// Counts the frames that did not come. What the sender says nothing of was lost on its way.
    pub(super) fn causes(&self) -> Causes {
        let mut causes = self.lost;
        for (from, (to, cause)) in &self.gaps {
            let frames = u64::from(to - from) + 1;
            causes.add(cause.unwrap_or(Cause::Loss), frames);
        }
        causes
    }

    fn add(&mut self, from: u32, to: u32, cause: Option<Cause>) {
        if from > to {
            return;
        }
        self.gaps.insert(from, (to, cause));
        if self.gaps.len() > MAX_GAPS
            && let Some((from, (to, cause))) = self.gaps.pop_first()
        {
            let frames = u64::from(to - from) + 1;
            self.lost.add(cause.unwrap_or(Cause::Loss), frames);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_has_the_reason_of_the_next_frame_or_was_lost() {
        let mut missing = Missing::default();
        for number in [5, 3, 10, 8] {
            missing.came(number, None);
        }
        // 4, 6, 7 and 9.
        assert_eq!(missing.causes().loss, 4);
        missing.came(20, Some(Cause::Window));
        assert_eq!((missing.causes().window, missing.causes().loss), (13, 0));
        // It comes after all.
        missing.came(15, None);
        missing.came(15, None);
        missing.came(22, None);
        assert_eq!((missing.causes().window, missing.causes().loss), (12, 1));
        missing.restart();
        missing.came(0, Some(Cause::Encoder));
        missing.came(2, None);
        let causes = missing.causes();
        assert_eq!((causes.window, causes.loss, causes.encoder), (12, 2, 0));
    }

    #[test]
    fn a_peers_absurd_numbers_are_counted_all_the_same() {
        let mut missing = Missing::default();
        missing.came(u32::MAX, Some(Cause::Hop));
        missing.came(0, None);
        assert_eq!(missing.causes().loss, u64::from(u32::MAX) - 1);
        for number in (0..=u32::MAX).step_by(1 << 20) {
            missing.came(number, Some(Cause::Hop));
        }
        assert!(missing.gaps.len() <= MAX_GAPS);
        assert_eq!(missing.causes().total(), (1 << 32) - 4097);
    }
}
