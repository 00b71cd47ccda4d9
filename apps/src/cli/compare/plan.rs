//! What a comparison consists of.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};

use super::args::{CompareArgs, Directions};
use super::judge::below;
use crate::bulk::Direction;
use crate::time::micros;

/// Seeds that the program takes by itself: short ones, which are easy to type.
const SEEDS: u64 = 1_000_000;

/// What is to be compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::cli) struct Plan {
    /// Of the program that began.
    pub(super) version: String,
    /// `bulk` or `stream`.
    pub(super) application: String,
    pub(super) server: String,
    pub(super) controllers: Vec<String>,
    pub(super) direction: Directions,
    pub(super) rounds: u32,
    /// Length of a run.
    #[serde(rename = "time_us", with = "micros")]
    pub(in crate::cli) time: Duration,
    /// The viewer's playout buffer, in milliseconds; 0 of bulk transfers.
    pub(in crate::cli) buffer_ms: u64,
    /// Silence before each.
    #[serde(rename = "pause_us", with = "micros")]
    pub(super) pause: Duration,
    pub(super) seed: u64,
}

/// A run of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Turn {
    /// From 1.
    pub(super) round: u32,
    /// The controller's number, from 0.
    pub(super) controller: usize,
    pub(in crate::cli) direction: Direction,
}

impl Plan {
    /// Plans a comparison of `application`s; `buffer_ms` is 0 of bulk transfers.
    pub(super) fn new(
        application: &str,
        args: &CompareArgs,
        direction: Directions,
        buffer_ms: u64,
    ) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            application: application.to_owned(),
            server: args.reach.server.to_string(),
            controllers: args.controllers.0.clone(),
            direction,
            rounds: args.rounds,
            time: args.time,
            buffer_ms,
            pause: args.pause,
            seed: args.seed.unwrap_or((calendar() * 1e6) as u64 % SEEDS),
        }
    }

    /// Says in words in what a plan differs from this one first; `None` if in nothing.
    pub(super) fn difference(&self, other: &Self) -> Option<String> {
        let fields = |plan| match serde_json::to_value(plan) {
            Ok(serde_json::Value::Object(fields)) => fields,
            _ => unreachable!("a plan is an object with string keys"),
        };
        let (here, there) = (fields(self), fields(other));
        let (name, here) = here.iter().find(|(name, here)| there[*name] != **here)?;
        Some(format!("its {name} is {}, not {here}", there[name]))
    }

    /// Returns the runs of a round in their order, which depends on the seed and the round alone.
    pub(super) fn round(&self, round: u32) -> Vec<Turn> {
        let mut rng = Pcg64::new(self.seed.into(), round.into());
        let directions = self.direction.list().iter();
        let mut turns: Vec<_> = directions
            .flat_map(|direction| {
                (0..self.controllers.len()).map(move |controller| Turn {
                    round,
                    controller,
                    direction: *direction,
                })
            })
            .collect();
        // Fisher and Yates.
        for last in (1..turns.len()).rev() {
            let bound = u64::try_from(last + 1).expect("usize has at most 64 bits");
            turns.swap(last, below(bound, &mut rng) as usize);
        }
        turns
    }

    /// Returns all runs in their order.
    pub(super) fn turns(&self) -> Vec<Turn> {
        (1..=self.rounds)
            .flat_map(|round| self.round(round))
            .collect()
    }

    pub(super) fn number(&self, controller: &str) -> Option<usize> {
        self.controllers.iter().position(|name| name == controller)
    }
}

/// Returns the time of the calendar, in seconds since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "people want to know when a run was, also in another process"
)]
pub(super) fn calendar() -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0.0, |now| now.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn plan(seed: u64) -> Plan {
        Plan {
            version: "0".into(),
            application: "bulk".into(),
            server: "h:4433".into(),
            controllers: vec!["keel".into(), "cubic".into(), "bbr".into()],
            direction: Directions::Both,
            rounds: 40,
            time: Duration::from_secs(1),
            buffer_ms: 0,
            pause: Duration::ZERO,
            seed,
        }
    }

    #[test]
    fn every_round_has_each_controller_once_in_each_direction_in_an_order_of_its_own() {
        let mut orders = BTreeSet::new();
        for round in 1..=40 {
            let turns = plan(1).round(round);
            assert_eq!(turns, plan(1).round(round), "the seed repeats it");
            let of = |turn: &Turn| (turn.direction == Direction::Up, turn.controller);
            let order: Vec<_> = turns.iter().map(of).collect();
            assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), 6);
            orders.insert(order);
        }
        assert!(orders.len() > 30, "{} orders", orders.len());
        assert_ne!(plan(1).turns(), plan(2).turns());
    }

    #[test]
    fn a_plan_reads_back_as_written() {
        let json = serde_json::to_string(&plan(7)).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), plan(7));
        assert_eq!(plan(7).difference(&plan(7)), None);
        let told = plan(7).difference(&plan(8)).unwrap();
        assert_eq!(told, "its seed is 8, not 7");
    }
}
