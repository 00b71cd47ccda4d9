//! evenkeel and other QUIC stacks: who understands whom, and who is how fast.

#![expect(
    clippy::disallowed_methods,
    reason = "it runs and measures in real time"
)]

mod interop;
mod relay;
mod speed;
mod stack;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::stack::Failure;

/// Tries other QUIC stacks with evenkeel's endpoint, and compares their speed, over loopback. Run it
/// from the repository's root.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Job,
}

#[derive(Subcommand)]
enum Job {
    /// Tries every stack with our endpoint; prints docs/interop.md. Exits with 1 if anything fails.
    Interop {
        /// Writes the page to this file instead.
        #[arg(long, value_name = "FILE")]
        write: Option<PathBuf>,
    },
    /// Moves the same bytes over every stack in turns; prints a table with medians and ranges. Wants
    /// target/release/evenkeel, iperf3, and a machine that is otherwise idle.
    Speed {
        /// Transfers of each.
        #[arg(long, default_value_t = 11)]
        rounds: usize,
        /// Of 10^6 bytes, in each transfer.
        #[arg(long, default_value_t = 300)]
        megabytes: u64,
    },
    /// One transfer, in the process that `speed` starts for it.
    #[command(hide = true)]
    One { index: usize, megabytes: u64 },
}

fn main() -> ExitCode {
    // s2n-quic brings aws-lc-rs besides, and rustls asks which to take. s2n-quic takes its own.
    let provider = rustls::crypto::ring::default_provider();
    provider.install_default().expect("nobody did before");
    match run(Arguments::parse().command) {
        Ok(status) => status,
        Err(failure) => {
            eprintln!("{}", stack::with_causes(&*failure));
            ExitCode::FAILURE
        }
    }
}

fn run(job: Job) -> Result<ExitCode, Failure> {
    match job {
        Job::Interop { write } => {
            let (page, failed) = interop::interop()?;
            match write {
                Some(file) => std::fs::write(file, page)?,
                None => print!("{page}"),
            }
            if failed > 0 {
                return Ok(ExitCode::FAILURE);
            }
        }
        Job::Speed { rounds, megabytes } => speed::speed(rounds, megabytes)?,
        Job::One { index, megabytes } => speed::one(index, megabytes)?,
    }
    Ok(ExitCode::SUCCESS)
}
