//! The claims for a terminal.

use evenkeel_testbed::report::page::render;
use minijinja::context;

use super::document::Document;
use super::html::{Counts, templates};

/// The claims, one on a line under their figures, then the counts.
pub(super) fn table(document: &Document) -> String {
    let total = Counts::of(document, |_| true);
    render(&templates(), "table.txt", context! { document, total }) + "\n"
}
