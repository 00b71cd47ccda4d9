//! What a command makes of flows that died.

use std::process::ExitCode;

use clap::Args;
use evenkeel_log::complain;

/// As many flows are named; of more, their number.
const NAMED: usize = 3;

#[derive(Debug, Args)]
pub(super) struct DeadFlows {
    /// End with status 0 even if flows died or failed
    #[arg(long)]
    pub(super) allow_dead_flows: bool,
}

impl DeadFlows {
    /// The status of a command whose flows `failures` names, a line for each: 1 unless there are
    /// none or the user allows them.
    pub(super) fn status(&self, failures: &[String]) -> ExitCode {
        if failures.is_empty() || self.allow_dead_flows {
            return ExitCode::SUCCESS;
        }
        let mut named = failures[..failures.len().min(NAMED)].join("; ");
        if failures.len() > NAMED {
            named += &format!("; and {} more", failures.len() - NAMED);
        }
        let failure = format!("{named}; --allow-dead-flows accepts that");
        complain("evenkeel-testbed", &failure);
        ExitCode::FAILURE
    }
}
