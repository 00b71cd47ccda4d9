//! Messages on the control stream after the [`Job`], and the split of a transfer into streams.
//!
//! `docs/bulk.md` describes the conversation.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::checksum::Checksum;
use super::data::Attributes;
use super::job::{Amount, Job, MAX_BYTES};
use super::report::Report;
use crate::error::AppError;

/// Server to client: says whether the transfer takes place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Answer {
    /// It takes place; `file` is the file that the client named.
    Accepted {
        file: Option<OfferedFile>,
        /// The controller with which the server sends, if it does and knows.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        controller: Option<String>,
    },
    /// It does not take place.
    Refused { reason: String },
}

/// A server's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OfferedFile {
    pub(super) bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) attributes: Option<Attributes>,
}

/// Sender to receiver, after writing all its data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sent {
    /// Application bytes over all streams.
    pub(super) bytes: u64,
    /// One for each stream, in order, if the job asks for verification.
    pub(super) checksums: Vec<Checksum>,
}

/// Receiver to sender, after everything has arrived.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Received {
    /// Whether size and checksums match those of [`Sent`].
    pub(super) intact: bool,
    pub(super) report: Report,
}

/// A transfer that both sides have agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan<'a> {
    pub(super) job: &'a Job,
    /// All bytes; `None` if only time limits the transfer.
    pub(super) total: Option<u64>,
}

impl<'a> Plan<'a> {
    /// Plans `job`; `file` is the length of the file, if the job names one.
    pub(super) fn new(job: &'a Job, file: Option<u64>) -> Result<Self, AppError> {
        let total = match (&job.amount, file) {
            (Amount::Bytes(bytes), None) => Some(*bytes),
            (Amount::Duration(_), None) => None,
            (Amount::File(_), Some(length)) if length <= MAX_BYTES => Some(length),
            _ => return Err(AppError::protocol("the answer does not fit the job")),
        };
        Ok(Self { job, total })
    }

    /// Returns the bytes that stream `index` carries; `None` if only time limits it.
    ///
    /// Stream `i` of `n` has the bytes from `total * i / n` up to the next one's start, so lengths
    /// differ by at most one.
    pub(super) fn range(&self, index: u16) -> Option<Range<u64>> {
        let total = self.total?;
        let bound = |i: u64| {
            let bound = u128::from(total) * u128::from(i) / u128::from(self.job.streams);
            u64::try_from(bound).expect("a part is not larger than the whole")
        };
        Some(bound(index.into())..bound(u64::from(index) + 1))
    }
}

#[cfg(test)]
mod tests;
