//! Experiments as their files describe them, checked.

pub(crate) mod axes;
pub(crate) mod claim;
pub(crate) mod experiment;
pub(crate) mod expression;
pub(crate) mod figure;
pub(crate) mod league;
pub(crate) mod matrix;
pub(crate) mod metric;
pub(crate) mod random;
pub(crate) mod runs;
pub(crate) mod scope;
pub(crate) mod traces;
pub(crate) mod variants;
