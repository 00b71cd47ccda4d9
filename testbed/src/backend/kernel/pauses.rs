//! Stops a program for the times at which a scenario pauses it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::super::clock::wall_clock;
use super::process::Process;
use crate::scenario::FlowSpec;

/// What is left of the pauses of a program.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    /// When the program stops, and when it goes on.
    edges: VecDeque<(Instant, bool)>,
    is_paused: bool,
}

impl Pauses {
    /// Those of the sender of a flow, in a run that began at `epoch`.
    pub(super) fn of(spec: &FlowSpec, epoch: Instant) -> Self {
        let pauses = spec
            .pauses
            .iter()
            .map(|(start, length)| epoch + *start..epoch + *start + *length);
        Self {
            edges: pauses
                .flat_map(|pause| [(pause.start, true), (pause.end, false)])
                .collect(),
            is_paused: false,
        }
    }

    /// Stops `program` or lets it go on, if it is time to. Returns how long to wait until the next
    /// call, at most `longest`.
    pub(super) fn keep(&mut self, program: &mut Process, longest: Duration) -> Duration {
        let now = wall_clock();
        let due = self.edges.iter().take_while(|(at, _)| *at <= now).count();
        let last = self.edges.drain(..due).next_back();
        if let Some((_, pauses)) = last {
            self.set(program, pauses);
        }
        let next = self.edges.front();
        next.map_or(longest, |(at, _)| {
            at.saturating_duration_since(now).min(longest)
        })
    }

    /// Lets `program` go on for good: it is to end.
    pub(super) fn end(&mut self, program: &mut Process) {
        self.edges.clear();
        self.set(program, false);
    }

    fn set(&mut self, program: &mut Process, pauses: bool) {
        if std::mem::replace(&mut self.is_paused, pauses) != pauses {
            program.pause(pauses);
        }
    }
}
