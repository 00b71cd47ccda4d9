//! What pages of results share.

/// How they look.
pub const STYLE: &str = include_str!("style.css");

/// What is special in HTML, spelled out.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
