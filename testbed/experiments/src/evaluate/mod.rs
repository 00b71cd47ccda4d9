//! Turns stored runs into metrics, judged claims and drawn figures.

pub(crate) mod claims;
pub(crate) mod dataset;
pub(crate) mod figures;
pub(crate) mod league;
pub(crate) mod values;
